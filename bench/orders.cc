// SPDX-License-Identifier: Apache-2.0
// What preparing a graph costs, stage by stage, and what each order costs and gives: the time to compute it, and the
// time of a sum over the renumbered graph at several widths, for ids as they are in the file and shuffled beforehand.
// Aggregations of all orders are interleaved, each round one run of every order, so that all see the same machine;
// medians, and quartiles apart as the spread. A table, and JSON.
//   vicinal_bench_orders GRAPH.npz | uniform:NODES:EDGES | rmat:SCALE:EDGES | grid:SIDE
//     [--threads=N] [--rounds=N] [--seed=N] [--variants=sent,shuffled] [--orders=none,rcm,...] [--json=FILE]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "bench/program.h"
#include "client/cpp/formats/graph_file.h"
#include "engine/api/engine.h"
#include "engine/graph/validate.h"
#include "engine/prepare/measure_orders.h"
#include "engine/prepare/prepare.h"
#include "engine/profile/host_caches.h"
#include "tests/support/generators.h"

ABSL_FLAG(int, threads, 0, "Threads; 0: one per core.");
ABSL_FLAG(int, rounds, 9, "Runs of each aggregation that are measured.");
ABSL_FLAG(uint64_t, seed, 7, "Of the shuffle and the generators.");
ABSL_FLAG(std::vector<std::string>, variants, std::vector<std::string>({"sent", "shuffled"}), "Ids to begin with.");
ABSL_FLAG(std::vector<std::string>, orders, {}, "Orders to compare; empty: all.");
ABSL_FLAG(std::string, json, "", "File to write the results to; empty: none.");

namespace vicinal::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kWidths[] = {16, 64, 256};
constexpr int kComputeRounds = 3;

