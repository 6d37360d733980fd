// SPDX-License-Identifier: Apache-2.0
// Requests that share runs, and small ones beside long ones: every answer has the bits that a quiet engine gives for
// it, and what happens to one request does not reach the others. Under the thread sanitizer, too.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/api/small_world.h"
#include "tests/split_mix.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kNodes = 600;

GraphSource RandomGraph(const std::string& name, uint64_t seed) {
  SplitMix64 random(seed);
  const int64_t edges = 4 * kNodes;
  std::vector<int64_t> ends(2 * edges);
  for (int64_t& end : ends) end = static_cast<int64_t>(random.Next() % kNodes);
  std::vector<float> rows(kNodes * kSmallFeatures);
  for (float& value : rows) value = static_cast<float>(random.Next() % 1000) / 256.0f - 2.0f;
  GraphSource source;
  source.name = name;
  source.node_count = kNodes;
  source.edge_index = Ints(ends, {2, edges});
  source.x = Floats(rows, {kNodes, kSmallFeatures});
  source.order = OrderKind::kRcm;
  return source;
}

std::unique_ptr<Engine> MakeWorld(EngineOptions options = {}) {
  std::unique_ptr<Engine> engine = MakeEngine(options);
  for (const auto& [name, seed] : {std::pair("a", 1), std::pair("b", 2)}) {
    EXPECT_TRUE(engine->PutGraph(RandomGraph(name, seed)).ok());
    EXPECT_TRUE(AwaitGraph(*engine, name).ok());
  }
  EXPECT_TRUE(engine->PutModel(SmallModel("m"), {}).ok());
  EXPECT_TRUE(engine->PutModel(SmallModel("n", 0.25f), {}).ok());
  return engine;
}

InferenceRequest Nodes(const std::string& graph, const std::string& model, std::vector<int64_t> ids) {
  InferenceRequest request = AllNodes(graph, model);
  request.nodes = {false, std::move(ids)};
  return request;
}

class SharedRunsTest : public ::testing::Test {
 protected:
  // One executor callback of a request for ("a", "m") holds the executor until Release.
  void Block() {
    std::promise<void> blocked;
    ASSERT_TRUE(engine_
                    ->Submit(AllNodes("a", "m"),
                             [&](const StatusOr<InferenceResult>&) {
                               blocked.set_value();
                               release_.get_future().wait();
                             })
                    .ok());
    blocked.get_future().wait();
  }
  void Release() { release_.set_value(); }
  std::future<StatusOr<InferenceResult>> Ask(InferenceRequest request) {
    auto answer = std::make_shared<std::promise<StatusOr<InferenceResult>>>();
    EXPECT_TRUE(engine_
                    ->Submit(std::move(request),
                             [answer](StatusOr<InferenceResult> result) { answer->set_value(std::move(result)); })
                    .ok());
    return answer->get_future();
  }

  std::promise<void> release_;
  std::unique_ptr<Engine> engine_ = MakeWorld();
};

TEST_F(SharedRunsTest, WhatWaitsForTheSameIsComputedOnceWithTheSameBits) {
  const auto quiet = MakeWorld();
  std::vector<InferenceRequest> requests;
  for (int64_t i = 0; i < 8; ++i) requests.push_back(Nodes("a", "m", {i, 7 * i + 3, i, 599 - i}));
  Block();
  std::vector<std::future<StatusOr<InferenceResult>>> answers;
  for (const InferenceRequest& request : requests) answers.push_back(Ask(request));
  Release();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto got = answers[i].get();
    ASSERT_TRUE(got.ok()) << got.status();
    const auto expected = Infer(*quiet, requests[i]);
    EXPECT_EQ(got->values, expected->values) << i;
    EXPECT_EQ(got->rows, 4);
    EXPECT_EQ(got->run_requests, 8);
    EXPECT_EQ(expected->run_requests, 1);
    EXPECT_EQ(got->served_by.numerics_revision, expected->served_by.numerics_revision);
  }
}

TEST_F(SharedRunsTest, NodesRideAlongWithAFullPass) {
  const auto quiet = MakeWorld();
  Block();
  auto all = Ask(AllNodes("a", "m"));
  auto some = Ask(Nodes("a", "m", {5, 2}));
  Release();
  const auto whole = all.get(), part = some.get();
  EXPECT_EQ(whole->values, Infer(*quiet, AllNodes("a", "m"))->values);
  EXPECT_EQ(part->values, Infer(*quiet, Nodes("a", "m", {5, 2}))->values);
  EXPECT_EQ(part->run_requests, 2);
  EXPECT_FALSE(part->receptive_field);
}

