// SPDX-License-Identifier: Apache-2.0
// A device with less memory than its graphs need: the least recently used leave it, stay on the host, and return with
// the same versions and bits; short of the host's memory, they are on disk only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "tests/engine/durable/tier_testing.h"
#include "tests/support/temporary_directory.h"

namespace vicinal {
namespace {

using testing::AllNodes;
using testing::AwaitGraph;
using testing::ExpectAnswersToMany;
using testing::Infer;
using testing::kRingNodes;
using testing::kSmallFeatures;
using testing::Ring;
using testing::SmallModel;

constexpr int64_t kDeviceBytes = 160 << 10;  // a few of the graphs, with what a run takes
constexpr int kGraphs = 20;

std::string Name(int i) { return absl::StrCat("g", i); }

class DeviceTierTest : public testing::TierFixture {
 protected:
  void Start(int64_t device_bytes, int64_t budget_bytes = 0, bool durable = false) {
    EngineOptions options;
    options.device = "cuda:0";
    options.backend_path = VICINAL_LIB_DIR "/libvicinal_own_memory_backend.so";
    options.device_memory_bytes = device_bytes;
    options.memory_budget_bytes = budget_bytes;
    if (durable) options.state_dir = directory_ / "state";
    StartWith(options);
  }
  void Put(const std::string& name, bool pinned = false) { PutReady(name, pinned); }
  void AwaitReached(const std::string& name, WaitFor wait_for) {
    const UploadedVersion version = {UploadedVersion::Kind::kGraph, name, "",
                                     engine_->GetGraph(name)->serving->version};
    const auto told = std::make_shared<std::promise<void>>();
    const auto once = std::make_shared<std::atomic<bool>>(false);
    const auto look = [this, version, wait_for, told, once] {
      if (engine_->HasReached(version, wait_for).value_or(true) && !once->exchange(true)) told->set_value();
    };
    const auto watch = engine_->WatchVersion(version, look);
    look();
    told->get_future().wait();
  }
  // What a server with room for all answers.
  std::vector<std::vector<float>> Expected() {
    Start(0);
    EXPECT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
    std::vector<std::vector<float>> answers;
    for (int i = 0; i < kGraphs; ++i) {
      Put(Name(i));
      answers.push_back(Answers(Name(i)));
    }
    EXPECT_EQ(stats_.left_device, 0);
    engine_.reset();
    return answers;
  }
  // The same graphs and the model, with that much memory.
  void Fill(int64_t device_bytes, int64_t budget_bytes = 0, bool durable = false) {
    Start(device_bytes, budget_bytes, durable);
    EXPECT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
    for (int i = 0; i < kGraphs; ++i) {
      Put(Name(i));
      if (durable) AwaitReached(Name(i), WaitFor::kDurable);
    }
  }
  Tier TierOf(const std::string& name) { return engine_->GetGraph(name)->serving->tier; }
  int CountIn(Tier tier) {
    int count = 0;
    for (const GraphResource& graph : engine_->ListGraphs()) count += graph.serving->tier == tier;
    return count;
  }
  // Uses the others until the graph has left the device.
  void MakeLeave(const std::string& name) {
    for (int i = 0; i < kGraphs && TierOf(name) == Tier::kDevice; ++i) {
      if (Name(i) != name) Answers(Name(i));
    }
    ASSERT_EQ(TierOf(name), Tier::kHost);
  }
};

TEST_F(DeviceTierTest, MoreGraphsThanDeviceMemoryServeWithTheSameBits) {
  const auto answers = Expected();
  Fill(kDeviceBytes);
  EXPECT_GT(stats_.left_device, 0) << "uploads make room, too";
  std::vector<int64_t> versions;
  for (int i = 0; i < kGraphs; ++i) versions.push_back(engine_->GetGraph(Name(i))->serving->version);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kGraphs; ++i) {
      EXPECT_EQ(Answers(Name(i)), answers[static_cast<size_t>(i)]) << i;
      EXPECT_LE(engine_->Counts().device_allocated_bytes, kDeviceBytes);
    }
  }
  for (int i = 0; i < kGraphs; ++i) {
    const auto graph = engine_->GetGraph(Name(i));
    EXPECT_EQ(graph->state, GraphState::kReady);
    EXPECT_EQ(graph->serving->version, versions[static_cast<size_t>(i)]);
    EXPECT_EQ(graph->feature_sets.size(), 1u);
  }
  EXPECT_GT(CountIn(Tier::kHost), 0);
  EXPECT_GT(CountIn(Tier::kDevice), 0);
  EXPECT_EQ(CountIn(Tier::kHost) + CountIn(Tier::kDevice), kGraphs);
  EXPECT_GE(stats_.returns, 2 * kGraphs) << "each pass over all brings all back but what is there";
  EXPECT_EQ(stats_.failures, 0);
  EXPECT_EQ(stats_.evictions, 0) << "nothing left the host";
}

