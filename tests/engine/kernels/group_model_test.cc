// SPDX-License-Identifier: Apache-2.0
// Equations 2 to 4 of the paper, evaluated by hand with fractions.
#include "engine/kernels/group_model.h"

#include <gtest/gtest.h>

namespace vicinal {
namespace {

// 1,000 nodes, 8,000 edges, 96 columns; blocks of up to 1,024 threads and 48 KiB.
GroupModel Model() { return {1000.0, 8000.0, 96.0, 0.0, 1024.0, 49152.0, 0.0}; }

TEST(GroupModelTest, AlphaFollowsTheDeviationOfTheDegrees) {
  GroupModel model = Model();
  EXPECT_DOUBLE_EQ(model.Alpha(), 0.15);
  model.degree_deviation = 8.0;  // as much as the mean
  EXPECT_DOUBLE_EQ(model.Alpha(), 0.225);
  model.degree_deviation = 24.0;
  EXPECT_DOUBLE_EQ(model.Alpha(), 0.2625);
  model.degree_deviation = 1e9;
  EXPECT_GT(model.Alpha(), 0.2999);
  EXPECT_LE(model.Alpha(), 0.3);
  model.edges = 0.0;
  model.degree_deviation = 0.0;
  EXPECT_DOUBLE_EQ(model.Alpha(), 0.15);
}

TEST(GroupModelTest, LatencyIsEquationTwo) {
  GroupModel model = Model();
  model.degree_deviation = 8.0;
  // D/3 = 32, the root of 1,024 is 32, alpha N/E = 0.225 / 8 = 9/320.
  // gs 16, dw 16, tpb 128: 768,000 / (16 * 16 * 96) * (1 + 16 - 9/320) = 31.25 * 16.971875.
  EXPECT_DOUBLE_EQ(model.Latency({16, 16, 128}), 530.37109375);
  // gs 32, dw 8, tpb 544: 768,000 / (32 * 24 * 512) * (33 - 9/320) = 1.953125 * 32.971875.
  EXPECT_DOUBLE_EQ(model.Latency({32, 8, 544}), 64.398193359375);
  // On the poles distances count as 1: 768,000 / (8 * 1 * 1) * (9 - 9/320) = 96,000 * 8.971875.
  EXPECT_DOUBLE_EQ(model.Latency({8, 32, 32}), 861300.0);
  // Where E < N, alpha N/E may exceed gs: N 4,000, E 100, alpha 0.15: 6; gs 4 is 2 below.
  const GroupModel sparse = {4000.0, 100.0, 96.0, 0.0, 1024.0, 49152.0, 0.0};
  // 9,600 / (4 * 16 * 96) * 3.
  EXPECT_DOUBLE_EQ(sparse.Latency({4, 16, 128}), 4.6875);
}

TEST(GroupModelTest, TheMostThreadsAreTheDevices) {
  GroupModel model = Model();
  model.max_threads = 4096.0;  // root 64: |128 - 64| = 64 in place of 96
  // 768,000 / (16 * 16 * 64) * (17 - 3/160).
  EXPECT_DOUBLE_EQ(model.Latency({16, 16, 128}), 46.875 * 16.98125);
}

TEST(GroupModelTest, AThreadBearsSoManyFloats) {
  GroupModel model = Model();
  model.lane_floats = 192.0;
  EXPECT_TRUE(model.Fits({32, 16, 32}));   // 32 * 96 / 16 = 192
  EXPECT_FALSE(model.Fits({33, 16, 32}));  // 198
  EXPECT_FALSE(model.Fits({32, 15, 32}));
  model.lane_floats = 0.0;
  EXPECT_TRUE(model.Fits({1024, 1024, 32}));
}

TEST(GroupModelTest, ABlockBearsSoMuchMemory) {
  // tpb gs / (degree dw) D 4 bytes: 128 * 16 / (8 * 2) * 384 = 49,152.
  GroupModel model = Model();
  EXPECT_TRUE(model.Fits({16, 2, 128}));
  EXPECT_FALSE(model.Fits({16, 2, 160}));
  EXPECT_FALSE(model.Fits({32, 2, 128}));
  EXPECT_TRUE(model.Fits({32, 4, 128}));
  model.block_bytes = 232448.0;
  EXPECT_TRUE(model.Fits({64, 2, 128}));  // 196,608
  EXPECT_FALSE(model.Fits({128, 2, 128}));
}

}  // namespace
}  // namespace vicinal
