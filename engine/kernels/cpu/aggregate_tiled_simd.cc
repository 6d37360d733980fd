// SPDX-License-Identifier: Apache-2.0
// Aggregation by tiles of columns and partitions of the sources ("tiled_rows").
//
// Idea: a tile of a few columns of a part of the sources is packed contiguously, so that it fits the second-level
// cache, and all rows gather from it; then the next part, then the next tile of columns. Unfinished rows keep their
// chains between parts. Each thread packs into its own cache, so there are no barriers.
//
// When it wins: many edges per node and wide rows, if the rows of all sources do not fit the second-level cache but a
// tile of them does, or if a row has several edges in each part. With a few edges per node, packing costs as much as it
// saves, and simd_rows is faster.
//
// Bytes moved: per tile, edges * (4 + 4 weighted) of indices and rows * 8; sources * 4 * D read once, written to and
// read from the near cache; rows * 4 * D written. With several parts, 24 * tile bytes more per row and part.
//
// Determinism: the reduction order of gather_rows-inl.h. Edges are added in order, and parts follow that order as far
// as columns ascend. If they do not, a source of an earlier part is read from its own row.
//
// Source: FeatGraph (Hu et al., SC'20), section III-C: feature tiling with 1-D partitioning of the sources. Packing the
// tiles is our own.
#include <algorithm>
#include <memory>

#include "engine/kernels/cpu/aggregate_simd.h"
#include "engine/kernels/cpu/aggregate_tiled.h"
#include "engine/kernels/cpu/gather_cost.h"
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/aggregate_tiled_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/tiled_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

template <Reduce kReduce>
void AdvanceBy(const TiledJob& job, bool wide, const PanelState& state, int64_t begin, int64_t end) {
  constexpr int kVectors = static_cast<int>(16 / kLanes);
  if (job.gather.weight != nullptr) {
    wide ? AdvancePanel<2 * kVectors, kReduce, true>(job, state, begin, end)
         : AdvancePanel<kVectors, kReduce, true>(job, state, begin, end);
  } else {
    wide ? AdvancePanel<2 * kVectors, kReduce, false>(job, state, begin, end)
         : AdvancePanel<kVectors, kReduce, false>(job, state, begin, end);
  }
}

template <Reduce kReduce>
void FinishBy(const TiledJob& job, bool wide, const PanelState& state, int64_t begin, int64_t end) {
  constexpr int kVectors = static_cast<int>(16 / kLanes);
  wide ? FinishPanel<2 * kVectors, kReduce>(job, state, begin, end)
       : FinishPanel<kVectors, kReduce>(job, state, begin, end);
}