TEST_F(SharedRunsTest, EachKeepsItsOwnLimits) {
  const auto quiet = MakeWorld();
  FakeClock clock;
  EngineOptions options;
  options.clock = &clock;
  engine_ = MakeWorld(options);
  const auto cancel = std::make_shared<CancelToken>();
  InferenceRequest given_up = Nodes("a", "m", {1}), late = Nodes("a", "m", {2}), fine = Nodes("a", "m", {3});
  given_up.limits.cancel = cancel;
  Block();
  late.limits.deadline = clock.Now() + std::chrono::seconds(300);
  auto first = Ask(given_up), second = Ask(late), third = Ask(fine);
  cancel->Cancel();
  clock.Advance(std::chrono::seconds(301));
  Release();
  EXPECT_EQ(first.get().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(second.get().status().code(), StatusCode::kDeadlineExceeded);
  const auto answer = third.get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->values, Infer(*quiet, fine)->values);
  engine_.reset();  // before its clock
}

TEST_F(SharedRunsTest, ASmallQueryForAnotherGraphDoesNotWaitForALongRun) {
  const auto quiet = MakeWorld();
  Block();
  const InferenceRequest small = Nodes("b", "m", {1, 2, 3});
  const auto answer = Infer(*engine_, small);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->values, Infer(*quiet, small)->values);
  Release();
}

// A batch of `graphs` rings, which grow from 3 nodes.
class Rings {
 public:
  Rings(int64_t graphs, float first, bool sparse) {
    std::vector<int64_t> ptr = {0}, sources, targets, indptr = {0};
    std::vector<int32_t> indices;
    std::vector<float> rows, values;
    for (int64_t g = 0; g < graphs; ++g) {
      const int64_t begin = ptr.back(), size = 3 + g;
      for (int64_t i = 0; i < size; ++i) sources.push_back(begin + i), targets.push_back(begin + (i + 1) % size);
      ptr.push_back(begin + size);
    }
    const int64_t nodes = ptr.back();
    for (int64_t i = 0; i < nodes * kSmallFeatures; ++i) {
      const float value = first + 0.125f * static_cast<float>(i % 11);
      rows.push_back(value);
      // One of three columns of each row.
      if (i % kSmallFeatures == (i / kSmallFeatures) % kSmallFeatures) {
        indices.push_back(static_cast<int32_t>(i % kSmallFeatures));
        values.push_back(value);
        indptr.push_back(static_cast<int64_t>(indices.size()));
      }
    }
    std::vector<int64_t> ends = sources;
    ends.insert(ends.end(), targets.begin(), targets.end());
    ptr_ = Ints(ptr, {graphs + 1});
    edges_ = Ints(ends, {2, nodes});
    sparse_ = sparse;
    dense_ = Floats(rows, {nodes, kSmallFeatures});
    indptr_ = Ints(indptr, {nodes + 1});
    indices_ = {DataType::kInt32, {nodes}, BytesOf(indices)};
    values_ = Floats(values, {nodes});
  }
  // Now each edge has `width` features.
  void AddEdgeFeatures(int64_t width) {
    std::vector<float> features(static_cast<size_t>(edges_.shape[1] * width));
    for (size_t i = 0; i < features.size(); ++i) features[i] = 0.25f * static_cast<float>(i % 13);
    edge_attr_ = Floats(features, {edges_.shape[1], width});
  }
  GraphBatchRequest request() const {
    GraphBatchRequest request;
    request.model = "p";
    request.ptr = ptr_.view();
    request.edge_index = edges_.view();
    if (edge_attr_) request.edge_attr = edge_attr_->view();
    if (sparse_) {
      request.features.indptr = indptr_.view();
      request.features.indices = indices_.view();
      request.features.values = values_.view();
      request.features.feature_count = kSmallFeatures;
    } else {
      request.features.dense = dense_.view();
    }
    return request;
  }

 private:
  HostTensor ptr_, edges_, dense_, indptr_, indices_, values_;
  std::optional<HostTensor> edge_attr_;
  bool sparse_ = false;
};

