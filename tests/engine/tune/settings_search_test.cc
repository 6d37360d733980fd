// SPDX-License-Identifier: Apache-2.0
// Searches over models whose best setting is known by looking at all of them.
#include "engine/tune/settings_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace vicinal {
namespace {

const SettingSpace kSpace = {{1, 2, 4, 8, 16, 32, 64, 128}, {1, 2, 4, 8, 16, 32}, {32, 64, 128, 256, 512, 1024}};

// Best at 16, 8, 256.
std::optional<double> Bowl(const KernelConfig& config) {
  double cost = 1.0;
  const double best[] = {4.0, 3.0, 8.0};
  for (int p = 0; p < 3; ++p) cost += std::abs(std::log2(config.values[p]) - best[p]);
  return cost;
}

bool IsIn(const SettingSpace& space, const KernelConfig& config) {
  for (size_t p = 0; p < space.size(); ++p) {
    if (std::find(space[p].begin(), space[p].end(), config.values[p]) == space[p].end()) return false;
  }
  return true;
}

TEST(SettingsSearchTest, FindsTheBestOfAllWithoutAskingForAll) {
  int found = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const SearchResult result = SearchSettings(kSpace, {}, Bowl, std::mt19937_64(seed), {12, 16, 6});
    ASSERT_FALSE(result.best.empty());
    EXPECT_LE(result.best[0].latency, 2.0) << seed;  // at most one step away
    EXPECT_EQ(result.rounds, 12);
    EXPECT_LE(result.modelled, 12 * 16);
    found += result.best[0].config == KernelConfig{{16, 8, 256}} ? 1 : 0;
  }
  EXPECT_GE(found, 40);
}

TEST(SettingsSearchTest, TheBestAreSortedDistinctAndOfTheSpace) {
  std::set<std::vector<int32_t>> asked;
  const SettingModel model = [&](const KernelConfig& config) {
    EXPECT_TRUE(asked.insert({config.values.begin(), config.values.end()}).second) << "asked twice";
    EXPECT_TRUE(IsIn(kSpace, config));
    return Bowl(config);
  };
  const SearchResult result = SearchSettings(kSpace, {}, model, std::mt19937_64(3), {10, 16, 6});
  EXPECT_EQ(result.modelled, static_cast<int64_t>(asked.size()));
  ASSERT_EQ(result.best.size(), 6);
  for (size_t i = 1; i < result.best.size(); ++i) {
    EXPECT_LE(result.best[i - 1].latency, result.best[i].latency);
    EXPECT_FALSE(result.best[i - 1].config == result.best[i].config);
  }
}

// Each seed has one of three right values, and random settings hit none: there are a million values of each parameter.
TEST(SettingsSearchTest, CrossoverCombinesSeeds) {
  std::vector<int32_t> values(1'000'000);
  std::iota(values.begin(), values.end(), 0);
  const SettingSpace space = {values, values, values};
  const SettingModel model = [](const KernelConfig& config) {
    double wrong = 0.0;
    for (int p = 0; p < 3; ++p) wrong += config.values[p] == 500'000 ? 0.0 : 1.0;
    return wrong;
  };
  const std::vector<KernelConfig> seeds = {{{500'000, 1, 2}}, {{3, 500'000, 4}}, {{5, 6, 500'000}}};
  const SearchResult result = SearchSettings(space, seeds, model, std::mt19937_64(1));
  EXPECT_EQ(result.best[0].config, (KernelConfig{{500'000, 500'000, 500'000}}));
}

TEST(SettingsSearchTest, WhatIsNotAllowedIsNeverAmongTheBest) {
  const SettingModel model = [](const KernelConfig& config) {
    return config.values[0] > 4 ? std::nullopt : Bowl(config);
  };
  const std::vector<KernelConfig> seeds = {{{128, 1, 32}}};
  const SearchResult result = SearchSettings(kSpace, seeds, model, std::mt19937_64(5));
  ASSERT_FALSE(result.best.empty());
  for (const RankedSetting& one : result.best) EXPECT_LE(one.config.values[0], 4);
  EXPECT_EQ(result.best[0].config, (KernelConfig{{4, 8, 256}}));
  const SettingModel nothing = [](const KernelConfig&) -> std::optional<double> { return std::nullopt; };
  EXPECT_TRUE(SearchSettings(kSpace, {}, nothing, std::mt19937_64(5)).best.empty());
}

TEST(SettingsSearchTest, EndsOnceAllOfTheSpaceWasSeen) {
  const SettingSpace small = {{1, 2}, {3}};
  const SearchResult result = SearchSettings(
      small, {}, [](const KernelConfig& config) { return 1.0 * config.values[0]; }, std::mt19937_64(2));
  EXPECT_EQ(result.modelled, 2);
  EXPECT_EQ(result.rounds, 1);
  ASSERT_EQ(result.best.size(), 2);
  EXPECT_EQ(result.best[0].config, (KernelConfig{{1, 3}}));
}

TEST(SettingsSearchTest, EqualRandomNumbersGiveEqualResults) {
  const SearchResult a = SearchSettings(kSpace, {}, Bowl, std::mt19937_64(9), {4, 8, 4});
  const SearchResult b = SearchSettings(kSpace, {}, Bowl, std::mt19937_64(9), {4, 8, 4});
  ASSERT_EQ(a.best.size(), b.best.size());
  for (size_t i = 0; i < a.best.size(); ++i) EXPECT_EQ(a.best[i].config, b.best[i].config);
}

}  // namespace
}  // namespace vicinal
