// SPDX-License-Identifier: Apache-2.0
// Defaults and candidates of the aggregation "simd_rows". Thresholds were measured on a Zen 4 core (1 MiB second level,
// 16 MiB of the last level) with bench/kernels on cora, pubmed, cornell5, amazon_computers, proteins and cnr2000.
#include <algorithm>
#include <cstdint>

#include "engine/kernels/cpu/aggregate_simd.h"

namespace vicinal::internal {
namespace {

// Rows in the second-level cache arrive soon enough without prefetching, and each prefetch takes a load slot. If
// every row is read by many edges, the caches keep the important ones, and three times as much counts as cached.
constexpr int64_t kPrefetchFrom = int64_t{1} << 20;
constexpr int64_t kManyEdges = 24;
// From this size on, rows come from memory, which takes twice as long.
constexpr int64_t kFarFrom = int64_t{16} << 20;
// Larger results use non-temporal stores: these save reading each line before it is written, a third of the
// traffic, and leave the caches to the gathered rows. Alone, this pays from 2 MiB on; but the next reader of the result
// profits if it is in the last level. If that holds both sources and results (kFarFrom), cached stores are better:
// 6,000 nodes of directed take 136 us with them, 180 us with non-temporal stores (width 256, two threads).
constexpr int64_t kStreamFrom = int64_t{4} << 20;

// Branch-free sums of rows of few edges: up to two vectors of columns, of the widest vectors; worth a trial up
// to this many edges per row.
constexpr int64_t kFewEdgesWidth = 32, kFewEdgesTried = 10;

int64_t SourceRowBytes(const AggregateProblem& problem) {
  return problem.width * (problem.storage == Storage::kFloat32 ? 4 : 2);
}

// Prefetch distance in edges; wide rows have enough lines each.
int64_t DefaultPrefetch(const AggregateProblem& problem) {
  const int64_t row_bytes = SourceRowBytes(problem);
  const bool many = problem.edges >= kManyEdges * problem.cols;
  const int64_t bytes = problem.cols * row_bytes;
  if (bytes <= (many ? 3 : 1) * kPrefetchFrom) return 0;
  return int64_t{row_bytes <= 1024 ? 16 : 8} * (bytes > kFarFrom ? 2 : 1);
}

// Whether dst consists of whole cache lines; otherwise non-temporal stores do not pay.
bool CanStream(MatrixView dst) {
  return reinterpret_cast<uintptr_t>(dst.data) % 64 == 0 && dst.stride % 16 == 0 && dst.cols % 16 == 0;
}

// For `rows` rows: a plan may run fewer than the problem has.
bool StreamsUsually(const AggregateProblem& problem, int64_t rows) {
  const int64_t result = rows * problem.width * 4, sources = problem.cols * SourceRowBytes(problem);
  return result > kStreamFrom && result + sources > kFarFrom;
}

bool Streams(const AggregateArgs& args) {
  const int32_t wanted = args.config.values[kStreamStores];
  if (wanted < 0 || !CanStream(args.dst)) return false;
  return wanted > 0 || StreamsUsually(args.problem, args.dst.rows);
}

// Branch predictors learn the numbers of edges of some thousand rows that they see repeatedly:
// 2,708 rows of cora take 8.8 us with branches and 13.7 us without; 43,471 rows of proteins 355 and 186 us (width 16).
bool TakesFewEdges(const AggregateProblem& problem, int32_t wanted) {
  constexpr int64_t kFewPerRow = 6, kManyRows = 8192;
  if (wanted != 0) return wanted > 0;
  return problem.rows >= kManyRows && problem.edges <= kFewPerRow * problem.rows;
}

}  // namespace

GatherJob MakeAggregateJob(const AggregateArgs& args, const ThreadPool* pool) {
  const CsrView& adjacency = args.adjacency;
  const int64_t prefetch = args.config.values[kPrefetchEdges];
  GatherJob job;
  job.row_ptr = adjacency.row_ptr;
  job.col = adjacency.col;
  job.weight_of_source = adjacency.value == nullptr && args.src_scale != nullptr;
  job.weight = job.weight_of_source ? args.src_scale : adjacency.value;
  job.src = args.src;
  job.src16 = args.src16;
  job.mean = args.problem.reduce == Reduce::kMean;
  job.self_scale = args.self_scale;
  job.dst = args.dst;
  job.stream = Streams(args);
  job.epilogue = args.epilogue;
  job.num_edges = args.dst.rows > 0 ? adjacency.row_ptr[args.dst.rows] - adjacency.row_ptr[0] : 0;
  job.few_edges = TakesFewEdges(args.problem, args.config.values[kFewEdges]);
  job.prefetch_ahead = prefetch != 0 ? std::max<int64_t>(prefetch, 0) : DefaultPrefetch(args.problem);
  job.pool = pool;
  return job;
}

std::vector<KernelConfig> AggregateCandidates(const AggregateProblem& problem) {
  const int64_t bytes = problem.cols * SourceRowBytes(problem), result = problem.rows * problem.width * 4;
  const int64_t usual = DefaultPrefetch(problem);
  std::vector<KernelConfig> candidates = {{}};
  if (bytes > kNearCacheBytes) {
    if (usual > 0) candidates.push_back({{-1}});
    for (const int32_t ahead : {8, 16, 32}) {
      if (ahead != usual) candidates.push_back({{ahead}});
    }
  }
  if (problem.width <= kFewEdgesWidth && problem.edges <= kFewEdgesTried * problem.rows) {
    candidates.push_back({{0, 0, 0, 0, TakesFewEdges(problem, 0) ? -1 : 1}});
  }
  if (problem.width > 128) candidates.push_back({{0, 0, -1}});
  if (result > kStreamFrom) candidates.push_back({{0, 0, 0, StreamsUsually(problem, problem.rows) ? -1 : 1}});
  return candidates;
}

std::vector<std::vector<int32_t>> AggregateSearchSpace(const AggregateProblem& problem) {
  std::vector<int32_t> tiles = {0};
  for (const int32_t columns : {16, 32, 64, 128}) {
    if (columns < problem.width) tiles.push_back(columns);
  }
  return {{0, -1, 8, 16, 32}, tiles, {0, 32, -1}, {0}, {0}};
}

}  // namespace vicinal::internal