// Tiles have 16 columns, or 32 if `wide`.
void AdvanceRows(const TiledJob& job, Reduce reduce, bool wide, const PanelState& state, int64_t begin, int64_t end) {
  reduce == Reduce::kMax   ? AdvanceBy<Reduce::kMax>(job, wide, state, begin, end)
  : reduce == Reduce::kMin ? AdvanceBy<Reduce::kMin>(job, wide, state, begin, end)
                           : AdvanceBy<Reduce::kSum>(job, wide, state, begin, end);
}
void FinishRows(const TiledJob& job, Reduce reduce, bool wide, const PanelState& state, int64_t begin, int64_t end) {
  reduce == Reduce::kMax   ? FinishBy<Reduce::kMax>(job, wide, state, begin, end)
  : reduce == Reduce::kMin ? FinishBy<Reduce::kMin>(job, wide, state, begin, end)
                           : FinishBy<Reduce::kSum>(job, wide, state, begin, end);
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::internal {
namespace {

HWY_EXPORT(AdvanceRows);
HWY_EXPORT(FinishRows);

// Up to this size, the tile of all sources is one part: the excess over the second level comes from the last level, but
// rows keep nothing between parts. Larger tiles are cut into parts that fit the second level.
constexpr int64_t kOnePartBytes = int64_t{4} << 20;
constexpr int64_t kPartBytes = int64_t{768} << 10;
// Rows that keep their sums between parts. The number is large, as each panel packs every part again. It is also the
// number of rows between two checks for a stop.
constexpr int64_t kPanelRows = 8192;

size_t Aligned(int64_t bytes) { return (static_cast<size_t>(bytes) + 63) / 64 * 64; }

// How a problem is cut.
struct Tiling {
  int64_t tile;       // columns, a multiple of 16
  int64_t tiles;      // of them
  int64_t fit_rows;   // maximum sources per part
  int64_t part_rows;  // sources per part
  int64_t parts;
  int64_t groups;  // ranges of rows, so that all threads have work with few tiles
  int64_t panel_rows;

  Tiling(const AggregateProblem& problem, const KernelConfig& config, int num_threads) {
    const int64_t sources = std::max<int64_t>(problem.cols, 1), columns = (problem.width + 15) / 16 * 16;
    const auto choose = [&](int64_t wanted_tile) {
      tile = std::min<int64_t>(columns, std::max<int64_t>(16, wanted_tile / 16 * 16));
      const int64_t by_cache = 4 * tile * sources <= kOnePartBytes ? sources : kPartBytes / (4 * tile);
      const int64_t fit = config.values[0] > 0 ? config.values[0] : std::max<int64_t>(by_cache, 1);
      fit_rows = std::min(sources, fit);
      parts = (sources + fit_rows - 1) / fit_rows;
    };
    choose(config.values[1] > 0 ? config.values[1] : 16);
    // Sums that are kept between parts are tiles of 16 or 32 columns.
    if (parts > 1 && tile > 32) choose(32);
    // Parts of equal size, so that the last one is not a remnant.
    part_rows = (sources + parts - 1) / parts;
    tiles = std::max<int64_t>((problem.width + tile - 1) / tile, 1);
    groups = std::max<int64_t>(1, (int64_t{2} * num_threads + tiles - 1) / tiles);
    if (num_threads == 1) groups = 1;
    panel_rows = parts == 1 ? 0 : std::min<int64_t>(kPanelRows, std::max<int64_t>(problem.rows, 1));
  }

  // Never more for fewer rows or sources, as a plan reserves scratch for the whole graph.
  size_t PackedBytes() const { return Aligned(fit_rows * tile * 4); }
  size_t CursorBytes() const { return Aligned(panel_rows * 8); }
  size_t ThreadBytes() const { return PackedBytes() + CursorBytes() + Aligned(panel_rows * 3 * tile * 4); }
};

// The job restricted to columns [first, first + count) of dst.
GatherJob ColumnsOf(GatherJob job, int64_t first, int64_t count) {
  job.src = job.src.columns(first, count);
  job.dst = job.dst.columns(first, count);
  if (job.epilogue.bias != nullptr) job.epilogue.bias += first;
  if (!job.epilogue.residual.empty()) job.epilogue.residual = job.epilogue.residual.columns(first, count);
  return job;
}

// Fills job->packed with the tile of the sources of its part.
void PackPart(const TiledJob& job, int64_t tile) {
  const int64_t columns = job.gather.dst.cols;
  for (int64_t source = job.part_begin; source < job.part_end; ++source) {
    float* to = job.packed + (source - job.part_begin) * tile;
    if (columns < tile) std::fill(to + columns, to + tile, 0.0f);
    CopyTile(job.gather, source, to);
  }
}

// Computes one tile of columns for rows [begin, end). A tile is much work, so the runner stops between panels of rows
// if `pool` (may be null) reports that the result is no longer wanted.
class TileRunner {
 public:
  TileRunner(const Tiling& tiling, Reduce reduce, const ThreadPool* pool, void* scratch)
      : tiling_(tiling), reduce_(reduce), pool_(pool) {
    char* at = static_cast<char*>(scratch);
    packed_ = reinterpret_cast<float*>(at);
    state_.cursor = reinterpret_cast<int64_t*>(at + tiling.PackedBytes());
    state_.sums = reinterpret_cast<float*>(at + tiling.PackedBytes() + tiling.CursorBytes());
  }

  void Run(const GatherJob& gather, int64_t sources, int64_t begin, int64_t end) const {
    TiledJob job = {gather, 0, sources, packed_};
    if (tiling_.parts == 1) {
      PackPart(job, tiling_.tile);
      job.gather.src = {packed_, sources, gather.dst.cols, tiling_.tile};
    }
    const int64_t panel = tiling_.parts == 1 ? kPanelRows : tiling_.panel_rows;
    for (int64_t row = begin; row < end && !Unwanted(); row += panel) {
      const int64_t last = std::min(end, row + panel);
      tiling_.parts == 1 ? RunGatherJob(job.gather, reduce_, row, last) : RunPanel(&job, sources, row, last);
    }
  }

 private:
  bool Unwanted() const { return pool_ != nullptr && pool_->ShouldStop(); }

  void RunPanel(TiledJob* job, int64_t sources, int64_t begin, int64_t end) const {
    const bool wide = tiling_.tile > 16;
    std::copy(job->gather.row_ptr + begin, job->gather.row_ptr + end, state_.cursor);
    for (int64_t part = 0; part < tiling_.parts; ++part) {
      job->part_begin = std::min(sources, part * tiling_.part_rows);
      job->part_end = std::min(sources, job->part_begin + tiling_.part_rows);
      PackPart(*job, tiling_.tile);
      HWY_DYNAMIC_DISPATCH(AdvanceRows)(*job, reduce_, wide, state_, begin, end);
    }
    HWY_DYNAMIC_DISPATCH(FinishRows)(*job, reduce_, wide, state_, begin, end);
  }

  const Tiling& tiling_;
  const Reduce reduce_;
  const ThreadPool* const pool_;
  float* packed_;
  PanelState state_;
};

class TiledAggregate final : public AggregateKernel {
 public:
  std::string_view name() const override { return "tiled_rows"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    return problem.storage == Storage::kFloat32 ? Refusal() : "only rows of float32";
  }
  std::vector<std::string_view> ParameterNames() const override { return {"source_rows", "tile_columns"}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    // All sources at once, and parts that fit the second level. Normalised to the values in use, without duplicates.
    const int32_t all = static_cast<int32_t>(std::min<int64_t>(problem.cols, 1 << 30)), part = kPartBytes / 64;
    std::vector<KernelConfig> wanted = {{}};
    if (problem.width > 16) wanted.insert(wanted.end(), {{{0, 32}}, {{all, 16}}, {{part, 16}}, {{all, 64}}});
    std::vector<KernelConfig> candidates;
    for (const KernelConfig& config : wanted) {
      const Tiling tiling(problem, config, 1);
      const KernelConfig runs = {{static_cast<int32_t>(tiling.fit_rows), static_cast<int32_t>(tiling.tile)}};
      if (std::find(candidates.begin(), candidates.end(), runs) == candidates.end()) candidates.push_back(runs);
    }
    return candidates;
  }
  // Sources per partition and columns per tile. Not 0, which the cost model takes for gathers without copies.
  std::vector<std::vector<int32_t>> SearchSpace(const AggregateProblem& problem) const override {
    std::vector<int32_t> sources, tiles;
    for (const int32_t count : {1024, 4096, 16384}) {
      if (count < problem.cols) sources.push_back(count);
    }
    sources.push_back(static_cast<int32_t>(std::clamp<int64_t>(problem.cols, 1, 1 << 30)));
    for (const int32_t columns : {16, 32, 64}) {
      if (columns == 16 || columns < problem.width) tiles.push_back(columns);
    }
    return {std::move(sources), std::move(tiles)};
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig& config,
                                       const WorkShape& shape) const override {
    GatherCost cost = GatherCostOf(problem);
    cost.source_rows = config.values[0];
    cost.tile_columns = config.values[1];
    return GatherSeconds(cost, shape);
  }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig& config, int num_threads) const override {
    return static_cast<size_t>(num_threads) * Tiling(problem, config, num_threads).ThreadBytes();
  }

  Status Run(DeviceContext& context, const AggregateArgs& args, void* scratch) const override {
    ThreadPool* pool = context.thread_pool();
    const int threads = pool != nullptr ? pool->num_threads() : 1;
    AggregateProblem problem = args.problem;
    problem.rows = args.dst.rows, problem.cols = args.src.rows, problem.width = args.dst.cols;
    const Tiling tiling(problem, args.config, threads);
    GatherJob job = MakeAggregateJob(args);
    job.prefetch_ahead = 0;  // packed sources are in the near cache
    const RowWork work = {job.row_ptr, args.dst.rows, 1, 8};
    const auto run = [&](int64_t task, int thread) {
      const int64_t tile = task / tiling.groups, group = task % tiling.groups;
      const double share = work.Before(work.rows) / static_cast<double>(tiling.groups);
      const int64_t begin = group == 0 ? 0 : work.Cut(share * static_cast<double>(group));
      const int64_t end = group + 1 == tiling.groups ? work.rows : work.Cut(share * static_cast<double>(group + 1));
      const int64_t first = tile * tiling.tile, count = std::min(tiling.tile, args.dst.cols - first);
      if (begin >= end) return;
      char* mine = static_cast<char*>(scratch) + static_cast<size_t>(thread) * tiling.ThreadBytes();
      TileRunner(tiling, args.problem.reduce, pool, mine).Run(ColumnsOf(job, first, count), args.src.rows, begin, end);
    };
    if (args.dst.rows == 0 || args.dst.cols == 0) return OkStatus();
    if (pool == nullptr) {
      for (int64_t task = 0; task < tiling.tiles * tiling.groups; ++task) run(task, 0);
    } else {
      pool->ParallelFor(tiling.tiles * tiling.groups, run);
    }
    return OkStatus();
  }
};

}  // namespace

std::unique_ptr<const AggregateKernel> MakeTiledAggregate() { return std::make_unique<TiledAggregate>(); }

}  // namespace vicinal::internal
#endif  // HWY_ONCE
