// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/cpu/gather_cost.h"

#include <algorithm>
#include <cmath>

#include "engine/kernels/cpu/tiling.h"

namespace vicinal::internal {
namespace {

// Bytes per second and core; nanoseconds.
constexpr double kL2Speed = 45e9, kLlcSpeed = 22e9, kMemorySpeed = 11e9;
constexpr double kEdgeNs = 0.7;         // per edge and pass, without its row
constexpr double kVectorNs = 0.5;       // of 16 floats added
constexpr double kRowNs = 6.0;          // per row of the result, without its bytes
constexpr double kUnprefetched = 1.6;   // factor for rows beyond the L2 without prefetching
constexpr double kAttentionEdgeNs = 4;  // of a score and its exponential, per head
constexpr double kCopyNs = 1.0;         // per row that is copied into a tile, without its bytes
constexpr double kL2Bytes = 1 << 20, kLlcBytes = 32 << 20;
constexpr int64_t kRegisterColumns = 256;  // columns that a kernel sums in one pass

CacheShares RandomShares(const WorkShape& shape, int64_t row_bytes) {
  const double bytes = std::max(1.0, static_cast<double>(shape.cols) * static_cast<double>(row_bytes));
  return {std::min(1.0, kL2Bytes / bytes), std::min(1.0, kLlcBytes / bytes)};
}

// Seconds that a core takes to gather one row of `bytes` bytes.
double RowSeconds(const WorkShape& shape, int64_t row_bytes, bool prefetched) {
  CacheShares found = shape.reuse ? shape.reuse(row_bytes) : RandomShares(shape, row_bytes);
  found.llc = std::max(found.llc, found.l2);
  // A row takes whole cache lines.
  const int64_t line_bytes = (row_bytes + 63) / 64 * 64;
  const auto bytes = static_cast<double>(line_bytes);
  const double beyond = (found.llc - found.l2) / kLlcSpeed + (1.0 - found.llc) / kMemorySpeed;
  return bytes * (found.l2 / kL2Speed + beyond * (prefetched ? 1.0 : kUnprefetched));
}

// Source rows that a pass of tiled_rows copies into tiles: each once if one tile holds all, otherwise once per panel of
// rows. 0 without copies.
double RowsCopied(const WorkShape& shape, const GatherCost& cost) {
  if (cost.source_rows <= 0) return 0.0;
  const int64_t panel = kTiledPanelRows * (cost.shared_copies ? std::max(1, shape.num_threads) : 1);
  const int64_t panels = cost.source_rows < shape.cols ? (shape.rows + panel - 1) / panel : 1;
  return static_cast<double>(panels) * static_cast<double>(shape.cols);
}

}  // namespace

GatherCost GatherCostOf(const AggregateProblem& problem) {
  GatherCost cost;
  cost.columns = problem.width;
  cost.element_bytes = problem.storage == Storage::kFloat32 ? 4 : 2;
  cost.weight_per_edge = problem.weighted && !problem.source_scaled;
  return cost;
}

GatherCost GatherCostOf(const AttentionProblem& problem) {
  GatherCost cost;
  cost.columns = problem.heads * problem.head_width;
  cost.scored_heads = problem.heads;
  return cost;
}

double GatherSeconds(const GatherCost& cost, const WorkShape& shape) {
  const int64_t wanted = cost.tile_columns > 0 ? cost.tile_columns : kRegisterColumns;
  const int64_t in_pass = std::max<int64_t>(1, std::min(cost.columns, wanted));
  const int64_t passes = (cost.columns + in_pass - 1) / in_pass;
  const double edges = static_cast<double>(shape.edges), rows = static_cast<double>(shape.rows);
  // With panels, a few rows get all passes before the next ones, so reuse is that of whole rows.
  const double gather =
      cost.panels ? RowSeconds(shape, cost.columns * cost.element_bytes, cost.prefetched) / static_cast<double>(passes)
                  : RowSeconds(shape, in_pass * cost.element_bytes, cost.prefetched);
  const double index_bytes = cost.weight_per_edge ? 8.0 : 4.0;
  double edge = index_bytes / (cost.panels ? kL2Speed : kMemorySpeed) + gather +
                1e-9 * (kEdgeNs + kVectorNs * std::ceil(static_cast<double>(in_pass) / 16.0));
  if (cost.scored_heads > 0) edge += 1e-9 * kAttentionEdgeNs * static_cast<double>(cost.scored_heads);
  const double row =
      1e-9 * kRowNs * static_cast<double>(passes) + static_cast<double>(cost.columns) * 4.0 / kMemorySpeed;
  const double copy = static_cast<double>(in_pass * cost.element_bytes) / kLlcSpeed + 1e-9 * kCopyNs;
  const double copies = RowsCopied(shape, cost);
  const double alone = static_cast<double>(passes) * (edges * edge + copies * copy) + rows * row;
  return alone / std::max(1, shape.num_threads);
}

}  // namespace vicinal::internal
