// SPDX-License-Identifier: Apache-2.0
// Tuning decisions beside a graph version: what survives power failures, full disks, damage, and other builds.
#include "engine/durable/tuning_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/durable/graph_codec.h"
#include "tests/engine/durable/durable_testing.h"
#include "tests/engine/durable/lines.h"
#include "tests/engine/tune/record_testing.h"

namespace vicinal::durable {
namespace {

using testing::ChoiceOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Lines;
using ::testing::Not;
using testing::OrderedKernels;
using ::testing::SizeIs;
using testing::SumOf;

const state::VersionId kId = {state::Store::kGraphs, "g", 7, "", 0};
const std::string kDocument = "graphs/g/7/documents/" + TuningDocumentName("processor") + ".json";

// Kernel and parameter of each width that has a choice; "reset" for those that were reset.
using Choices = std::map<int64_t, std::string>;
Choices ChoicesOf(const PreparedGraph& graph) {
  Choices choices;
  for (const TuningEntry& entry : graph.tuning().Decided()) {
    const TuningCandidate* const choice = entry.record.choice();
    choices[entry.work.key.width] =
        choice == nullptr ? "reset" : choice->setting.kernel + " " + std::to_string(choice->setting.config.values[0]);
  }
  return choices;
}

class TuningKeeperTest : public ::testing::Test {
 protected:
  TuningKeeperTest() : whole_(MakePrepared(DirectedGraph(), OrderKind::kNone, *device_)) {}

