// SPDX-License-Identifier: Apache-2.0
// The prior's directions, not its numbers: the measurement decides.
#include "engine/tune/prior.h"

#include <gtest/gtest.h>

namespace vicinal {
namespace {

TuningKey Sum(int64_t width, EdgeWeights weights = EdgeWeights::kNone) {
  TuningKey key;
  key.operation = "aggregate";
  key.kind = "sum";
  key.width = width;
  key.weights = weights;
  return key;
}

WorkShape Shape(int64_t nodes, int64_t edges) {
  WorkShape shape;
  shape.rows = shape.cols = nodes;
  shape.edges = edges;
  return shape;
}

double Predict(const TuningKey& key, const WorkShape& shape, const std::vector<NamedParameter>& parameters = {}) {
  return PredictSeconds(key, shape, "simd_rows", parameters);
}

TEST(PriorTest, MoreWorkTakesLonger) {
  const WorkShape shape = Shape(100'000, 1'000'000);
  EXPECT_GT(Predict(Sum(64), shape), 1.5 * Predict(Sum(16), shape));
  EXPECT_GT(Predict(Sum(64), Shape(100'000, 2'000'000)), 1.5 * Predict(Sum(64), shape));
  EXPECT_GT(Predict(Sum(64, EdgeWeights::kPerEdge), shape), Predict(Sum(64), shape));
  EXPECT_GT(PredictSeconds(Sum(64), shape, "reference", {}), 4 * Predict(Sum(64), shape));
}

TEST(PriorTest, ThreadsShareTheWork) {
  WorkShape shape = Shape(100'000, 1'000'000);
  const double alone = Predict(Sum(64), shape);
  shape.num_threads = 4;
  EXPECT_DOUBLE_EQ(Predict(Sum(64), shape), alone / 4);
}

TEST(PriorTest, NarrowRowsMoveFewerBytes) {
  TuningKey narrow = Sum(256);
  narrow.storage = Storage::kBfloat16;
  const WorkShape shape = Shape(1'000'000, 10'000'000);
  EXPECT_LT(Predict(narrow, shape), 0.8 * Predict(Sum(256), shape));
}

// Rows of 512 columns of 100,000 sources do not fit any cache, tiles of 64 of them do: what tiling is for. Where all
// fits anyhow, tiles only read the indices again.
TEST(PriorTest, TilesPayWhereTheyMakeRowsFit) {
  EXPECT_LT(Predict(Sum(512), Shape(100'000, 3'000'000), {{"tile_columns", 64}}),
            Predict(Sum(512), Shape(100'000, 3'000'000)));
  EXPECT_GT(Predict(Sum(512), Shape(400, 3'000'000), {{"tile_columns", 64}}), Predict(Sum(512), Shape(400, 3'000'000)));
}

// Each panel of rows copies all sources anew where a tile does not hold them: hopeless for many rows of few edges.
TEST(PriorTest, PartsOfTheSourcesAreCopiedForEachPanelOfRows) {
  const auto tiled = [](int64_t nodes, int64_t edges, int32_t source_rows) {
    return Predict(Sum(64), Shape(nodes, edges), {{"source_rows", source_rows}, {"tile_columns", 16}});
  };
  EXPECT_GT(tiled(300'000, 3'000'000, 12'288), 3.0 * Predict(Sum(64), Shape(300'000, 3'000'000)));
  EXPECT_GT(tiled(300'000, 3'000'000, 12'288), 3.0 * tiled(300'000, 3'000'000, 300'000));
  EXPECT_LT(tiled(20'000, 3'000'000, 12'288), 1.5 * Predict(Sum(64), Shape(20'000, 3'000'000)));
}

TEST(PriorTest, TheProfilesReuseCounts) {
  WorkShape shape = Shape(1'000'000, 10'000'000);
  const double at_random = Predict(Sum(128), shape);
  shape.reuse = [](int64_t) { return CacheShares{0.9, 0.95}; };
  EXPECT_LT(Predict(Sum(128), shape), 0.7 * at_random);
}

TEST(PriorTest, ParametersItDoesNotKnowChangeNothing) {
  const WorkShape shape = Shape(1000, 10'000);
  EXPECT_EQ(Predict(Sum(32), shape, {{"colour", 7}}), Predict(Sum(32), shape));
}

TEST(PriorTest, NothingToDoTakesNoTimeAndIsFinite) { EXPECT_EQ(Predict(Sum(16), Shape(0, 0)), 0.0); }

// GNNAdvisor's Eq. 2 orders neighbor_group's settings; none of them falls behind so far that it would not be run.
TEST(PriorTest, OrdersNeighborGroupsByThePublishedModel) {
  WorkShape shape = Shape(400'000, 5'000'000);
  shape.device = DeviceKind::kCuda;
  const auto group = [&](int32_t gs, int32_t dw, int32_t tpb) {
    return PredictSeconds(Sum(64), shape, "neighbor_group", {{"gs", gs}, {"dw", dw}, {"tpb", tpb}});
  };
  EXPECT_LT(group(32, 16, 256), group(32, 16, 128)) << "farther from the root of the most threads";
  EXPECT_LT(group(32, 8, 128), group(32, 16, 128)) << "farther from a third of the width";
  EXPECT_EQ(group(0, 0, 0), PredictSeconds(Sum(64), shape, "binned_rows", {}));
  for (const int32_t gs : {4, 1024}) EXPECT_LT(group(gs, 32, 32) / group(gs, 1, 1024), 3.0);
}

TEST(PriorTest, NoFamilyIsHopelessOnAGpu) {
  for (const int64_t edges : {10'000, 50'000'000}) {
    WorkShape shape = Shape(edges / 10, edges);
    shape.device = DeviceKind::kCuda;
    const auto predicted = [&](const char* kernel) { return PredictSeconds(Sum(64), shape, kernel, {}); };
    for (const char* kernel : {"binned_rows", "row_cache", "neighbor_group", "cusparse"}) {
      EXPECT_LT(predicted("partition_dual"), predicted(kernel));
      EXPECT_LT(predicted(kernel), 3.0 * predicted("partition_dual"));
    }
    EXPECT_EQ(predicted("row_cache") < predicted("binned_rows"), edges == 10'000);
  }
}

// A GPU's runs are short: none of them is cut to a sample of the rows.
TEST(PriorTest, AGpuTakesMilliseconds) {
  WorkShape shape = Shape(400'000, 5'000'000);
  const double cpu = PredictSeconds(Sum(64), shape, "", {});
  shape.device = DeviceKind::kCuda;
  EXPECT_LT(PredictSeconds(Sum(64), shape, "", {}), 1e-3);
  EXPECT_GT(PredictSeconds(Sum(64), shape, "", {}), 1e-4);
  EXPECT_LT(PredictSeconds(Sum(64), shape, "", {}), cpu / 20);
}

}  // namespace
}  // namespace vicinal