class SharedBatchesTest : public SharedRunsTest {
 protected:
  static void PutPooled(Engine& engine) {
    ModelSource pooled = SmallModel("p");
    pooled.architecture_json = kSmallPooled;
    pooled.weights_file = SmallPooledWeights();
    const auto put = engine.PutModel(std::move(pooled), {});
    ASSERT_TRUE(put.ok()) << put.status();
  }
  std::future<StatusOr<InferenceResult>> AskBatch(GraphBatchRequest request) {
    auto answer = std::make_shared<std::promise<StatusOr<InferenceResult>>>();
    const Status queued = engine_->SubmitBatch(
        std::move(request), [answer](StatusOr<InferenceResult> result) { answer->set_value(std::move(result)); });
    if (!queued.ok()) answer->set_value(queued);
    return answer->get_future();
  }
  // Asks for all batches while the executor is blocked. Each gets the bits that it gets alone, from `quiet`, out of a
  // run of run_requests(i) requests.
  void ExpectAsAlone(Engine& quiet, const std::vector<Rings>& batches,
                     const std::function<int64_t(size_t i)>& run_requests) {
    Block();
    std::vector<std::future<StatusOr<InferenceResult>>> answers;
    for (const Rings& rings : batches) answers.push_back(AskBatch(rings.request()));
    Release();
    for (size_t i = 0; i < batches.size(); ++i) {
      const auto got = answers[i].get(), expected = InferBatch(quiet, batches[i].request());
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_TRUE(expected.ok()) << expected.status();
      EXPECT_EQ(got->values, expected->values) << i;
      EXPECT_EQ(got->rows, expected->rows) << i;
      EXPECT_EQ(got->served_by.numerics_revision, expected->served_by.numerics_revision);
      EXPECT_EQ(got->run_requests, run_requests(i)) << i;
    }
  }
};

TEST_F(SharedBatchesTest, BatchesOfGraphsAreComputedTogetherByTheirFeaturesForm) {
  const auto quiet = MakeWorld();
  PutPooled(*quiet);
  PutPooled(*engine_);
  std::vector<Rings> batches;
  for (int64_t i = 0; i < 5; ++i) batches.emplace_back(1 + 2 * i, 0.25f * static_cast<float>(i), false);
  for (int64_t i = 0; i < 3; ++i) batches.emplace_back(2 + i, 1.0f + static_cast<float>(i), true);
  ExpectAsAlone(*quiet, batches, [](size_t i) { return i < 5 ? 5 : 3; });
}

TEST_F(SharedBatchesTest, FeaturesOfEdgesStayWithThem) {
  constexpr char kGine[] = R"({"format": "vicinal.model/1", "in_channels": 3, "task": "graph", "layers": [
      {"name": "c", "type": "GINEConv", "args": {"edge_dim": 2, "nn": [{"type": "Linear", "args": {"out_channels": 2}}]}},
      {"name": "pool", "type": "global_mean_pool"}]})";
  const auto quiet = MakeWorld();
  for (Engine* engine : {quiet.get(), engine_.get()}) {
    ModelSource model = SmallModel("p");
    model.architecture_json = kGine;
    model.weights_file = SafetensorsBuilder()
                             .AddRamp("c.lin.weight", {3, 2})
                             .AddRamp("c.lin.bias", {3})
                             .AddRamp("c.nn.0.weight", {2, 3})
                             .AddRamp("c.nn.0.bias", {2})
                             .Build();
    ASSERT_TRUE(engine->PutModel(std::move(model), {}).ok());
  }
  std::vector<Rings> batches;
  for (int64_t i = 0; i < 4; ++i) batches.emplace_back(1 + 2 * i, 0.25f * static_cast<float>(i), false);
  for (Rings& rings : batches) rings.AddEdgeFeatures(2);
  ExpectAsAlone(*quiet, batches, [](size_t) { return 4; });
}

