// SPDX-License-Identifier: Apache-2.0
// The launcher of fused_rows: chooses the layout, launches it and averages heads.
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "engine/cuda/aggregate/rows/row_work.h"
#include "engine/cuda/attention/fused_rows/detail/fused_rows.cuh"
#include "engine/cuda/attention/plain_rows/plain_rows.h"
#include "engine/cuda/common/alignment.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kThreadsAtOnce = 2048;  // resident threads per multiprocessor
constexpr int64_t kMaxRows = 8;           // per group of lanes, processed in turn

// dst = epilogue(mean over heads), one thread per element.
__global__ void __launch_bounds__(kThreads)
    MeanHeads(const float* heads_out, int heads, MatrixView dst, Epilogue epilogue) {
  const int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (element >= dst.rows * dst.cols) return;
  const int64_t row = element / dst.cols, col = element % dst.cols;
  float sum = 0.0f;
  for (int k = 0; k < heads; ++k) sum += heads_out[(row * heads + k) * dst.cols + col];
  dst.data[row * dst.stride + col] = ApplyEpilogue(epilogue, __fdiv_rn(sum, static_cast<float>(heads)), row, col);
}

// 4 if every matrix can be read 16 bytes at a time and no pack has columns of two heads, else 1. A pack of GAT's values
// may read beyond a row's last column, into the padding before the next row, which is not used.
int PackOf(const AttentionArgs& args) {
  const AttentionProblem& problem = args.problem;
  const bool whole_heads = problem.head_width % 4 == 0;
  if (!InPacks(args.value)) return 1;
  if (problem.edge_width > 0 && !InPacks(args.edge_weight, 0, sizeof(float), 4)) return 1;
  if (problem.kind == AttentionKind::kGat) {
    return whole_heads || (problem.heads == 1 && args.value.stride >= PackedStride(problem.head_width)) ? 4 : 1;
  }
  if (!whole_heads || !InPacks(args.query)) return 1;
  if (problem.kind == AttentionKind::kDot) return InPacks(args.key) ? 4 : 1;
  return InPacks(args.att, 0, sizeof(float), 4) ? 4 : 1;
}

int Log2Of(int64_t x) {
  int power = 0;
  while (int64_t{1} << power < x) ++power;
  return power;
}

int DefaultTile(const AttentionProblem& problem, int vec) {
  const int64_t columns = problem.heads * problem.head_width;
  // Heads of one to three columns would fill shared memory with shares.
  if (vec == 1) return columns <= 32 || problem.head_width < 4 ? 32 : 128;
  return columns <= 32 ? 32 : columns <= 64 ? 64 : columns <= 128 ? 128 : 256;
}

// Short rows get few lanes each, if there are enough rows to fill the device. Scores that read whole rows (GATv2, dot
// products) need more lanes.
int DefaultRowLanes(const AttentionProblem& problem, int tile, const LaunchTarget& target) {
  const int64_t degree = problem.edges / std::max<int64_t>(problem.rows, 1);
  const bool many = degree >= (problem.kind == AttentionKind::kGat && tile <= 64 ? 16 : 6);
  const int lanes = many ? 32 : degree >= 6 || tile > 64 ? 16 : 8;
  return problem.rows * lanes < kThreadsAtOnce * target.limits.multiprocessors ? 32 : lanes;
}

// Maximum number of heads that a tile of `tile` columns overlaps.
int TileHeads(const AttentionProblem& problem, int64_t tile) {
  const int64_t width = problem.head_width;
  const bool even = tile % width == 0 || width % tile == 0;
  return static_cast<int>(std::min(problem.heads, even ? std::max<int64_t>(tile / width, 1) : (tile - 1) / width + 2));
}

constexpr size_t kShared = 48 << 10;

// Whether a block of that shape fits shared memory.
bool FitsShared(const AttentionProblem& problem, const AttentionShape& shape, int vec) {
  const int tile_heads = TileHeads(problem, shape.lanes * shape.packs * vec);
  const int rows = kAttentionThreads / shape.row_lanes();
  size_t bytes = SharedBytes(tile_heads, rows);
  if (problem.edge_width > 0) {
    bytes += FeatureBytes(problem.kind, tile_heads, static_cast<int>(problem.edge_width), rows);
  }
  return bytes <= kShared;
}

