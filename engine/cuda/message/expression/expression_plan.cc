// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/cuda/common/row_pieces.h"
#include "engine/cuda/message/expression/expression.h"

namespace vicinal::cuda {
namespace {

constexpr int kTiles[] = {64, 32, 16};
// Global memory for the registers of all blocks of a launch.
constexpr int64_t kMostBlockBytes = int64_t{256} << 20;
constexpr int64_t kBlocksPerSm = 8;
constexpr int64_t kStaticBytes = 1 << 10;  // of the kernels
// Columns of a part: whole sectors of a source's row, and no more parts than that, as each has its own tickets.
constexpr int64_t kSectorColumns = 8, kMostParts = 64;
constexpr int64_t kMostGrid = INT32_MAX;

// Per edge of a tile: its source, target, place in its row, weight, and where its features are.
int64_t EdgeBytes(int tile) { return tile * int64_t{24}; }

int64_t BlockFloats(const TileShape& shape, int tile) {
  return int64_t{shape.registers} * (tile + 4) + (shape.over_edges ? int64_t{4} * shape.total_floats : 0);
}

int64_t SharedBytes(const TileShape& shape, int tile) {
  return EdgeBytes(tile) + BlockFloats(shape, tile) * static_cast<int64_t>(sizeof(float));
}

// The largest tile that leaves room for two blocks per multiprocessor; otherwise the largest that fits; 0: none does.
int ChooseTile(const TileShape& shape, int wanted, const GpuLimits& limits) {
  const int64_t half = limits.multiprocessor_shared_bytes / 2 - kSystemSharedBytes - kStaticBytes;
  for (const int tile : kTiles) {
    if (wanted != 0 ? tile <= wanted && TileFits(shape, tile, limits) : SharedBytes(shape, tile) <= half) return tile;
  }
  for (const int tile : kTiles) {
    if (TileFits(shape, tile, limits)) return tile;
  }
  return 0;
}

// Edges and rows of a block: equal shares that fill the device a whole number of times, as blocks of a last, partial
// time would leave most of it idle.
int64_t KeysPerItem(int64_t keys, const GpuLimits& limits) {
  constexpr int64_t kFewest = 32, kMost = 256;
  const int64_t at_once = kBlocksPerSm * limits.multiprocessors;
  const int64_t times = std::max<int64_t>((keys + at_once * kMost - 1) / (at_once * kMost), 1);
  return std::max((keys + at_once * times - 1) / (at_once * times), kFewest);
}

// kWholeResults if that many columns have no result to divide.
int PartColumns(const TileShape& shape, int64_t wanted) {
  if (wanted <= 0) return kWholeResults;
  const int64_t columns = RoundUp(std::max(wanted, (shape.widest + kMostParts - 1) / kMostParts), kSectorColumns);
  return columns < shape.widest ? static_cast<int>(columns) : kWholeResults;
}

}  // namespace

bool TileFits(const TileShape& shape, int tile, const GpuLimits& limits) {
  return limits.Fits(SharedBytes(shape, tile) + kStaticBytes);
}

ExpressionPlan PlanExpression(const TileShape& shape, int64_t rows, int64_t edges, const ExpressionSettings& settings,
                              const GpuLimits& limits) {
  ExpressionPlan plan;
  plan.tile = ChooseTile(shape, settings.tile, limits);
  const bool fits = plan.tile != 0;
  if (!fits) plan.tile = 16;
  plan.shared_bytes = fits ? SharedBytes(shape, plan.tile) : EdgeBytes(plan.tile);
  if (shape.over_edges) {
    plan.part_columns = PartColumns(shape, settings.columns);
    if (plan.part_columns != kWholeResults) plan.parts = (shape.widest + plan.part_columns - 1) / plan.part_columns;
    const PieceScratch pieces(edges, kExpressionUnit, shape.total_floats, plan.parts);
    plan.cells = pieces.cells;
    plan.partial_stride = pieces.stride;
    plan.partial_floats = pieces.cells * pieces.stride;
    plan.tickets = RoundUp(pieces.tickets, 4);
    plan.keys_per_item = settings.keys != 0 ? settings.keys : KeysPerItem(edges + rows, limits);
    plan.part_items = (edges + rows + plan.keys_per_item - 1) / plan.keys_per_item;
  } else {
    plan.part_items = (rows + plan.tile - 1) / plan.tile;
  }
  plan.items = plan.parts * plan.part_items;
  if (!fits) {
    plan.block_floats = RoundUp(BlockFloats(shape, plan.tile), 4);
    plan.most_blocks = std::clamp<int64_t>(kMostBlockBytes / (plan.block_floats * int64_t{sizeof(float)}), 1,
                                           int64_t{2} * limits.multiprocessors);
  }
  return plan;
}

int64_t ExpressionGrid(const ExpressionPlan& plan) {
  return std::min(plan.items, plan.block_floats > 0 ? plan.most_blocks : kMostGrid);
}

cudaError_t LaunchCompiled(const void* function, const ExpressionParams& params, const ExpressionPlan& plan,
                           const LaunchTarget& target) {
  ExpressionParams copy = params;
  void* arguments[] = {&copy};
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>(ExpressionGrid(plan))), dim3(kExpressionThreads),
                          arguments, static_cast<size_t>(plan.shared_bytes), target.stream);
}

cudaError_t PlaceExpression(const ExpressionPlan& plan, const LaunchTarget& target, void* scratch,
                            ExpressionParams* params) {
  float* const floats = static_cast<float*>(scratch);
  params->items = plan.items;
  params->part_items = plan.part_items;
  // An interpreted program has one part then.
  params->part_columns = plan.part_columns != kWholeResults ? plan.part_columns : params->shape.widest;
  params->keys_per_item = plan.keys_per_item;
  params->cells = plan.cells;
  params->partial_stride = plan.partial_stride;
  params->partials = floats;
  params->tickets = target.tickets;
  params->block_floats = plan.block_floats;
  params->block_memory = plan.block_floats > 0 ? floats + plan.partial_floats + plan.tickets : nullptr;
  if (plan.tickets == 0) return cudaSuccess;
  params->tickets = reinterpret_cast<int*>(floats + plan.partial_floats);
  return cudaMemsetAsync(params->tickets, 0, static_cast<size_t>(plan.tickets) * sizeof(int), target.stream);
}

}  // namespace vicinal::cuda
