// SPDX-License-Identifier: Apache-2.0
// Aggregation by tiles of columns and partitions of the sources ("tiled_rows").
//
// Idea: a tile of a few columns of a part of the sources is packed contiguously, so that it fits the second-level
// cache, and all rows gather from it; then the next part, then the next tile of columns. Unfinished rows keep their
// chains between parts. Each thread packs into its own cache, so there are no barriers. With `shared`, FeatGraph's
// form, all threads pack one part into the cache that they share, and gather from it together, before the next part.
//
// When it wins: many edges per node and wide rows, if the rows of all sources do not fit the second-level cache but a
// tile of them does, or if a row has several edges in each part. With a few edges per node, packing costs as much as it
// saves, and simd_rows is faster.
//
// Bytes moved: per tile, edges * (4 + 4 weighted) of indices and rows * 8; sources * 4 * D read once, written to and
// read from the near cache; rows * 4 * D written. With several parts, 24 * tile bytes more per row and part. Parts are
// packed once per panel of rows: 8,192 rows, with `shared` as many per thread.
//
// Determinism: the reduction order of gather_rows-inl.h. Edges are added in order, and parts follow that order as far
// as columns ascend. If they do not, a source of an earlier part is read from its own row.
//
// Source: FeatGraph (Hu et al., SC'20), section III-C: feature tiling with 1-D partitioning of the sources, where all
// threads work on one partition at a time. Packing the tiles, and a part per thread, are our own.
#include <algorithm>
#include <memory>

#include "engine/kernels/cpu/aggregate_simd.h"
#include "engine/kernels/cpu/aggregate_tiled.h"
#include "engine/kernels/cpu/gather_cost.h"
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/tiling.h"
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

// The job restricted to columns [first, first + count) of dst.
GatherJob ColumnsOf(GatherJob job, int64_t first, int64_t count) {
  job.src = job.src.columns(first, count);
  job.dst = job.dst.columns(first, count);
  if (job.epilogue.bias != nullptr) job.epilogue.bias += first;
  if (!job.epilogue.residual.empty()) job.epilogue.residual = job.epilogue.residual.columns(first, count);
  return job;
}

