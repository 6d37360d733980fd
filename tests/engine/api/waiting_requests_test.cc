// SPDX-License-Identifier: Apache-2.0
// What requests bring counts against the memory budget while they wait, and no longer.
#include <atomic>
#include <future>

#include "engine/api/engine.h"
#include "engine/base/error.h"
#include "tests/engine/api/small_world.h"

namespace vicinal::testing {
namespace {

void ExpectRefused(const Status& status, StatusCode code, const std::string& reason) {
  EXPECT_EQ(status.code(), code) << status;
  const auto detail = DetailOf(status);
  ASSERT_TRUE(detail.has_value()) << status;
  EXPECT_EQ(detail->reason, reason) << status;
}

// One callback holds the executor, so that what comes after it waits.
class WaitingRequests : public ::testing::Test {
 protected:
  static constexpr int64_t kNodes = 200'000, kBytes = kNodes * 3 * 4, kBudget = 24 * kBytes;

  WaitingRequests() {
    EngineOptions options;
    options.memory_budget_bytes = kBudget;
    engine_ = MakeEngine(options);
    PutSmallWorld(*engine_);
    GraphSource wide = SmallGraph("wide");
    wide.node_count = kNodes;
    wide.x = Floats(x_, {kNodes, 3});
    EXPECT_TRUE(engine_->PutGraph(std::move(wide)).ok());
    EXPECT_TRUE(AwaitGraph(*engine_, "wide").ok());
  }
  InferenceRequest WithFeatures() const {
    InferenceRequest request = AllNodes("wide", "m");
    request.nodes = {false, {3}};
    request.features.emplace();
    request.features->tensors.dense = tensor_.view();
    return request;
  }
  // Until Release the executor waits.
  void Block() {
    std::promise<void> blocked;
    ASSERT_TRUE(engine_
                    ->Submit(AllNodes("g", "m"),
                             [&](const StatusOr<InferenceResult>&) {
                               blocked.set_value();
                               release_.get_future().wait();
                             })
                    .ok());
    blocked.get_future().wait();
  }
  // Submits requests of `make()` until one is refused; how many were not.
  template <class Make>
  int Fill(const Make& make) {
    int waiting = 0;
    for (Status status = OkStatus(); waiting < 1000; ++waiting) {
      status = make();
      if (status.ok()) continue;
      ExpectRefused(status, StatusCode::kResourceExhausted, "BUDGET_FULL");
      EXPECT_NE(std::string(status.message()).find(std::to_string(kBudget)), std::string::npos) << status;
      break;
    }
    return waiting;
  }
  void Release() {
    release_.set_value();
    ASSERT_TRUE(engine_->Drain(Clock::Real().Now() + std::chrono::minutes(5)));
  }

  const std::vector<float> x_ = std::vector<float>(kNodes * 3, 1.0f);
  const HostTensor tensor_ = Floats(x_, {kNodes, 3});
  std::promise<void> release_;
  std::unique_ptr<Engine> engine_;
  std::atomic<int> answered_{0}, refused_{0};
  const InferenceCallback count_ = [this](const StatusOr<InferenceResult>& result) {
    if (result.ok()) ++answered_;
    if (result.status().code() == StatusCode::kResourceExhausted) ++refused_;
  };
};

TEST_F(WaitingRequests, CountUntilTheyAreAnswered) {
  ASSERT_TRUE(Infer(*engine_, WithFeatures()).ok());  // its plan is there
  Block();
  const auto working = [&] {
    const MemoryUse use = engine_->memory().Snapshot();
    return use.requests + use.receptive_fields;
  };
  const int64_t before = working();
  const int waiting = Fill([&] { return engine_->Submit(WithFeatures(), count_); });
  EXPECT_GE(waiting, 5);
  EXPECT_LT(waiting, 24);
  // What was there before, the room of receptive fields, gave way to them and comes back.
  EXPECT_GT(before, 0);
  EXPECT_GE(engine_->memory().Snapshot().requests, waiting * kBytes);
  Release();
  EXPECT_GT(answered_, 0);
  EXPECT_EQ(answered_ + refused_, waiting)
      << "the plan gave way to them, and its place is free when the first has gone";
  EXPECT_EQ(working(), before);
}

TEST_F(WaitingRequests, ReplacedRowsCountAsTheWholeForTheFullGraphAlone) {
  InferenceRequest request = WithFeatures();
  request.features->tensors.dense->shape = {1, 3};
  request.features->tensors.dense->bytes = request.features->tensors.dense->bytes.substr(0, 12);
  request.features->rows = {7};
  ASSERT_TRUE(Infer(*engine_, request).ok());
  Block();
  const int64_t before = engine_->memory().Snapshot().requests;
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(engine_->Submit(request, count_).ok());
  EXPECT_LT(engine_->memory().Snapshot().requests - before, kBytes);
  request.options.receptive_field = ReceptiveField::kNever;
  EXPECT_LT(Fill([&] { return engine_->Submit(request, count_); }), 24);
  Release();
}

TEST_F(WaitingRequests, BatchesOfGraphsCount) {
  ModelSource pooled = SmallModel("p");
  pooled.architecture_json = kSmallPooled;
  pooled.weights_file = SmallPooledWeights();
  ASSERT_TRUE(engine_->PutModel(std::move(pooled), {}).ok());
  Block();
  const HostTensor ptr = Ints({0, kNodes}, {2}), edges = Ints(SmallEnds(), {2, 6});
  const auto submit = [&] {
    GraphBatchRequest batch;
    batch.model = "p";
    batch.ptr = ptr.view();
    batch.edge_index = edges.view();
    batch.features.dense = tensor_.view();
    return engine_->SubmitBatch(std::move(batch), count_);
  };
  EXPECT_LT(Fill(submit), 24);
  Release();
}

TEST_F(WaitingRequests, WhatCallersHoldIsNotThere) {
  const int64_t before = engine_->memory().Snapshot().requests;
  auto held = engine_->memory().Reserve(Account::kRequests, kBudget / 2, "a message");
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(engine_->memory().Snapshot().requests, before + kBudget / 2);
  ExpectRefused(engine_->memory().Reserve(Account::kRequests, kBudget / 2, "another").status(),
                StatusCode::kResourceExhausted, "BUDGET_FULL");
  ExpectRefused(engine_->memory().Reserve(Account::kRequests, kBudget + 1, "a third").status(),
                StatusCode::kFailedPrecondition, "OVER_BUDGET");
  held->Release();
  EXPECT_EQ(engine_->memory().Snapshot().requests, before);
}

}  // namespace
}  // namespace vicinal::testing
