// SPDX-License-Identifier: Apache-2.0
// FeatGraph's schedules of the sources (SC'20, III-C) beside plain rows, for the message function that gains most by
// them: relu(x_j), which does nothing but gather, summed in the order of compiled expressions (edges of a row in order,
// folded every 64). Kernels differ in the schedule alone, and their results are compared bit by bit:
//   rows        edges of a row in order, all columns or, part by part, kPartColumns of them (feature tiles)
//   hubs        the same, but sources of most edges stand in shared memory; edges are encoded for it beforehand
//   no hubs     the kernel of `hubs`, one block of 1,024 threads per multiprocessor, without any: what its shape alone
//   does partitions  one launch per range of sources; totals of rows are carried from one to the next
// Prints a line of JSON per graph and schedule: medians of times of the device.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "bench/cuda/event_timer.h"
#include "bench/weighted_index.h"
#include "tests/split_mix.h"

namespace vicinal::bench {
namespace {

using Random = testing::SplitMix64;

constexpr int kFold = 64, kAtOnce = 8, kRepeats = 15;
constexpr int kHubFloats = 192 * 1024 / sizeof(float);  // of the 227 KiB that a block of an H100 or H200 can have

template <class T>
T* OnDevice(const std::vector<T>& values) {
  T* data = nullptr;
  MustBeOk(cudaMalloc(&data, std::max<size_t>(1, values.size()) * sizeof(T)), "cudaMalloc");
  MustBeOk(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  return data;
}

struct Graph {
  std::string name;
  int64_t nodes = 0;
  int width = 0;
  std::vector<int64_t> row_ptr;
  std::vector<int32_t> col;

  int64_t edges() const { return static_cast<int64_t>(col.size()); }
};

// Rows of about equal length, columns ascending; source(random) draws a node.
Graph MakeGraph(std::string name, int64_t nodes, int64_t edges, int width,
                const std::function<int64_t(Random&)>& source) {
  Graph graph = {std::move(name), nodes, width, {0}, {}};
  Random random(7);
  graph.col.reserve(static_cast<size_t>(edges));
  for (int64_t row = 0; row < nodes; ++row) {
    const int64_t end = edges * (row + 1) / nodes;
    while (graph.edges() < end) graph.col.push_back(static_cast<int32_t>(source(random)));
    std::sort(graph.col.begin() + graph.row_ptr.back(), graph.col.end());
    graph.row_ptr.push_back(end);
  }
  return graph;
}

struct Job {
  const int64_t* begin;  // [rows] first edge of each row, and the one after its last
  const int64_t* end;
  const int32_t* col;  // with hubs: -1 - slot of a source that is staged
  int64_t rows;
  const float* x;  // [rows, stride], from the first column of the part on
  int64_t stride;
  float* out;                // likewise
  const int32_t* hubs;       // sources that are staged
  int num_hubs, part_width;  // columns of the part
  float* carried;            // [rows][2][stride] of partitions: folded totals and those since; null: rows are whole
  const int64_t* row_ptr;    // of the whole graph, for the place of a partition's edges within their row
  bool first, last;          // of the partitions
};

__device__ __forceinline__ float4 Plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ __forceinline__ float4 Relu(float4 a) {
  return {fmaxf(a.x, 0.0f), fmaxf(a.y, 0.0f), fmaxf(a.z, 0.0f), fmaxf(a.w, 0.0f)};
}

// kLanes threads take a row, four columns each. A block of a persistent grid takes runs of rows in turn.
template <int kLanes, bool kHubs, bool kCarried>
__global__ void __launch_bounds__(kHubs ? 1024 : 128) SumRows(Job job) {
  extern __shared__ float4 staged[];  // [num_hubs][kLanes]
  const int lane = static_cast<int>(threadIdx.x) % kLanes, groups = static_cast<int>(blockDim.x) / kLanes;
  if constexpr (kHubs) {
    for (int slot = static_cast<int>(threadIdx.x) / kLanes; slot < job.num_hubs; slot += groups) {
      staged[slot * kLanes + lane] = *reinterpret_cast<const float4*>(job.x + job.hubs[slot] * job.stride + 4 * lane);
    }
    __syncthreads();
  }
  const float* const x = job.x + 4 * lane;
  const auto row_of = [&](int64_t edge) -> float4 {
    const int32_t source = __ldg(job.col + edge);
    if (kHubs && source < 0) return staged[(-1 - source) * kLanes + lane];
    return __ldg(reinterpret_cast<const float4*>(x + source * job.stride));
  };
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * groups + threadIdx.x / kLanes; row < job.rows;
       row += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t begin = __ldg(job.begin + row), end = __ldg(job.end + row);
    float4 folded = {}, since = {};
    int64_t place = 0;
    float4* carried = nullptr;
    if constexpr (kCarried) {
      if (begin == end && !job.last && !job.first) continue;
      carried = reinterpret_cast<float4*>(job.carried + row * 2 * job.stride + 4 * lane);
      if (!job.first) folded = carried[0], since = carried[job.stride / 4];
      place = begin - __ldg(job.row_ptr + row);
    }
    for (int64_t e = begin; e < end; e += kAtOnce) {
      float4 rows[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) rows[i] = row_of(min(e + i, end - 1));
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (e + i >= end) continue;
        since = Plus(since, Relu(rows[i]));
        if (++place % kFold == 0) folded = Plus(folded, since), since = {};
      }
    }
    if (kCarried && !job.last) {
      carried[0] = folded, carried[job.stride / 4] = since;
    } else {
      *reinterpret_cast<float4*>(job.out + row * job.stride + 4 * lane) = Plus(folded, since);
    }
  }
}

// How many blocks of it a device holds at once.
template <class Kernel>
int BlocksOf(Kernel kernel, int threads, size_t bytes) {
  int device = 0, processors = 0, blocks = 0;
  MustBeOk(cudaGetDevice(&device), "cudaGetDevice");
  MustBeOk(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "attribute");
  MustBeOk(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
           "shared");
  MustBeOk(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, bytes), "occupancy");
  return processors * blocks;
}

