// SPDX-License-Identifier: Apache-2.0
// Aggregation and attention of the CUDA backend, every kernel of it, against the best algorithm of cuSPARSE in the same
// run. float32; medians of CUDA events after warm-up; three rotating sets of features, so that none stays in the L2
// cache by repetition alone. Sampled rows of each kernel's sum are checked in double precision before it is timed.
//   vicinal_bench_cuda BACKEND.so OUT.json WIDTHS GRAPH.bin ...      WIDTHS: 16,32,64
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/cuda/binary_graph.h"
#include "bench/cuda/cusparse_peer.h"
#include "bench/cuda/event_timer.h"
#include "engine/cuda/cuda_device.h"
#include "engine/kernels/backend.h"

namespace vicinal::bench {
namespace {

constexpr int kBuffers = 3, kWarmUp = 3, kRepeats = 30;

template <class T>
T Must(StatusOr<T> value, const std::string& what) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::string(value.status().message()).c_str());
  std::exit(1);
}

// A graph in both forms: 64-bit offsets for us, 32-bit ones for cuSPARSE, and features of one width at a time.
class Bench {
 public:
  Bench(Device& device, DeviceContext& context, const KernelRegistry& registry, std::FILE* json)
      : device_(device), context_(context), registry_(registry), json_(json) {}

  void Run(const std::string& name, const BinaryGraph& graph, const std::vector<int64_t>& widths) {
    name_ = name;
    graph_ = &graph;
    std::vector<int64_t> row_ptr(graph.row_ptr.begin(), graph.row_ptr.end());
    value_.resize(graph.col.size());
    for (size_t i = 0; i < value_.size(); ++i) value_[i] = Uniform(i);
    const Buffer offsets = Upload(row_ptr), narrow = Upload(graph.row_ptr), col = Upload(graph.col),
                 value = Upload(value_);
    adjacency_ = {graph.nodes,           graph.nodes,       static_cast<int64_t>(graph.col.size()),
                  offsets.as<int64_t>(), col.as<int32_t>(), value.as<float>()};
    peer_ = {graph.nodes, adjacency_.nnz, narrow.as<int32_t>(), col.as<int32_t>(), value.as<float>()};
    for (int64_t width : widths) RunWidth(width);
    RunAttention(8, 8);
  }

 private:
  static float Uniform(uint64_t i) {
    i = (i + 1) * 0x9e3779b97f4a7c15ull;
    i = (i ^ (i >> 29)) * 0xbf58476d1ce4e5b9ull;
    return static_cast<float>(static_cast<double>(i >> 11) * 0x1.0p-52 - 1.0);
  }

  template <class T>
  Buffer Upload(const std::vector<T>& host) {
    Buffer buffer = Must(device_.Allocate(host.size() * sizeof(T)), "allocate");
    if (!device_.CopyFromHost(buffer.data(), host.data(), host.size() * sizeof(T)).ok()) std::exit(1);
    return buffer;
  }

  cudaStream_t stream() const { return static_cast<cuda::CudaContext&>(context_).target().stream; }
  int repeats() const { return adjacency_.nnz > 40'000'000 ? 10 : kRepeats; }

  void RunWidth(int64_t width) {
    width_ = width;
    src_.resize(graph_->nodes * width);
    for (size_t i = 0; i < src_.size(); ++i) src_[i] = Uniform(i + 7);
    std::vector<Buffer> buffers;
    float *src[kBuffers], *dst[kBuffers];
    for (int i = 0; i < kBuffers; ++i) {
      buffers.push_back(Upload(src_));
      src[i] = buffers.back().as<float>();
      buffers.push_back(Must(device_.Allocate(src_.size() * sizeof(float)), "allocate"));
      dst[i] = buffers.back().as<float>();
    }
    const PeerResult peer = TimeCusparse(peer_, width, src, dst, kBuffers, stream(), kWarmUp, repeats());
    Print("cusparse_" + peer.algorithm, "sum", true, peer.timing, 1.0);
    for (const auto& kernel : registry_.aggregate.kernels()) {
      const std::string name(kernel->kernel().name());
      if (name.rfind("row_cache_", 0) == 0) continue;
      for (bool weighted : {true, false}) Time(*kernel, Reduce::kSum, weighted, src, dst, peer.timing.median_us);
      if (name == "balanced_rows") Time(*kernel, Reduce::kMax, false, src, dst, peer.timing.median_us);
    }
  }

  void Time(const RegisteredKernel<AggregateKernel>& kernel, Reduce reduce, bool weighted, float* const* src,
            float* const* dst, double peer_us) {
    AggregateArgs args;
    args.problem = {reduce, weighted, graph_->nodes, graph_->nodes, adjacency_.nnz, width_};
    args.adjacency = adjacency_;
    if (!weighted) args.adjacency.value = nullptr;
    const Buffer scratch =
        Must(device_.Allocate(kernel.kernel().ScratchBytes(args.problem, args.config, 1)), "scratch");
    const auto launch = [&](int i) {
      args.src = {src[i % kBuffers], graph_->nodes, width_, width_};
      args.dst = {dst[i % kBuffers], graph_->nodes, width_, width_};
      const Status status = kernel.Launch(context_, args, scratch.data());
      if (!status.ok()) std::exit(1);
    };
    launch(0);
    const bool right = reduce == Reduce::kMax || CheckRows(dst[0], weighted);
    const Timing timing = TimeLaunches(stream(), kWarmUp, repeats(), launch);
    Print(std::string(kernel.kernel().name()) + (right ? "" : " WRONG"), reduce == Reduce::kMax ? "max" : "sum",
          weighted, timing, peer_us / timing.median_us);
  }

