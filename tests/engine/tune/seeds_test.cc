// SPDX-License-Identifier: Apache-2.0
// Which graphs are similar, and what they take from each other.
#include "engine/tune/seeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/tune/record_testing.h"

namespace vicinal {
namespace {

using testing::ChoiceOf;
using testing::SumOf;

GraphProfile Profile() {
  GraphProfile profile;
  profile.num_nodes = 10'000;
  profile.num_edges = 80'000;
  profile.mean_degree = 8.0;
  profile.degree_deviation = 8.0;
  profile.after.inside_window = 0.6;
  for (ReuseEstimate& reuse : profile.after.reuse) reuse = {0.5, 0.8};
  profile.after.tile_density = {0.4, 0.3, 0.2, 0.1, 0.0, 0.0};
  return profile;
}

TEST(ProfileDistanceTest, EachPropertyCountsAndIsSymmetric) {
  const GraphProfile profile = Profile();
  EXPECT_EQ(ProfileDistance(profile, profile), 0.0);
  using Change = std::function<void(GraphProfile&, double)>;
  // By `far` from 0 to 1: the largest difference that is still similar, at 1.
  const std::vector<std::pair<const char*, Change>> changes = {
      {"nodes, at equal degrees",
       [](GraphProfile& p, double far) {
         p.num_nodes = static_cast<int64_t>(10'000 * std::exp2(2 * far));
         p.num_edges = p.num_nodes * 8;
       }},
      {"degree", [](GraphProfile& p, double far) { p.num_edges = static_cast<int64_t>(80'000 * std::exp2(far)); }},
      {"spread", [](GraphProfile& p, double far) { p.degree_deviation = 8.0 * (2 * std::exp2(far) - 1); }},
      {"window", [](GraphProfile& p, double far) { p.after.inside_window += 0.15 * far; }},
      {"l2", [](GraphProfile& p, double far) { p.after.reuse[2].l2 += 0.15 * far; }},
      {"llc", [](GraphProfile& p, double far) { p.after.reuse[5].llc -= 0.15 * far; }},
      {"tiles", [](GraphProfile& p, double far) { p.after.tile_density[3] += 0.15 * far; }},
  };
  for (const auto& [name, change] : changes) {
    GraphProfile near = profile, far = profile;
    change(near, 0.9);
    change(far, 1.1);
    EXPECT_NEAR(ProfileDistance(profile, near), 0.9, 1e-3) << name;
    EXPECT_NEAR(ProfileDistance(profile, far), 1.1, 1e-3) << name;
    EXPECT_DOUBLE_EQ(ProfileDistance(far, profile), ProfileDistance(profile, far)) << name;
  }
  GraphProfile empty;
  EXPECT_GT(ProfileDistance(profile, empty), kSimilar) << "and no number is none";
}

TEST(SeedLibraryTest, EachKeyComesFromTheMostSimilarGraphThatHasIt) {
  SeedLibrary library;
  GraphProfile close = Profile(), closer = Profile(), other = Profile();
  close.after.inside_window += 0.1;
  closer.after.inside_window += 0.05;
  other.after.inside_window = 0.0;
  library.Learn("close", close, {ChoiceOf(8, "twin", 1), ChoiceOf(16, "twin", 2)});
  library.Learn("closer", closer, {ChoiceOf(8, "other", 3)});
  library.Learn("other", other, {ChoiceOf(32, "twin", 4)});
  const std::vector<TuningEntry> seeds = library.For(Profile());
  ASSERT_EQ(seeds.size(), 2u);
  EXPECT_EQ(seeds[0].work.key, SumOf(8).key);
  EXPECT_EQ(seeds[0].record.choice()->setting.kernel, "other");
  EXPECT_EQ(seeds[0].record.choice()->setting.config.values[0], 3);
  EXPECT_EQ(seeds[0].record.state, TuningState::kSeeded);
  EXPECT_EQ(seeds[0].record.choice()->measured_seconds, 0.0) << "measured on another graph";
  EXPECT_EQ(seeds[0].record.used_seconds, 0.0);
  EXPECT_THAT(seeds[0].record.note, ::testing::HasSubstr("graph 'closer'"));
  EXPECT_EQ(seeds[1].work.key, SumOf(16).key);
}

TEST(SeedLibraryTest, OnlyWhatWasMeasuredIsLearnt) {
  SeedLibrary library;
  library.Learn("g", Profile(), {ChoiceOf(8, "twin", 1, TuningState::kForced)});
  library.Learn("g", Profile(), {{SumOf(8), TuningTable::ResetRecord(SumOf(8).key)}});
  library.Learn("g", Profile(), {ChoiceOf(8, "twin", 1, TuningState::kSeeded)});
  EXPECT_TRUE(library.For(Profile()).empty()) << "seeds do not spread";
}

TEST(SeedLibraryTest, TheLatestOfEachNameAndOfAllNamesAreKept) {
  SeedLibrary library;
  library.Learn("g", Profile(), {ChoiceOf(8, "twin", 1)});
  library.Learn("g", Profile(), {ChoiceOf(16, "twin", 1)});
  ASSERT_EQ(library.For(Profile()).size(), 1u);
  EXPECT_EQ(library.For(Profile())[0].work.key.width, 16);
  GraphProfile other = Profile();
  other.num_nodes *= 100;
  for (size_t i = 0; i < SeedLibrary::kMaxLearnt; ++i) {
    library.Learn("other" + std::to_string(i), other, {ChoiceOf(8, "twin", 1)});
  }
  EXPECT_TRUE(library.For(Profile()).empty());
}

TEST(SeededTableTest, ASeedServesUntilItsKeyIsMeasured) {
  TuningTable table;
  table.Note(SumOf(64));
  table.Seed({ChoiceOf(8, "twin", 5, TuningState::kSeeded), ChoiceOf(64, "twin", 5, TuningState::kSeeded)});
  EXPECT_FALSE(table.Find(SumOf(64).key).has_value()) << "known before";
  ASSERT_TRUE(table.Find(SumOf(8).key).has_value());
  EXPECT_EQ(table.Find(SumOf(8).key)->kernel, "twin");
  EXPECT_EQ(table.Records().size(), 1u) << "nobody asked for it yet";
  EXPECT_EQ(table.Decided().size(), 1u) << "but it must come back";
  table.Note(SumOf(8))->fetch_add(5);
  EXPECT_EQ(table.Record(SumOf(8).key)->state, TuningState::kSeeded);
  EXPECT_EQ(table.MostWanted()->key, SumOf(8).key);
  ASSERT_TRUE(table.Begin(SumOf(8).key));
  EXPECT_EQ(table.Find(SumOf(8).key)->kernel, "twin");
  EXPECT_EQ(table.Decided()[0].record.state, TuningState::kSeeded);
  table.Abandon(SumOf(8).key, "stopped");
  EXPECT_EQ(table.Record(SumOf(8).key)->state, TuningState::kSeeded);
  table.Queue(SumOf(8).key);
  ASSERT_TRUE(table.Begin(SumOf(8).key));
  EXPECT_TRUE(table.Apply({{ChoiceOf(8, "other")}, true}));
  EXPECT_EQ(table.Find(SumOf(8).key)->kernel, "other");
  EXPECT_EQ(table.Decided().size(), 1u);
}

TEST(SeededTableTest, SeedsComeBackAsSeedsAndCanBeReset) {
  TuningTable table;
  table.Restore(ChoiceOf(8, "twin", 5, TuningState::kSeeded));
  EXPECT_TRUE(table.Records().empty());
  EXPECT_EQ(table.Find(SumOf(8).key)->kernel, "twin");
  table.Apply({{{SumOf(8), TuningTable::ResetRecord(SumOf(8).key)}}});
  EXPECT_FALSE(table.Find(SumOf(8).key).has_value());
}

}  // namespace
}  // namespace vicinal