// Whether the features of edges are few enough for shared memory in some shape. Depends on neither rows nor edges: the
// rows of a receptive field are computed as those of the whole graph.
bool FitsFeatures(const AttentionProblem& problem, int vec) {
  constexpr int64_t kMostFloats = kShared / sizeof(float);
  if (problem.edge_width == 0) return true;
  if (problem.kind == AttentionKind::kDot && problem.edge_width > kMostFloats) return false;
  const auto fits = [&](const AttentionShape& shape) { return FitsShared(problem, shape, vec); };
  return vec == 4 ? std::any_of(std::begin(kWideShapes), std::end(kWideShapes), fits)
                  : std::any_of(std::begin(kNarrowShapes), std::end(kNarrowShapes), fits);
}

// The shape nearest to the wanted one, among those whose blocks fit shared memory. The tile takes precedence over the
// lanes per row.
AttentionShape ChooseShape(const AttentionArgs& args, int vec, const LaunchTarget& target) {
  const auto configured = [&args](int at, int otherwise) {
    return args.config.values[at] > 0 ? args.config.values[at] : otherwise;
  };
  const int tile = configured(kTileColumnsAt, DefaultTile(args.problem, vec));
  const int row_lanes = configured(kRowLanesAt, DefaultRowLanes(args.problem, tile, target));
  const AttentionShape* shapes = vec == 4 ? kWideShapes : kNarrowShapes;
  const size_t count = vec == 4 ? std::size(kWideShapes) : std::size(kNarrowShapes);
  const auto distance = [&](const AttentionShape& shape) {
    return (FitsShared(args.problem, shape, vec) ? 0 : 10'000) +
           100 * std::abs(Log2Of(shape.lanes * shape.packs * vec) - Log2Of(tile)) +
           std::abs(Log2Of(shape.row_lanes()) - Log2Of(row_lanes));
  };
  return *std::min_element(shapes, shapes + count,
                           [&](const AttentionShape& a, const AttentionShape& b) { return distance(a) < distance(b); });
}

// The tile of columns for fused_small_rows.cuh, or 0 if it does not apply.
int SmallTileOf(const AttentionArgs& args, int vec) {
  const AttentionProblem& problem = args.problem;
  const int32_t row_lanes = args.config.values[kRowLanesAt];
  const bool wanted = row_lanes > 0 ? row_lanes == kBlockLanes : problem.edges < kSmallGraphEdges;
  const bool counted = problem.edges < INT32_MAX && problem.rows < INT32_MAX - kBlockLanes &&
                       problem.cols * (args.value.stride / 4) <= UINT32_MAX;
  if (problem.kind != AttentionKind::kGat || problem.edge_width > 0 || vec != 4 || !wanted || !counted) return 0;
  const int32_t configured = args.config.values[kTileColumnsAt];
  const int columns = configured > 0 ? configured : DefaultTile(problem, vec);
  const int tile = columns <= 32 ? 32 : columns <= 64 ? 64 : 128;
  return TileHeads(problem, tile) <= kSmallHeads ? tile : 0;
}

bool FitsGathered(const ConstMatrixView& view) { return view.stride < int64_t{1} << 30; }

GatheredRows Gathered(const ConstMatrixView& view) {
  return {view.data, static_cast<uint32_t>(view.stride * static_cast<int64_t>(sizeof(float)))};
}

const ConstMatrixView& ScoredBy(const AttentionArgs& args) {
  switch (args.problem.kind) {
    case AttentionKind::kGat:
      return args.score_src;
    case AttentionKind::kGatV2:
      return args.value;
    case AttentionKind::kDot:
      return args.key;
  }
  return args.value;
}

AttentionParams ParamsOf(const AttentionArgs& args, int vec, const AttentionShape& shape, const LaunchTarget& target,
                         void* scratch) {
  const AttentionProblem& problem = args.problem;
  const AttentionScratch layout(problem);
  AttentionParams params;
  params.work.adjacency = args.adjacency;
  params.source.value = Gathered(args.value);
  params.source.scored = Gathered(ScoredBy(args));
  params.source.score_dst = args.score_dst;
  params.source.query = args.query;
  params.source.att = args.att;
  params.source.negative_slope = args.negative_slope;
  params.source.factors = FactorsOf(args);
  const bool packs = FeatureAccess(args.edge) != Access::kElements && InPacks(args.edge_weight, 0, sizeof(float), 4);
  params.features = {args.edge, args.edge_weight, static_cast<int>(problem.edge_width), PacksIf(packs)};
  params.out.dst = args.dst;
  params.out.epilogue = args.epilogue;
  params.work.heads = static_cast<int>(problem.heads);
  params.work.head_width = static_cast<int>(problem.head_width);
  const int64_t score_packs = (problem.head_width + vec * kScorePacks - 1) / (vec * kScorePacks);
  params.work.lanes_per_head = std::min(1 << Log2Of(score_packs), kMaxLanesPerHead);
  params.work.tile_heads = TileHeads(problem, shape.lanes * shape.packs * vec);
  // A group takes several rows only if there are enough rows for all groups, rows are short, and 32 bits can count the
  // edges. If rows are shorter still, it takes as many as it can prefetch (kPrefetchedEdges).
  const int64_t rounds = problem.rows * shape.row_lanes() / (kThreadsAtOnce * target.limits.multiprocessors);
  const bool several = problem.edges < 64 * problem.rows && problem.edges < INT32_MAX;
  const int64_t most_rows = problem.edges * kMaxRows <= kPrefetchedEdges * problem.rows ? kMaxRows : kMaxRows / 2;
  params.work.rows_per_group = several ? static_cast<int>(std::clamp<int64_t>(rounds, 1, most_rows)) : 1;
  const int64_t cell_rounds =
      layout.pieces.cells * shape.row_lanes() / (kThreadsAtOnce * target.limits.multiprocessors);
  params.work.cells_per_group = static_cast<int>(std::clamp<int64_t>(cell_rounds / 2, 1, 8));
  params.source.score_access = PacksIf(problem.kind == AttentionKind::kGat && InPacks(args.score_src));
  params.out.plain = args.epilogue.IsPlain();
  params.out.dst_access = PacksIf(vec == 4 && InPacks(args.dst));
  char* bytes = static_cast<char*>(scratch);
  params.out.heads_out =
      problem.concat || problem.heads == 1 ? nullptr : reinterpret_cast<float*>(bytes + layout.heads_offset);
  params.parts.cells = layout.pieces.cells;
  params.parts.partial_stride = layout.pieces.stride;
  params.parts.sum_floats = layout.sum_floats;
  params.parts.partials = static_cast<float*>(scratch);
  params.parts.tickets = target.tickets;
  if (layout.pieces.tickets > 0) {
    params.parts.tickets =
        reinterpret_cast<int*>(params.parts.partials + params.parts.cells * params.parts.partial_stride);
  }
  return params;
}

auto LauncherOf(const AttentionProblem& problem) {
  const bool featured = problem.edge_width > 0;
  switch (problem.kind) {
    case AttentionKind::kGat:
      return featured ? &LaunchFeaturedGat : &LaunchGat;
    case AttentionKind::kGatV2:
      return featured ? &LaunchFeaturedGatV2 : &LaunchGatV2;
    case AttentionKind::kDot:
      break;
  }
  return featured ? &LaunchFeaturedDot : &LaunchDot;
}

}  // namespace