  // The same graph as after another start: without decisions.
  std::shared_ptr<const PreparedGraph> Graph() const {
    return std::make_shared<const PreparedGraph>(whole_->parts(), device_.get());
  }
  static TuningKeeper::Parts Parts(state::StateDirectory* directory, const KernelRegistry* registry, Logger* logger) {
    return {directory, registry, DeviceKind::kCpu, "processor", logger};
  }
  // Attaches and publishes.
  static Status Publish(const PreparedGraph& graph, state::StateDirectory& directory, TuningKeeper& keeper) {
    VICINAL_ASSIGN_OR_RETURN(const auto writer, directory.BeginVersion(kId));
    VICINAL_RETURN_IF_ERROR(keeper.Attach(graph));
    return WriteGraph(graph, *writer, {});
  }
  // What comes back from these files.
  Choices Restored(state::FileSystem* files, const KernelRegistry& registry, Logger* logger = &Logger::Null()) const {
    const auto directory = OpenState(files);
    TuningKeeper keeper(Parts(directory.get(), &registry, logger));
    const auto graph = Graph();
    keeper.Restore(*graph);
    return ChoicesOf(*graph);
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  const std::shared_ptr<const PreparedGraph> whole_;
  const std::unique_ptr<KernelRegistry> registry_ = OrderedKernels();
  Lines lines_;
  state::SimulatedFileSystem files_;
};

TEST_F(TuningKeeperTest, DecisionsBeforeAndAfterPublicationComeBack) {
  {
    const auto directory = OpenState(&files_);
    TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
    const auto graph = Graph();
    EXPECT_TRUE(*keeper.Change(*graph, {{ChoiceOf(8, "other", 3)}}));
    EXPECT_THAT(files_.AllFiles(), ::testing::Not(::testing::Contains(kDocument))) << "there is no version yet";
    ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
    EXPECT_TRUE(*keeper.Change(*graph, {{ChoiceOf(16, "twin", 5, TuningState::kForced)}}));
    EXPECT_FALSE(*keeper.Change(*graph, {{{SumOf(32), TuningTable::ResetRecord(SumOf(32).key)}}}))
        << "the default served before";
  }
  const auto directory = OpenState(&files_);
  TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
  const auto graph = Graph();
  keeper.Restore(*graph);
  EXPECT_EQ(ChoicesOf(*graph), (Choices{{8, "other 3"}, {16, "twin 5"}, {32, "reset"}}));
  EXPECT_EQ(graph->tuning().Record(SumOf(8).key)->state, TuningState::kTuned);
  EXPECT_EQ(graph->tuning().Record(SumOf(16).key)->state, TuningState::kForced);
  EXPECT_FALSE(graph->tuning().MostWanted().has_value());
  EXPECT_EQ(graph->tuning().Find(SumOf(8).key)->config.values[0], 3);
  EXPECT_TRUE(*keeper.Change(*graph, {{ChoiceOf(8, "usual")}})) << "attached again";
  testing::SplitMix64 random(1);
  EXPECT_EQ(Restored(files_.CutPower(random).get(), *registry_),
            (Choices{{8, "usual 0"}, {16, "twin 5"}, {32, "reset"}}));
}

// A kernel was left out for lack of memory, so a default that stayed is no decision: after a start it is tuned again.
TEST_F(TuningKeeperTest, ADefaultThatStayedWithoutAKernelIsNotKept) {
  {
    const auto directory = OpenState(&files_);
    TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
    const auto graph = Graph();
    ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
    EXPECT_TRUE(*keeper.Change(*graph, {{ChoiceOf(8, "other", 3)}}));
    EXPECT_TRUE(*keeper.Change(*graph, {{ChoiceOf(16, "other", 5)}}));
    TuningEntry stayed = ChoiceOf(8, "other", 3), chosen = ChoiceOf(16, "twin", 1);
    stayed.record.chosen = 0;
    stayed.record.incomplete = chosen.record.incomplete = true;
    EXPECT_TRUE(*keeper.Change(*graph, {{stayed, chosen}}));
  }
  const auto directory = OpenState(&files_);
  TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
  const auto graph = Graph();
  keeper.Restore(*graph);
  EXPECT_EQ(ChoicesOf(*graph), (Choices{{16, "twin 1"}}));
  graph->tuning().Note(SumOf(8));
  graph->tuning().Note(SumOf(16));
  const std::optional<TuningWork> wanted = graph->tuning().MostWanted();
  ASSERT_TRUE(wanted.has_value());
  EXPECT_EQ(wanted->key, SumOf(8).key);
}

// A registry whose only kernel, and so the default, adds in that version of an odd order.
std::unique_ptr<KernelRegistry> OddDefault(int version) {
  auto registry = std::make_unique<KernelRegistry>();
  registry->aggregate.Add(std::make_unique<testing::OrderedAggregate>("odd", DeclaredOrder{"odd", version, false}));
  return registry;
}

TEST_F(TuningKeeperTest, ADefaultThatAddsInAnotherOrderIsTold) {
  const auto first = OddDefault(1), second = OddDefault(2);
  {
    const auto directory = OpenState(&files_);
    TuningKeeper keeper(Parts(directory.get(), first.get(), &lines_));
    const auto graph = Graph();
    ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
    graph->tuning().Note(SumOf(8));
    keeper.KeepDefaults(*graph);
    graph->tuning().Note(SumOf(16));
    keeper.KeepDefaults(*graph);
    const int64_t before = files_.operations();
    keeper.KeepDefaults(*graph);
    EXPECT_EQ(files_.operations(), before) << "nothing has changed";
  }
  const auto directory = OpenState(&files_);
  const auto restored = [&](const KernelRegistry* registry, int64_t width) {
    TuningKeeper keeper(Parts(directory.get(), registry, &lines_));
    const auto graph = Graph();
    keeper.Restore(*graph);
    keeper.KeepDefaults(*graph);
    const auto record = graph->tuning().Record(SumOf(width).key);
    return record ? record->note : std::string();
  };
  EXPECT_EQ(restored(first.get(), 8), "");
  EXPECT_THAT(lines_.all(), Not(HasSubstr("another order")));
  EXPECT_THAT(restored(second.get(), 16), HasSubstr("added in another order"));
  EXPECT_THAT(lines_.all(), HasSubstr("the default adds in another order: the graph gets a new numerics revision"));
  EXPECT_EQ(restored(second.get(), 8), "") << "told once: since then this order is the graph's";
}

TEST_F(TuningKeeperTest, StandardOrdersOfTheCpuWriteNoDefaults) {
  const auto directory = OpenState(&files_);
  TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
  const auto graph = Graph();
  ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
  graph->tuning().Note(SumOf(8));
  keeper.KeepDefaults(*graph);
  EXPECT_THAT(files_.AllFiles(), Not(::testing::Contains(kDocument)));
}

TEST_F(TuningKeeperTest, WhatServedADurableGraphSurvivesPowerFailures) {
  int64_t crashes = 0, after_publication = 0;
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::SplitMix64 random(seed);
    state::SimulatedFileSystem files;
    const auto directory = OpenState(&files);
    TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
    const auto graph = Graph();
    bool published = false;
    Choices next;  // after the change that is under way
    const auto crash = [&] {
      ++crashes;
      const auto left = files.CutPower(random);
      const auto found = OpenState(left.get())->List();
      ASSERT_TRUE(found.ok() && found->problems.empty());
      if (found->published.empty()) {
        EXPECT_FALSE(published) << "the graph is lost";
        return;
      }
      ++after_publication;
      const Choices serving = ChoicesOf(*graph), restored = Restored(left.get(), *registry_);
      EXPECT_TRUE(restored == serving || restored == next)
          << ::testing::PrintToString(restored) << ", not " << ::testing::PrintToString(serving);
    };
    files.set_hook([&] {
      if (random.Next() % 3 == 0) crash();
    });
    for (int step = 0; step < 12; ++step) {
      if (step == 3) {
        next = ChoicesOf(*graph);
        ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
        published = true;
        crash();
      }
      static constexpr const char* kKernels[] = {"usual", "twin", "other"};
      const auto width = static_cast<int64_t>(8 * (1 + random.Next() % 3));
      TuningChange change{{ChoiceOf(width, kKernels[random.Next() % 3], static_cast<int32_t>(random.Next() % 4))}};
      if (random.Next() % 5 == 0) change.entries = {{SumOf(width), TuningTable::ResetRecord(SumOf(width).key)}};
      const auto planned = Graph();
      for (const TuningEntry& entry : graph->tuning().Decided()) planned->tuning().Restore(entry);
      planned->tuning().Apply(change);
      next = ChoicesOf(*planned);
      ASSERT_TRUE(keeper.Change(*graph, change).ok());
      EXPECT_EQ(ChoicesOf(*graph), next);
      crash();
    }
    files.set_hook(nullptr);
  }
  std::printf("%lld power failures, %lld of them with a graph on disk\n", static_cast<long long>(crashes),
              static_cast<long long>(after_publication));
  EXPECT_GE(crashes, 1000);
  EXPECT_GE(after_publication, 700);
}

TEST_F(TuningKeeperTest, WhereTheDiskFailsOnlyDecisionsServeThatChangeNoBits) {
  for (const int error : {ENOSPC, EIO}) {
    for (const std::string kernel : {"twin", "other"}) {
      for (int64_t operation = 0;; ++operation) {
        SCOPED_TRACE(kernel + ", operation " + std::to_string(operation));
        state::SimulatedFileSystem files;
        const auto directory = OpenState(&files);
        TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
        const auto graph = Graph();
        ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
        ASSERT_TRUE(keeper.Change(*graph, {{ChoiceOf(16, "other", 1)}}).ok());
        files.FailAt(operation, error);
        const auto changed = keeper.Change(*graph, {{ChoiceOf(8, kernel, 2)}});
        if (!files.failed()) break;
        const Choices with = {{8, kernel + " 2"}, {16, "other 1"}}, without = {{16, "other 1"}};
        EXPECT_EQ(ChoicesOf(*graph), changed.ok() ? with : without);
        EXPECT_EQ(changed.ok(), kernel == "twin") << changed.status();
        testing::SplitMix64 random(operation);
        const Choices restored = Restored(files.CutPower(random).get(), *registry_);
        EXPECT_TRUE(restored == with || restored == without);
        files.FailAt(-1, 0);
        if (error != ENOSPC) continue;
        ASSERT_TRUE(keeper.Change(*graph, {{ChoiceOf(8, kernel, 3)}}).ok()) << "there is space again";
        EXPECT_EQ(Restored(files.CutPower(random).get(), *registry_), (Choices{{8, kernel + " 3"}, {16, "other 1"}}));
      }
    }
  }
  EXPECT_THAT(lines_.all(), HasSubstr("tuning decisions serve, but are not durable"));
}

TEST_F(TuningKeeperTest, AVersionWhoseDecisionsCannotBeWrittenIsNotPublished) {
  const auto directory = OpenState(&files_);
  TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
  const auto graph = Graph();
  ASSERT_TRUE(keeper.Change(*graph, {{ChoiceOf(8, "other")}}).ok());
  const auto writer = directory->BeginVersion(kId);
  ASSERT_TRUE(writer.ok());
  files_.FailAt(1, ENOSPC);
  EXPECT_EQ(ReasonOf(keeper.Attach(*graph)), "STATE_DISK_FULL");
}

TEST_F(TuningKeeperTest, DamageOfAnyByteOnlyMeansThatItIsMeasuredAgain) {
  {
    const auto directory = OpenState(&files_);
    TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
    const auto graph = Graph();
    ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
    ASSERT_TRUE(keeper.Change(*graph, {{ChoiceOf(8, "other")}}).ok());
  }
  const std::string text = files_.Read(kDocument);
  std::vector<std::string> bad = {"", "{}", std::string(text.size(), '\0'), text.substr(0, text.size() / 2)};
  for (size_t at = 0; at < text.size(); at += 7) {
    bad.push_back(text);
    bad.back()[at] ^= 0x20;
  }
  TuningDocument other = *ParseTuningDocument("d", text);
  other.version = 8;
  bad.push_back(EncodeTuningDocument(other));  // misplaced
  for (const std::string& damaged : bad) {
    testing::SplitMix64 random(1);
    const auto files = files_.CutPower(random);
    files->Overwrite(kDocument, damaged);
    Lines lines;
    EXPECT_THAT(Restored(files.get(), *registry_, &lines), IsEmpty());
    EXPECT_THAT(lines.all(), HasSubstr("kept tuning dropped: measured again, under another numerics revision"));
    EXPECT_THAT(OpenState(files.get())->List()->published, SizeIs(1)) << "the graph suffers";
    Lines next;
    EXPECT_THAT(Restored(files.get(), *registry_, &next), IsEmpty());
    EXPECT_EQ(next.all(), "") << "said once";
  }
}

TEST_F(TuningKeeperTest, OtherDevicesAreLeftAlone) {
  const auto directory = OpenState(&files_);
  TuningKeeper::Parts parts = Parts(directory.get(), registry_.get(), &lines_);
  TuningKeeper here(parts);
  parts.device = "another processor";
  TuningKeeper there(parts);
  const auto graph = Graph(), elsewhere = Graph();
  ASSERT_TRUE(Publish(*graph, *directory, here).ok());
  there.Restore(*elsewhere);
  EXPECT_THAT(ChoicesOf(*elsewhere), IsEmpty());
  ASSERT_TRUE(here.Change(*graph, {{ChoiceOf(8, "other", 1)}}).ok());
  ASSERT_TRUE(there.Change(*elsewhere, {{ChoiceOf(8, "twin", 2)}}).ok());
  const auto again = Graph(), again_elsewhere = Graph();
  here.Restore(*again);
  there.Restore(*again_elsewhere);
  EXPECT_EQ(ChoicesOf(*again), (Choices{{8, "other 1"}}));
  EXPECT_EQ(ChoicesOf(*again_elsewhere), (Choices{{8, "twin 2"}}));
}

TEST_F(TuningKeeperTest, ABuildWithoutTheKernelTellsAndGivesTheGraphANewRevisionForGood) {
  {
    const auto directory = OpenState(&files_);
    TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
    const auto graph = Graph();
    ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
    ASSERT_TRUE(keeper.Change(*graph, {{ChoiceOf(8, "other"), ChoiceOf(16, "twin", 1)}}).ok());
  }
  for (const bool gone : {true, false}) {
    const auto newer = gone ? OrderedKernels(1, false) : OrderedKernels(2);
    testing::SplitMix64 random(1);
    const auto files = files_.CutPower(random);
    const auto directory = OpenState(files.get());
    Lines lines;
    TuningKeeper keeper(Parts(directory.get(), newer.get(), &lines));
    const auto graph = Graph();
    keeper.Restore(*graph);
    EXPECT_EQ(ChoicesOf(*graph), (Choices{{16, "twin 1"}}));
    EXPECT_THAT(graph->tuning().Record(SumOf(8).key)->note, HasSubstr("kernel 'other', chosen before, cannot be used"));
    EXPECT_EQ(graph->tuning().MostWanted()->key, SumOf(8).key) << "it may be tuned again";
    EXPECT_THAT(lines.all(), HasSubstr("the graph gets a new numerics revision; graph g; work aggregate sum, width 8"));
    EXPECT_THAT(lines.all(), HasSubstr(gone ? "there is no aggregate kernel 'other'" : "order 'odd' version 2"));
    EXPECT_EQ(Restored(files->CutPower(random).get(), *registry_), (Choices{{16, "twin 1"}}))
        << "the older build is back";
  }
}

// One configuration is quarantined.
class OneQuarantined final : public FirstRuns {
 public:
  explicit OneQuarantined(std::string configuration) : configuration_(std::move(configuration)) {}
  std::string WhyQuarantined(const std::string& configuration) const override {
    return configuration == configuration_ ? "quarantined: illegal address" : "";
  }
  int64_t revision() const override { return 0; }
  bool HasEndedWell(const std::string&) const override { return false; }
  void Begin(const std::string&) override {}
  void End(const std::string&, const Status&) override {}
  void Doubt(const std::vector<std::string>&) override {}

