// SPDX-License-Identifier: Apache-2.0
// Times each CPU kernel on generated inputs: medians, spread, effective bytes, GFLOP/s, and the share of the speed at
// which this machine copies memory, measured in the same run. Also the kernels of a whole GCN on a graph of Cora's
// size, one after the other.
//   vicinal_bench_kernels [--threads N] [--filter TEXT] [--budget_ms MS] [--reference] [--json FILE]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/graphs.h"
#include "bench/measure.h"
#include "engine/device/device.h"
#include "engine/kernels/registry.h"

namespace vicinal::bench {
namespace {

struct Options {
  int threads = 1;
  double budget_ms = 150;
  bool reference = false;  // the plain kernels too, which take long
  std::string filter;
  std::string json;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), device_(MakeCpuDevice(options.threads)), context_(device_->CreateContext()) {
    RegisterCpuKernels(registry_);
    copy_ = CopyBytesPerSecond(options.threads, 300);
    std::printf("%s, %s, copies %.1f GB/s\n", device_->description().c_str(), CpuInstructionSet().c_str(),
                copy_ * 1e-9);
    std::printf("%-58s %12s %12s %8s %9s %9s %7s\n", "case", "median us", "lowest us", "spread", "GB/s", "GFLOP/s",
                "% copy");
  }

  const KernelRegistry& registry() const { return registry_; }

  // Times `kernel` under `name`; `bytes` and `flops` of one run.
  template <class K>
  void Time(const std::string& name, const RegisteredKernel<K>& kernel, const typename K::Args& args, double bytes,
            double flops) {
    const std::string full = name + " " + std::string(kernel.kernel().name());
    if (kernel.kernel().name() == "reference" && !options_.reference) return;
    if (!Wanted(full)) return;
    const Buffer scratch = Memory(kernel.kernel().ScratchBytes(args.problem, args.config, options_.threads));
    Report(full, Measure([&] { Must(kernel.Launch(*context_, args, scratch.data())); }, options_.budget_ms), bytes,
           flops);
  }

  bool Wanted(const std::string& name) const { return name.find(options_.filter) != std::string::npos; }

  void Report(const std::string& name, const Timing& t, double bytes, double flops) {
    const double seconds = t.median_us * 1e-6;
    std::printf("%-58s %12.1f %12.1f %7.1f%% %9.2f %9.2f %6.0f%%\n", name.c_str(), t.median_us, t.lowest_us,
                100 * t.spread, bytes / seconds * 1e-9, flops / seconds * 1e-9, 100 * bytes / seconds / copy_);
    std::fflush(stdout);
    results_.push_back({{"case", name},
                        {"median_us", t.median_us},
                        {"lowest_us", t.lowest_us},
                        {"spread", t.spread},
                        {"samples", t.samples},
                        {"bytes", bytes},
                        {"flops", flops},
                        {"share_of_copy", bytes / seconds / copy_}});
  }

  Buffer Memory(size_t bytes) {
    StatusOr<Buffer> buffer = device_->Allocate(bytes);
    if (!buffer.ok()) Must(buffer.status());
    return *std::move(buffer);
  }

  DeviceContext& context() { return *context_; }
  double budget_ms() const { return options_.budget_ms; }

  static void Must(const Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }

  void Save() const {
    if (options_.json.empty()) return;
    const nlohmann::json document = {{"device", device_->description()},
                                     {"instruction_set", CpuInstructionSet()},
                                     {"threads", options_.threads},
                                     {"copy_bytes_per_second", copy_},
                                     {"results", results_}};
    std::ofstream(options_.json) << document.dump(2) << "\n";
  }

 private:
  const Options options_;
  KernelRegistry registry_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceContext> context_;
  double copy_ = 1;
  nlohmann::json results_ = nlohmann::json::array();
};

// A matrix that owns its elements, without gaps, aligned as buffers are.
struct Matrix {
  Matrix(Bench& bench, int64_t r, int64_t c, uint64_t seed)
      : rows(r), cols(c), memory(bench.Memory(static_cast<size_t>(r * c) * sizeof(float))) {
    const std::vector<float> values = RandomFloats(r * c, seed);
    if (!values.empty()) std::memcpy(memory.data(), values.data(), values.size() * sizeof(float));
  }
  MatrixView view() const { return {memory.as<float>(), rows, cols, cols}; }