cudaError_t LaunchFusedAttention(const AttentionArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  if (!FitsGathered(args.value) || !FitsGathered(ScoredBy(args))) return LaunchPlainAttention(args, target);
  const int vec = PackOf(args);
  if (!FitsFeatures(args.problem, vec)) return LaunchPlainAttention(args, target);
  const int small_tile = SmallTileOf(args, vec);
  const AttentionShape shape =
      small_tile > 0 ? AttentionShape{small_tile / 4, 128 / small_tile, 1} : ChooseShape(args, vec, target);
  const AttentionParams params = ParamsOf(args, vec, shape, target, scratch);
  const int64_t tickets = AttentionScratch(args.problem).pieces.tickets;
  if (tickets > 0) {
    const cudaError_t error = cudaMemsetAsync(params.parts.tickets, 0, tickets * sizeof(int), target.stream);
    if (error != cudaSuccess) return error;
  }
  const auto launch = LauncherOf(args.problem);
  const bool overlap = target.overlap && tickets == 0;  // it must not overlap with the clearing of tickets
  const cudaError_t error = small_tile > 0 ? LaunchSmallGat(params, small_tile, overlap, target.stream)
                                           : launch(params, vec, shape, target.stream);
  if (error != cudaSuccess || params.out.heads_out == nullptr) return error;
  const unsigned blocks = static_cast<unsigned>((args.dst.rows * args.dst.cols + kThreads - 1) / kThreads);
  MeanHeads<<<blocks, kThreads, 0, target.stream>>>(params.out.heads_out, params.work.heads, args.dst, args.epilogue);
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