 private:
  const std::string configuration_;
};

TEST_F(TuningKeeperTest, AQuarantinedChoiceGivesTheGraphANewRevisionForGood) {
  std::string quarantined;
  testing::SplitMix64 random(1);
  std::unique_ptr<state::SimulatedFileSystem> before;
  {
    const auto directory = OpenState(&files_);
    TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
    const auto graph = Graph();
    ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
    ASSERT_TRUE(keeper.Change(*graph, {{ChoiceOf(8, "other"), ChoiceOf(16, "twin", 1)}}).ok());
    before = files_.CutPower(random);
    quarantined = ConfigurationName(SumOf(8).key, *graph->tuning().Record(SumOf(8).key)->choice());
    EXPECT_FALSE(keeper.Withdraw(*graph, "aggregate something else"));
    EXPECT_TRUE(keeper.Withdraw(*graph, quarantined));
    EXPECT_EQ(ChoicesOf(*graph), (Choices{{8, "reset"}, {16, "twin 1"}}));
    EXPECT_THAT(graph->tuning().Record(SumOf(8).key)->note, HasSubstr("is quarantined"));
    EXPECT_FALSE(keeper.Withdraw(*graph, quarantined)) << "once";
  }
  EXPECT_EQ(Restored(files_.CutPower(random).get(), *registry_), (Choices{{16, "twin 1"}})) << "to be measured again";

  // At a start, before the graph serves.
  const OneQuarantined first_runs(quarantined);
  {
    const auto directory = OpenState(before.get());
    TuningKeeper::Parts parts = Parts(directory.get(), registry_.get(), &lines_);
    parts.first_runs = &first_runs;
    TuningKeeper keeper(parts);
    const auto graph = Graph();
    keeper.Restore(*graph);
    EXPECT_EQ(ChoicesOf(*graph), (Choices{{16, "twin 1"}}));
    EXPECT_THAT(graph->tuning().Record(SumOf(8).key)->note, HasSubstr("quarantined: illegal address"));
  }
  EXPECT_EQ(Restored(before->CutPower(random).get(), *registry_), (Choices{{16, "twin 1"}}))
      << "also when it is lifted";
}

TEST_F(TuningKeeperTest, AReaderWritesNothing) {
  {
    const auto directory = OpenState(&files_);
    TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
    const auto graph = Graph();
    ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
    ASSERT_TRUE(keeper.Change(*graph, {{ChoiceOf(8, "other", 4)}}).ok());
  }
  const int64_t operations = files_.operations();
  state::StateDirectory::Options read_only;
  read_only.read_only = true;
  auto opened = state::StateDirectory::Open(&files_, read_only);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto newer = OrderedKernels(2);
  for (const KernelRegistry* registry : {registry_.get(), newer.get()}) {
    TuningKeeper::Parts parts = Parts(opened->get(), registry, &lines_);
    parts.read_only = true;
    TuningKeeper keeper(parts);
    const auto graph = Graph();
    keeper.Restore(*graph);
    EXPECT_EQ(ChoicesOf(*graph), registry == registry_.get() ? (Choices{{8, "other 4"}}) : Choices());
    EXPECT_TRUE(*keeper.Change(*graph, {{ChoiceOf(24, "twin", 1)}}));
  }
  EXPECT_EQ(files_.operations(), operations);
}

TEST_F(TuningKeeperTest, NoFileIsLeftOfARemovedVersion) {
  const auto directory = OpenState(&files_);
  TuningKeeper keeper(Parts(directory.get(), registry_.get(), &lines_));
  const auto graph = Graph();
  ASSERT_TRUE(Publish(*graph, *directory, keeper).ok());
  ASSERT_TRUE(keeper.Change(*graph, {{ChoiceOf(8, "twin")}}).ok());
  ASSERT_TRUE(directory->Sweep(std::chrono::seconds(0)).ok());
  testing::SplitMix64 random(1);
  EXPECT_EQ(Restored(files_.CutPower(random).get(), *registry_), (Choices{{8, "twin 0"}})) << "a sweep leaves it";
  ASSERT_TRUE(directory->Remove(kId, state::StateDirectory::Data::kLeaveToSweep).ok());
  keeper.Detach("g", 7);
  ASSERT_TRUE(keeper.Change(*graph, {{ChoiceOf(8, "other")}}).ok()) << "requests that hold it go on";
  ASSERT_TRUE(directory->Sweep(std::chrono::seconds(0)).ok());
  for (const std::string& path : files_.AllFiles()) EXPECT_EQ(path.find("graphs/"), std::string::npos) << path;
}

// A replica sees versions come and go for as long as it runs.
TEST_F(TuningKeeperTest, AReplicaForgetsVersionsThatAreGone) {
  const auto directory = OpenState(&files_);
  TuningKeeper writer(Parts(directory.get(), registry_.get(), &lines_));
  const auto graph = Graph();
  ASSERT_TRUE(*writer.Change(*graph, {{ChoiceOf(8, "other", 3)}}));
  ASSERT_TRUE(Publish(*graph, *directory, writer).ok());
  TuningKeeper::Parts parts = Parts(directory.get(), registry_.get(), &lines_);
  parts.read_only = true;
  TuningKeeper replica(parts);
  const auto followed = Graph();
  replica.Restore(*followed);
  EXPECT_TRUE(replica.Refresh(*followed));
  replica.DetachAllBut({kId});
  EXPECT_FALSE(replica.Refresh(*followed)) << "it is remembered that nothing has changed";
  replica.DetachAllBut({});
  EXPECT_TRUE(replica.Refresh(*followed)) << "nothing is remembered";
}

}  // namespace
}  // namespace vicinal::durable