  int64_t rows, cols;
  Buffer memory;
};

template <class K>
Buffer Pack(Bench& bench, const K& kernel, const Matrix& weight) {
  Buffer packed = bench.Memory(kernel.PackedBytes(weight.rows, weight.cols));
  kernel.Pack(weight.view(), packed.data());
  return packed;
}

struct NamedGraph {
  std::string name;
  Csr csr;
};

void Aggregations(Bench& bench, const NamedGraph& graph) {
  for (const int64_t width : {7, 16, 32, 64, 128, 256, 512}) {
    const Matrix src(bench, graph.csr.cols, width, 1), dst(bench, graph.csr.rows, width, 2);
    for (const Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax}) {
      for (const bool weighted : {false, true}) {
        if (weighted != (reduce == Reduce::kSum)) continue;
        AggregateArgs args;
        args.problem = {reduce, weighted, graph.csr.rows, graph.csr.cols, graph.csr.nnz(), width};
        args.adjacency = graph.csr.View(weighted);
        args.src = src.view();
        args.dst = dst.view();
        const double products = static_cast<double>(graph.csr.nnz()) * static_cast<double>(width);
        const double bytes = static_cast<double>(graph.csr.nnz()) * (weighted ? 8 : 4) + 4 * products +
                             static_cast<double>(graph.csr.rows) * (8 + 4 * static_cast<double>(width));
        const std::string name = "aggregate " + graph.name + " " + std::string(ToString(reduce)) +
                                 (weighted ? "*w " : " ") + std::to_string(width);
        for (const auto& kernel : bench.registry().aggregate.kernels())
          bench.Time(name, *kernel, args, bytes, (weighted ? 2 : 1) * products);
      }
    }
  }
}

void Attentions(Bench& bench, const NamedGraph& graph) {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 7}, {8, 8}, {8, 16}, {4, 64}};
  for (const auto& [heads, width] : shapes) {
    const Matrix value(bench, graph.csr.cols, heads * width, 1), scores(bench, graph.csr.cols, heads, 2),
        dst(bench, graph.csr.rows, heads * width, 3);
    const std::vector<float> att = RandomFloats(heads * width, 4);
    for (const AttentionKind kind : {AttentionKind::kGat, AttentionKind::kGatV2}) {
      AttentionArgs args;
      args.problem = {kind, graph.csr.rows, graph.csr.cols, graph.csr.nnz(), heads, width, true};
      args.adjacency = graph.csr.View(false);
      args.value = value.view();
      args.score_src = args.score_dst = scores.view();
      args.query = value.view();
      args.att = att.data();
      args.dst = dst.view();
      const double columns = static_cast<double>(heads * width), edges = static_cast<double>(graph.csr.nnz());
      const std::string name = std::string(kind == AttentionKind::kGat ? "gat " : "gatv2 ") + graph.name + " " +
                               std::to_string(heads) + "x" + std::to_string(width);
      for (const auto& kernel : bench.registry().attention.kernels()) {
        bench.Time("attention " + name, *kernel, args,
                   edges * (4 + 4 * columns) + 4 * columns * static_cast<double>(graph.csr.rows), 2 * edges * columns);
      }
    }
  }
}

void DenseUpdates(Bench& bench) {
  const int64_t shapes[][3] = {{2048, 512, 64}, {2048, 512, 16},  {2048, 512, 7},  {2708, 1433, 16},
                               {2048, 64, 64},  {2048, 256, 256}, {2048, 602, 41}, {1, 512, 64}};
  for (const auto& [rows, in, out] : shapes) {
    const Matrix src(bench, rows, in, 1), weight(bench, out, in, 2), dst(bench, rows, out, 3);
    for (const auto& kernel : bench.registry().dense_update.kernels()) {
      const Buffer packed = Pack(bench, kernel->kernel(), weight);
      DenseUpdateArgs args;
      args.problem = {rows, in, out};
      args.src = src.view();
      args.weight = packed.data();
      args.dst = dst.view();
      bench.Time("dense_update " + std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out), *kernel,
                 args, 4.0 * static_cast<double>(rows * in + in * out + rows * out),
                 2.0 * static_cast<double>(rows * in * out));
    }
  }
}