TEST_F(DeviceTierTest, BytesAreCountedWhereTheyAre) {
  Fill(kDeviceBytes);
  constexpr int64_t kFeatureBytes = kRingNodes * kSmallFeatures * 4;
  const ResourceCounts counts = engine_->Counts();
  const int left = CountIn(Tier::kHost);
  ASSERT_GT(left, 0);
  EXPECT_EQ(counts.graphs, kGraphs);
  EXPECT_EQ(counts.resident_graphs, kGraphs);
  EXPECT_EQ(counts.host_graphs, left);
  EXPECT_EQ(counts.feature_sets, kGraphs);
  EXPECT_EQ(counts.on_host.features, left * kFeatureBytes);
  EXPECT_EQ(counts.on_device.features, (kGraphs - left) * kFeatureBytes);
  EXPECT_EQ(counts.device_limit_bytes, kDeviceBytes);
  EXPECT_GE(counts.device_allocated_bytes, counts.on_device.features + counts.on_device.graphs);
  // The budget counts a feature set once, wherever it is.
  EXPECT_EQ(engine_->memory().Snapshot().features, kGraphs * kFeatureBytes);
}

TEST_F(DeviceTierTest, TheLeastRecentlyUsedLeavesAndThePinnedStays) {
  Start(kDeviceBytes);
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  Put("pinned", true);
  for (int i = 0; i < kGraphs; ++i) {
    Put(Name(i));
    Answers(Name(i));
    EXPECT_EQ(TierOf("pinned"), Tier::kDevice);
    EXPECT_EQ(TierOf(Name(i)), Tier::kDevice);
  }
  EXPECT_EQ(TierOf("g0"), Tier::kHost);
  const Tier second = TierOf(Name(kGraphs - 2));
  EXPECT_EQ(second, Tier::kDevice) << "used just before";
}

TEST_F(DeviceTierTest, ManyRequestsForOneGraphBringItBackOnce) {
  const auto answers = Expected();
  Fill(kDeviceBytes);
  MakeLeave("g0");
  const int returns = stats_.returns;
  ExpectAnswersToMany(*engine_, "g0", answers[0]);
  EXPECT_EQ(stats_.returns, returns + 1);
}

TEST_F(DeviceTierTest, ExplainBringsItBackAndSaysWhereItWas) {
  Fill(kDeviceBytes);
  MakeLeave("g0");
  const auto explained = engine_->Explain(AllNodes("g0", "m"));
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_THAT(explained->decisions, ::testing::Contains(::testing::HasSubstr("was on the host only")));
  EXPECT_EQ(TierOf("g0"), Tier::kDevice);
  const auto again = engine_->Explain(AllNodes("g0", "m"));
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(again->decisions, ::testing::Not(::testing::Contains(::testing::HasSubstr("on the host only"))));
}

