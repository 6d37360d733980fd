// SPDX-License-Identifier: Apache-2.0
// The launcher of binned_rows: chooses the lanes per row from the width, launches the sums, then finishes split rows.
#include <algorithm>

#include "engine/cuda/aggregate/binned_rows/detail/binned_rows.cuh"
#include "engine/cuda/aggregate/rows/finish_rows.h"
#include "engine/cuda/aggregate/rows/split_rows.cuh"
#include "engine/cuda/common/alignment.h"

namespace vicinal::cuda {
namespace {

// The split rows of the work list; none without a list.
SplitRows SplitsOf(const AggregateArgs& args, const RowWorkLayout* work) {
  if (work == nullptr) return {};
  return {work->splits(), work->num_splits(), PartEdges(args.adjacency.nnz) == kQuadEdges};
}

int LanesFor(int64_t columns, int vec) {
  int lanes = 4;
  while (lanes < 32 && lanes * vec < columns) lanes *= 2;
  return lanes;
}

// How the lanes of a group cover the columns of a row.
struct Lanes {
  int vec;    // elements per load
  int count;  // lanes per row
};

// Wide rows use tiles of 64 columns, with two edges at once, rather than of 128. That was 4 to 5 % faster on the
// measured graphs with many edges per row, as the part of the sources that is read repeatedly is smaller.
Lanes LanesOf(const RowsParams& params, int vec, const BinnedRowsConfig& config) {
  // With 8 elements of 2 bytes per load, two of four lanes would have no columns.
  if (vec == 8 && params.out.dst.cols <= 16) vec = 4;
  // With very few edges per row, the fixed cost of each tile of a row dominates.
  const int tile = vec == 8 && params.work.adjacency.nnz <= kWideUpTo * params.out.dst.rows ? 128 : 64;
  return {vec, LanesFor(std::min<int64_t>(params.out.dst.cols, config.tile > 0 ? config.tile : tile), vec)};
}

// With fewer rows than this, idle lanes cost less than too few warps.
constexpr int64_t kFewRows = 8192;

// For small graphs. Fewer warps are better, down to the number that a GPU runs at once.
Lanes LanesOfSmall(const RowsParams& params, int vec, const BinnedRowsConfig& config) {
  constexpr int64_t kManyWarps = 8192;
  const int64_t columns = params.out.dst.cols;
  // Loads of 8 elements of 2 bytes halve the number of warps, but each takes longer.
  if (vec == 8 && config.tile == 0 && columns >= 128 && params.out.dst.rows * ((columns + 127) / 128) > kManyWarps) {
    return {8, LanesFor(columns, 8)};
  }
  const int lanes = LanesFor(std::min<int64_t>(columns, config.tile > 0 ? config.tile : 128), 4);
  return {4, lanes == 4 && params.out.dst.rows < kFewRows ? 8 : lanes};
}

// Without a work list, a warp takes several rows only if rows are short and there are still enough warps.
constexpr int64_t kEnoughWarps = int64_t{1} << 14;

int RowsPerWarp(const AggregateProblem& problem) {
  const bool short_rows = problem.edges <= kShortEdges * problem.rows;
  return short_rows && problem.rows >= kBundleItems * kEnoughWarps ? kBundleItems : 1;
}

// Lets the warp that stores a row's last part also finish the row, if the work list supports it and there are enough
// tickets.
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
    // The halves of a wide bundle are valid bundles, so wide bundles need no kernels here.
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
    LaunchTarget after_copy = target;
    const cudaError_t error =
        LaunchScaleFirst(static_cast<char*>(scratch) + PartialBytes(args.problem), &sum, &after_copy);
    return error != cudaSuccess ? error : LaunchBinnedRows(sum, work, config, condition, after_copy, scratch);
  }
  RowsParams params = RowsParamsOf(args);
  // Elements per load: a whole pack, or one.
  const int vec = InPacks(params.source.rows) ? kPackBytes / params.source.rows.element_bytes() : 1;
  // Lists with short rows or wide bundles require lanes that load several elements.
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
