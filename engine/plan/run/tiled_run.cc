// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/run/tiled_run.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/check.h"

namespace vicinal::internal {
namespace {

struct Block {
  const LaunchTiles& tiles;
  int64_t first = 0;
  int64_t rows = 0;

  bool Stores(const void* data) const {
    const auto* const at = static_cast<const char*>(data);
    return std::any_of(tiles.stored.begin(), tiles.stored.end(),
                       [at](const StoredRange& range) { return at >= range.begin && at < range.end; });
  }
};

// A view with a row per row that is computed.
template <class View>
void CutView(const Block& block, View* view) {
  if (view->data == nullptr) return;
  if (!block.Stores(view->data)) view->data += block.first * view->stride;
  view->rows = block.rows;
}

void CutEpilogue(const Block& block, Epilogue* epilogue) {
  if (epilogue->row_scale != nullptr) epilogue->row_scale += block.first;
  CutView(block, &epilogue->residual);
}

// Row offsets begin with 0 in every adjacency.
template <class Args>
void CutEdges(const Block& block, Args* args) {
  CsrView& adjacency = args->adjacency;
  const int64_t begin = adjacency.row_ptr[block.first];
  for (int64_t row = 0; row <= block.rows; ++row) {
    block.tiles.row_ptr[row] = adjacency.row_ptr[block.first + row] - begin;
  }
  adjacency.row_ptr = block.tiles.row_ptr;
  adjacency.col += begin;
  if (adjacency.value != nullptr) adjacency.value += begin;
  adjacency.rows = args->problem.rows = block.rows;
  adjacency.nnz = args->problem.edges = block.tiles.row_ptr[block.rows];
}

void CutFeatures(const Block& block, EdgeFeaturesView* edge) {
  if (edge->width == 0) return;
  if (edge->nodes != nullptr) {
    edge->nodes += block.first;
    return;
  }
  std::iota(block.tiles.nodes, block.tiles.nodes + block.rows, static_cast<int32_t>(block.first));
  edge->nodes = block.tiles.nodes;
}

void Cut(const Block& block, AggregateArgs* args) {
  CutEdges(block, args);
  CutView(block, &args->dst);
  CutEpilogue(block, &args->row_epilogue);
  CutEpilogue(block, &args->epilogue);
}

void Cut(const Block& block, AttentionArgs* args) {
  CutEdges(block, args);
  CutFeatures(block, &args->edge);
  CutView(block, &args->score_dst);
  CutView(block, &args->query);
  CutView(block, &args->dst);
  CutEpilogue(block, &args->epilogue);
}

void Cut(const Block& block, MessageReduceArgs* args) {
  CutEdges(block, args);
  CutFeatures(block, &args->edge);
  CutView(block, &args->target);
  CutView(block, &args->dst);
  CutEpilogue(block, &args->epilogue);
}

void Cut(const Block& block, ExpressionArgs* args) {
  if (args->adjacency.row_ptr != nullptr) CutEdges(block, args);
  CutFeatures(block, &args->edge);
  for (ConstMatrixView& view : args->targets) CutView(block, &view);
  CutView(block, &args->dst);
  CutEpilogue(block, &args->epilogue);
  args->problem.rows = block.rows;
}

void Cut(const Block& block, DenseUpdateArgs* args) {
  CutView(block, &args->src);
  CutView(block, &args->dst);
  CutEpilogue(block, &args->epilogue);
  args->problem.rows = block.rows;
}

void Cut(const Block& block, RowwiseArgs* args) {
  CutView(block, &args->a);
  CutView(block, &args->b);
  CutView(block, &args->dst);
  CutView(block, &args->dst16);
  CutEpilogue(block, &args->epilogue);
  args->problem.rows = block.rows;
}

// FindTiledNodes leaves out what reads sparse rows.
void Cut(const Block&, SparseUpdateArgs*) { VICINAL_CHECK(false); }
void Cut(const Block&, SparseAggregateUpdateArgs*) { VICINAL_CHECK(false); }

}  // namespace

int64_t RowsOf(const Launch& launch) {
  return std::visit([](const auto& bound) { return bound.args.problem.rows; }, launch.bound);
}

void CutToBlock(const LaunchTiles& tiles, int64_t first, int64_t count, Launch* launch) {
  const Block block = {tiles, first, count};
  std::visit([&block](auto& bound) { Cut(block, &bound.args); }, launch->bound);
}

}  // namespace vicinal::internal