template <int kLanes, bool kHubs, bool kCarried>
void Launch(const Job& job, cudaStream_t stream) {
  const auto kernel = SumRows<kLanes, kHubs, kCarried>;
  const int threads = kHubs ? 1024 : 128;
  const size_t bytes = kHubs ? kHubFloats * sizeof(float) : 0;
  static const int blocks = BlocksOf(kernel, threads, bytes);
  const int64_t groups = threads / kLanes, needed = (job.rows + groups - 1) / groups;
  const int64_t grid = kHubs ? std::min<int64_t>(blocks, needed) : std::min<int64_t>(needed, 1 << 30);
  kernel<<<static_cast<unsigned>(grid), threads, bytes, stream>>>(job);
  MustBeOk(cudaGetLastError(), "launch");
}

template <bool kHubs, bool kCarried>
void LaunchPart(const Job& job, cudaStream_t stream) {
  switch (job.part_width) {
    case 16:
      return Launch<4, kHubs, kCarried>(job, stream);
    case 32:
      return Launch<8, kHubs, kCarried>(job, stream);
    case 64:
      return Launch<16, kHubs, kCarried>(job, stream);
    case 128:
      return Launch<32, kHubs, kCarried>(job, stream);
    default:
      std::fprintf(stderr, "no kernel for %d columns\n", job.part_width);
      std::exit(1);
  }
}

class Contest {
 public:
  explicit Contest(const Graph& graph) : graph_(graph) {
    const size_t floats = static_cast<size_t>(graph.nodes * graph.width);
    std::vector<float> x(floats);
    Random random(7);
    for (float& value : x) value = static_cast<float>(random.Unit() - 0.5);
    x_ = OnDevice(x);
    row_ptr_ = OnDevice(graph.row_ptr);
    col_ = OnDevice(graph.col);
    MustBeOk(cudaMalloc(&out_, floats * sizeof(float)), "cudaMalloc");
    MustBeOk(cudaStreamCreate(&stream_), "cudaStreamCreate");
  }
  ~Contest() {
    for (void* data :
         {static_cast<void*>(x_), static_cast<void*>(row_ptr_), static_cast<void*>(col_), static_cast<void*>(out_)})
      cudaFree(data);
    cudaStreamDestroy(stream_);
  }