void SparseUpdates(Bench& bench, const NamedGraph& graph, const Csr& bag) {
  for (const int64_t out : {16, 64}) {
    const Matrix weight(bench, out, bag.cols, 1), dst(bench, bag.rows, out, 2);
    const double products = static_cast<double>(bag.nnz() * out);
    for (const auto& kernel : bench.registry().sparse_update.kernels()) {
      const Buffer packed = Pack(bench, kernel->kernel(), weight);
      SparseUpdateArgs args;
      args.problem = {bag.rows, bag.cols, out, bag.nnz()};
      args.src = bag.View(true);
      args.weight = packed.data();
      args.dst = dst.view();
      bench.Time("sparse_update cora " + std::to_string(out), *kernel, args,
                 static_cast<double>(bag.nnz()) * 8 + 4 * products, 2 * products);
    }
    for (const auto& kernel : bench.registry().sparse_aggregate_update.kernels()) {
      const Buffer packed = Pack(bench, kernel->kernel(), weight);
      SparseAggregateUpdateArgs args;
      args.problem = {Reduce::kMax, false, graph.csr.rows, graph.csr.nnz(), bag.cols, out, bag.nnz()};
      args.adjacency = graph.csr.View(false);
      args.src = bag.View(true);
      args.weight = packed.data();
      args.dst = dst.view();
      const double touches =
          static_cast<double>(graph.csr.nnz()) * static_cast<double>(bag.nnz()) / static_cast<double>(bag.rows);
      bench.Time("sparse_aggregate_update cora max " + std::to_string(out), *kernel, args, touches * 8,
                 2 * touches * static_cast<double>(out));
    }
  }
}

void Rowwises(Bench& bench) {
  const int64_t rows = 100000, width = 64;
  const Matrix a(bench, rows, width, 1), b(bench, rows, width, 2), dst(bench, rows, width, 3);
  const std::vector<int64_t> segments = {0, rows};
  std::vector<int64_t> index(rows);
  for (int64_t i = 0; i < rows; ++i) index[i] = i * 7919 % rows;
  const std::pair<const char*, RowwiseKind> kinds[] = {
      {"add_relu", RowwiseKind::kAdd},         {"max", RowwiseKind::kMax},
      {"normalize", RowwiseKind::kNormalize},  {"layer_norm", RowwiseKind::kLayerNorm},
      {"graph_norm", RowwiseKind::kGraphNorm}, {"gather", RowwiseKind::kGatherRows}};
  for (const auto& [name, kind] : kinds) {
    RowwiseArgs args;
    args.problem = {kind, Reduce::kSum, rows, width};
    args.a = a.view();
    args.b = b.view();
    args.dst = dst.view();
    args.segments = segments.data();
    args.num_segments = 1;
    args.index = index.data();
    if (kind == RowwiseKind::kAdd) args.epilogue.activation = {ActivationKind::kRelu, 0};
    const double operands = kind == RowwiseKind::kMax ? 3 : kind == RowwiseKind::kGraphNorm ? 4 : 2;
    for (const auto& kernel : bench.registry().rowwise.kernels()) {
      bench.Time(std::string("rowwise ") + name, *kernel, args, operands * 4 * static_cast<double>(rows * width),
                 static_cast<double>(rows * width));
    }
  }
}