TEST_F(DeviceTierTest, WhatHasLeftCanBeReplacedDeletedDrawnAndGivenFeatures) {
  const auto answers = Expected();
  Fill(kDeviceBytes);
  MakeLeave("g0");
  EXPECT_TRUE(engine_->Picture("g0", 8).ok());
  EXPECT_EQ(TierOf("g0"), Tier::kHost) << "a picture needs no device";
  const std::vector<float> rows(kRingNodes * kSmallFeatures, 0.5f);
  const HostTensor x = testing::Floats(rows, {kRingNodes, kSmallFeatures});
  FeatureTensors tensors;
  tensors.dense = x.view();
  ASSERT_TRUE(engine_->PutFeatures("g0", "more", tensors, false, 0).ok());
  MakeLeave("g0");
  ASSERT_TRUE(engine_->DeleteFeatures("g0", "default").ok());
  EXPECT_EQ(Infer(*engine_, AllNodes("g0", "m")).status().code(), StatusCode::kNotFound);
  InferenceRequest request = AllNodes("g0", "m");
  request.feature_set = "more";
  EXPECT_TRUE(Infer(*engine_, request).ok());

  MakeLeave("g1");
  const int64_t former = engine_->GetGraph("g1")->serving->version;
  GraphSource again = Ring("g1");
  again.replace = true;
  again.if_version = former;
  ASSERT_TRUE(engine_->PutGraph(std::move(again)).ok());
  EXPECT_GT(AwaitGraph(*engine_, "g1")->serving->version, former);
  EXPECT_EQ(Answers("g1"), answers[1]);
  MakeLeave("g2");
  ASSERT_TRUE(engine_->DeleteGraph("g2", 0).ok());
  EXPECT_EQ(engine_->GetGraph("g2").status().code(), StatusCode::kNotFound);
}

TEST_F(DeviceTierTest, GraphsLeaveTheDeviceAndThenTheHost) {
  const auto answers = Expected();
  constexpr int64_t kBudget = 400 << 10;
  Fill(kDeviceBytes, 0, /*durable=*/true);
  EXPECT_GT(stats_.left_device, 0);
  Stop();
  stats_.evictions = stats_.left_device = stats_.returns = 0;
  Start(kDeviceBytes, kBudget, /*durable=*/true);
  for (int i = 0; i < kGraphs; ++i) AwaitReached(Name(i), WaitFor::kReady);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kGraphs; ++i) EXPECT_EQ(Answers(Name(i)), answers[static_cast<size_t>(i)]) << i;
    // What was used lately is on the host at least.
    for (int i = kGraphs - 3; i < kGraphs; ++i) EXPECT_EQ(Answers(Name(i)), answers[static_cast<size_t>(i)]) << i;
  }
  EXPECT_GT(CountIn(Tier::kDisk), 0);
  EXPECT_GT(CountIn(Tier::kDevice), 0);
  EXPECT_GT(stats_.left_device, 0);
  EXPECT_GT(stats_.evictions, 0);
  EXPECT_GT(stats_.loads, 0);
  EXPECT_EQ(stats_.failures, 0);
  EXPECT_LE(engine_->Counts().device_allocated_bytes, kDeviceBytes);
}

TEST_F(DeviceTierTest, AStartFillsTheDeviceAndEvictsNothing) {
  Fill(0, 0, /*durable=*/true);
  for (const char* const name : {"g7", "g5"}) Answers(name);
  Stop();
  Start(4 * kRingNodes * kSmallFeatures * 4, 0, /*durable=*/true);  // features of four graphs
  AwaitStarted();
  EXPECT_EQ(stats_.left_device, 0);
  EXPECT_GT(CountIn(Tier::kDevice), 0);
  EXPECT_EQ(CountIn(Tier::kDevice) + CountIn(Tier::kDisk), kGraphs);
  // Two threads load. While one has begun with a graph and does not get on, the other may fill the device.
  EXPECT_TRUE(TierOf("g7") == Tier::kDevice || TierOf("g5") == Tier::kDevice) << "the most recently used come first";
}

TEST_F(DeviceTierTest, ManyThreadsUnderChurnGetTheirGraphsBits) {
  constexpr int kThreads = 4, kCalls = 100;
  const auto answers = Expected();
  Fill(2 * kDeviceBytes);
  std::atomic<int> wrong{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint64_t state = static_cast<uint64_t>(t) + 1;
      for (int call = 0; call < kCalls; ++call) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const auto i = static_cast<int>((state >> 33) % kGraphs);
        const auto result = Infer(*engine_, AllNodes(Name(i), "m"));
        // All memory may be in use at a moment; or the graph has left again before its request was queued.
        if (!result.ok()) {
          ++refused;
          EXPECT_THAT(result.status().code(),
                      ::testing::AnyOf(StatusCode::kResourceExhausted, StatusCode::kUnavailable))
              << result.status();
        } else if (result->values != answers[static_cast<size_t>(i)]) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LT(refused, kThreads * kCalls / 10);
  EXPECT_GT(stats_.returns, 0);
}

}  // namespace
}  // namespace vicinal