// Fills job.packed with the tile of sources [begin, end) of its part.
void PackSources(const TiledJob& job, int64_t tile, int64_t begin, int64_t end) {
  const int64_t columns = job.gather.dst.cols;
  for (int64_t source = begin; source < end; ++source) {
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
      PackSources(job, tiling_.tile, 0, sources);
      job.gather.src = {packed_, sources, gather.dst.cols, tiling_.tile};
    }
    const int64_t panel = tiling_.parts == 1 ? kTiledPanelRows : tiling_.panel_rows;
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
      PackSources(*job, tiling_.tile, job->part_begin, job->part_end);
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

// Computes one tile of columns for all rows, a part of the sources at a time, with all threads of `pool`. Its loops end
// early if the pool reports that the result is no longer wanted; after such an end, nothing is read.
class SharedRunner {
 public:
  SharedRunner(const Tiling& tiling, Reduce reduce, ThreadPool* pool, void* scratch)
      : tiling_(tiling), reduce_(reduce), pool_(pool) {
    char* at = static_cast<char*>(scratch);
    packed_ = reinterpret_cast<float*>(at);
    cursors_ = reinterpret_cast<int64_t*>(at + tiling.PackedBytes());
    sums_ = reinterpret_cast<float*>(at + tiling.PackedBytes() + tiling.CursorBytes());
  }

  void Run(const GatherJob& gather, int64_t sources, int64_t rows) const {
    TiledJob job = {gather, 0, sources, packed_};
    if (tiling_.parts == 1) {
      if (!Pack(job)) return;
      job.gather.src = {packed_, sources, gather.dst.cols, tiling_.tile};
      ForRows(gather, 0, rows, [&](int64_t begin, int64_t end) { RunGatherJob(job.gather, reduce_, begin, end); });
      return;
    }
    for (int64_t row = 0; row < rows; row += tiling_.panel_rows) {
      if (!RunPanel(&job, sources, row, std::min(rows, row + tiling_.panel_rows))) return;
    }
  }

 private:
  // False: stopped.
  bool RunPanel(TiledJob* job, int64_t sources, int64_t begin, int64_t end) const {
    const bool wide = tiling_.tile > 16;
    for (int64_t part = 0; part < tiling_.parts; ++part) {
      job->part_begin = std::min(sources, part * tiling_.part_rows);
      job->part_end = std::min(sources, job->part_begin + tiling_.part_rows);
      const bool done = Pack(*job) && ForRows(job->gather, begin, end, [&](int64_t first, int64_t last) {
                          const int64_t at = first - begin;
                          const PanelState state = {cursors_ + at, sums_ + at * 3 * tiling_.tile};
                          if (part == 0) {
                            std::copy(job->gather.row_ptr + first, job->gather.row_ptr + last, state.cursor);
                          }
                          HWY_DYNAMIC_DISPATCH(AdvanceRows)(*job, reduce_, wide, state, first, last);
                          if (part + 1 < tiling_.parts) return;
                          HWY_DYNAMIC_DISPATCH(FinishRows)(*job, reduce_, wide, state, first, last);
                        });
      if (!done) return false;
    }
    return true;
  }

  bool Pack(const TiledJob& job) const {
    const int64_t count = job.part_end - job.part_begin, tasks = std::min<int64_t>(count, kTasksPerThread * threads());
    return For(tasks, [&](int64_t task) {
      PackSources(job, tiling_.tile, job.part_begin + count * task / tasks,
                  job.part_begin + count * (task + 1) / tasks);
    });
  }

  // body(first, last) for ranges of rows [begin, end) of about equal work, the same ranges in each call.
  template <class Body>
  bool ForRows(const GatherJob& gather, int64_t begin, int64_t end, const Body& body) const {
    const RowWork work = {gather.row_ptr + begin, end - begin, 1, 8};
    const int64_t tasks = std::min<int64_t>(end - begin, kTasksPerThread * threads());
    const auto cut = [&](int64_t task) {
      if (task == 0 || task == tasks) return task == 0 ? begin : end;
      return begin + work.Cut(work.Before(work.rows) * static_cast<double>(task) / static_cast<double>(tasks));
    };
    return For(tasks, [&](int64_t task) {
      const int64_t first = cut(task), last = cut(task + 1);
      if (first < last) body(first, last);
    });
  }

  template <class Body>
  bool For(int64_t tasks, const Body& body) const {
    if (pool_ == nullptr) {
      for (int64_t task = 0; task < tasks; ++task) body(task);
      return true;
    }
    pool_->ParallelFor(tasks, [&](int64_t task, int) { body(task); });
    return !pool_->ShouldStop();
  }

  int64_t threads() const { return pool_ != nullptr ? pool_->num_threads() : 1; }

  static constexpr int64_t kTasksPerThread = 4;  // so that a thread that begins late delays nobody for long

  const Tiling& tiling_;
  const Reduce reduce_;
  ThreadPool* const pool_;
  float* packed_;
  int64_t* cursors_;
  float* sums_;
};

// Of a partition.
constexpr int32_t kMostSourceRows = 1 << 30;

class TiledAggregate final : public AggregateKernel {
 public:
  std::string_view name() const override { return "tiled_rows"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    return problem.storage == Storage::kFloat32 ? Refusal() : "only rows of float32";
  }
  std::vector<std::string_view> ParameterNames() const override { return {"source_rows", "tile_columns", "shared"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::Between(0, kMostSourceRows), ParameterRange::AtLeast(0), ParameterRange::OneOf({1})};
  }
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    // All sources at once, and parts that fit the second level. Normalised to the values in use, without duplicates.
    const int32_t all = static_cast<int32_t>(std::min<int64_t>(problem.cols, kMostSourceRows)),
                  part = kTilePartBytes / 64;
    std::vector<KernelConfig> wanted = {{}};
    if (problem.width > 16) wanted.insert(wanted.end(), {{{0, 32}}, {{all, 16}}, {{part, 16}}, {{all, 64}}});
    std::vector<KernelConfig> candidates;
    for (const KernelConfig& config : wanted) {
      const Tiling tiling(problem, config, 1);
      const KernelConfig runs = {
          {static_cast<int32_t>(tiling.fit_rows), static_cast<int32_t>(tiling.tile), tiling.shared ? 1 : 0}};
      if (std::find(candidates.begin(), candidates.end(), runs) == candidates.end()) candidates.push_back(runs);
    }
    return candidates;
  }
  // Sources per partition, columns per tile, and whether threads share partitions. Not 0 sources, which the cost model
  // takes for gathers without copies.
  std::vector<std::vector<int32_t>> SearchSpace(const AggregateProblem& problem) const override {
    std::vector<int32_t> sources, tiles;
    for (const int32_t count : {1024, 4096, 16384}) {
      if (count < problem.cols) sources.push_back(count);
    }
    sources.push_back(static_cast<int32_t>(std::clamp<int64_t>(problem.cols, 1, kMostSourceRows)));
    for (const int32_t columns : {16, 32, 64}) {
      if (columns == 16 || columns < problem.width) tiles.push_back(columns);
    }
    return {std::move(sources), std::move(tiles), {0, 1}};
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig& config,
                                       const WorkShape& shape) const override {
    GatherCost cost = GatherCostOf(problem);
    cost.source_rows = config.values[0];
    cost.tile_columns = config.values[1];
    cost.shared_copies = config.values[2] != 0;
    return GatherSeconds(cost, shape);
  }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig& config, int num_threads) const override {
    const Tiling tiling(problem, config, num_threads);
    return tiling.shared ? tiling.Bytes() : static_cast<size_t>(num_threads) * tiling.Bytes();
  }

  Status Run(DeviceContext& context, const AggregateArgs& args, void* scratch) const override {
    ThreadPool* pool = context.thread_pool();
    const int threads = pool != nullptr ? pool->num_threads() : 1;
    AggregateProblem problem = args.problem;
    problem.rows = args.dst.rows, problem.cols = args.src.rows, problem.width = args.dst.cols;
    const Tiling tiling(problem, args.config, threads);
    GatherJob job = MakeAggregateJob(args, pool);
    job.prefetch_ahead = 0;  // packed sources are in the near cache
    if (args.dst.rows == 0 || args.dst.cols == 0) return OkStatus();
    tiling.shared ? RunShared(tiling, args, job, pool, scratch) : RunApart(tiling, args, job, pool, scratch);
    return OkStatus();
  }

 private:
  static GatherJob TileOf(const Tiling& tiling, const GatherJob& job, int64_t tile) {
    const int64_t first = tile * tiling.tile;
    return ColumnsOf(job, first, std::min(tiling.tile, job.dst.cols - first));
  }

  static void RunShared(const Tiling& tiling, const AggregateArgs& args, const GatherJob& job, ThreadPool* pool,
                        void* scratch) {
    const SharedRunner runner(tiling, args.problem.reduce, pool, scratch);
    for (int64_t tile = 0; tile < tiling.tiles; ++tile) {
      runner.Run(TileOf(tiling, job, tile), args.src.rows, args.dst.rows);
    }
  }

  // Each thread has tiles, or ranges of rows of them, of its own.
  static void RunApart(const Tiling& tiling, const AggregateArgs& args, const GatherJob& job, ThreadPool* pool,
                       void* scratch) {
    const RowWork work = {job.row_ptr, args.dst.rows, 1, 8};
    const auto run = [&](int64_t task, int thread) {
      const int64_t tile = task / tiling.groups, group = task % tiling.groups;
      const double share = work.Before(work.rows) / static_cast<double>(tiling.groups);
      const int64_t begin = group == 0 ? 0 : work.Cut(share * static_cast<double>(group));
      const int64_t end = group + 1 == tiling.groups ? work.rows : work.Cut(share * static_cast<double>(group + 1));
      if (begin >= end) return;
      char* mine = static_cast<char*>(scratch) + static_cast<size_t>(thread) * tiling.Bytes();
      TileRunner(tiling, args.problem.reduce, pool, mine).Run(TileOf(tiling, job, tile), args.src.rows, begin, end);
    };
    const int64_t tasks = tiling.tiles * tiling.groups;
    if (pool != nullptr) return pool->ParallelFor(tasks, run);
    for (int64_t task = 0; task < tasks; ++task) run(task, 0);
  }
};

}  // namespace

std::unique_ptr<const AggregateKernel> MakeTiledAggregate() { return std::make_unique<TiledAggregate>(); }

}  // namespace vicinal::internal
#endif  // HWY_ONCE