TEST_F(SharedBatchesTest, AForcedKernelThatRefusesFailsItsOwnRequestsOnly) {
  PutPooled(*engine_);
  const Rings rings(2, 0.5f, false);
  GraphBatchRequest bad = rings.request();
  bad.options.kernels = {{"aggregate", "no_such_kernel"}};
  Block();
  auto first = AskBatch(bad), second = AskBatch(rings.request()), third = AskBatch(bad);
  Release();
  EXPECT_EQ(first.get().status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(third.get().status().code(), StatusCode::kInvalidArgument);
}

// Random load from many threads.
class Load {
 public:
  explicit Load(Engine* engine, uint64_t seed) : engine_(*engine), random_(seed) {}

  // `expected`: the rows of all nodes, by graph, model and output.
  using Answers = std::map<std::string, InferenceResult>;
  static std::string NameOf(const InferenceRequest& request) {
    return request.graph + "/" + request.model + "/" + request.options.output;
  }
  static InferenceRequest Plain(uint64_t which) {
    InferenceRequest request = AllNodes(which % 2 == 0 ? "a" : "b", which / 2 % 2 == 0 ? "m" : "n");
    request.options.output = which / 4 % 2 == 0 ? "logits" : "last_conv_input";
    return request;
  }

  void Run(int count, const Answers& expected) {
    for (int i = 0; i < count; ++i) {
      InferenceRequest request = Random();
      const bool limited = request.limits.deadline.has_value() || request.limits.cancel != nullptr;
      const InferenceResult& all = expected.at(NameOf(request));
      const NodeSelection nodes = request.nodes;
      ++waiting_;
      const Status queued =
          engine_.Submit(std::move(request), [this, &all, nodes, limited](const StatusOr<InferenceResult>& result) {
            Judge(result, all, nodes, limited);
            --waiting_;
          });
      if (!queued.ok()) {
        Judge(queued, all, nodes, limited);
        --waiting_;
      }
      if (random_.Next() % 5 == 0 && cancel_ != nullptr) cancel_->Cancel();
      while (waiting_ > 24) std::this_thread::yield();
    }
    while (waiting_ > 0) std::this_thread::yield();
  }

  std::atomic<int64_t> right{0}, shared{0}, stopped{0}, wrong{0};

 private:
  InferenceRequest Random() {
    InferenceRequest request = Plain(random_.Next() % 8);
    if (random_.Next() % 10 != 0) {
      request.nodes.all = false;
      for (uint64_t n = 1 + random_.Next() % 12; n > 0; --n) {
        request.nodes.ids.push_back(static_cast<int64_t>(random_.Next() % kNodes));
      }
    }
    const uint64_t field = random_.Next() % 6;
    if (field == 0) request.options.receptive_field = ReceptiveField::kNever;
    if (field == 1) request.options.receptive_field = ReceptiveField::kAlways;
    request.requester.principal = std::string(1, static_cast<char>('p' + random_.Next() % 3));
    if (random_.Next() % 5 == 0) request.requester.priority = Priority::kBatch;
    cancel_.reset();
    if (random_.Next() % 8 == 0) request.limits.cancel = cancel_ = std::make_shared<CancelToken>();
    if (random_.Next() % 8 == 0) {
      request.limits.deadline = Clock::Real().Now() + std::chrono::microseconds(random_.Next() % 3000);
    }
    return request;
  }

  void Judge(const StatusOr<InferenceResult>& result, const InferenceResult& all, const NodeSelection& nodes,
             bool limited) {
    if (!result.ok()) {
      const StatusCode code = result.status().code();
      const bool expected = limited && (code == StatusCode::kCancelled || code == StatusCode::kDeadlineExceeded ||
                                        DetailOf(result.status())->reason == "SERVER_OVERLOADED");
      ++(expected ? stopped : wrong);
      return;
    }
    std::vector<float> values = nodes.all ? all.values : std::vector<float>();
    for (const int64_t id : nodes.ids) {
      values.insert(values.end(), all.values.begin() + id * all.width, all.values.begin() + (id + 1) * all.width);
    }
    const bool equal =
        result->values == values && result->served_by.numerics_revision == all.served_by.numerics_revision;
    ++(equal ? right : wrong);
    if (result->run_requests > 1) ++shared;
  }

  Engine& engine_;
  SplitMix64 random_;
  std::shared_ptr<CancelToken> cancel_;
  std::atomic<int64_t> waiting_{0};
};

void RunLoad(KeepAnswers keep) {
  const auto quiet = MakeWorld();
  Load::Answers expected;
  for (uint64_t which = 0; which < 8; ++which) {
    const InferenceRequest request = Load::Plain(which);
    expected[Load::NameOf(request)] = *Infer(*quiet, request);
  }
  EngineOptions options;
  options.keep_answers = keep;
  const auto engine = MakeWorld(options);
  constexpr int kThreads = 6, kRequests = 250;
  std::vector<std::unique_ptr<Load>> loads;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) loads.push_back(std::make_unique<Load>(engine.get(), 17 + i));
  for (auto& load : loads) threads.emplace_back([&load, &expected] { load->Run(kRequests, expected); });
  for (std::thread& thread : threads) thread.join();
  int64_t right = 0, shared = 0, stopped = 0, wrong = 0;
  for (const auto& load : loads) {
    right += load->right, shared += load->shared, stopped += load->stopped, wrong += load->wrong;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(right + stopped, kThreads * kRequests);
  EXPECT_GT(right, kThreads * kRequests / 2);
  if (keep == KeepAnswers::kNever) {
    EXPECT_GT(shared, 0);
  }
  EXPECT_TRUE(engine->Drain(Clock::Real().Now() + std::chrono::hours(1)));
}

TEST(SharedRunsLoad, EveryAnswerHasTheBitsOfAQuietEngine) { RunLoad(KeepAnswers::kNever); }
TEST(SharedRunsLoad, EveryAnswerHasTheBitsOfAQuietEngineBesideKeptOnes) { RunLoad(KeepAnswers::kAuto); }

}  // namespace
}  // namespace vicinal::testing