  void Run() {
    for (int part = graph_.width; part >= 16; part /= 2) Rows(part);
    for (int part = std::min(graph_.width, 64); part >= 16; part /= 2) {
      Hubs(part, 0);
      Hubs(part, std::min<int64_t>(kHubFloats / part, graph_.nodes));
    }
    for (const int partitions : {2, 4, 8}) Partitions(partitions);
  }

 private:
  Job Whole() const {
    return {row_ptr_, row_ptr_ + 1, col_,     graph_.nodes, x_,  graph_.width, out_, nullptr, 0,
            0,        nullptr,      row_ptr_, true,         true};
  }

  template <bool kHubs>
  void LaunchParts(Job job, int part_width) const {
    job.part_width = part_width;
    for (int column = 0; column < graph_.width; column += part_width) {
      LaunchPart<kHubs, false>(job, stream_);
      job.x += part_width, job.out += part_width;
    }
  }

  void Rows(int part_width) {
    Report("rows", part_width, 0, [&] { LaunchParts<false>(Whole(), part_width); });
  }

  void Hubs(int part_width, int64_t count) {
    std::vector<int32_t> degree(static_cast<size_t>(graph_.nodes)), hubs(degree.size());
    for (const int32_t source : graph_.col) ++degree[source];
    std::iota(hubs.begin(), hubs.end(), 0);
    std::partial_sort(hubs.begin(), hubs.begin() + count, hubs.end(),
                      [&](int32_t a, int32_t b) { return degree[a] > degree[b]; });
    hubs.resize(static_cast<size_t>(count));
    std::vector<int32_t> code(degree.size());
    std::iota(code.begin(), code.end(), 0);
    for (int32_t slot = 0; slot < count; ++slot) code[hubs[slot]] = -1 - slot;
    std::vector<int32_t> encoded = graph_.col;
    int64_t staged = 0;
    for (int32_t& source : encoded) source = code[source], staged += source < 0 ? 1 : 0;
    Job job = Whole();
    int32_t* const on_device = OnDevice(encoded);
    int32_t* const hubs_on_device = OnDevice(hubs);
    job.col = on_device, job.hubs = hubs_on_device, job.num_hubs = static_cast<int>(count);
    Report(count > 0 ? "hubs" : "no hubs", part_width,
           static_cast<double>(staged) / static_cast<double>(graph_.edges()),
           [&] { LaunchParts<true>(job, part_width); });
    cudaFree(on_device), cudaFree(hubs_on_device);
  }

  void Partitions(int partitions) {
    // Where the edges of each row and partition begin: columns ascend.
    std::vector<int64_t> begins;
    for (int p = 0; p <= partitions; ++p) {
      const auto first = static_cast<int32_t>(graph_.nodes * p / partitions);
      for (int64_t row = 0; row < graph_.nodes; ++row) {
        const auto begin = graph_.col.begin() + graph_.row_ptr[row], end = graph_.col.begin() + graph_.row_ptr[row + 1];
        begins.push_back(std::lower_bound(begin, end, first) - graph_.col.begin());
      }
    }
    int64_t* const on_device = OnDevice(begins);
    float* carried = nullptr;
    MustBeOk(cudaMalloc(&carried, static_cast<size_t>(2 * graph_.nodes * graph_.width) * sizeof(float)), "cudaMalloc");
    Report("partitions", partitions, 0, [&] {
      for (int p = 0; p < partitions; ++p) {
        Job job = Whole();
        job.begin = on_device + p * graph_.nodes, job.end = job.begin + graph_.nodes;
        job.part_width = graph_.width, job.carried = carried;
        job.first = p == 0, job.last = p + 1 == partitions;
        LaunchPart<false, true>(job, stream_);
      }
    });
    cudaFree(on_device), cudaFree(carried);
  }

