// SPDX-License-Identifier: Apache-2.0
// Which plans are kept: the most recently used ones, as long as their graph and model serve.
#include "engine/execute/plan_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/execute/plan_memory.h"

namespace vicinal {
namespace {

// A plan that only has a size.
class SizedPlan final : public Plan {
 public:
  explicit SizedPlan(int64_t bytes) : bytes_(bytes) {}
  StatusOr<ConstMatrixView> Run(DeviceContext&, const RunInputs&, const StopCheck&, StatsSink&, const Clock&) override {
    return ConstMatrixView();
  }
  StatusOr<ConstMatrixView> RunReceptiveField(DeviceContext&, const RunInputs&, const ReplacedRows*,
                                              ReceptiveFieldWorkspace*, const StopCheck&, StatsSink&,
                                              const Clock&) override {
    return ConstMatrixView();
  }
  const ReceptiveFieldShape& field() const override { return field_; }
  std::vector<PlanStepInfo> Steps() const override {
    PlanStepInfo step;
    step.run_count = runs;
    return {step};
  }
  void ContinueCounts(const std::vector<PlanStepInfo>& before) override { runs += before[0].run_count; }
  std::vector<std::string> Decisions() const override { return decisions_; }
  int64_t scratch_bytes() const override { return bytes_; }
  int64_t size_bytes() const override { return bytes_; }
  int64_t runs = 0;

 private:
  const int64_t bytes_;
  const ReceptiveFieldShape field_;
  const std::vector<std::string> decisions_;
};

// Tells a new setting for the graph.
void Tune(const PreparedGraph& graph) {
  TuningWork work;
  graph.tuning().Note(work);
  TuningRecord record;
  record.key = work.key;
  record.state = TuningState::kForced;
  record.candidates.resize(1);
  record.candidates[0].setting = {"any", {{static_cast<int32_t>(graph.tuning().revision()) + 1}}};
  ASSERT_TRUE(graph.tuning().Put(record));
}

class PlanCacheTest : public ::testing::Test {
 protected:
  PlanRequest Request(ValueId output) {
    PlanRequest request;
    request.graph = graph_;
    request.model = model_;
    request.output = output;
    return request;
  }
  std::shared_ptr<Plan> Put(ValueId output, int64_t bytes) {
    return cache_.Insert(Request(output), "m", Counted(bytes));
  }
  std::shared_ptr<Plan> Counted(int64_t bytes) {
    return WithReservation<Plan>(std::make_shared<SizedPlan>(bytes),
                                 budget_.Reserve(Account::kPlans, bytes, "a plan").value());
  }
  int64_t plan_bytes() const { return budget_.Snapshot().plans; }
  bool Has(ValueId output) { return cache_.Find(PlanKey::Of(Request(output))) != nullptr; }

