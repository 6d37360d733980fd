// SPDX-License-Identifier: Apache-2.0
// Lays out a launch of balanced_rows: pack width from the source's alignment, tile from the width and the L2 cache,
// tickets.
#include <algorithm>

#include "engine/cuda/balanced_rows.cuh"

namespace vicinal::cuda {
namespace {

// Edges that a group should stream, and the most rows it takes for them: enough to hide the latency of its first loads,
// few enough that the groups of a warp end at about the same time.
constexpr int64_t kStreamEdges = 32;
constexpr int64_t kMaxRows = 8;

// Threads that it takes to fill a multiprocessor.
constexpr int64_t kResidentThreads = 1024;

// Small graphs are spread over the device instead: latency is all that counts there.
int RowsPerGroup(const AggregateProblem& problem, int64_t lanes, int multiprocessors) {
  const int64_t rows = std::max<int64_t>(problem.rows, 1), mean = std::max<int64_t>(problem.edges / rows, 1);
  const int64_t to_fill = rows * lanes / (kResidentThreads * multiprocessors);
  return static_cast<int>(std::clamp<int64_t>(std::min(kStreamEdges / mean, to_fill), 1, kMaxRows));
}

int PackWidth(const ConstMatrixView& src) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(src.data);
  if (address % 16 == 0 && src.stride % 4 == 0) return 4;
  if (address % 8 == 0 && src.stride % 2 == 0) return 2;
  return 1;
}

int TileWidth(const AggregateArgs& args, const BalancedRowsConfig& config) {
  const int max_tile = config.max_tile > 0 ? config.max_tile : 128;
  return static_cast<int>(std::min<int64_t>(args.dst.cols, max_tile));
}

}  // namespace

cudaError_t LaunchBalancedRows(const AggregateArgs& args, const BalancedRowsConfig& config, const LaunchTarget& target,
                               void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const int vec = PackWidth(args.src);
  BalancedRowsParams params;
  params.adjacency = args.adjacency;
  params.src_scale = args.src_scale;
  params.src = args.src;
  params.dst = args.dst;
  params.reduce = args.problem.reduce;
  params.self_scale = args.self_scale;
  params.epilogue = args.epilogue;
  params.vector_store = reinterpret_cast<uintptr_t>(args.dst.data) % (4 * vec) == 0 && args.dst.stride % vec == 0 &&
                        args.dst.cols % vec == 0;
  params.plain = params.vector_store && args.problem.reduce != Reduce::kMean && args.self_scale == 0.0f &&
                 args.epilogue.scale == 1.0f && args.epilogue.row_scale == nullptr && args.epilogue.bias == nullptr &&
                 args.epilogue.addend.empty() && args.epilogue.activation.kind == ActivationKind::kNone;
  const int tile = TileWidth(args, config);
  params.rows_per_group = RowsPerGroup(args.problem, (tile + vec - 1) / vec, target.multiprocessors);
  params.unit = 0;
  params.cells = 0;
  params.partials = nullptr;
  params.partial_stride = 0;
  params.tickets = target.tickets;
  if (config.split_rows) {
    const PieceScratch pieces = BalancedRowsScratch(args.problem);
    params.unit = pieces.cells > 0 ? pieces.unit : 0;
    params.cells = pieces.cells;
    params.partials = static_cast<float*>(scratch);
    params.partial_stride = pieces.stride;
    if (pieces.tickets > 0) {
      params.tickets = reinterpret_cast<int*>(params.partials + pieces.cells * pieces.stride);
      const cudaError_t error = cudaMemsetAsync(params.tickets, 0, pieces.tickets * sizeof(int), target.stream);
      if (error != cudaSuccess) return error;
    }
  }
  if (vec == 4) return LaunchBalancedRowsVec4(params, tile, target.stream);
  if (vec == 2) return LaunchBalancedRowsVec2(params, tile, target.stream);
  return LaunchBalancedRowsVec1(params, tile, target.stream);
}

}  // namespace vicinal::cuda
