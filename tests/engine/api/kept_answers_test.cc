// SPDX-License-Identifier: Apache-2.0
// Kept answers through the engine's door: when a pass is run, that the bits are those of a computation, what is always
// computed, and what ends them.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/base/mutex.h"
#include "tests/engine/api/small_world.h"

namespace vicinal::testing {
namespace {

// Counts the passes by outcome, and lets a test wait for one.
class PassRecorder final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
  void AnswerPass(std::string_view outcome, double) override {
    MutexLock lock(&mutex_);
    outcomes_.emplace_back(outcome);
    ended_.NotifyAll();
  }
  void AnswersEvicted() override { ++evicted; }
  // The outcome of pass number `index` that was not interrupted.
  std::string Await(size_t index) {
    MutexLock lock(&mutex_);
    for (;;) {
      size_t seen = 0;
      for (const std::string& outcome : outcomes_) {
        if (outcome != "interrupted" && seen++ == index) return outcome;
      }
      ended_.Wait(&mutex_);
    }
  }

  std::atomic<int> evicted{0};

 private:
  Mutex mutex_;
  CondVar ended_;
  std::vector<std::string> outcomes_ VICINAL_GUARDED_BY(mutex_);
};

constexpr int64_t kLong = 5000;

GraphSource Path(float first) {
  GraphSource source;
  std::vector<int64_t> ends(2 * (kLong - 1));
  for (int64_t i = 0; i + 1 < kLong; ++i) ends[i] = i, ends[kLong - 1 + i] = i + 1;
  std::vector<float> rows(kLong * kSmallFeatures);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = first + 0.25f * static_cast<float>(i % 13);
  source.name = "path";
  source.node_count = kLong;
  source.edge_index = Ints(ends, {2, kLong - 1});
  source.x = Floats(rows, {kLong, kSmallFeatures});
  source.order = OrderKind::kRcm;
  source.replace = true;
  return source;
}

class KeptAnswersTest : public ::testing::Test {
 protected:
  void Start(KeepAnswers mode, EngineOptions options = {}) {
    options.keep_answers = mode;
    options.stats = &passes_;
    engine_ = MakeEngine(options);
    PutSmallWorld(*engine_);
    PutPath(0.25f);
  }
  void PutPath(float first) {
    ASSERT_TRUE(engine_->PutGraph(Path(first)).ok());
    const auto ready = AwaitGraph(*engine_, "path");
    ASSERT_TRUE(ready.ok() && ready->state == GraphState::kReady) << ready.status();
  }
  InferenceResult Ask(const InferenceRequest& request) {
    const auto result = Infer(*engine_, request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : InferenceResult();
  }
  static InferenceRequest Nodes(std::vector<int64_t> ids) {
    InferenceRequest request = AllNodes("path", "m");
    request.nodes = {false, std::move(ids)};
    return request;
  }
  // The same request, always computed.
  InferenceResult Computed(InferenceRequest request) {
    request.options.receptive_field = ReceptiveField::kNever;
    const InferenceResult result = Ask(request);
    EXPECT_FALSE(result.kept);
    return result;
  }

  PassRecorder passes_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(KeptAnswersTest, APassFollowsOnceQueriesHaveCostAsMuch) {
  Start(KeepAnswers::kAuto);
  const InferenceResult few = Ask(Nodes({17, 4000, 17}));
  EXPECT_TRUE(few.receptive_field);
  EXPECT_EQ(engine_->kept_answers(), 0) << "a small share of a pass";
  const InferenceResult all = Ask(AllNodes("path", "m"));
  EXPECT_FALSE(all.kept);
  ASSERT_EQ(passes_.Await(0), "kept");
  EXPECT_EQ(engine_->kept_answers(), 1);
  EXPECT_EQ(engine_->memory().Snapshot().answers, kLong * 2 * 4);

  const InferenceResult kept = Ask(Nodes({17, 4000, 17}));
  EXPECT_TRUE(kept.kept);
  EXPECT_EQ(kept.values, few.values);
  EXPECT_EQ(kept.rows, 3);
  EXPECT_EQ(kept.width, 2);
  EXPECT_EQ(kept.computed_nodes, 0);
  EXPECT_EQ(kept.served_by.graph_version, few.served_by.graph_version);
  EXPECT_EQ(kept.served_by.numerics_revision, few.served_by.numerics_revision);
  EXPECT_EQ(Ask(AllNodes("path", "m")).values, all.values);
}

TEST_F(KeptAnswersTest, ManySmallQueriesPayForAPass) {
  Start(KeepAnswers::kAuto);
  const InferenceResult computed = Computed(Nodes({9}));
  int queries = 0;
  while (!Ask(Nodes({9})).kept) ++queries;
  EXPECT_GT(queries, 2);
  EXPECT_EQ(Ask(Nodes({9})).values, computed.values);
}

TEST_F(KeptAnswersTest, NeverMeansNever) {
  Start(KeepAnswers::kNever);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Ask(AllNodes("path", "m")).kept);
  EXPECT_EQ(engine_->kept_answers(), 0);
}

TEST_F(KeptAnswersTest, AlwaysKeepsAfterTheFirstQuery) {
  Start(KeepAnswers::kAlways);
  EXPECT_FALSE(Ask(Nodes({3})).kept);
  ASSERT_EQ(passes_.Await(0), "kept");
  EXPECT_TRUE(Ask(Nodes({3})).kept);
}

TEST_F(KeptAnswersTest, OtherOutputsAndPrecisionsAreKeptApart) {
  Start(KeepAnswers::kAlways);
  Ask(Nodes({3}));
  ASSERT_EQ(passes_.Await(0), "kept");
  InferenceRequest hidden = Nodes({3});
  hidden.options.output = "conv1";
  EXPECT_FALSE(Ask(hidden).kept);
  ASSERT_EQ(passes_.Await(1), "kept");
  EXPECT_EQ(Ask(hidden).width, 4);
  InferenceRequest rounded = Nodes({3});
  rounded.options.precision = Storage::kBfloat16;
  EXPECT_FALSE(Ask(rounded).kept);
  ASSERT_EQ(passes_.Await(2), "kept");
  EXPECT_EQ(engine_->kept_answers(), 3);
}

TEST_F(KeptAnswersTest, WhatARequestBringsOrForcesIsComputed) {
  Start(KeepAnswers::kAlways);
  Ask(Nodes({3}));
  ASSERT_EQ(passes_.Await(0), "kept");
  for (const ReceptiveField forced : {ReceptiveField::kNever, ReceptiveField::kAlways}) {
    InferenceRequest request = Nodes({3});
    request.options.receptive_field = forced;
    EXPECT_FALSE(Ask(request).kept);
  }
  InferenceRequest kernel = Nodes({3});
  kernel.options.kernels["aggregate"] = "reference";
  EXPECT_FALSE(Ask(kernel).kept);
  InferenceRequest brings = Nodes({3});
  const std::vector<float> row = {9.0f, 9.0f, 9.0f};
  const HostTensor tensor = Floats(row, {1, kSmallFeatures});
  brings.features.emplace();
  brings.features->tensors.dense = tensor.view();
  brings.features->rows = {3};
  const InferenceResult replaced = Ask(brings);
  EXPECT_FALSE(replaced.kept);
  EXPECT_NE(replaced.values, Ask(Nodes({3})).values);
}

TEST_F(KeptAnswersTest, ReplacedGraphsAndModelsEndThem) {
  Start(KeepAnswers::kAlways);
  const InferenceResult before = Ask(Nodes({3}));
  ASSERT_EQ(passes_.Await(0), "kept");
  PutPath(2.0f);
  const InferenceResult other = Ask(Nodes({3}));
  EXPECT_FALSE(other.kept);
  EXPECT_NE(other.values, before.values);
  ASSERT_EQ(passes_.Await(1), "kept");
  // Those of the replaced version go soon after it.
  while (engine_->kept_answers() != 1) std::this_thread::yield();
  EXPECT_EQ(Ask(Nodes({3})).values, other.values);
  ModelSource model = SmallModel("m", 0.25f);
  model.replace = true;
  ASSERT_TRUE(engine_->PutModel(model, {}).ok());
  EXPECT_EQ(engine_->memory().Snapshot().answers, 0);
  EXPECT_FALSE(Ask(Nodes({3})).kept);
}

TEST_F(KeptAnswersTest, TheyAreEvictedFirst) {
  EngineOptions options;
  options.memory_budget_bytes = 4 << 20;
  Start(KeepAnswers::kAlways, options);
  Ask(Nodes({3}));
  ASSERT_EQ(passes_.Await(0), "kept");
  const MemoryUse use = engine_->memory().Snapshot();
  ASSERT_GT(use.answers, 0);
  const int64_t others = use.total() - use.answers;
  EXPECT_TRUE(engine_->memory().Check(use.budget - others, "a test").ok());
  EXPECT_EQ(engine_->memory().Snapshot().answers, 0);
  EXPECT_EQ(engine_->memory().Snapshot().plans, use.plans) << "a plan costs more to have again";
  EXPECT_EQ(passes_.evicted, 1);
  EXPECT_FALSE(Ask(Nodes({3})).kept);
}

TEST_F(KeptAnswersTest, TheLeastUsedGoWhenTheirShareIsFull) {
  EngineOptions options;
  options.max_answer_bytes = kLong * 2 * 4;
  Start(KeepAnswers::kAlways, options);
  Ask(Nodes({3}));
  ASSERT_EQ(passes_.Await(0), "kept");
  InferenceRequest rounded = Nodes({3});
  rounded.options.precision = Storage::kBfloat16;
  Ask(rounded);
  ASSERT_EQ(passes_.Await(1), "kept");
  EXPECT_EQ(engine_->kept_answers(), 1);
  EXPECT_TRUE(Ask(rounded).kept);
  InferenceRequest hidden = Nodes({3});
  hidden.options.output = "conv1";  // twice as wide: never fits
  Ask(hidden);
  EXPECT_TRUE(Ask(rounded).kept);
}

TEST_F(KeptAnswersTest, LimitsAndDrainingHoldForThemToo) {
  Start(KeepAnswers::kAlways);
  Ask(Nodes({3}));
  ASSERT_EQ(passes_.Await(0), "kept");
  InferenceRequest late = Nodes({3});
  late.limits.deadline = Clock::Real().Now() - std::chrono::seconds(1);
  EXPECT_EQ(Infer(*engine_, late).status().code(), StatusCode::kDeadlineExceeded);
  InferenceRequest outside = Nodes({kLong});
  EXPECT_EQ(Infer(*engine_, outside).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(engine_->Drain(Clock::Real().Now() + std::chrono::hours(1)));
  EXPECT_EQ(Infer(*engine_, Nodes({3})).status().code(), StatusCode::kUnavailable);
}

TEST_F(KeptAnswersTest, LargeCopiesRunElsewhere) {
  std::thread worker;
  EngineOptions options;
  options.run_elsewhere = [&worker](std::function<void()> job) { worker = std::thread(std::move(job)); };
  Start(KeepAnswers::kAlways, options);
  const InferenceResult computed = Ask(AllNodes("path", "m"));
  ASSERT_EQ(passes_.Await(0), "kept");
  EXPECT_TRUE(Ask(AllNodes("path", "m")).kept);
  EXPECT_FALSE(worker.joinable()) << "10,000 values are few";
  InferenceRequest twice = Nodes({});
  for (int64_t i = 0; i < 2 * kLong; ++i) twice.nodes.ids.push_back(i % kLong);
  const InferenceResult kept = Ask(twice);
  ASSERT_TRUE(worker.joinable());
  worker.join();
  EXPECT_TRUE(kept.kept);
  EXPECT_EQ(std::vector<float>(kept.values.begin() + kLong * 2, kept.values.end()), computed.values);
}

// For the thread sanitizer above all: copies while passes run and versions change.
TEST_F(KeptAnswersTest, StressVersionsChangeUnderKeptAnswers) {
  Start(KeepAnswers::kAlways);
  std::vector<std::vector<float>> answers;
  for (const float first : {2.0f, 0.25f}) {
    PutPath(first);
    answers.push_back(Computed(Nodes({3, 70})).values);
  }
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      while (!stop) {
        const auto got = Infer(*engine_, Nodes({3, 70}));
        if (!got.ok() || (got->values != answers[0] && got->values != answers[1])) ++wrong;
        (void)engine_->memory().Snapshot();
      }
    });
  }
  for (int round = 0; round < 10; ++round) PutPath(round % 2 ? 0.25f : 2.0f);
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace vicinal::testing