  MemoryBudget budget_{0};
  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  std::shared_ptr<const PreparedGraph> graph_ = std::make_shared<PreparedGraph>(PreparedGraph::Parts(), device_.get());
  std::shared_ptr<const Model> model_ = std::make_shared<Model>();
  bool current_ = true;
  PlanCache cache_{
      3, [this](const PreparedGraph&, const std::string& name, const Model&) { return current_ && name == "m"; }};
};

TEST_F(PlanCacheTest, FindsWhatWasPutByAllOfItsKey) {
  const auto plan = Put(1, 10);
  EXPECT_EQ(cache_.Find(PlanKey::Of(Request(1))), plan);
  PlanRequest other = Request(1);
  other.features.sparse = true;
  EXPECT_EQ(cache_.Find(PlanKey::Of(other)), nullptr);
  other.features.crowded = true;
  EXPECT_NE(PlanKey::Of(other), PlanKey::Of(Request(1)));
  other.features.sparse = false;
  EXPECT_EQ(cache_.Find(PlanKey::Of(other)), nullptr);
  other = Request(1);
  other.forced["aggregate"] = "reference";
  EXPECT_EQ(cache_.Find(PlanKey::Of(other)), nullptr);
  other = Request(1);
  other.precision = Storage::kBfloat16;
  EXPECT_EQ(cache_.Find(PlanKey::Of(other)), nullptr);
  other = Request(1);
  other.products = ProductPrecision::kTf32;
  EXPECT_EQ(cache_.Find(PlanKey::Of(other)), nullptr);
  other = Request(1);
  other.features.nnz = 77;
  EXPECT_EQ(cache_.Find(PlanKey::Of(other)), plan) << "the number of nonzeros is not part of it";
}

TEST_F(PlanCacheTest, TheFirstOfTwoBuildersWins) {
  const auto first = Put(1, 10);
  EXPECT_EQ(Put(1, 99), first);
  EXPECT_EQ(plan_bytes(), 10);
}

TEST_F(PlanCacheTest, TheLeastRecentlyUsedGoes) {
  for (ValueId output : {1, 2, 3}) Put(output, 10);
  EXPECT_TRUE(Has(1));
  Put(4, 10);
  EXPECT_FALSE(Has(2));
  EXPECT_TRUE(Has(1) && Has(3) && Has(4));
  EXPECT_EQ(plan_bytes(), 30);
}

TEST_F(PlanCacheTest, BytesAreFreedOldestFirst) {
  for (ValueId output : {1, 2, 3}) Put(output, 10 * output);
  EXPECT_TRUE(Has(1));
  EXPECT_EQ(cache_.Evict(25), 50);  // 2, then 3
  EXPECT_TRUE(Has(1));
  EXPECT_EQ(cache_.count(), 1);
  EXPECT_EQ(cache_.Evict(1000), 10);
  EXPECT_EQ(plan_bytes(), 0);
}

TEST_F(PlanCacheTest, APlanThatRunsIsNotEvicted) {
  auto running = Put(1, 10);
  Put(2, 20);
  EXPECT_EQ(cache_.Evict(1000), 20);
  EXPECT_FALSE(Has(2));
  EXPECT_TRUE(Has(1)) << "its bytes would not be free";
  EXPECT_EQ(plan_bytes(), 10);
  running.reset();
  EXPECT_EQ(cache_.Evict(1), 10);
  EXPECT_EQ(cache_.count(), 0);
  EXPECT_EQ(plan_bytes(), 0);
}

TEST_F(PlanCacheTest, APlanThatRunsCountsThoughItLeftTheCache) {
  auto replaced = Put(1, 10);
  current_ = false;
  cache_.PurgeStale();
  auto never_kept = Put(2, 20);
  EXPECT_EQ(cache_.count(), 0);
  EXPECT_EQ(plan_bytes(), 30);
  replaced.reset();
  EXPECT_EQ(plan_bytes(), 20);
  never_kept.reset();
  EXPECT_EQ(plan_bytes(), 0);
}

TEST_F(PlanCacheTest, APlanThatIsNeverCachedCountsUntilItsLastCopyGoes) {
  PlanMemory memory(&budget_, graph_.get());
  ASSERT_TRUE(memory.Admit(4).ok());
  ASSERT_TRUE(memory.Admit(8).ok());
  EXPECT_EQ(budget_.Snapshot().requests, 12);
  auto plan = std::make_shared<SizedPlan>(10);
  const std::weak_ptr<SizedPlan> alive = plan;
  auto kept = memory.Keep(std::move(plan));
  EXPECT_EQ(plan_bytes(), 10);
  EXPECT_EQ(budget_.Snapshot().requests, 2);
  auto copy = kept;
  kept.reset();
  EXPECT_EQ(plan_bytes(), 10);
  copy.reset();
  EXPECT_EQ(plan_bytes(), 0);
  EXPECT_TRUE(alive.expired());
}

TEST_F(PlanCacheTest, APlanOfANewTuningGoesOnWithTheCountsOfTheOld) {
  const auto tune = [this] {
    Tune(*graph_);
    cache_.PurgeOutdated();
  };
  const auto put = [this](ValueId output) {
    PlanRequest request = Request(output);
    request.tuning_revision = graph_->tuning().revision();
    auto plan = std::make_shared<SizedPlan>(10);
    EXPECT_EQ(cache_.Insert(request, "m", plan), plan);
    return plan;
  };
  put(1)->runs = 5;
  put(2)->runs = 7;
  tune();
  EXPECT_EQ(cache_.count(), 0);
  tune();
  const auto next = put(1);
  EXPECT_EQ(next->runs, 5);
  next->runs = 6;
  tune();
  EXPECT_EQ(put(1)->runs, 6) << "once";
  EXPECT_EQ(put(2)->runs, 7);
  EXPECT_EQ(put(3)->runs, 0);
  tune();
  current_ = false;
  cache_.PurgeStale();
  current_ = true;
  EXPECT_EQ(put(1)->runs, 0) << "of a graph or model that serves no longer nothing is kept";
}

TEST_F(PlanCacheTest, APlanServesUntilTheOneOfTheNewTuningIsThere) {
  const auto old = Put(1, 10);
  Tune(*graph_);
  PlanRequest request = Request(1);
  request.tuning_revision = graph_->tuning().revision();
  EXPECT_EQ(cache_.Find(PlanKey::Of(request)), nullptr);
  EXPECT_EQ(cache_.FindOrEarlier(PlanKey::Of(request)), old);
  ASSERT_EQ(cache_.Outdated().size(), 1U);
  EXPECT_EQ(cache_.Outdated()[0].request.output, 1);
  const auto next = std::make_shared<SizedPlan>(20);
  cache_.InsertAhead(request, "m", next);
  EXPECT_EQ(cache_.FindOrEarlier(PlanKey::Of(request)), next);
  EXPECT_EQ(cache_.count(), 1) << "the old one has left";
  EXPECT_TRUE(cache_.Outdated().empty());
  request.output = 2;
  EXPECT_EQ(cache_.FindOrEarlier(PlanKey::Of(request)), nullptr) << "of another output";
}

TEST_F(PlanCacheTest, APlanThatIsOutdatedBeforeItIsThereIsNotKept) {
  PlanRequest request = Request(1);
  Tune(*graph_);
  cache_.InsertAhead(request, "m", Counted(10));
  EXPECT_EQ(cache_.count(), 0);
}

TEST_F(PlanCacheTest, APlanMadeAheadIsNotInUseUntilItIsFound) {
  current_ = false;
  cache_.InsertAhead(Request(1), "m", Counted(10));
  EXPECT_EQ(cache_.count(), 1) << "its graph will serve soon";
  current_ = true;
  EXPECT_NE(cache_.Peek(PlanKey::Of(Request(1))), nullptr);
  EXPECT_TRUE(cache_.InUse().empty());
  bool first_use = false;
  cache_.Find(PlanKey::Of(Request(1)), &first_use);
  EXPECT_TRUE(first_use);
  cache_.Find(PlanKey::Of(Request(1)), &first_use);
  EXPECT_FALSE(first_use);
  ASSERT_EQ(cache_.InUse().size(), 1U);
  EXPECT_EQ(cache_.InUse()[0].model_name, "m");
  current_ = false;
  EXPECT_TRUE(cache_.InUse().empty());
  cache_.PurgeStale();
  EXPECT_EQ(cache_.count(), 0);
}

TEST_F(PlanCacheTest, APlanMadeAheadTakesThePlaceOfItsLikeOnly) {
  const auto has = [this](ValueId output) { return cache_.Peek(PlanKey::Of(Request(output))) != nullptr; };
  Put(1, 10), Put(2, 10);
  cache_.InsertAhead(Request(3), "m", Counted(10));
  cache_.InsertAhead(Request(4), "m", Counted(10));
  EXPECT_TRUE(has(1) && has(2) && has(4));
  EXPECT_FALSE(has(3)) << "nobody has used it";
  cache_.Find(PlanKey::Of(Request(4)));
  cache_.InsertAhead(Request(5), "m", Counted(10));
  EXPECT_TRUE(has(1) && has(2) && has(4)) << "all are in use";
  EXPECT_FALSE(has(5));
}

TEST_F(PlanCacheTest, NothingIsEvictedForAPlanThatNobodyAskedFor) {
  MemoryBudget budget{100};
  bool evicted = false;
  budget.AddEvictor(Account::kPlans, [&](int64_t) { return std::exchange(evicted, true); });
  const Reservation others = budget.Reserve(Account::kPlans, 95, "other plans").value();
  PlanMemory ahead(&budget, graph_.get(), /*evict=*/false);
  EXPECT_EQ(ahead.Admit(10).code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(evicted);
  EXPECT_TRUE(ahead.Admit(3).ok());
  EXPECT_EQ(ahead.Admit(10).code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(evicted);
  PlanMemory asked_for(&budget, graph_.get());
  EXPECT_FALSE(asked_for.Admit(10).ok());
  EXPECT_TRUE(evicted);
}

TEST_F(PlanCacheTest, APlanOfBeforeAQuarantineIsNotFound) {
  Put(1, 10);
  PlanRequest request = Request(1);
  EXPECT_NE(cache_.Find(PlanKey::Of(request)), nullptr);
  request.quarantine_revision = 1;
  EXPECT_EQ(cache_.Find(PlanKey::Of(request)), nullptr);
  const auto plan = std::make_shared<SizedPlan>(10);
  EXPECT_EQ(cache_.Insert(request, "m", plan), plan);
  EXPECT_EQ(cache_.Find(PlanKey::Of(request)), plan);
}

TEST_F(PlanCacheTest, NothingStaleIsKept) {
  Put(1, 10);
  current_ = false;
  EXPECT_NE(Put(2, 10), nullptr) << "it runs, but is not kept";
  EXPECT_FALSE(Has(2));
  cache_.PurgeStale();
  EXPECT_EQ(cache_.count(), 0);
}

}  // namespace
}  // namespace vicinal
