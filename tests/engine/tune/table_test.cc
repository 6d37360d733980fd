// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace vicinal {
namespace {

TuningWork Work(int64_t width, std::string kind = "sum") {
  TuningWork work;
  work.key.operation = "aggregate";
  work.key.kind = std::move(kind);
  work.key.width = width;
  return work;
}

TuningRecord Tuned(const TuningKey& key, const std::string& kernel, int32_t parameter = 0) {
  TuningRecord record;
  record.key = key;
  record.state = TuningState::kTuned;
  TuningCandidate usual, candidate;
  usual.setting.kernel = "default";
  candidate.setting.kernel = kernel;
  candidate.setting.config.values[0] = parameter;
  record.candidates = {usual, candidate};
  record.chosen = 1;
  record.used_seconds = 0.5;
  return record;
}

TuningChange Measured(const TuningWork& work, const std::string& kernel) {
  return {{{work, Tuned(work.key, kernel)}}, /*if_running=*/true};
}

TuningRecord Forced(const TuningKey& key) {
  TuningRecord record = Tuned(key, "forced");
  record.state = TuningState::kForced;
  return record;
}

TEST(TuningTableTest, KnowsNothingAtFirst) {
  const TuningTable table;
  EXPECT_FALSE(table.Find(Work(16).key).has_value());
  EXPECT_FALSE(table.Record(Work(16).key).has_value());
  EXPECT_FALSE(table.MostWanted().has_value());
  EXPECT_TRUE(table.Records().empty());
  EXPECT_EQ(table.revision(), 0);
}

TEST(TuningTableTest, NotingAKeyTwiceCountsItsUsesTogether) {
  TuningTable table;
  TuningTable::Uses* const first = table.Note(Work(16));
  EXPECT_EQ(table.Note(Work(16)), first);
  EXPECT_NE(table.Note(Work(32)), first);
  first->fetch_add(3);
  EXPECT_EQ(table.Record(Work(16).key)->uses, 3);
  EXPECT_EQ(table.Records().size(), 2);
  EXPECT_EQ(table.revision(), 0) << "a noted key changes no plan";
}

TEST(TuningTableTest, TheMostUsedIsWantedFirstAndNoneTwice) {
  TuningTable table;
  table.Note(Work(16))->fetch_add(1);
  table.Note(Work(32))->fetch_add(5);
  ASSERT_TRUE(table.MostWanted().has_value());
  EXPECT_EQ(table.MostWanted()->key.width, 32);
  table.Put(Tuned(Work(32).key, "a"));
  EXPECT_EQ(table.MostWanted()->key.width, 16);
  table.Reset(Work(16).key);
  EXPECT_FALSE(table.MostWanted().has_value()) << "what was reset stays at the default";
}

TEST(TuningTableTest, AnExpressionIsWantedOnceItsProgramIsKnown) {
  TuningWork work = Work(16);
  work.key.operation = "expression";
  work.key.program = "0123456789abcdef";
  TuningTable table;
  TuningEntry unusable{work, TuningTable::ResetRecord(work.key)};
  unusable.record.note = "its kernel is gone";
  table.Restore(unusable);
  EXPECT_FALSE(table.MostWanted().has_value());
  work.program = std::make_shared<const EdgeProgram>();
  TuningTable::Uses* const uses = table.Note(work);
  ASSERT_TRUE(table.MostWanted().has_value());
  EXPECT_EQ(table.MostWanted()->program, work.program);
  TuningWork again = work;
  again.program = std::make_shared<const EdgeProgram>();
  EXPECT_EQ(table.Note(again), uses);
  EXPECT_EQ(table.MostWanted()->program, work.program) << "the first plan's";
}

TEST(TuningTableTest, ADefaultThatWasMeasuredIsNoChange) {
  TuningTable table;
  TuningRecord record = Tuned(Work(16).key, "a");
  record.chosen = 0;
  table.Note(Work(16));
  EXPECT_FALSE(table.Put(record)) << "plans were built with it already";
  EXPECT_EQ(table.revision(), 0);
  EXPECT_TRUE(table.Put(Forced(Work(16).key)));
  EXPECT_TRUE(table.Put(record));
}

TEST(TuningTableTest, TheRevisionFollowsTheChoice) {
  TuningTable table;
  const TuningKey key = Work(16).key;
  table.Note(Work(16));
  EXPECT_TRUE(table.Put(Tuned(key, "a")));
  EXPECT_EQ(table.revision(), 1);
  EXPECT_EQ(table.Find(key)->kernel, "a");
  EXPECT_FALSE(table.Put(Tuned(key, "a"))) << "the same choice again";
  EXPECT_EQ(table.revision(), 1);
  EXPECT_TRUE(table.Put(Tuned(key, "a", 7))) << "another configuration";
  EXPECT_TRUE(table.Reset(key));
  EXPECT_FALSE(table.Find(key).has_value());
  EXPECT_EQ(table.revision(), 3);
  EXPECT_DOUBLE_EQ(table.used_seconds(), 1.5);
}

TEST(TuningTableTest, ARunThatWasOvertakenIsNotWritten) {
  TuningTable table;
  const TuningKey key = Work(16).key;
  table.Note(Work(16));
  ASSERT_TRUE(table.Begin(key));
  EXPECT_TRUE(table.Put(Forced(key)));
  EXPECT_FALSE(table.Apply(Measured(Work(16), "measured")));
  EXPECT_EQ(table.Find(key)->kernel, "forced");
  EXPECT_EQ(table.Record(key)->state, TuningState::kForced);
  table.Queue(key);
  ASSERT_TRUE(table.Begin(key)) << "asked for again";
  EXPECT_TRUE(table.Apply(Measured(Work(16), "measured")));
  EXPECT_EQ(table.Find(key)->kernel, "measured");
}

TEST(TuningTableTest, WhatIsForcedOrResetWhileItWaitsIsNotMeasured) {
  TuningTable table;
  const TuningKey key = Work(16).key;
  table.Note(Work(16));
  table.Queue(key);
  EXPECT_EQ(table.Record(key)->state, TuningState::kQueued);
  table.Put(Forced(key));
  EXPECT_FALSE(table.Begin(key));
  EXPECT_EQ(table.Record(key)->state, TuningState::kForced);
  EXPECT_EQ(table.Find(key)->kernel, "forced");
  table.Queue(key);
  EXPECT_EQ(table.Find(key)->kernel, "forced") << "serves until another is found";
  table.Reset(key);
  EXPECT_FALSE(table.Begin(key));
  EXPECT_EQ(table.Record(key)->state, TuningState::kDefault);
}

TEST(TuningTableTest, WhatIsAskedForAgainWhileItIsMeasuredIsWrittenAndMeasuredAgain) {
  TuningTable table;
  const TuningKey key = Work(16).key;
  table.Note(Work(16));
  ASSERT_TRUE(table.Begin(key)) << "in the background, which does not queue";
  table.Queue(key);
  EXPECT_EQ(table.Record(key)->state, TuningState::kRunning);
  EXPECT_TRUE(table.Apply(Measured(Work(16), "first")));
  ASSERT_TRUE(table.Begin(key));
  EXPECT_TRUE(table.Apply(Measured(Work(16), "second")));
  EXPECT_EQ(table.Find(key)->kernel, "second");
}

TEST(TuningTableTest, KeysThatDifferInAnythingAreApart) {
  TuningTable table;
  TuningWork work = Work(16);
  table.Note(work);
  work.key.weights = EdgeWeights::kPerEdge;
  table.Note(work);
  work.key.storage = Storage::kBfloat16;
  table.Note(work);
  table.Note(Work(16, "max"));
  EXPECT_EQ(table.Records().size(), 4);
  EXPECT_EQ(Describe(work.key), "aggregate sum, width 16, weights per_edge, bfloat16");
}

TEST(TuningTableTest, WhatIsDecidedHidesMeasurementsThatAreUnderWay) {
  TuningTable table;
  table.Note(Work(8));  // never decided
  table.Apply({{{Work(16), Tuned(Work(16).key, "a")}, {Work(32), Forced(Work(32).key)}}});
  table.Apply({{{Work(64), TuningTable::ResetRecord(Work(64).key)}}});
  table.Queue(Work(32).key);
  table.Queue(Work(16).key);
  ASSERT_TRUE(table.Begin(Work(16).key));
  TuningRecord failed = Tuned(Work(128).key, "b");
  failed.state = TuningState::kFailed;
  table.Apply({{{Work(128), failed}}});
  const std::vector<TuningEntry> decided = table.Decided();
  ASSERT_EQ(decided.size(), 3u);
  EXPECT_EQ(decided[0].record.state, TuningState::kTuned);
  EXPECT_EQ(decided[1].record.state, TuningState::kForced);
  EXPECT_EQ(decided[2].record.state, TuningState::kDefault);

  TuningTable later;
  for (const TuningEntry& entry : decided) later.Restore(entry);
  EXPECT_EQ(later.Find(Work(16).key)->kernel, "a");
  EXPECT_EQ(later.Find(Work(32).key)->kernel, "forced");
  EXPECT_FALSE(later.Find(Work(64).key).has_value());
  EXPECT_FALSE(later.MostWanted().has_value()) << "nothing is measured again";
  EXPECT_EQ(later.used_seconds(), 1.0) << "the graph's budget is not renewed";
}

TEST(TuningTableTest, AnEarlierChoiceThatCannotBeUsedIsMeasuredAgain) {
  TuningTable table;
  TuningEntry entry{Work(16), TuningTable::ResetRecord(Work(16).key)};
  entry.record.note = "its kernel is gone";
  table.Restore(entry);
  ASSERT_TRUE(table.MostWanted().has_value());
  EXPECT_TRUE(table.Decided().empty());
  EXPECT_EQ(table.Record(Work(16).key)->note, "its kernel is gone");
  EXPECT_TRUE(table.Begin(Work(16).key));
}

TEST(TuningTableTest, ADefaultThatStayedWhileAKernelWasLeftOutIsNoDecision) {
  const TuningKey key = Work(16).key;
  TuningRecord record = Tuned(key, "a");
  record.incomplete = true;
  TuningTable table;
  table.Apply({{{Work(16), record}}});
  EXPECT_EQ(table.Decided().size(), 1u) << "the choice serves, and its bits must stay";
  record.chosen = 0;
  table.Apply({{{Work(16), record}}});
  EXPECT_TRUE(table.Decided().empty());
  EXPECT_EQ(table.Record(key)->state, TuningState::kTuned);
  EXPECT_FALSE(table.MostWanted().has_value()) << "not again and again while memory is short";
  table.Queue(key);
  EXPECT_TRUE(table.Decided().empty()) << "as before it was asked for again";
  ASSERT_TRUE(table.Begin(key));
  table.Abandon(key, "gone");
  EXPECT_TRUE(table.Decided().empty());
  record.incomplete = false;
  table.Apply({{{Work(16), record}}});
  EXPECT_EQ(table.Decided().size(), 1u);
}

TEST(TuningTableTest, AMeasurementWithoutResultLeavesTheFormerChoice) {
  TuningTable table;
  table.Note(Work(8));
  ASSERT_TRUE(table.Begin(Work(8).key));
  table.Abandon(Work(8).key, "gone");
  EXPECT_EQ(table.Record(Work(8).key)->state, TuningState::kFailed);
  EXPECT_EQ(table.Record(Work(8).key)->note, "gone");
  EXPECT_FALSE(table.MostWanted().has_value());
  EXPECT_TRUE(table.Decided().empty());

  table.Apply({{{Work(16), Tuned(Work(16).key, "a")}}});
  table.Queue(Work(16).key);
  ASSERT_TRUE(table.Begin(Work(16).key));
  table.Abandon(Work(16).key, "gone");
  EXPECT_EQ(table.Record(Work(16).key)->state, TuningState::kTuned);
  EXPECT_EQ(table.Find(Work(16).key)->kernel, "a");
  table.Abandon(Work(16).key, "again");
  EXPECT_EQ(table.Record(Work(16).key)->note, "gone") << "it was not being measured";
}

}  // namespace
}  // namespace vicinal