  bool CheckRows(const float* dst, bool weighted) {
    std::vector<float> got(width_);
    for (int64_t k = 0; k < 20; ++k) {
      const int64_t row = k * 7919 * 104729 % graph_->nodes;
      if (!device_.CopyToHost(got.data(), dst + row * width_, width_ * sizeof(float)).ok()) std::exit(1);
      double error = 0, norm = 0;
      for (int64_t d = 0; d < width_; ++d) {
        double want = 0;
        for (int64_t e = graph_->row_ptr[row]; e < graph_->row_ptr[row + 1]; ++e) {
          want += (weighted ? value_[e] : 1.0) * src_[graph_->col[e] * width_ + d];
        }
        error += (got[d] - want) * (got[d] - want);
        norm += want * want;
      }
      if (!(std::sqrt(error) <= 1e-5 * std::sqrt(norm) + 1e-6)) return false;
    }
    return true;
  }

  void RunAttention(int64_t heads, int64_t head_width) {
    width_ = heads * head_width;
    std::vector<float> values(graph_->nodes * width_), scores(graph_->nodes * heads);
    for (size_t i = 0; i < values.size(); ++i) values[i] = Uniform(i + 3);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = Uniform(i + 5);
    const Buffer value = Upload(values), score_src = Upload(scores), score_dst = Upload(scores);
    const Buffer dst = Must(device_.Allocate(values.size() * sizeof(float)), "allocate");
    AttentionArgs args;
    args.problem = {AttentionKind::kGat, graph_->nodes, graph_->nodes, adjacency_.nnz, heads, head_width, true};
    args.adjacency = adjacency_;
    args.value = {value.as<float>(), graph_->nodes, width_, width_};
    args.score_src = {score_src.as<float>(), graph_->nodes, heads, heads};
    args.score_dst = {score_dst.as<float>(), graph_->nodes, heads, heads};
    args.dst = {dst.as<float>(), graph_->nodes, width_, width_};
    const auto& kernel = *registry_.attention.kernels().front();
    const Buffer scratch =
        Must(device_.Allocate(kernel.kernel().ScratchBytes(args.problem, args.config, 1)), "scratch");
    const Timing timing = TimeLaunches(stream(), kWarmUp, repeats(), [&](int) {
      if (!kernel.Launch(context_, args, scratch.data()).ok()) std::exit(1);
    });
    Print(std::string(kernel.kernel().name()), "gat_8x8", false, timing, 0.0);
  }

  void Print(const std::string& kernel, const std::string& operation, bool weighted, const Timing& timing,
             double ratio) {
    // Every input read once, the output written once; and a neighbour's row for every edge.
    const double floor_bytes = adjacency_.nnz * (weighted ? 8.0 : 4.0) + graph_->nodes * (8.0 + 8.0 * width_);
    const double gather_bytes = adjacency_.nnz * 4.0 * width_;
    std::printf("%-16s %4lld %-8s %-10s %-20s %10.1f us  p10 %10.1f  p90 %10.1f  gather %7.0f GB/s  x cusparse %.2f\n",
                name_.c_str(), static_cast<long long>(width_), operation.c_str(), weighted ? "weighted" : "unweighted",
                kernel.c_str(), timing.median_us, timing.p10_us, timing.p90_us, gather_bytes / timing.median_us / 1e3,
                ratio);
    std::fprintf(
        json_,
        "%s{\"graph\": \"%s\", \"width\": %lld, \"operation\": \"%s\", \"weighted\": %s, \"kernel\": \"%s\", "
        "\"median_us\": %.2f, \"p10_us\": %.2f, \"p90_us\": %.2f, \"floor_bytes\": %.0f, \"gather_bytes\": %.0f, "
        "\"times_cusparse\": %.3f}",
        first_ ? "[\n" : ",\n", name_.c_str(), static_cast<long long>(width_), operation.c_str(),
        weighted ? "true" : "false", kernel.c_str(), timing.median_us, timing.p10_us, timing.p90_us, floor_bytes,
        gather_bytes, ratio);
    first_ = false;
  }

  Device& device_;
  DeviceContext& context_;
  const KernelRegistry& registry_;
  std::FILE* json_;
  bool first_ = true;
  std::string name_;
  const BinaryGraph* graph_ = nullptr;
  std::vector<float> value_, src_;
  CsrView adjacency_;
  PeerGraph peer_;
  int64_t width_ = 0;
};

std::vector<int64_t> ParseWidths(const std::string& text) {
  std::vector<int64_t> widths;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) widths.push_back(std::atoll(part.c_str()));
  return widths;
}

std::string BaseName(const std::string& path) {
  const size_t begin = path.rfind('/') + 1;
  return path.substr(begin, path.rfind(".bin") - begin);
}

int Main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s BACKEND.so OUT.json 16,32,64 GRAPH.bin ...\n", argv[0]);
    return 2;
  }
  const auto backend = Must(Backend::Load(argv[1]), "loading the backend");
  KernelRegistry registry;
  backend->table().register_kernels(registry);
  const std::unique_ptr<Device> device = Must(backend->table().open_device(0), "opening the device");
  const std::unique_ptr<DeviceContext> context = device->CreateContext();
  std::FILE* json = std::fopen(argv[2], "w");
  if (json == nullptr) return 2;
  std::printf("%s\n", device->description().c_str());
  Bench bench(*device, *context, registry, json);
  for (int i = 4; i < argc; ++i) {
    const BinaryGraph graph = Must(ReadBinaryGraph(argv[i]), argv[i]);
    bench.Run(BaseName(argv[i]), graph, ParseWidths(argv[3]));
    std::fflush(stdout);
  }
  std::fprintf(json, "\n]\n");
  std::fclose(json);
  return 0;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) { return vicinal::bench::Main(argc, argv); }
