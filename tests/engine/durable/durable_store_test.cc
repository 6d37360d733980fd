// SPDX-License-Identifier: Apache-2.0
// What becomes of versions when the disk fails, and of those that nobody wants any more.
#include "engine/durable/durable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/durable/durable_testing.h"

namespace vicinal::durable {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class DurableStoreTest : public ::testing::Test {
 protected:
  DurableStore::Parts Parts() {
    return {directory_.get(),        &graphs_, &models_, device_.get(), &budget_, &Logger::Null(), [] {},
            std::chrono::seconds(0), &clock_};
  }
  // Publishes a small graph in the stores, and tells `durable`.
  int64_t Publish(const std::string& name) {
    const int64_t version = PublishTwoNodes(name, nullptr, *device_, &graphs_);
    durable_->GraphPublished(name);
    return version;
  }
  ServingGraph DurabilityOf(const std::string& name) {
    EXPECT_TRUE(durable_->Flush(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    GraphResource resource;
    resource.name = name;
    resource.serving.emplace();
    resource.serving->version = graphs_.Get(name)->graph->parts().version;
    durable_->Describe(&resource);
    return *resource.serving;
  }

  std::vector<int64_t> VersionsOnDisk() const {
    std::vector<int64_t> versions;
    const auto listing = directory_->List();
    EXPECT_TRUE(listing.ok()) << listing.status();
    for (const state::Manifest& manifest : listing->published) versions.push_back(manifest.id.version);
    return versions;
  }
  int64_t PublishDurably(const std::string& name) {
    const int64_t version = Publish(name);
    EXPECT_EQ(DurabilityOf(name).durability, Durability::kDurable);
    return version;
  }

  FakeClock clock_;
  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  state::SimulatedFileSystem files_;
  std::unique_ptr<state::StateDirectory> directory_ = OpenState(&files_);
  GraphStore graphs_{{}};
  ModelStore models_{{}};
  MemoryBudget budget_{0};
  std::unique_ptr<DurableStore> durable_ = std::make_unique<DurableStore>(Parts());
};

TEST_F(DurableStoreTest, AFullDiskLeavesTheVersionInMemoryAndTheNextOneIsDurable) {
  for (int64_t operation = 0;; ++operation) {
    const int64_t before = files_.operations();
    files_.FailAt(operation, ENOSPC);
    Publish("g");
    const ServingGraph serving = DurabilityOf("g");
    if (files_.operations() - before <= operation) break;  // the version took fewer operations
    if (serving.durability != Durability::kDurable) {
      EXPECT_EQ(serving.durability, Durability::kMemory) << operation;
      EXPECT_EQ(serving.durability_error.code(), StatusCode::kResourceExhausted) << serving.durability_error;
      EXPECT_EQ(ReasonOf(serving.durability_error), "STATE_DISK_FULL");
    }
    files_.FailAt(-1, 0);
    Publish("g");
    EXPECT_EQ(DurabilityOf("g").durability, Durability::kDurable) << "after operation " << operation << " failed";
    ASSERT_LT(operation, 100);
  }
}

TEST_F(DurableStoreTest, AGraphThatIsDeletedWhileItIsWrittenIsNoFailure) {
  for (int64_t operation = 0;; ++operation) {
    int64_t at = 0;
    bool deleted = false;
    files_.set_hook([&] {
      if (at++ == operation) deleted = graphs_.Delete("g", 0).ok();
    });
    const int64_t version = Publish("g");
    EXPECT_TRUE(durable_->Flush(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    files_.set_hook({});
    if (!deleted) break;  // the version took fewer operations
    GraphResource resource;
    resource.name = "g";
    resource.serving.emplace();
    resource.serving->version = version;
    durable_->Describe(&resource);
    EXPECT_TRUE(resource.serving->durability_error.ok()) << operation << ": " << resource.serving->durability_error;
    (void)durable_->RemoveGraph("g", 0);
    ASSERT_LT(operation, 100);
  }
}

// Where cores are few, writing must not take one from queries.
TEST_F(DurableStoreTest, TheWriterHasALowerPriorityThanItsCreator) {
  const int here = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  std::set<int> seen;
  files_.set_hook([&] { seen.insert(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()))); });
  PublishDurably("g");
  files_.set_hook({});
  EXPECT_THAT(seen, ElementsAre(std::max(here, 10)));
}

TEST_F(DurableStoreTest, AVersionThatWasReplacedMeanwhileIsSkipped) {
  std::promise<void> replaced;
  bool waited = false;
  files_.set_hook([&] {  // on the writer's thread
    if (!std::exchange(waited, true)) replaced.get_future().wait();
  });
  const int64_t other = Publish("other");
  const int64_t first = Publish("g");
  const int64_t second = Publish("g");
  replaced.set_value();
  EXPECT_EQ(DurabilityOf("g").durability, Durability::kDurable);
  EXPECT_THAT(VersionsOnDisk(), UnorderedElementsAre(other, second));
  EXPECT_NE(first, second);
  files_.set_hook({});
}

TEST_F(DurableStoreTest, AReplacedVersionStaysOnDiskForAMinute) {
  const int64_t first = PublishDurably("g"), second = PublishDurably("g");
  durable_->Sweep();
  EXPECT_THAT(VersionsOnDisk(), ElementsAre(first, second));
  clock_.Advance(std::chrono::seconds(59));
  const int64_t third = PublishDurably("g");
  durable_->Sweep();
  EXPECT_THAT(VersionsOnDisk(), ElementsAre(first, second, third));
  clock_.Advance(std::chrono::seconds(1));
  durable_->Sweep();
  EXPECT_THAT(VersionsOnDisk(), ElementsAre(second, third)) << "it was replaced a minute later";
  clock_.Advance(std::chrono::seconds(60));
  durable_->Sweep();
  durable_->Sweep();
  EXPECT_THAT(VersionsOnDisk(), ElementsAre(third));
}

TEST_F(DurableStoreTest, WithAVersionGoThoseThatItReplaced) {
  PublishDurably("g");
  const int64_t second = PublishDurably("g");
  ASSERT_TRUE(graphs_.Delete("g", 0).ok());
  files_.FailAt(0, EIO);
  EXPECT_FALSE(durable_->RemoveGraph("g", 0).ok());
  EXPECT_THAT(VersionsOnDisk(), SizeIs(2));
  files_.FailAt(-1, 0);
  EXPECT_EQ(durable_->RemoveGraph("g", second + 1).code(), StatusCode::kNotFound);
  EXPECT_THAT(VersionsOnDisk(), SizeIs(2));
  EXPECT_TRUE(durable_->RemoveGraph("g", second).ok());
  EXPECT_THAT(VersionsOnDisk(), IsEmpty());
}

TEST_F(DurableStoreTest, AFlushEndsWithTheWriterOrEarlier) {
  std::promise<void> writing, goes_on;
  std::atomic<bool> written{false};
  files_.set_hook([&] {
    if (written.exchange(true)) return;
    writing.set_value();
    goes_on.get_future().wait();
  });
  Publish("g");
  writing.get_future().wait();
  const MonotonicTime later = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  EXPECT_FALSE(durable_->Flush(std::chrono::steady_clock::now()));
  EXPECT_FALSE(durable_->Flush(later, [] { return absl::CancelledError("a second signal"); }));
  goes_on.set_value();
  EXPECT_TRUE(durable_->Flush(later, [] { return OkStatus(); }));
  files_.set_hook(nullptr);
  EXPECT_EQ(DurabilityOf("g").durability, Durability::kDurable);
}

// The version decides what a repeated deletion of a feature set removes from disk.
TEST_F(DurableStoreTest, ADeletionOfFeaturesThatFailsOnDiskCanBeRepeated) {
  PublishDurably("g");
  const auto put = [&](bool replace) {
    const auto set =
        graphs_.PutFeatures("g", "f", graphs_.Get("g")->graph->parts().version, TwoRows(*device_), replace, 0);
    EXPECT_TRUE(set.ok()) << set.status();
    durable_->FeaturesPublished(*set);
    EXPECT_TRUE(durable_->Flush(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    return (*set)->version;
  };
  put(false);
  const int64_t second = put(true);
  ASSERT_TRUE(graphs_.DeleteFeatures("g", "f", FeatureKind::kNodes, second).ok());
  files_.FailAt(0, EIO);
  EXPECT_FALSE(durable_->RemoveFeatures("g", "f", FeatureKind::kNodes, 0).ok());
  files_.FailAt(-1, 0);
  EXPECT_EQ(durable_->RemoveFeatures("g", "f", FeatureKind::kNodes, second + 1).code(), StatusCode::kNotFound);
  EXPECT_EQ(durable_->RemoveFeatures("g", "f", FeatureKind::kEdges, second).code(), StatusCode::kNotFound);
  EXPECT_THAT(VersionsOnDisk(), SizeIs(3)) << "the graph and both versions of its set";
  EXPECT_TRUE(durable_->RemoveFeatures("g", "f", FeatureKind::kNodes, second).ok());
  EXPECT_THAT(VersionsOnDisk(), SizeIs(1));
}

TEST_F(DurableStoreTest, ADeletionThatFailsOnDiskCanBeRepeated) {
  const int64_t version = Publish("g");
  EXPECT_EQ(DurabilityOf("g").durability, Durability::kDurable);
  ASSERT_TRUE(graphs_.Delete("g", 0).ok());
  files_.FailAt(0, EIO);
  const Status failed = durable_->RemoveGraph("g", 0);
  EXPECT_FALSE(failed.ok());
  EXPECT_THAT(std::string(failed.message()), HasSubstr("would come back with the next start; delete it again"));
  files_.FailAt(-1, 0);
  EXPECT_EQ(durable_->RemoveGraph("g", version + 1).code(), StatusCode::kNotFound) << "another version";
  EXPECT_TRUE(durable_->RemoveGraph("g", version).ok());
  EXPECT_EQ(durable_->RemoveGraph("g", 0).code(), StatusCode::kNotFound);
  EXPECT_TRUE(directory_->List()->published.empty());
}

TEST_F(DurableStoreTest, WhatFollowsAStartComesWhenAllGraphsServe) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  for (const std::string& name : names) PublishDurably(name);
  durable_.reset();
  GraphStore graphs{{}};
  std::mutex mutex;
  std::vector<std::string> followed;
  std::promise<void> all;
  DurableStore* store = nullptr;
  DurableStore::Parts parts = Parts();
  parts.graphs = &graphs;
  parts.num_loaders = 2;
  parts.after_start = [&](const std::string& name, const StopCheck& stop) {
    EXPECT_TRUE(stop().ok());
    const std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
    EXPECT_TRUE(lock.owns_lock()) << "one at a time";
    EXPECT_TRUE(store->loaded());
    for (const std::string& other : names) EXPECT_TRUE(graphs.Find(other, 0, "", 0).ok()) << other;
    followed.push_back(name);
    if (followed.size() == names.size()) all.set_value();
  };
  DurableStore started(parts);
  store = &started;
  ASSERT_TRUE(started.Load().ok());
  all.get_future().wait();
  const std::unique_lock<std::mutex> lock(mutex);
  EXPECT_THAT(followed, ::testing::UnorderedElementsAreArray(names));
}

TEST_F(DurableStoreTest, WhoStopsNeedNotWaitForWhatFollowsAStart) {
  PublishDurably("g");
  durable_.reset();
  GraphStore graphs{{}};
  DurableStore::Parts parts = Parts();
  parts.graphs = &graphs;
  std::promise<void> begun;
  Status stopped;
  parts.after_start = [&](const std::string&, const StopCheck& stop) {
    begun.set_value();
    while (stop().ok()) std::this_thread::yield();
    stopped = stop();
  };
  {
    DurableStore started(parts);
    ASSERT_TRUE(started.Load().ok());
    begun.get_future().wait();
  }
  EXPECT_EQ(ReasonOf(stopped), "DRAINING");
}

TEST_F(DurableStoreTest, AGraphThatDoesNotFitTheBudgetIsReportedAndStaysOnDisk) {
  Publish("g");
  const int64_t version = ServingVersion(*graphs_.Get("g"));
  EXPECT_EQ(DurabilityOf("g").durability, Durability::kDurable);
  durable_.reset();
  GraphStore graphs{{}};
  MemoryBudget budget(10);
  DurableStore::Parts parts = Parts();
  parts.graphs = &graphs;
  parts.budget = &budget;
  std::promise<void> failed;
  bool told = false;
  const auto watch = graphs.Watch("g", [&] {
    if (told || graphs.Get("g")->state != GraphState::kFailed) return;
    told = true;
    failed.set_value();
  });
  DurableStore durable(parts);
  ASSERT_TRUE(durable.Load().ok());
  failed.get_future().wait();
  EXPECT_EQ(graphs.Find("g", 0, "", 0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(graphs.Get("g")->error), "OVER_BUDGET");
  EXPECT_EQ(directory_->List()->published.size(), 1u);
  EXPECT_EQ(ServingVersion(*graphs.Get("g")), 0);
  EXPECT_EQ(graphs.Get("g")->unloaded_version, version);
  EXPECT_EQ(graphs.Delete("g", version + 1).code(), StatusCode::kAborted);
  EXPECT_TRUE(graphs.Delete("g", version).ok()) << "if_version names what lists show";
}

}  // namespace
}  // namespace vicinal::durable