double SecondsOf(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Json Summary(const std::vector<double>& seconds) {
  const double median = Quantile(seconds, 0.5);
  return {{"median_ms", 1e3 * median},
          {"spread", (Quantile(seconds, 0.75) - Quantile(seconds, 0.25)) / median},
          {"runs", seconds.size()}};
}

EdgeList FromFile(const std::string& path) {
  const client::GraphData data = Must<client::GraphData>(client::ReadGraphFile(path, {}));
  const DataType type = data.edge_index.type == client::ElementType::kInt32 ? DataType::kInt32 : DataType::kInt64;
  const HostTensor ends = {type, data.edge_index.shape, data.edge_index.data};
  return Must<EdgeList>(AssembleEdges(data.node_count, ends.view(), std::nullopt));
}

EdgeList MakeGraph(const std::string& name) {
  const std::vector<std::string> words = absl::StrSplit(name, ':');
  std::vector<int64_t> sizes;
  for (size_t i = 1; i < words.size(); ++i) {
    if (!absl::SimpleAtoi(words[i], &sizes.emplace_back())) return FromFile(name);
  }
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  if (words[0] == "uniform" && sizes.size() == 2) return UniformGraph(sizes[0], sizes[1], seed);
  if (words[0] == "rmat" && sizes.size() == 2) return RmatGraph(static_cast<int>(sizes[0]), sizes[1], seed);
  if (words[0] == "grid" && sizes.size() == 1) return GridGraph(sizes[0]);
  return FromFile(name);
}

class Bench {
 public:
  explicit Bench(int threads) : device_(MakeCpuDevice(threads)), context_(device_->CreateContext()) {
    RegisterCpuKernels(registry_);
  }

  Json Run(const EdgeList& edges) {
    Json result = {{"auto", Stages(edges)}};
    result["orders"] = Orders(BuildCsrByTarget(edges));
    return result;
  }

  int threads() { return context_->thread_pool()->num_threads(); }

 private:
  struct Ordered {
    OrderKind kind = OrderKind::kNone;
    Csr csr;
    std::vector<double> compute;  // seconds
    LocalityProfile locality;
    std::vector<std::vector<double>> aggregate = std::vector<std::vector<double>>(std::size(kWidths));
  };

  // Preparation with `auto`: seconds of each stage, and what was chosen.
  Json Stages(const EdgeList& edges) {
    std::map<std::string, std::vector<double>> seconds;
    std::vector<double> all;
    Json result;
    for (int round = 0; round < kComputeRounds; ++round) {
      GraphSource source;
      source.name = "graph";
      source.node_count = edges.num_nodes;
      source.edge_index = {DataType::kInt32, {2, edges.num_edges()}, std::string()};
      const size_t half = edges.source.size() * sizeof(NodeId);
      source.edge_index.bytes.resize(2 * half);
      std::memcpy(source.edge_index.bytes.data(), edges.source.data(), half);
      std::memcpy(source.edge_index.bytes.data() + half, edges.target.data(), half);
      PrepareContext prepare;
      prepare.device = device_.get();
      prepare.clock = &Clock::Real();
      prepare.stats = &StatsSink::Null();
      prepare.choose = {HostCaches(), context_->thread_pool(), MakeOrderMeasurer(registry_, *context_, Clock::Real())};
      const PreparedUpload upload = Must(PrepareGraph(std::move(source), 1, prepare));
      const PreparedGraph::Parts& parts = upload.graph->parts();
      double sum = 0.0;
      for (const StageTime& stage : parts.stages) {
        seconds[stage.stage].push_back(stage.seconds);
        sum += stage.seconds;
      }
      all.push_back(sum);
      result["order"] = std::string(ToString(parts.order));
      result["reason"] = parts.order_reason;
      result["modularity"] = parts.profile.communities.modularity;
      result["communities"] = parts.profile.communities.count;
    }
    for (const auto& [stage, times] : seconds) result["stages"][stage] = Summary(times);
    result["total"] = Summary(all);
    return result;
  }

  Json Orders(const Csr& csr) {
    std::vector<Ordered> orders;
    for (const OrderKind kind : KnownOrders()) {
      if (kind != OrderKind::kAuto && IsAvailable(kind) && Wanted(kind)) orders.push_back(MakeOrdered(csr, kind));
    }
    for (size_t w = 0; w < std::size(kWidths); ++w) TimeAggregations(kWidths[w], w, &orders);
    Json result = Json::array();
    for (const Ordered& order : orders) result.push_back(Describe(order, orders.front()));
    return result;
  }

  static bool Wanted(OrderKind kind) {
    const std::vector<std::string> wanted = absl::GetFlag(FLAGS_orders);
    return wanted.empty() || kind == OrderKind::kNone ||
           std::find(wanted.begin(), wanted.end(), ToString(kind)) != wanted.end();
  }

  Ordered MakeOrdered(const Csr& csr, OrderKind kind) {
    Ordered ordered;
    ordered.kind = kind;
    Permutation permutation;
    for (int round = 0; round < kComputeRounds; ++round) {
      ordered.compute.push_back(
          SecondsOf([&] { permutation = Must(ComputeOrder(kind, csr, context_->thread_pool())); }));
    }
    ordered.csr = RenumberCsr(csr, permutation.new_of_old());
    ordered.locality = ProfileLocality(ordered.csr);
    return ordered;
  }

  void TimeAggregations(int64_t width, size_t slot, std::vector<Ordered>* orders) {
    const int64_t nodes = orders->front().csr.num_rows;
    const Buffer src = Must(device_->Allocate(nodes * width * sizeof(float)));
    const Buffer dst = Must(device_->Allocate(nodes * width * sizeof(float)));
    std::fill_n(src.as<float>(), nodes * width, 1.0f);
    std::fill_n(dst.as<float>(), nodes * width, 0.0f);
    for (int round = -1; round < absl::GetFlag(FLAGS_rounds); ++round) {
      for (Ordered& order : *orders) {
        AggregateArgs args;
        args.problem.rows = args.problem.cols = nodes;
        args.problem.edges = order.csr.nnz();
        args.problem.width = width;
        args.adjacency = order.csr.view();
        args.src = {src.as<float>(), nodes, width, width};
        args.dst = {dst.as<float>(), nodes, width, width};
        const auto choice = Must(registry_.aggregate.Choose(args.problem, DeviceKind::kCpu, ""));
        const Buffer scratch =
            Must(device_->Allocate(choice.kernel->kernel().ScratchBytes(args.problem, args.config, threads())));
        const double seconds = SecondsOf([&] { Must(choice.kernel->Launch(*context_, args, scratch.data())); });
        if (round >= 0) order.aggregate[slot].push_back(seconds);  // the first does not count
      }
    }
  }

  // With the median over rounds of this order's time by the first one's (as sent).
  static Json Describe(const Ordered& order, const Ordered& as_sent) {
    Json result = {{"order", std::string(ToString(order.kind))},
                   {"compute", Summary(order.compute)},
                   {"inside_window", order.locality.inside_window},
                   {"mean_span", order.locality.mean_span}};
    for (size_t w = 0; w < std::size(kWidths); ++w) {
      std::vector<double> relative;
      for (size_t r = 0; r < order.aggregate[w].size(); ++r) {
        relative.push_back(order.aggregate[w][r] / as_sent.aggregate[w][r]);
      }
      Json cell = Summary(order.aggregate[w]);
      cell["width"] = kWidths[w];
      cell["relative"] = Quantile(relative, 0.5);
      result["aggregate"].push_back(cell);
    }
    return result;
  }

  KernelRegistry registry_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceContext> context_;
};

void Print(const std::string& variant, const Json& result) {
  std::printf("\nids %s: auto takes %s\n  %s\n  stages, ms:", variant.c_str(),
              result["auto"]["order"].get<std::string>().c_str(), result["auto"]["reason"].get<std::string>().c_str());
  for (const auto& [stage, time] : result["auto"]["stages"].items()) {
    std::printf(" %s %.1f", stage.c_str(), time["median_ms"].get<double>());
  }
  std::printf(", all %.1f\n\n%-10s %12s %8s", result["auto"]["total"]["median_ms"].get<double>(), "order", "compute ms",
              "inside");
  for (const int64_t width : kWidths) std::printf("   %4lld: ms   spread  by sent", static_cast<long long>(width));
  std::printf("\n");
  for (const Json& order : result["orders"]) {
    std::printf("%-10s %12.1f %7.1f%%", order["order"].get<std::string>().c_str(),
                order["compute"]["median_ms"].get<double>(), 100.0 * order["inside_window"].get<double>());
    for (const Json& cell : order["aggregate"]) {
      std::printf(" %11.2f %7.0f%% %8.2f", cell["median_ms"].get<double>(), 100.0 * cell["spread"].get<double>(),
                  cell["relative"].get<double>());
    }
    std::printf("\n");
  }
}

int Main(const std::string& name) {
  const EdgeList edges = MakeGraph(name);
  Bench bench(absl::GetFlag(FLAGS_threads));
  Json report = {{"graph", name},
                 {"nodes", edges.num_nodes},
                 {"edges", edges.num_edges()},
                 {"threads", bench.threads()},
                 {"simd", CpuInstructionSet()}};
  std::printf("%s: %lld nodes, %lld edges, %d threads, %s\n", name.c_str(), static_cast<long long>(edges.num_nodes),
              static_cast<long long>(edges.num_edges()), bench.threads(), CpuInstructionSet().c_str());
  for (const std::string& variant : absl::GetFlag(FLAGS_variants)) {
    report[variant] = bench.Run(variant == "shuffled" ? ShuffleIds(edges, absl::GetFlag(FLAGS_seed)) : edges);
    Print(variant, report[variant]);
  }
  WriteResults(absl::GetFlag(FLAGS_json), report);
  return 0;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  return vicinal::bench::RunWithWord(
      argc, argv, "vicinal_bench_orders GRAPH.npz | uniform:NODES:EDGES | rmat:SCALE:EDGES | grid:SIDE",
      vicinal::bench::Main);
}
