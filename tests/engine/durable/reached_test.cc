// SPDX-License-Identifier: Apache-2.0
// What an upload waits for holds when the stores and the disk have it, and not before.
#include "engine/durable/reached.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/durable/durable_testing.h"

namespace vicinal::durable {
namespace {

using Kind = UploadedVersion::Kind;

class ReachedTest : public ::testing::Test {
 protected:
  int64_t Begin(const std::string& name) { return graphs_.BeginPrepare(name, true, 0, 2, 0).value(); }
  // Publishes the version with features in the store and, unless `in_memory`, for the disk.
  void Publish(const std::string& name, int64_t version, bool in_memory = false) {
    EdgeList edges;
    edges.num_nodes = 2;
    PreparedGraph::Parts parts = MakePrepared(edges, OrderKind::kNone, *device_)->parts();
    parts.name = name;
    parts.version = version;
    graphs_.FinishPrepare(name, version, std::make_shared<const PreparedGraph>(std::move(parts), device_.get()),
                          TwoRows(*device_));
    if (!in_memory) durable_->GraphPublished(name);
  }
  StatusOr<bool> Graph(int64_t version, WaitFor wait_for) const {
    return HasReached(graphs_, models_, durable_.get(), {Kind::kGraph, "g", "", version}, wait_for);
  }
  StatusOr<bool> Set(int64_t version, WaitFor wait_for) const {
    return HasReached(graphs_, models_, durable_.get(), {Kind::kFeatures, "g", "default", version}, wait_for);
  }
  void Flush() { ASSERT_TRUE(durable_->Flush(std::chrono::steady_clock::now() + std::chrono::minutes(1))); }

  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  state::SimulatedFileSystem files_;
  std::unique_ptr<state::StateDirectory> directory_ = OpenState(&files_);
  GraphStore graphs_{{}};
  ModelStore models_{{}};
  MemoryBudget budget_{0};
  std::unique_ptr<DurableStore> durable_ = std::make_unique<DurableStore>(
      DurableStore::Parts{directory_.get(), &graphs_, &models_, device_.get(), &budget_, &Logger::Null(), [] {}});
};

TEST_F(ReachedTest, AGraphIsReadyOncePublishedAndDurableOnceOnDisk) {
  const int64_t version = Begin("g");
  EXPECT_TRUE(*Graph(version, WaitFor::kAccepted));
  EXPECT_FALSE(*Graph(version, WaitFor::kReady));
  EXPECT_FALSE(*Graph(version, WaitFor::kDurable));
  Publish("g", version, /*in_memory=*/true);
  EXPECT_TRUE(*Graph(version, WaitFor::kReady));
  EXPECT_FALSE(*Graph(version, WaitFor::kDurable));
  durable_->GraphPublished("g");
  Flush();
  EXPECT_TRUE(*Graph(version, WaitFor::kDurable));
  const int64_t set = graphs_.Get("g")->feature_sets[0]->version;
  EXPECT_TRUE(*Set(set, WaitFor::kReady));
  EXPECT_TRUE(*Set(set, WaitFor::kDurable));
  EXPECT_EQ(Set(set + 1, WaitFor::kReady).status().code(), StatusCode::kAborted);
}

TEST_F(ReachedTest, AGraphIsNotDurableWithoutTheFeaturesThatCameAlong) {
  const int64_t version = Begin("g");
  Publish("g", version);
  Flush();
  ASSERT_TRUE(*Graph(version, WaitFor::kDurable));
  const auto set = graphs_.PutFeatures("g", "default", version, TwoRows(*device_), true, 0);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_FALSE(*Graph(version, WaitFor::kDurable));
  durable_->FeaturesPublished(*set);
  Flush();
  EXPECT_TRUE(*Graph(version, WaitFor::kDurable));
}

TEST_F(ReachedTest, AFullDiskEndsTheWaitWithItsError) {
  const int64_t version = Begin("g");
  files_.FailAt(0, ENOSPC);
  Publish("g", version);
  Flush();
  const Status status = Graph(version, WaitFor::kDurable).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(ReasonOf(status), "STATE_DISK_FULL");
  EXPECT_TRUE(*Graph(version, WaitFor::kReady));
  // Its features cannot be on disk without it, and say why.
  EXPECT_EQ(ReasonOf(Set(graphs_.Get("g")->feature_sets[0]->version, WaitFor::kDurable).status()), "STATE_DISK_FULL");
}

TEST_F(ReachedTest, AFailedPreparationIsItsOwnError) {
  const int64_t first = Begin("g");
  Publish("g", first);
  const int64_t second = Begin("g");
  graphs_.FinishPrepare("g", second, InvalidArgument("ID_OUT_OF_RANGE", "edge_index", "edge 7"), nullptr);
  for (const WaitFor wait_for : {WaitFor::kReady, WaitFor::kDurable}) {
    const Status status = Graph(second, wait_for).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(status), "ID_OUT_OF_RANGE");
    EXPECT_TRUE(Graph(first, wait_for).ok()) << "the older version serves on";
  }
}

TEST_F(ReachedTest, WhatWasReplacedOrDeletedIsSuperseded) {
  const int64_t first = Begin("g");
  Publish("g", first);
  const int64_t second = Begin("g");
  Publish("g", second);
  for (const WaitFor wait_for : {WaitFor::kReady, WaitFor::kDurable}) {
    EXPECT_EQ(ReasonOf(Graph(first, wait_for).status()), "UPLOAD_SUPERSEDED");
    EXPECT_EQ(Graph(first, wait_for).status().code(), StatusCode::kAborted);
  }
  ASSERT_TRUE(graphs_.Delete("g", 0).ok());
  EXPECT_EQ(ReasonOf(Graph(second, WaitFor::kReady).status()), "UPLOAD_SUPERSEDED");
}

TEST_F(ReachedTest, WithoutAStateDirectoryNothingBecomesDurable) {
  const int64_t version = Begin("g");
  Publish("g", version);
  const UploadedVersion uploaded{Kind::kGraph, "g", "", version};
  EXPECT_TRUE(*HasReached(graphs_, models_, nullptr, uploaded, WaitFor::kReady));
  const Status status = HasReached(graphs_, models_, nullptr, uploaded, WaitFor::kDurable).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "NO_STATE_DIRECTORY");
}

TEST_F(ReachedTest, WatchersOfAModelHearOfItsReplacement) {
  int calls = 0;
  const auto watch = models_.Watch("m", [&] { ++calls; });
  StoredModel model;
  model.name = "m";
  model.model = std::make_shared<const Model>();
  const auto first = models_.Put(std::move(model), false, 0);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(calls, 1);
  const UploadedVersion uploaded{Kind::kModel, "m", "", (*first)->version};
  EXPECT_TRUE(*HasReached(graphs_, models_, durable_.get(), uploaded, WaitFor::kReady));
  EXPECT_FALSE(*HasReached(graphs_, models_, durable_.get(), uploaded, WaitFor::kDurable));
  ASSERT_TRUE(models_.Delete("m", 0).ok());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(ReasonOf(HasReached(graphs_, models_, durable_.get(), uploaded, WaitFor::kDurable).status()),
            "UPLOAD_SUPERSEDED");
}

}  // namespace
}  // namespace vicinal::durable