// Cora's GCN, 1433 -> 16 -> 7: sparse product, aggregation with bias and relu, product, aggregation with bias.
void WholeGcn(Bench& bench, const NamedGraph& graph, const Csr& bag) {
  const std::string name = "gcn forward cora-sized simd_rows";
  if (!bench.Wanted(name)) return;
  const int64_t nodes = graph.csr.rows;
  const KernelRegistry& registry = bench.registry();
  const auto& sparse = *registry.sparse_update.kernels()[0];
  const auto& dense = *registry.dense_update.kernels()[0];
  const auto& aggregate = *registry.aggregate.kernels()[0];
  const Matrix w1(bench, 16, bag.cols, 1), w2(bench, 7, 16, 2), xw(bench, nodes, 16, 3), h(bench, nodes, 16, 4),
      hw(bench, nodes, 7, 5), out(bench, nodes, 7, 6);
  const Buffer packed1 = Pack(bench, sparse.kernel(), w1), packed2 = Pack(bench, dense.kernel(), w2);
  const std::vector<float> bias = RandomFloats(16, 7);
  SparseUpdateArgs update1;
  update1.problem = {nodes, bag.cols, 16, bag.nnz()};
  update1.src = bag.View(true);
  update1.weight = packed1.data();
  update1.dst = xw.view();
  const auto aggregated = [&](const Matrix& src, const Matrix& dst, int64_t width) {
    AggregateArgs args;
    args.problem = {Reduce::kSum, true, nodes, nodes, graph.csr.nnz(), width};
    args.adjacency = graph.csr.View(true);
    args.src = src.view();
    args.dst = dst.view();
    return args;
  };
  AggregateArgs aggregate1 = aggregated(xw, h, 16);
  aggregate1.epilogue.bias = bias.data();
  aggregate1.epilogue.activation.kind = ActivationKind::kRelu;
  DenseUpdateArgs update2;
  update2.problem = {nodes, 16, 7};
  update2.src = h.view();
  update2.weight = packed2.data();
  update2.dst = hw.view();
  AggregateArgs aggregate2 = aggregated(hw, out, 7);
  aggregate2.epilogue.bias = bias.data();
  DeviceContext& context = bench.context();
  const auto run1 = [&] { Bench::Must(sparse.Launch(context, update1, nullptr)); };
  const auto run2 = [&] { Bench::Must(aggregate.Launch(context, aggregate1, nullptr)); };
  const auto run3 = [&] { Bench::Must(dense.Launch(context, update2, nullptr)); };
  const auto run4 = [&] { Bench::Must(aggregate.Launch(context, aggregate2, nullptr)); };
  const double edges = static_cast<double>(graph.csr.nnz()), nnz = static_cast<double>(bag.nnz());
  bench.Report(name + ": 1 sparse update", Measure(run1, bench.budget_ms()), nnz * 72, nnz * 32);
  bench.Report(name + ": 2 aggregate 16", Measure(run2, bench.budget_ms()), edges * 72, edges * 32);
  bench.Report(name + ": 3 dense update", Measure(run3, bench.budget_ms()), 92.0 * static_cast<double>(nodes),
               224.0 * static_cast<double>(nodes));
  bench.Report(name + ": 4 aggregate 7", Measure(run4, bench.budget_ms()), edges * 36, edges * 14);
  bench.Report(name, Measure([&] { run1(), run2(), run3(), run4(); }, 2 * bench.budget_ms()), nnz * 72 + edges * 108,
               nnz * 32 + edges * 46);
}

// How late a second thread joins a loop: two tasks that each keep a thread busy for 100 us; what the loop takes beyond
// that is the wake-up (100 us and more when the second thread never came). The reason for the threshold in
// engine/kernels/cpu/work.h.
void Wake(Bench& bench) {
  if (!bench.Wanted("wake")) return;
  ThreadPool pool(2);
  const auto busy = [](int64_t, int) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  bench.Report("wake a second thread, 2 x 100 us of work",
               Measure([&] { pool.ParallelFor(2, busy); }, bench.budget_ms()), 0, 0);
}

int Main(const Options& options) {
  Bench bench(options);
  Wake(bench);
  const NamedGraph cora{"cora", Uniform(2708, 2708, 13264, 1)};
  const Csr bag = Uniform(2708, 1433, 49216, 2);
  WholeGcn(bench, cora, bag);
  SparseUpdates(bench, cora, bag);
  DenseUpdates(bench);
  Rowwises(bench);
  for (const NamedGraph& graph :
       {cora, NamedGraph{"uniform", Uniform(100000, 100000, 1600000, 3)}, NamedGraph{"rmat", RMat(17, 2000000, 4)}}) {
    Aggregations(bench, graph);
    Attentions(bench, graph);
  }
  bench.Save();
  return 0;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  vicinal::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--reference") {
      options.reference = true;
      continue;
    }
    if (flag == "--threads") {
      options.threads = std::max(1, std::atoi(value));
    } else if (flag == "--budget_ms") {
      options.budget_ms = std::max(1.0, std::atof(value));
    } else if (flag == "--filter") {
      options.filter = value;
    } else if (flag == "--json") {
      options.json = value;
    } else {
      std::fprintf(
          stderr,
          "usage: vicinal_bench_kernels [--threads N] [--filter TEXT] [--budget_ms MS] [--reference] [--json FILE]\n");
      return 2;
    }
    ++i;
  }
  return vicinal::bench::Main(options);
}