  // `setting`: columns of a part, or partitions. The first call's result is what others are compared with.
  void Report(const char* schedule, int setting, double staged, const std::function<void()>& launch) {
    MustBeOk(cudaMemset(out_, 0xff, static_cast<size_t>(graph_.nodes * graph_.width) * sizeof(float)), "cudaMemset");
    launch();
    MustBeOk(cudaStreamSynchronize(stream_), schedule);
    std::vector<uint32_t> bits(static_cast<size_t>(graph_.nodes * graph_.width));
    MustBeOk(cudaMemcpy(bits.data(), out_, bits.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (expected_.empty()) expected_ = bits;
    const Timing timing = TimeLaunches(stream_, 2, kRepeats, 1, [&](int) { launch(); });
    if (plain_us_ == 0) plain_us_ = timing.median_us;
    std::printf(
        R"({"graph": "%s", "nodes": %ld, "edges": %ld, "width": %d, "schedule": "%s", "setting": %d, "staged_edges": %.3f, "median_us": %.1f, "p10_us": %.1f, "p90_us": %.1f, "of_rows": %.3f, "equal_bits": %s})"
        "\n",
        graph_.name.c_str(), static_cast<long>(graph_.nodes), static_cast<long>(graph_.edges()), graph_.width, schedule,
        setting, staged, timing.median_us, timing.p10_us, timing.p90_us, timing.median_us / plain_us_,
        bits == expected_ ? "true" : "false");
    std::fflush(stdout);
  }

  const Graph& graph_;
  float *x_ = nullptr, *out_ = nullptr;
  int64_t* row_ptr_ = nullptr;
  int32_t* col_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<uint32_t> expected_;
  double plain_us_ = 0;
};

// Sources by Zipf's law of that exponent, scattered over the nodes.
std::function<int64_t(Random&)> PowerLaw(int64_t nodes, double exponent) {
  std::vector<double> weights;
  for (int64_t n = 0; n < nodes; ++n) weights.push_back(std::pow(static_cast<double>(n + 1), -exponent));
  return [ranks = WeightedIndex(weights), nodes](Random& random) {
    return int64_t{ranks.AmongAll(random.Unit())} * 7919 % nodes;
  };
}

void Main() {
  const auto uniform = [](int64_t nodes) {
    return [nodes](Random& random) { return static_cast<int64_t>(random.Next() % static_cast<uint64_t>(nodes)); };
  };
  // FeatGraph's rand-100K: a fifth of the nodes has 2,000 edges each, the others 100.
  const auto rand_100k = [](Random& random) {
    const bool many = random.Unit() < 2000.0 * 20 / (2000.0 * 20 + 100.0 * 80);
    return static_cast<int64_t>(many ? random.Next() % 20'000 : 20'000 + random.Next() % 80'000) * 7919 % 100'000;
  };
  for (const Graph& graph : {MakeGraph("uniform", 200'000, 4'000'000, 64, uniform(200'000)),
                             MakeGraph("uniform", 1'000'000, 16'000'000, 64, uniform(1'000'000)),
                             MakeGraph("uniform", 1'000'000, 64'000'000, 64, uniform(1'000'000)),
                             MakeGraph("power law 0.8", 200'000, 8'000'000, 64, PowerLaw(200'000, 0.8)),
                             MakeGraph("power law 1.0", 1'000'000, 32'000'000, 64, PowerLaw(1'000'000, 1.0)),
                             MakeGraph("rand-100K", 100'000, 24'000'000, 128, rand_100k),
                             MakeGraph("as dense as reddit", 232'965, 57'000'000, 128, PowerLaw(232'965, 0.5))}) {
    Contest(graph).Run();
  }
}

}  // namespace
}  // namespace vicinal::bench

int main() { vicinal::bench::Main(); }
