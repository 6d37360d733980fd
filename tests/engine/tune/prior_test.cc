// SPDX-License-Identifier: Apache-2.0
// The predictions' directions, not their numbers: the measurement decides. The GPU's kernels: tests/engine/cuda.
#include "engine/tune/prior.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/tune/work.h"

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

KernelConfig ConfigOf(const AggregateKernel& kernel, const std::vector<NamedParameter>& parameters) {
  const std::vector<std::string_view> names = kernel.ParameterNames();
  KernelConfig config;
  for (const NamedParameter& parameter : parameters) {
    const auto found = std::find(names.begin(), names.end(), parameter.name);
    EXPECT_NE(found, names.end()) << parameter.name;
    config.values[found - names.begin()] = parameter.value;
  }
  return config;
}

double Predict(const TuningKey& key, const WorkShape& shape, const std::vector<NamedParameter>& parameters = {},
               std::string_view kernel = "simd_rows") {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  const AggregateProblem problem = AggregateProblemOf(key, shape.rows, shape.cols, shape.edges);
  const auto choice = registry.aggregate.Choose(problem, DeviceKind::kCpu, kernel);
  EXPECT_TRUE(choice.ok()) << choice.status();
  const AggregateKernel& chosen = choice->kernel->kernel();
  return chosen.PredictSeconds(problem, ConfigOf(chosen, parameters), shape).value_or(-1.0);
}

TEST(PriorTest, MoreWorkTakesLonger) {
  const WorkShape shape = Shape(100'000, 1'000'000);
  EXPECT_GT(Predict(Sum(64), shape), 1.5 * Predict(Sum(16), shape));
  EXPECT_GT(Predict(Sum(64), Shape(100'000, 2'000'000)), 1.5 * Predict(Sum(64), shape));
  EXPECT_GT(Predict(Sum(64, EdgeWeights::kPerEdge), shape), Predict(Sum(64), shape));
  EXPECT_GT(Predict(Sum(64), shape, {}, "reference"), 4 * Predict(Sum(64), shape));
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

// Each panel of rows copies all sources anew where a tile does not hold them: far too slow for many rows of few edges.
TEST(PriorTest, PartsOfTheSourcesAreCopiedForEachPanelOfRows) {
  const auto tiled = [](int64_t nodes, int64_t edges, int32_t source_rows) {
    return Predict(Sum(64), Shape(nodes, edges), {{"source_rows", source_rows}, {"tile_columns", 16}}, "tiled_rows");
  };
  EXPECT_GT(tiled(300'000, 3'000'000, 12'288), 3.0 * Predict(Sum(64), Shape(300'000, 3'000'000)));
  EXPECT_GT(tiled(300'000, 3'000'000, 12'288), 3.0 * tiled(300'000, 3'000'000, 300'000));
  EXPECT_LT(tiled(20'000, 3'000'000, 12'288), 1.5 * Predict(Sum(64), Shape(20'000, 3'000'000)));
}

// Threads that share a part copy it once for all of them.
TEST(PriorTest, SharedPartsAreCopiedLessOften) {
  WorkShape shape = Shape(300'000, 3'000'000);
  shape.num_threads = 8;
  const auto tiled = [&shape](int32_t shared) {
    return Predict(Sum(64), shape, {{"source_rows", 12'288}, {"tile_columns", 16}, {"shared", shared}}, "tiled_rows");
  };
  EXPECT_LT(tiled(1), 0.5 * tiled(0));
}

TEST(PriorTest, TheProfilesReuseCounts) {
  WorkShape shape = Shape(1'000'000, 10'000'000);
  const double at_random = Predict(Sum(128), shape);
  shape.reuse = [](int64_t) { return CacheShares{0.9, 0.95}; };
  EXPECT_LT(Predict(Sum(128), shape), 0.7 * at_random);
}

TEST(PriorTest, NothingToDoTakesNoTimeAndIsFinite) { EXPECT_EQ(Predict(Sum(16), Shape(0, 0)), 0.0); }

TEST(PriorTest, TheDefaultIsThatOfTheFirstKernelThatTakesTheWork) {
  KernelRegistry registry;
  EXPECT_EQ(PredictDefaultSeconds(registry, DeviceKind::kCpu, Sum(64), Shape(1000, 10'000)), std::nullopt);
  RegisterCpuKernels(registry);
  EXPECT_EQ(PredictDefaultSeconds(registry, DeviceKind::kCpu, Sum(64), Shape(1000, 10'000)),
            Predict(Sum(64), Shape(1000, 10'000)));
  EXPECT_EQ(PredictDefaultSeconds(registry, DeviceKind::kCuda, Sum(64), Shape(1000, 10'000)), std::nullopt);
}

}  // namespace
}  // namespace vicinal
