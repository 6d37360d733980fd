// SPDX-License-Identifier: Apache-2.0
// Configurations of kernels by name, as the GPU benchmark's command line has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/cuda/configurations.h"

namespace vicinal::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Choice ChoiceOf(const std::vector<std::string>& words) { return {{}, *ParseConfigurations(words)}; }

TEST(ConfigurationsTest, NamedValuesGoToTheirParameters) {
  const Choice choice = ChoiceOf({"row_cache:cf=2", "other:cf=7", "row_cache:uncached=1:cf=4", "row_cache"});
  const auto configs = choice.Forced("row_cache", {"cf", "uncached"});
  ASSERT_TRUE(configs.ok());
  EXPECT_THAT(*configs, ElementsAre(KernelConfig{{2, 0}}, KernelConfig{{4, 1}}, KernelConfig()));
  EXPECT_THAT(*choice.Forced("third", {"cf"}), IsEmpty());
}

TEST(ConfigurationsTest, BadWordsAndUnknownParametersAreRefused) {
  for (const char* word : {"row_cache:cf", "row_cache:cf=", "row_cache:cf=two", "row_cache:=2", "row_cache:"}) {
    EXPECT_THAT(std::string(ParseConfigurations({word}).status().message()), HasSubstr(word)) << word;
  }
  const auto configs = ChoiceOf({"row_cache:gs=2"}).Forced("row_cache", {"cf", "uncached"});
  EXPECT_THAT(std::string(configs.status().message()), HasSubstr("row_cache has no parameter 'gs'"));
}

TEST(ConfigurationsTest, KernelsAreWantedByNameOrByItsBeginning) {
  EXPECT_TRUE(Choice().Wants("anything"));
  const Choice some = {{"row_cache", "neighbor*"}, {}};
  EXPECT_TRUE(some.Wants("row_cache"));
  EXPECT_TRUE(some.Wants("neighbor_group_atomics"));
  EXPECT_FALSE(some.Wants("row_cache_2"));
}

}  // namespace
}  // namespace vicinal::bench
