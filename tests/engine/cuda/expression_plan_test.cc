// SPDX-License-Identifier: Apache-2.0
// How a program is laid out over blocks: parts of the columns cover every column once, have their own work and tickets
// and share the partial results; and the programs and graphs for which tuning tries them. What blocks compute:
// conformance, on a GPU.
#include <gtest/gtest.h>

#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/cuda/message/expression/column_parts.h"
#include "engine/cuda/message/expression/expression.h"
#include "tests/engine/kernels/edge_values.h"

namespace vicinal::cuda {
namespace {

using testing::ValueOf;

// Sums of two results, the wider one of `widest` columns.
TileShape ShapeOf(int32_t widest) {
  TileShape shape;
  shape.results = 2;
  shape.registers = 8;
  shape.widest = widest;
  shape.width = shape.total_floats = widest + 1;
  return shape;
}

ExpressionPlan PlanOf(const TileShape& shape, int64_t columns, int64_t rows = 1'000, int64_t edges = 20'000) {
  return PlanExpression(shape, rows, edges, {0, 0, columns}, GpuLimits());
}

TEST(ExpressionPlanTest, PartsCoverEveryColumnOnce) {
  for (const int32_t widest : {9, 16, 17, 48, 64, 65, 130, 511, 512, 513, 2'000, 65'536}) {
    for (const int64_t wanted : {1, 7, 8, 9, 16, 31, 48, 64, 500, 4'000, 65'535}) {
      SCOPED_TRACE(std::to_string(widest) + " columns, " + std::to_string(wanted));
      const ExpressionPlan plan = PlanOf(ShapeOf(widest), wanted);
      if (plan.part_columns == kWholeResults) {
        EXPECT_EQ(plan.parts, 1);
        EXPECT_GE(wanted + 7, widest);  // nothing is left to divide after rounding up
        continue;
      }
      EXPECT_EQ(plan.part_columns % 8, 0);
      EXPECT_GE(plan.part_columns, wanted);
      EXPECT_LE(plan.parts, 64);
      EXPECT_GE(plan.parts * plan.part_columns, widest);
      EXPECT_LT((plan.parts - 1) * plan.part_columns, widest);
    }
  }
}

TEST(ExpressionPlanTest, WithoutAWideResultThereIsOnePart) {
  EXPECT_EQ(PlanOf(ShapeOf(64), 0).parts, 1);
  EXPECT_EQ(PlanOf(ShapeOf(64), -5).parts, 1);
  EXPECT_EQ(PlanOf(ShapeOf(64), 64).parts, 1);
  EXPECT_EQ(PlanOf(ShapeOf(64), INT32_MAX).parts, 1);
  EXPECT_EQ(PlanOf(ShapeOf(8), 1).parts, 1);
  TileShape over_rows = ShapeOf(64);
  over_rows.over_edges = false;
  EXPECT_EQ(PlanOf(over_rows, 16).parts, 1);
  EXPECT_EQ(PlanOf(over_rows, 16).part_columns, kWholeResults);
}

TEST(ExpressionPlanTest, PartsHaveTheSameWorkAndTheirOwnTickets) {
  const TileShape shape = ShapeOf(130);
  const ExpressionPlan whole = PlanOf(shape, 0), parts = PlanOf(shape, 32);
  EXPECT_EQ(whole.items, whole.part_items);
  EXPECT_EQ(parts.parts, 5);
  EXPECT_EQ(parts.part_items, whole.part_items);
  EXPECT_EQ(parts.items, 5 * whole.items);
  // Columns of partial results are disjoint, tickets are not; those of the context are enough for both.
  EXPECT_EQ(parts.partial_floats, whole.partial_floats);
  EXPECT_EQ(parts.tickets, 0);
  EXPECT_EQ(parts.scratch_bytes(), whole.scratch_bytes());

  const int64_t edges = kContextTickets * kExpressionUnit;
  EXPECT_EQ(PlanOf(shape, 0, 1'000, edges).tickets, 0);
  const ExpressionPlan many = PlanOf(shape, 32, 1'000, edges);
  EXPECT_EQ(many.tickets, 5 * many.cells);
  EXPECT_EQ(many.scratch_bytes(), (many.partial_floats + many.tickets) * sizeof(float));
}

TEST(ExpressionPlanTest, LaunchesAreInTheRangeOfAGrid) {
  const ExpressionPlan plan = PlanExpression(ShapeOf(512), 1'000, int64_t{1} << 34, {0, 32, 8}, GpuLimits());
  EXPECT_EQ(plan.parts, 64);
  EXPECT_GT(plan.items, INT32_MAX);
  EXPECT_EQ(ExpressionGrid(plan), INT32_MAX);
}

// Registers that do not fit shared memory: as many blocks as memory allows take the items of all parts in order.
TEST(ExpressionPlanTest, PartsOfProgramsInGlobalMemory) {
  TileShape shape = ShapeOf(2'000);
  shape.registers = 8'000;
  const ExpressionPlan whole = PlanOf(shape, 0), parts = PlanOf(shape, 48);
  EXPECT_GT(whole.block_floats, 0);
  EXPECT_EQ(parts.block_floats, whole.block_floats);
  EXPECT_EQ(parts.parts, 42);
  EXPECT_EQ(ExpressionGrid(parts), parts.most_blocks);
}

TEST(ExpressionPlanTest, KernelsLearnTheirParts) {
  const LaunchTarget target;
  for (const int64_t columns : {0, 24}) {
    ExpressionParams params;
    params.shape = ShapeOf(64);
    const ExpressionPlan plan = PlanOf(params.shape, columns);
    ASSERT_EQ(PlaceExpression(plan, target, nullptr, &params), cudaSuccess);
    EXPECT_EQ(params.part_columns, columns == 0 ? 64 : 24);
    EXPECT_EQ(params.items, plan.items);
    EXPECT_EQ(params.part_items, plan.part_items);
    // What a block computes of its item: the last item has the last column, and no item a part beyond.
    const int64_t last = (params.items - 1) / params.part_items;
    EXPECT_LT(last * params.part_columns, params.shape.widest);
    EXPECT_GE((last + 1) * params.part_columns, params.shape.widest);
  }
}

FusedProgram Fused(const EdgeProgram& program, size_t parameters) {
  return FuseProgram(EncodeProgram(*CompileEdgeProgram(program, parameters), std::vector<const void*>(parameters)));
}

// relu(x_j + W e), e of three features.
EdgeProgram Gine(int64_t width) {
  EdgeProgram program;
  program.sources = 1;
  program.edge_width = 3;
  program.values = {ValueOf(EdgeOp::kSource, width, -1, -1, 0), ValueOf(EdgeOp::kFeatures, 3),
                    ValueOf(EdgeOp::kLinear, width, 1, -1, 0), ValueOf(EdgeOp::kAdd, width, 0, 2),
                    ValueOf(EdgeOp::kActivation, width, 3)};
  program.values[4].activation = {ActivationKind::kRelu};
  program.results = {{EdgeReduce::kSum, 4, -1}};
  return program;
}

// 39 million bytes of the cache are for sources.
TEST(ColumnsInCacheTest, WideSourcesBeyondTheCacheAreDivided) {
  const GpuLimits limits;
  EXPECT_EQ(ColumnsInCache(Fused(Gine(64), 1), 100'000, limits), 0);  // 26 MB fit
  EXPECT_EQ(ColumnsInCache(Fused(Gine(64), 1), 200'000, limits), 32);
  EXPECT_EQ(ColumnsInCache(Fused(Gine(64), 1), 10'000'000, limits), 32);  // the least there is
  EXPECT_EQ(ColumnsInCache(Fused(Gine(256), 1), 50'000, limits), 128);
  EXPECT_EQ(ColumnsInCache(Fused(Gine(256), 1), 100'000, limits), 64);
  EXPECT_EQ(ColumnsInCache(Fused(Gine(20'000), 1), 1'000, limits), 8'192);
  EXPECT_EQ(ColumnsInCache(Fused(Gine(32), 1), 10'000'000, limits), 0);
  GpuLimits small;
  small.l2_bytes = int64_t{4} << 20;
  EXPECT_EQ(ColumnsInCache(Fused(Gine(128), 1), 10'000, small), 64);
}

// Both are gathered column by column.
TEST(ColumnsInCacheTest, AllSourcesOfAMessageCount) {
  EdgeProgram program;
  program.sources = 2;
  program.values = {ValueOf(EdgeOp::kSource, 64, -1, -1, 0), ValueOf(EdgeOp::kSource, 64, -1, -1, 1),
                    ValueOf(EdgeOp::kMultiply, 64, 0, 1)};
  program.results = {{EdgeReduce::kMax, 2, -1}};
  EXPECT_EQ(ColumnsInCache(Fused(program, 0), 100'000, GpuLimits()), 32);
}

// Sources and features in registers, and products, are the work of every part.
TEST(ColumnsInCacheTest, WhatPartsWouldRepeatIsNotDivided) {
  EdgeProgram attention;
  attention.sources = attention.targets = 1;
  attention.values = {ValueOf(EdgeOp::kSource, 64, -1, -1, 0), ValueOf(EdgeOp::kTarget, 64, -1, -1, 0),
                      ValueOf(EdgeOp::kMultiply, 64, 0, 1), ValueOf(EdgeOp::kSum, 4, 2)};
  attention.results = {{EdgeReduce::kSoftmax, 0, 3}};
  EXPECT_EQ(ColumnsInCache(Fused(attention, 0), 10'000'000, GpuLimits()), 0);

  EdgeProgram product = Gine(64);
  product.values[1].width = product.edge_width = 19;
  EXPECT_EQ(ColumnsInCache(Fused(product, 1), 10'000'000, GpuLimits()), 0);

  EdgeProgram moments = Gine(64);
  moments.results.push_back({EdgeReduce::kStd, 4, -1});
  EXPECT_EQ(ColumnsInCache(Fused(moments, 1), 10'000'000, GpuLimits()), 0);

  EdgeProgram over_rows;
  over_rows.over_edges = false;
  over_rows.targets = 1;
  over_rows.values = {ValueOf(EdgeOp::kTarget, 64, -1, -1, 0)};
  over_rows.results = {{EdgeReduce::kSum, 0, -1}};
  EXPECT_EQ(ColumnsInCache(Fused(over_rows, 0), 10'000'000, GpuLimits()), 0);
}

// A weight for each edge, as scores of a column or two, costs each part little.
TEST(ColumnsInCacheTest, NarrowScoresDoNotPreventIt) {
  EdgeProgram attention;
  attention.sources = 2;
  attention.targets = 1;
  attention.values = {ValueOf(EdgeOp::kSource, 64, -1, -1, 0), ValueOf(EdgeOp::kSource, 4, -1, -1, 1),
                      ValueOf(EdgeOp::kTarget, 4, -1, -1, 0), ValueOf(EdgeOp::kAdd, 4, 1, 2)};
  attention.results = {{EdgeReduce::kSoftmax, 0, 3}};
  EXPECT_EQ(ColumnsInCache(Fused(attention, 0), 10'000'000, GpuLimits()), 32);
}

}  // namespace
}  // namespace vicinal::cuda
