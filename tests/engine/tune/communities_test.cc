// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/communities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace vicinal {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

TEST(CommunitiesTest, EdgesStayInsideAndAreAsDenseAsWanted) {
  for (const double density : kCommunityDensities) {
    constexpr int64_t kSize = 48, kCount = 10;
    const Csr csr = MakeCommunities(kSize, kCount, density, false, std::mt19937_64(11));
    ASSERT_EQ(csr.num_rows, kSize * kCount);
    ASSERT_EQ(csr.num_cols, kSize * kCount);
    ASSERT_EQ(csr.row_ptr.size(), csr.num_rows + 1);
    EXPECT_EQ(csr.row_ptr.back(), csr.nnz());
    for (int64_t row = 0; row < csr.num_rows; ++row) {
      for (int64_t e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
        EXPECT_EQ(csr.col[e] / kSize, row / kSize);
        if (e > csr.row_ptr[row]) {
          EXPECT_LT(csr.col[e - 1], csr.col[e]);
        }
      }
    }
    // 23,040 draws: the standard deviation of the share is at most 0.0033.
    EXPECT_THAT(static_cast<double>(csr.nnz()) / (kSize * kSize * kCount), DoubleNear(density, 0.0165));
  }
}

TEST(CommunitiesTest, ValuesOnlyWhereTheyAreWanted) {
  EXPECT_TRUE(MakeCommunities(8, 2, 0.5, false, std::mt19937_64(1)).value.empty());
  const Csr weighted = MakeCommunities(8, 2, 0.5, true, std::mt19937_64(1));
  EXPECT_EQ(weighted.value, std::vector<float>(weighted.col.size(), 1.0f));
}

CommunityRun RunOf(const char* kernel, int32_t value, double lane_floats, double floats_per_second) {
  return {{kernel, {{value}}}, lane_floats, floats_per_second};
}

TEST(CommunitiesTest, TheFastestTwoOfEachDensityAreSeeds) {
  const CommunityFindings findings = FindingsOf({
      {RunOf("a", 1, 0, 5e9), RunOf("a", 2, 0, 9e9), RunOf("a", 3, 0, 8e9), RunOf("b", 1, 0, 1e9)},
      {RunOf("a", 2, 0, 2e9), RunOf("a", 4, 0, 3e9), RunOf("a", 5, 0, 0)},  // the last was not measured
  });
  EXPECT_THAT(findings.seeds.at("a"), ElementsAre(KernelConfig{{2}}, KernelConfig{{3}}, KernelConfig{{4}}));
  EXPECT_THAT(findings.seeds.at("b"), ElementsAre(KernelConfig{{1}}));
  EXPECT_TRUE(findings.lane_floats.empty());
}

TEST(CommunitiesTest, ALaneMayHaveAsMuchAsTheLargestSettingThatKeepsUp) {
  const CommunityFindings findings = FindingsOf({
      // 512 floats reach 0.85 of the best, 1024 only 0.7.
      {RunOf("a", 1, 128, 10e9), RunOf("a", 2, 512, 8.5e9), RunOf("a", 3, 1024, 7e9)},
      // At another density, 256 are the most that keep up.
      {RunOf("a", 1, 256, 4e9), RunOf("a", 2, 2048, 3.1e9)},
      {RunOf("b", 1, 64, 1.0), RunOf("b", 2, 4096, 0.0)},
  });
  EXPECT_EQ(findings.lane_floats.at("a"), 512.0);
  EXPECT_EQ(findings.lane_floats.at("b"), 64.0);
}

}  // namespace
}  // namespace vicinal
