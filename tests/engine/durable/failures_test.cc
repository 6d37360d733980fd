// SPDX-License-Identifier: Apache-2.0
// Every way in which a state directory fails while a version is written: serving goes on, the failure is told and
// counted, what can pass is written in the end, and what is called durable survives a power failure.
#include "engine/durable/failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/durable/durable_store.h"
#include "engine/state/file_error.h"
#include "tests/engine/durable/durable_world.h"

namespace vicinal::durable {
namespace {

using ::testing::HasSubstr;

struct Failure {
  const char* name;
  int error;         // 0: the directory is gone
  const char* kind;  // of the metric
  const char* reason;
  StatusCode code;
  bool passes;  // written once the cause is gone
};

class EveryFailure : public ::testing::TestWithParam<Failure> {};

// From each operation on everything fails, until the cause is gone.
TEST_P(EveryFailure, IsToldCountedAndPassesOrNot) {
  const Failure& failure = GetParam();
  const auto begin = [&](World& world, int64_t operation) {
    if (failure.error != 0) return world.files_.FailFrom(operation, failure.error);
    world.files_.set_gone(true);
  };
  int64_t failures = 0;
  for (int64_t operation = 0; operation < 100; ++operation) {
    World world;
    world.Publish("before");
    const int64_t operations = world.files_.operations();
    begin(world, operation);
    world.Publish("g");
    if (failure.error != 0 && world.files_.operations() - operations <= operation) break;  // it took fewer operations
    ++failures;
    SCOPED_TRACE(operation);
    const GraphResource told = world.Describe("g");
    ASSERT_EQ(told.serving->durability, Durability::kMemory);
    const Status error = told.serving->durability_error;
    const bool sync_failed = ReasonOf(error) == "STATE_SYNC_FAILED";
    ASSERT_TRUE(sync_failed || ReasonOf(error) == failure.reason) << error;
    EXPECT_EQ(error.code(), sync_failed ? StatusCode::kFailedPrecondition : failure.code);
    EXPECT_EQ(ReasonOf(told.feature_sets[0].durability_error), ReasonOf(error));
    EXPECT_EQ(world.stats_.count(sync_failed ? "sync_failed" : failure.kind), 2) << "the graph and its features";
    EXPECT_EQ(world.durable_->write_state().not_durable, 2);
    EXPECT_TRUE(world.graphs_.Find("g", 0, "default", 0).ok()) << "it serves";
    const bool is_full = failure.code == StatusCode::kResourceExhausted && failure.error != EMFILE;
    EXPECT_EQ(ReasonOf(world.durable_->CheckSpace(1)), is_full ? "STATE_DISK_FULL" : "");

    world.Retry();
    EXPECT_EQ(world.Describe("g").serving->durability, Durability::kMemory) << "the cause is still there";
    world.files_.FailAt(-1, 0);
    world.files_.set_gone(false);
    world.Retry();
    const bool passes = failure.passes && !sync_failed;
    const GraphResource after = world.Describe("g");
    ASSERT_EQ(after.serving->durability, passes ? Durability::kDurable : Durability::kMemory);
    EXPECT_EQ(after.feature_sets[0].durability, after.serving->durability);
    EXPECT_EQ(world.durable_->write_state().not_durable, passes ? 0 : 2);
    EXPECT_TRUE(world.durable_->CheckSpace(1).ok());
    for (uint64_t seed = 1; passes && seed <= 5; ++seed) EXPECT_EQ(world.AfterPowerFailure(seed), 4u);
    if (failure.error == 0) break;
  }
  EXPECT_GT(failures, failure.error == 0 ? 0 : 10);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryFailure,
    ::testing::Values(
        Failure{"Full", ENOSPC, "disk_full", "STATE_DISK_FULL", StatusCode::kResourceExhausted, true},
        Failure{"OverQuota", EDQUOT, "disk_full", "STATE_DISK_FULL", StatusCode::kResourceExhausted, true},
        Failure{"TooManyFiles", EMFILE, "too_many_files", "STATE_TOO_MANY_FILES", StatusCode::kResourceExhausted, true},
        Failure{"ReadOnly", EROFS, "access_denied", "STATE_ACCESS_DENIED", StatusCode::kFailedPrecondition, true},
        Failure{"Forbidden", EACCES, "access_denied", "STATE_ACCESS_DENIED", StatusCode::kFailedPrecondition, true},
        Failure{"Gone", 0, "gone", "STATE_DIRECTORY_GONE", StatusCode::kFailedPrecondition, true},
        Failure{"BadDisk", EIO, "io_error", "STATE_IO_ERROR", StatusCode::kFailedPrecondition, false}),
    [](const auto& info) { return info.param.name; });

// One operation fails, and the next ones do not: also between the rename and its fsync.
TEST(Failures, OneOperationWithoutSpaceIsMadeUpFor) {
  for (int64_t operation = 0;; ++operation) {
    ASSERT_LT(operation, 100);
    World world;
    const int64_t operations = world.files_.operations();
    world.files_.FailAt(operation, ENOSPC);
    world.Publish("g");
    if (world.files_.operations() - operations <= operation) break;
    world.files_.FailAt(-1, 0);
    world.Retry();
    EXPECT_EQ(world.Describe("g").serving->durability, Durability::kDurable) << operation;
    for (uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(world.AfterPowerFailure(seed), 2u) << operation;
  }
}

TEST(Failures, AFailedSyncOfAFileIsNotTriedAgain) {
  int64_t operation = 0;
  for (;; ++operation) {  // the first fsync of a file
    World probe;
    probe.files_.FailAt(operation, EIO);
    probe.Publish("g");
    const Status error = probe.Describe("g").serving->durability_error;
    if (std::string(error.message()).find("fsync '") != std::string::npos) break;
    ASSERT_LT(operation, 100);
  }
  World world;
  world.files_.FailAt(operation, EIO);
  world.Publish("g");
  const int64_t operations = world.files_.operations();
  world.Retry();
  EXPECT_EQ(world.files_.operations(), operations) << "nothing was touched";
  const ServingGraph serving = *world.Describe("g").serving;
  EXPECT_EQ(serving.durability, Durability::kMemory);
  EXPECT_THAT(std::string(serving.durability_error.message()), HasSubstr("what was written may be lost"));
  world.Publish("g");
  EXPECT_EQ(world.Describe("g").serving->durability, Durability::kDurable) << "the next version has files of its own";
  EXPECT_EQ(world.durable_->write_state().not_durable, 0);
}

TEST(Failures, WhatIsUploadedToAGraphThatWaitsIsWrittenWithIt) {
  World world;
  world.files_.FailFrom(0, ENOSPC);
  const int64_t version = world.Publish("g");
  world.PutFeatures("g", version, "more");
  EXPECT_EQ(ReasonOf(world.Describe("g").feature_sets[1].durability_error), "STATE_DISK_FULL");
  world.files_.FailAt(-1, 0);
  world.Retry();
  for (const FeatureSetResource& set : world.Describe("g").feature_sets) {
    EXPECT_EQ(set.durability, Durability::kDurable) << set.name;
  }
  EXPECT_EQ(world.AfterPowerFailure(1), 3u);
}

TEST(Failures, WhatNobodyWantsAnyMoreIsNotWritten) {
  World world;
  world.files_.FailFrom(0, ENOSPC);
  world.Publish("deleted");
  world.Publish("replaced");
  const std::weak_ptr<const PreparedGraph> old = world.graphs_.Get("replaced")->graph;
  ASSERT_TRUE(world.graphs_.Delete("deleted", 0).ok());
  EXPECT_EQ(world.durable_->RemoveGraph("deleted", 0).code(), StatusCode::kNotFound) << "it is not on disk";
  const int64_t latest = world.Publish("replaced");
  EXPECT_TRUE(old.expired()) << "what waits keeps no memory";
  EXPECT_EQ(world.durable_->write_state().not_durable, 2) << "a graph with its features";
  EXPECT_EQ(DetailOf(world.durable_->CheckSpace(1))->metadata.at("waitingVersions"), "2");
  world.files_.FailAt(-1, 0);
  world.Retry();
  const auto listing = world.directory_->List();
  ASSERT_EQ(listing->published.size(), 2u);
  EXPECT_EQ(listing->published[0].id.version, latest);
  EXPECT_TRUE(world.durable_->CheckSpace(1).ok());
}

constexpr int64_t kSpare = int64_t{16} << 20;  // that stays free

TEST(Failures, WhatIsTooLargeForTheDiskKeepsOnlyWhatWouldNotFitOut) {
  World world;
  world.files_.set_free_bytes(kSpare + 5);  // fewer than a graph takes
  world.files_.FailFrom(0, ENOSPC);
  world.Publish("large");
  EXPECT_TRUE(world.durable_->CheckSpace(5).ok());
  const Status refused = world.durable_->CheckSpace(6);
  EXPECT_EQ(ReasonOf(refused), "STATE_DISK_FULL");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("16777221 bytes (16.0 MiB) are free"));
  world.files_.FailAt(-1, 0);
  world.Publish("small");
  EXPECT_EQ(world.Describe("small").serving->durability, Durability::kDurable);
  EXPECT_EQ(ReasonOf(world.durable_->CheckSpace(6)), "STATE_DISK_FULL") << "the large one still waits";
}

TEST(Failures, WhereBytesAreFreeSomethingElseIsUsedUp) {
  World world;
  world.files_.FailFrom(0, EDQUOT);
  world.Publish("g");
  EXPECT_EQ(ReasonOf(world.durable_->CheckSpace(1)), "STATE_DISK_FULL");
}

// What was accepted and is not written yet will take its bytes.
TEST(Failures, UploadsThatAreBeingWrittenAreCounted) {
  bool asked = false;
  World world;
  world.files_.set_free_bytes(kSpare + 5);
  world.files_.FailFrom(0, ENOSPC);
  world.Publish("large");
  world.files_.FailAt(-1, 0);
  world.files_.set_hook([&] {  // on the writer's thread, which holds no lock then
    if (std::exchange(asked, true)) return;
    EXPECT_EQ(ReasonOf(world.durable_->CheckSpace(5)), "STATE_DISK_FULL");
  });
  world.Publish("small");
  EXPECT_TRUE(asked);
  EXPECT_TRUE(world.durable_->CheckSpace(5).ok());
}

TEST(Failures, TheTimeOfTheLastWriteIsKept) {
  World world;
  EXPECT_EQ(world.durable_->write_state().last_write, WallTime{});
  world.clock_.Advance(std::chrono::hours(1));
  world.Publish("g");
  const WallTime written = world.clock_.WallNow();
  EXPECT_EQ(world.durable_->write_state().last_write, written);
  world.clock_.Advance(std::chrono::hours(1));
  world.files_.FailFrom(0, EIO);
  world.Publish("h");
  EXPECT_EQ(world.durable_->write_state().last_write, written);
}

TEST(Failures, ADirectoryThatIsGoneIsNoticedWithoutAWrite) {
  World world;
  world.files_.set_gone(true);
  world.durable_->Sweep();
  EXPECT_EQ(world.stats_.count("gone"), 1);
}

TEST(Failures, AGraphThatCannotBeReadNowIsReadLater) {
  World world;
  const int64_t version = world.Publish("g");
  Evict(world, "g");
  world.files_.set_gone(true);
  const Status lost = world.durable_->loader().LoadAndWait("g", {}, Clock::Real());
  EXPECT_EQ(ReasonOf(lost), "STATE_DIRECTORY_GONE");
  EXPECT_THAT(std::string(lost.message()), HasSubstr("try again later"));
  EXPECT_EQ(world.stats_.count("gone"), 1);
  EXPECT_EQ(world.graphs_.StoredVersion("g"), version);
  world.files_.set_gone(false);
  EXPECT_TRUE(world.durable_->loader().LoadAndWait("g", {}, Clock::Real()).ok());
  EXPECT_TRUE(world.graphs_.Find("g", version, "default", 0).ok());
}

TEST(Failures, AGraphWhoseFilesWereRemovedIsLostAlone) {
  World world;
  world.Publish("g");
  world.Publish("h");
  Evict(world, "g");
  ASSERT_TRUE(world.files_.Rename("graphs/g", "moved").ok());
  const Status lost = world.durable_->loader().LoadAndWait("g", {}, Clock::Real());
  EXPECT_EQ(lost.code(), StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(lost), "STATE_DAMAGED");
  EXPECT_EQ(world.graphs_.Find("g", 0, "", 0).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(world.stats_.count("damaged"), 1);
  EXPECT_TRUE(world.graphs_.Find("h", 0, "default", 0).ok());
}

// Whose deadline has passed takes no place of others, and what nobody waits for any more is not loaded.
TEST(Failures, WhoseDeadlineHasPassedDoesNotWait) {
  std::promise<void> reading, goes_on;
  std::promise<Status> first, late, last;
  std::atomic<bool> reads{false};
  World world(/*max_waiting=*/2);
  for (const char* const name : {"g", "h", "i"}) {
    world.Publish(name);
    Evict(world, name);
  }
  world.files_.set_read_hook([&](const std::string& path, state::SimulatedFileSystem::Access, int64_t, int64_t) {
    if (!path.starts_with("graphs/g/") || reads.exchange(true)) return;
    reading.set_value();
    goes_on.get_future().wait();
  });
  GraphLoader& loader = world.durable_->loader();
  ASSERT_TRUE(loader.Load("g", {}, [&](const Status& loaded) { first.set_value(loaded); }).ok());
  reading.get_future().wait();
  WorkLimits limits;
  limits.deadline = world.clock_.Now() + std::chrono::seconds(1);
  ASSERT_TRUE(loader.Load("h", limits, [&](const Status& loaded) { late.set_value(loaded); }).ok());
  const auto never = [](const Status&) { ADD_FAILURE() << "it was refused"; };
  EXPECT_EQ(ReasonOf(loader.Load("i", {}, never)), "QUEUE_FULL");
  world.clock_.Advance(std::chrono::seconds(2));
  ASSERT_TRUE(loader.Load("i", {}, [&](const Status& loaded) { last.set_value(loaded); }).ok());
  EXPECT_EQ(late.get_future().get().code(), StatusCode::kDeadlineExceeded);
  goes_on.set_value();
  EXPECT_TRUE(first.get_future().get().ok());
  EXPECT_TRUE(last.get_future().get().ok());
  EXPECT_NE(world.graphs_.StoredVersion("h"), 0) << "nobody waits for it";
}

// The writer has published it before the replica looked.
TEST(Failures, AReplicaTakesTheVersionAfterADamagedOne) {
  World world;
  const int64_t damaged = world.Publish("g");
  world.files_.XorByte("graphs/g/" + std::to_string(damaged) + "/graph.vsec", state::kSectionAlignment, 1);
  GraphStore graphs{{}};
  ModelStore models{{}};
  DurableStore::Parts parts{world.directory_.get(), &graphs,         &models, world.device_.get(),
                            &world.budget_,         &Logger::Null(), [] {}};
  parts.read_only = true;
  DurableStore replica(parts);
  ASSERT_TRUE(replica.Load().ok());
  while (!replica.loaded()) std::this_thread::yield();
  EXPECT_EQ(graphs.Find("g", 0, "", 0).status().code(), StatusCode::kDataLoss);
  replica.Follow();
  EXPECT_EQ(graphs.Find("g", 0, "", 0).status().code(), StatusCode::kDataLoss);
  const int64_t next = world.Publish("g");
  replica.Follow();
  const auto found = graphs.Find("g", next, "default", 0);
  EXPECT_TRUE(found.ok()) << found.status();
}

TEST(Failures, AReplicaKeepsWhatItCannotSee) {
  World world;
  const int64_t version = world.Publish("g");
  world.Publish("h");
  Another replica(world, /*read_only=*/true);
  for (const char* const path : {"graphs/g", "graphs/g/1", "graphs", "INCARNATION", "LOST", "models"}) {
    for (const int error : {EACCES, EIO, EMFILE, ESTALE}) {
      world.files_.SetUnreadable(path, error);
      replica.store->Follow();
      EXPECT_TRUE(replica.Serves("g") && replica.Serves("h")) << path << " " << error;
    }
    world.files_.SetUnreadable(path, 0);
  }
  ASSERT_EQ(version, 1) << "the path above";
  EXPECT_GT(world.stats_.count("access_denied"), 0);

  // As a volume that is away leaves it.
  for (const char* const name : {"INCARNATION", "graphs", "models"}) world.files_.SetUnreadable(name, ENOENT);
  replica.store->Follow();
  EXPECT_TRUE(replica.Serves("g") && replica.Serves("h"));
  EXPECT_TRUE(replica.store->health().ok());
  for (const char* const name : {"INCARNATION", "graphs", "models"}) world.files_.SetUnreadable(name, 0);

  // What can be seen is followed meanwhile, and everything is afterwards.
  world.files_.SetUnreadable("graphs/g", EIO);
  world.Publish("new");
  replica.store->Follow();
  EXPECT_TRUE(replica.store->loader().LoadAndWait("new", {}, Clock::Real()).ok());
  EXPECT_TRUE(replica.Serves("g") && replica.Serves("new"));
  world.files_.SetUnreadable("graphs/g", 0);
  ASSERT_TRUE(world.graphs_.Delete("g", 0).ok());
  ASSERT_TRUE(world.durable_->RemoveGraph("g", 0).ok());
  replica.store->Follow();
  EXPECT_FALSE(replica.Serves("g"));
  EXPECT_TRUE(replica.Serves("h"));
}

// The start could not read an earlier version. A later one was uploaded and deleted: the earlier one is deleted, too.
TEST(Failures, ADeletionRemovesWhatTheStartCouldNotRead) {
  World world;
  ASSERT_EQ(world.Publish("g"), 1);
  world.durable_.reset();
  world.files_.SetUnreadable("graphs/g/1", EIO);
  Another next(world, /*read_only=*/false);
  for (const char* const name : {"first", "g"}) {  // the store's own numbers begin at 1
    const int64_t version = PublishTwoNodes(name, TwoRows(*world.device_), *world.device_, &next.graphs);
    ASSERT_EQ(version, name == std::string("g") ? 2 : 1);
    next.store->GraphPublished(name);
  }
  ASSERT_TRUE(next.store->Flush(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
  world.files_.SetUnreadable("graphs/g/1", 0);
  ASSERT_TRUE(next.graphs.Delete("g", 0).ok());
  ASSERT_TRUE(next.store->RemoveGraph("g", 0).ok());
  const auto published = world.directory_->ListPublished(nullptr);
  ASSERT_TRUE(published.ok()) << published.status();
  for (const state::VersionId& id : *published) EXPECT_NE(id.name, "g") << "a restart would bring it back";
}

TEST(Failures, EachReasonHasItsKind) {
  EXPECT_EQ(FailureKind(state::Damaged("f", "zero")), "damaged");
  EXPECT_EQ(FailureKind(state::FileError("open", "f", ENOENT)), "missing");
  EXPECT_EQ(FailureKind(FailedPrecondition("STATE_FORMAT_TOO_NEW", "")), "format");
  EXPECT_EQ(FailureKind(FailedPrecondition("READ_REPLICA", "")), "other");
  EXPECT_EQ(FailureKind(absl::UnknownError("")), "other");
  EXPECT_TRUE(MayBeReadable(state::FileError("read", "f", EIO)));
  EXPECT_FALSE(MayBeReadable(state::Damaged("f", "zero")));
}

}  // namespace
}  // namespace vicinal::durable
