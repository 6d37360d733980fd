// SPDX-License-Identifier: Apache-2.0
// What changes while a graph is being loaded: the load publishes what clients were told of by then, and nothing that
// they have deleted.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "tests/engine/durable/durable_world.h"

namespace vicinal::durable {
namespace {

class WhileLoadingTest : public ::testing::Test {
 protected:
  using ReadHook = std::function<void(int reads)>;

  // Calls `hook` each time that a feature set of "g" begins to be read, on the thread that reads.
  void AtReadsOfSets(ReadHook hook) {
    world_.files_.set_read_hook(
        [hook = std::move(hook), reads = std::make_shared<int>(0)](
            const std::string& path, state::SimulatedFileSystem::Access access, int64_t, int64_t) {
          if (access != state::SimulatedFileSystem::Access::kRead || !path.ends_with("/features.vsec")) return;
          hook(++*reads);
        });
  }
  // Loads "g" with `loader`, with `change` once its set has begun to be read.
  void LoadWhile(GraphLoader& loader, const std::function<void()>& begin, const std::function<void()>& change) {
    std::promise<void> reading, goes_on;
    AtReadsOfSets([&](int reads) {
      if (reads != 1) return;
      reading.set_value();
      goes_on.get_future().wait();
    });
    std::promise<Status> loaded;
    begin();
    ASSERT_TRUE(loader.Load("g", {}, [&](const Status& status) { loaded.set_value(status); }).ok());
    reading.get_future().wait();
    change();
    goes_on.set_value();
    const Status status = loaded.get_future().get();
    EXPECT_TRUE(status.ok()) << status;
    world_.files_.set_read_hook(nullptr);
  }
  void LoadInReplicaWhile(const std::function<void()>& change) {
    version_ = world_.Publish("g");
    LoadWhile(
        replica_.store->loader(), [&] { replica_.store->Follow(); }, change);
  }
  void DeleteSet(const std::string& name) {
    ASSERT_TRUE(world_.graphs_.DeleteFeatures("g", name).ok());
    const Status removed = world_.durable_->RemoveFeatures("g", name, FeatureKind::kNodes, 0);
    ASSERT_TRUE(removed.ok()) << removed;
  }
  static Status Find(const GraphStore& graphs, const std::string& set, int64_t version = 0) {
    return graphs.Find("g", 0, set, version).status();
  }
  int64_t Latest(const std::string& set) { return world_.graphs_.Find("g", 0, set, 0)->features->version; }

  World world_;
  Another replica_{world_, /*read_only=*/true};
  int64_t version_ = 0;
};

TEST_F(WhileLoadingTest, ASetThatAReplicaHasShownIsThere) {
  LoadInReplicaWhile([&] {
    world_.PutFeatures("g", version_, "more");
    replica_.store->Follow();
    EXPECT_EQ(replica_.graphs.Get("g")->stored->feature_sets.size(), 2u);
  });
  EXPECT_TRUE(Find(replica_.graphs, "default").ok());
  const Status found = Find(replica_.graphs, "more", Latest("more"));
  EXPECT_TRUE(found.ok()) << found;
}

TEST_F(WhileLoadingTest, TheVersionOfASetThatAReplicaHasShownIsThere) {
  LoadInReplicaWhile([&] {
    world_.PutFeatures("g", version_, "default", /*replace=*/true);
    replica_.store->Follow();
  });
  const Status found = Find(replica_.graphs, "default", Latest("default"));
  EXPECT_TRUE(found.ok()) << found;
  EXPECT_EQ(replica_.graphs.Get("g")->feature_sets.size(), 1u);
}

TEST_F(WhileLoadingTest, AReplicaDoesNotWaitForASetThatIsDeletedAgain) {
  LoadInReplicaWhile([&] {
    world_.PutFeatures("g", version_, "more");
    replica_.store->Follow();
    DeleteSet("more");
  });
  EXPECT_TRUE(Find(replica_.graphs, "default").ok());
  EXPECT_EQ(Find(replica_.graphs, "more").code(), StatusCode::kNotFound);
}

// Another server publishes a version for each that this one reads.
TEST_F(WhileLoadingTest, AReplicaServesInTheEndWhatItCouldRead) {
  std::promise<void> followed;
  version_ = world_.Publish("g");
  int published = 0;
  AtReadsOfSets([&](int reads) {
    if (reads == 1) followed.get_future().wait();
    if (published > 1000) return;
    ++published;
    world_.PutFeatures("g", version_, "default", /*replace=*/true);
    replica_.store->Follow();
  });
  replica_.store->Follow();
  followed.set_value();
  const Status loaded = replica_.store->loader().LoadAndWait("g", {}, Clock::Real());
  EXPECT_TRUE(loaded.ok()) << loaded;
  world_.files_.set_read_hook(nullptr);
  EXPECT_TRUE(Find(replica_.graphs, "default").ok());
  EXPECT_LT(published, 1000);
}

TEST_F(WhileLoadingTest, WhatIsDeletedDoesNotComeBack) {
  version_ = world_.Publish("g");
  world_.PutFeatures("g", version_, "more");
  Evict(world_, "g");
  LoadWhile(
      world_.durable_->loader(), [] {}, [&] { DeleteSet("more"); });
  EXPECT_TRUE(Find(world_.graphs_, "default").ok());
  EXPECT_EQ(Find(world_.graphs_, "more").code(), StatusCode::kNotFound);
  // The name is free again, for this version too.
  world_.PutFeatures("g", version_, "more");
  Evict(world_, "g");
  EXPECT_TRUE(world_.durable_->loader().LoadAndWait("g", {}, Clock::Real()).ok());
  EXPECT_TRUE(Find(world_.graphs_, "more").ok());
}

}  // namespace
}  // namespace vicinal::durable
