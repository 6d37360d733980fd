// SPDX-License-Identifier: Apache-2.0
// Kept answers through the engine's door: when a pass is run, that the bits are those of a computation, what is always
// computed, and what ends them.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/engine/api/answer_testing.h"
#include "tests/engine/api/small_world.h"

namespace vicinal::testing {
namespace {

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
  SteppingClock clock_;
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

// The clock stands still: memory that became free, and time, are what the test makes of them.
TEST_F(KeptAnswersTest, WhatHasNoRoomIsTriedAgainEverMoreRarely) {
  EngineOptions options;
  options.clock = &clock_;
  options.memory_budget_bytes = 8 << 20;
  Start(KeepAnswers::kAlways, options);
  Computed(Nodes({3}));  // the plan is there
  const MemoryUse use = engine_->memory().Snapshot();
  constexpr int64_t kAnswer = kLong * 2 * 4;
  auto others = engine_->memory().Reserve(Account::kUploads, use.budget - use.total() - kAnswer + 1, "a test");
  ASSERT_TRUE(others.ok()) << others.status();
  // Queries that have cost more than a pass.
  const auto ask = [this] {
    std::vector<int64_t> half;
    for (int64_t id = 0; id < kLong; id += 2) half.push_back(id);
    for (int i = 0; i < 4; ++i) Ask(Nodes(half));
  };
  ask();
  ASSERT_EQ(passes_.Await(0), "refused");
  ask();
  clock_.Skip(std::chrono::seconds(1));
  ask();
  ASSERT_EQ(passes_.Await(1), "refused") << "no pass while the clock stood still";
  clock_.Skip(std::chrono::seconds(1));
  ask();
  others->Release();
  ask();
  EXPECT_EQ(passes_.Await(2), "kept") << "no pass a second later, but one as soon as there was room";
  EXPECT_TRUE(Ask(Nodes({3})).kept);
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

// --- answers made before a new version serves ---

class AnswersAheadTest : public KeptAnswersTest {
 protected:
  // Answers of "m" on "path" are kept, and a request was answered from them.
  void StartInUse(EngineOptions options = {}) {
    Start(KeepAnswers::kAlways, options);
    Ask(Nodes({3}));
    ASSERT_EQ(passes_.Await(0), "kept");
    ASSERT_TRUE(Ask(Nodes({3})).kept);
  }
  Status PutFeatures(float first, const std::string& name = "default") {
    const GraphSource source = Path(first);
    FeatureTensors tensors;
    tensors.dense = source.x->view();
    return engine_->PutFeatures("path", name, tensors, true, 0, {}).status();
  }
  static InferenceRequest OfSet(const std::string& name) {
    InferenceRequest request = Nodes({3});
    request.feature_set = name;
    return request;
  }
  // Answers of "path" and of its feature set "more" are in use.
  void StartWithTwoSets(EngineOptions options = {}) {
    StartInUse(options);
    ASSERT_TRUE(PutFeatures(1.0f, "more").ok());
    Ask(OfSet("more"));
    ASSERT_EQ(passes_.Await(1), "kept");
    ASSERT_TRUE(Ask(OfSet("more")).kept);
  }
  Status PutModel(ModelSource model, const WorkLimits& limits = {}) {
    model.replace = true;
    return engine_->PutModel(std::move(model), limits).status();
  }
  // The first request after the switch is answered as one is that computes on a server that knows nothing else.
  void ExpectThere(float rows, float weights) {
    const InferenceResult first = Ask(Nodes({17, 4000}));
    EXPECT_TRUE(first.kept);
    while (engine_->kept_answers() != 1) std::this_thread::yield();  // those of the former version go soon after it
    const std::unique_ptr<Engine> quiet = MakeEngine();
    ASSERT_TRUE(quiet->PutGraph(Path(rows)).ok());
    ASSERT_TRUE(AwaitGraph(*quiet, "path").ok());
    ASSERT_TRUE(quiet->PutModel(SmallModel("m", weights), {}).ok());
    const auto computed = Infer(*quiet, Nodes({17, 4000}));
    ASSERT_TRUE(computed.ok()) << computed.status();
    EXPECT_FALSE(computed->kept);
    EXPECT_EQ(first.values, computed->values);
    EXPECT_EQ(first.served_by.numerics_revision, computed->served_by.numerics_revision);
  }
};

TEST_F(AnswersAheadTest, OfAGraph) {
  StartInUse();
  PutPath(2.0f);
  EXPECT_EQ(passes_.Await(1), "ahead");
  ExpectThere(2.0f, -0.5f);
}

TEST_F(AnswersAheadTest, OfAFeatureSet) {
  StartInUse();
  ASSERT_TRUE(PutFeatures(2.0f).ok());
  EXPECT_EQ(passes_.Await(1), "ahead");
  ExpectThere(2.0f, -0.5f);
}

TEST_F(AnswersAheadTest, OfAModel) {
  StartInUse();
  ASSERT_TRUE(PutModel(SmallModel("m", 0.25f)).ok());
  EXPECT_EQ(passes_.Await(1), "ahead");
  EXPECT_EQ(engine_->memory().Snapshot().answers, kLong * 2 * 4);
  ExpectThere(0.25f, 0.25f);
}

TEST_F(AnswersAheadTest, EachOutputAndPrecisionInUse) {
  StartInUse();
  InferenceRequest hidden = Nodes({3});
  hidden.options.output = "conv1";
  InferenceRequest rounded = Nodes({3});
  rounded.options.precision = Storage::kBfloat16;
  size_t passes = 1;
  for (const InferenceRequest& request : {hidden, rounded}) {
    Ask(request);
    ASSERT_EQ(passes_.Await(passes++), "kept");
  }
  ASSERT_TRUE(Ask(rounded).kept);
  PutPath(2.0f);
  EXPECT_TRUE(Ask(Nodes({3})).kept);
  EXPECT_TRUE(Ask(rounded).kept);
  EXPECT_FALSE(Ask(hidden).kept) << "nobody was answered from it";
}

TEST_F(AnswersAheadTest, OfFeatureSetsThatFollowTheirGraph) {
  StartWithTwoSets();
  PutPath(2.0f);
  EXPECT_EQ(passes_.Await(2), "ahead");
  ASSERT_TRUE(PutFeatures(3.0f, "more").ok());
  EXPECT_EQ(passes_.Await(3), "ahead");
  const InferenceResult first = Ask(OfSet("more"));
  EXPECT_TRUE(first.kept);
  EXPECT_EQ(first.values, Computed(OfSet("more")).values);
  ASSERT_TRUE(PutFeatures(4.0f, "other").ok());
  EXPECT_FALSE(Ask(OfSet("other")).kept) << "nobody asked for it before";
}

TEST_F(AnswersAheadTest, OfFeaturesThatFollowAGraphWithout) {
  StartInUse();
  GraphSource bare = Path(0.0f);
  bare.x.reset();
  ASSERT_TRUE(engine_->PutGraph(std::move(bare)).ok());
  ASSERT_TRUE(AwaitGraph(*engine_, "path").ok());
  ASSERT_TRUE(PutFeatures(2.0f).ok());
  EXPECT_EQ(passes_.Await(1), "ahead");
  ExpectThere(2.0f, -0.5f);
}

TEST_F(AnswersAheadTest, WhatFollowsTooLateIsNotInUseAnyMore) {
  EngineOptions options;
  options.clock = &clock_;
  StartWithTwoSets(options);
  PutPath(2.0f);
  ASSERT_EQ(passes_.Await(2), "ahead");
  clock_.Skip(std::chrono::minutes(11));
  ASSERT_TRUE(PutFeatures(3.0f, "more").ok());
  EXPECT_FALSE(Ask(OfSet("more")).kept);
}

// Graphs without the set come and go; the set that follows the last one has its answers.
TEST_F(AnswersAheadTest, WhatNobodyAskedForBetweenTwoVersionsStaysInUse) {
  StartWithTwoSets();
  for (int version = 2; version <= 4; ++version) {
    PutPath(static_cast<float>(version));
    EXPECT_EQ(passes_.Await(static_cast<size_t>(version)), "ahead");
  }
  ASSERT_TRUE(PutFeatures(3.0f, "more").ok());
  EXPECT_EQ(passes_.Await(5), "ahead");
  EXPECT_TRUE(Ask(Nodes({3})).kept);
  EXPECT_TRUE(Ask(OfSet("more")).kept);
}

// Of two answers one has room beside those in use, which the ones that were remembered must not push out.
TEST_F(AnswersAheadTest, WhatIsRememberedPushesNothingOut) {
  EngineOptions options;
  options.max_answer_bytes = 2 * kLong * 2 * 4;
  StartWithTwoSets(options);
  ASSERT_TRUE(Ask(Nodes({3})).kept);
  PutPath(2.0f);
  EXPECT_EQ(passes_.Await(2), "ahead") << "less used answers of 'more' make room";
  ASSERT_TRUE(Ask(Nodes({3})).kept);
  InferenceRequest rounded = Nodes({3});
  rounded.options.precision = Storage::kBfloat16;
  Ask(rounded);
  ASSERT_EQ(passes_.Await(3), "kept");
  ASSERT_TRUE(Ask(rounded).kept);
  const int evicted = passes_.evicted;
  ASSERT_TRUE(PutFeatures(3.0f, "more").ok());
  EXPECT_EQ(passes_.Await(4), "refused");
  EXPECT_EQ(passes_.evicted, evicted);
  EXPECT_TRUE(Ask(Nodes({3})).kept);
  EXPECT_TRUE(Ask(rounded).kept);
}

// The clock stands still and the executor is busy: only the end of the call ends the wait for the answers.
TEST_F(AnswersAheadTest, FeaturesOfACallThatHasEndedWaitForNone) {
  EngineOptions options;
  options.clock = &clock_;
  StartInUse(options);
  const GraphSource source = Path(2.0f);
  FeatureTensors tensors;
  tensors.dense = source.x->view();
  auto cancel = std::make_shared<CancelToken>();
  WorkLimits limits;
  limits.cancel = cancel;
  auto busy = std::make_unique<Busy>(*engine_, Nodes({3}));
  std::thread gone([&cancel] { cancel->Cancel(); });
  const auto set = engine_->PutFeatures("path", "default", tensors, true, 0, {}, limits);
  gone.join();
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(passes_.Await(1), "late");
  busy.reset();
  const InferenceResult first = Ask(Nodes({17}));
  EXPECT_EQ(first.served_by.feature_set_version, set->version);
  EXPECT_EQ(first.values, Computed(Nodes({17})).values);
}

TEST_F(AnswersAheadTest, WhatIsInUseStaysWhenThereIsRoomForOne) {
  EngineOptions options;
  options.max_answer_bytes = kLong * 2 * 4;
  StartInUse(options);
  ASSERT_TRUE(PutModel(SmallModel("m", 0.25f)).ok());
  EXPECT_EQ(passes_.Await(1), "refused");
  EXPECT_EQ(passes_.evicted, 0);
  EXPECT_FALSE(Ask(Nodes({3})).kept);
}

TEST_F(AnswersAheadTest, WhatIsUsedLessMakesRoom) {
  EngineOptions options;
  options.max_answer_bytes = 2 * kLong * 2 * 4;
  Start(KeepAnswers::kAlways, options);
  InferenceRequest rounded = Nodes({3});
  rounded.options.precision = Storage::kBfloat16;
  Ask(rounded);
  ASSERT_EQ(passes_.Await(0), "kept");
  Ask(Nodes({3}));
  ASSERT_EQ(passes_.Await(1), "kept");
  ASSERT_TRUE(Ask(Nodes({3})).kept);
  ASSERT_TRUE(PutModel(SmallModel("m", 0.25f)).ok());
  EXPECT_EQ(passes_.Await(2), "ahead");
  EXPECT_EQ(passes_.evicted, 1);
  EXPECT_TRUE(Ask(Nodes({3})).kept);
}

TEST_F(AnswersAheadTest, ModelsWithoutThemServeAsWell) {
  StartInUse();
  ModelSource wider = SmallModel("m");
  wider.architecture_json = R"({"format": "vicinal.model/1", "in_channels": 5,
    "layers": [{"name": "conv1", "type": "GCNConv", "args": {"in_channels": 5, "out_channels": 2}}]})";
  wider.weights_file = SafetensorsBuilder().AddRamp("conv1.lin.weight", {2, 5}).AddRamp("conv1.bias", {2}).Build();
  ASSERT_TRUE(PutModel(wider).ok());
  EXPECT_FALSE(Infer(*engine_, Nodes({3})).ok()) << "it reads 5 features";
  EXPECT_EQ(engine_->memory().Snapshot().answers, 0);
}

TEST_F(AnswersAheadTest, AFailedPublicationLeavesNothing) {
  EngineOptions options;
  options.clock = &clock_;  // it stands still: nobody tires of waiting
  StartInUse(options);
  std::thread upload;
  {
    const Busy busy(*engine_, Nodes({1}));
    upload = std::thread([this] {
      ModelSource model = SmallModel("m", 0.25f);
      model.if_version = 1;
      EXPECT_FALSE(PutModel(std::move(model)).ok());
    });
    ASSERT_TRUE(engine_->DeleteModel("m", 0).ok());
  }
  upload.join();
  EXPECT_EQ(engine_->memory().Snapshot().answers, 0);
}

// The clock stands still, so that only cancellation ends the wait.
TEST_F(AnswersAheadTest, AClientThatCancelsGetsItsModelWithoutThem) {
  EngineOptions options;
  options.clock = &clock_;
  StartInUse(options);
  auto cancel = std::make_shared<CancelToken>();
  cancel->Cancel();
  WorkLimits limits;
  limits.cancel = cancel;
  {
    const Busy busy(*engine_, Nodes({1}));
    ASSERT_TRUE(PutModel(SmallModel("m", 0.25f), limits).ok());
  }
  EXPECT_EQ(passes_.Await(1), "late");
  EXPECT_FALSE(Ask(Nodes({3})).kept);
}

TEST_F(AnswersAheadTest, ADeletedGraphKeepsNobodyWaiting) {
  EngineOptions options;
  options.clock = &clock_;
  StartInUse(options);
  const Busy busy(*engine_, Nodes({1}));
  ASSERT_TRUE(engine_->PutGraph(Path(2.0f)).ok());
  ASSERT_TRUE(engine_->DeleteGraph("path", 0).ok());
  GraphSource next = Path(0.25f);
  next.name = "next";
  ASSERT_TRUE(engine_->PutGraph(next).ok());
  const auto ready = AwaitGraph(*engine_, "next");  // prepared after "path", while the executor is busy
  ASSERT_TRUE(ready.ok() && ready->state == GraphState::kReady) << ready.status();
}

TEST_F(AnswersAheadTest, AfterALongWaitAVersionServesWithoutThem) {
  EngineOptions options;
  options.clock = &clock_;
  StartInUse(options);
  clock_.GoOn(std::chrono::seconds(1));
  {
    const Busy busy(*engine_, Nodes({1}));
    ASSERT_TRUE(PutModel(SmallModel("m", 0.25f)).ok());
  }
  EXPECT_EQ(passes_.Await(1), "late");
  EXPECT_FALSE(Ask(Nodes({3})).kept);
}

TEST_F(AnswersAheadTest, WhatIsReplacedOnBothSidesAtOnceIsNeverServedWrong) {
  StartInUse();
  std::thread upload;
  {
    const Busy busy(*engine_, Nodes({1}));
    ASSERT_TRUE(engine_->PutGraph(Path(2.0f)).ok());
    upload = std::thread([this] { EXPECT_TRUE(PutModel(SmallModel("m", 0.25f)).ok()); });
  }
  upload.join();
  ASSERT_TRUE(AwaitGraph(*engine_, "path").ok());
  EXPECT_EQ(Ask(Nodes({3})).values, Computed(Nodes({3})).values);
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
