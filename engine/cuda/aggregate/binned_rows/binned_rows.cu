// SPDX-License-Identifier: Apache-2.0
// Lays out a launch of binned_rows: lanes per row from the width. Then the rows that were split.
#include <algorithm>

#include "engine/cuda/aggregate/binned_rows/detail/binned_rows.cuh"
#include "engine/cuda/aggregate/rows/finish_rows.h"
#include "engine/cuda/aggregate/rows/split_rows.cuh"
#include "engine/cuda/common/alignment.h"

namespace vicinal::cuda {
namespace {

// Split rows, where the work list has such.
SplitRows SplitsOf(const AggregateArgs& args, const RowWorkLayout* work) {
  if (work == nullptr) return {};
  return {work->splits(), work->num_splits(), PartEdges(args.adjacency.nnz) == kQuadEdges};
}

int LanesFor(int64_t columns, int vec) {
  int lanes = 4;
  while (lanes < 32 && lanes * vec < columns) lanes *= 2;
  return lanes;
}

// How the lanes are laid over the columns.
struct Lanes {
  int vec;    // elements that each reads at a time
  int count;  // of a row
};

// Wide rows go in tiles of 64 columns, two edges at once, rather than of 128: it read 4 to 5 % faster on the graphs
// with many edges per row that were measured, and the source's part that is read over and over is smaller.
Lanes LanesOf(const RowsParams& params, int vec, const BinnedRowsConfig& config) {
  // 8 elements of 2 bytes would leave two of four lanes without columns.
  if (vec == 8 && params.out.dst.cols <= 16) vec = 4;
  // Of rows of hardly any edges, what is done once for every tile of a row counts most.
  const int tile = vec == 8 && params.work.adjacency.nnz <= kWideUpTo * params.out.dst.rows ? 128 : 64;
  return {vec, LanesFor(std::min<int64_t>(params.out.dst.cols, config.tile > 0 ? config.tile : tile), vec)};
}

// Where rows are so few, lanes that would have no columns cost less than so few warps.
constexpr int64_t kFewRows = 8192;

// Where there are few edges, the fewer warps the better, but not fewer than a GPU runs at a time.
Lanes LanesOfSmall(const RowsParams& params, int vec, const BinnedRowsConfig& config) {
  constexpr int64_t kManyWarps = 8192;
  const int64_t columns = params.out.dst.cols;
  // 8 elements of 2 bytes at a time make half as many warps, that take longer.
  if (vec == 8 && config.tile == 0 && columns >= 128 && params.out.dst.rows * ((columns + 127) / 128) > kManyWarps) {
    return {8, LanesFor(columns, 8)};
  }
  const int lanes = LanesFor(std::min<int64_t>(columns, config.tile > 0 ? config.tile : 128), 4);
  return {4, lanes == 4 && params.out.dst.rows < kFewRows ? 8 : lanes};
}

// Without a work list, warps take several rows only where rows are short and there are warps enough all the same.
constexpr int64_t kEnoughWarps = int64_t{1} << 14;

int RowsPerWarp(const AggregateProblem& problem) {
  const bool short_rows = problem.edges <= kShortEdges * problem.rows;
  return short_rows && problem.rows >= kBundleItems * kEnoughWarps ? kBundleItems : 1;
}

// Whoever has the last part of a row finishes it, where the work list is made for that and there are tickets enough.
void SetTickets(const RowWorkLayout* work, const LaunchTarget& target, RowsParams* params) {
  constexpr int64_t kMinTile = 8;
  if (work == nullptr || work->split_of_part() == nullptr) return;
  const int64_t most_tiles = (params->out.dst.cols + kMinTile - 1) / kMinTile;
  if (work->num_parts() * most_tiles > kContextTickets) return;
  params->parts.split_of_part = work->split_of_part();
  params->parts.tickets = target.tickets;
}

cudaError_t LaunchMode(const RowsParams& params, const Lanes& lanes, const LaunchTarget& target) {
  const bool weighted = params.source.weights != nullptr;
  if (params.source.rows.storage != Storage::kFloat32)
    return LaunchNarrow(params, weighted, lanes.vec, lanes.count, target);
  if (params.out.extremum()) return LaunchExtremum(params, lanes.vec, lanes.count, target);
  return weighted ? LaunchWeightedSum(params, lanes.vec, lanes.count, target)
                  : LaunchPlainSum(params, lanes.vec, lanes.count, target);
}

cudaError_t LaunchMultiplied(RowsParams params, const SplitRows& splits, bool small, int vec,
                             const LaunchTarget& target) {
  if (vec != 4 || params.out.dst.cols > kMaxProductInputs) return cudaErrorInvalidValue;
  if (params.work.bundle_items == kWideItems) {
    // Halves of wide bundles are bundles, too, and need no kernels of their own.
    static_assert(kWideItems == 2 * kBundleItems);
    params.work.bundle_items = kBundleItems;
    params.work.num_bundles *= 2;
  }
  const int least = small && params.out.dst.rows < kFewRows ? 8 : 4;
  const cudaError_t error = LaunchProduct(params, std::max(least, LanesFor(params.out.dst.cols, 4)), target);
  return error != cudaSuccess || splits.count == 0 ? error : LaunchMultiplySplitRows(params, splits, target);
}

int64_t PartialBytes(const AggregateProblem& problem) {
  return MaxParts(problem.edges) * PackedStride(problem.width) * int64_t{sizeof(float)};
}

}  // namespace

bool ScalesFirst(const AggregateProblem& problem, const BinnedRowsConfig& config) {
  return config.scale_first && problem.source_scaled && problem.storage == Storage::kFloat32 &&
         (problem.reduce == Reduce::kSum || problem.reduce == Reduce::kMean);
}

size_t BinnedRowsScratchBytes(const AggregateProblem& problem, const BinnedRowsConfig& config) {
  return static_cast<size_t>(PartialBytes(problem) + (ScalesFirst(problem, config) ? ScaledSourcesBytes(problem) : 0));
}

cudaError_t LaunchBinnedRows(const AggregateArgs& args, const RowWorkLayout* work, const BinnedRowsConfig& config,
                             const LaunchCondition& condition, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  if (ScalesFirst(args.problem, config) && args.src_scale != nullptr && args.self_scale == 0.0f) {
    AggregateArgs sum = args;
    LaunchTarget behind = target;
    const cudaError_t error = LaunchScaleFirst(static_cast<char*>(scratch) + PartialBytes(args.problem), &sum, &behind);
    return error != cudaSuccess ? error : LaunchBinnedRows(sum, work, config, condition, behind, scratch);
  }
  RowsParams params = RowsParamsOf(args);
  // Elements per load: all of a pack, or one.
  const int vec = InPacks(params.source.rows) ? kPackBytes / params.source.rows.element_bytes() : 1;
  // Lists of short rows and wide bundles are for lanes that read several elements at a time.
  if (work != nullptr && (work->small() || work->wide()) && vec == 1) work = nullptr;
  params.work.items = work != nullptr ? work->items() : nullptr;
  params.work.bundled = work != nullptr ? work->items() + work->num_blocks() : nullptr;
  params.work.bundle_rows = RowsPerWarp(args.problem);
  params.work.num_blocks = work != nullptr ? static_cast<uint32_t>(work->num_blocks()) : 0;
  params.work.num_bundles = static_cast<uint32_t>(
      work != nullptr ? work->num_bundles() : (args.dst.rows + params.work.bundle_rows - 1) / params.work.bundle_rows);
  params.work.num_short = work != nullptr ? static_cast<uint32_t>(work->num_short()) : 0;
  params.work.bundle_items = work != nullptr && work->wide() ? kWideItems : kBundleItems;
  params.parts.partials = static_cast<float*>(scratch);
  params.work.condition = condition;
  const SplitRows splits = SplitsOf(args, work);
  const bool small = work != nullptr && work->small();
  if (args.problem.out_width > 0) return LaunchMultiplied(params, splits, small, vec, target);
  SetTickets(work, target, &params);
  const Lanes lanes = small ? LanesOfSmall(params, vec, config) : LanesOf(params, vec, config);
  const cudaError_t error = LaunchMode(params, lanes, target);
  if (error != cudaSuccess || splits.count == 0 || params.parts.tickets != nullptr) return error;
  return LaunchFinishSplitRows(params, splits, target);
}

}  // namespace vicinal::cuda
