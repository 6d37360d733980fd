// SPDX-License-Identifier: Apache-2.0
// Which plans are kept: the most recently used ones, as long as their graph and model serve.
#include "engine/execute/plan_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vicinal {
namespace {

// A plan that only has a size.
class SizedPlan final : public Plan {
 public:
  explicit SizedPlan(int64_t bytes) : bytes_(bytes) {}
  StatusOr<ConstMatrixView> Run(DeviceContext&, const FeatureMatrix&, const StopCheck&, StatsSink&,
                                const Clock&) override {
    return ConstMatrixView();
  }
  StatusOr<ConstMatrixView> RunField(DeviceContext&, const FeatureMatrix&, FieldWorkspace*, const StopCheck&,
                                     StatsSink&, const Clock&) override {
    return ConstMatrixView();
  }
  const FieldShape& field() const override { return field_; }
  std::vector<PlanStepInfo> Steps() const override { return {}; }
  std::vector<std::string> Decisions() const override { return decisions_; }
  int64_t scratch_bytes() const override { return bytes_; }
  int64_t size_bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
  const FieldShape field_;
  const std::vector<std::string> decisions_;
};

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
    return cache_.Insert(Request(output), "m", std::make_shared<SizedPlan>(bytes));
  }
  bool Has(ValueId output) { return cache_.Find(PlanKey::Of(Request(output))) != nullptr; }

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
  other.features.nnz = 77;
  EXPECT_EQ(cache_.Find(PlanKey::Of(other)), plan) << "the number of nonzeros is not part of it";
}

TEST_F(PlanCacheTest, TheFirstOfTwoBuildersWins) {
  const auto first = Put(1, 10);
  EXPECT_EQ(Put(1, 99), first);
  EXPECT_EQ(cache_.size_bytes(), 10);
}

TEST_F(PlanCacheTest, TheLeastRecentlyUsedGoes) {
  for (ValueId output : {1, 2, 3}) Put(output, 10);
  EXPECT_TRUE(Has(1));
  Put(4, 10);
  EXPECT_FALSE(Has(2));
  EXPECT_TRUE(Has(1) && Has(3) && Has(4));
  EXPECT_EQ(cache_.size_bytes(), 30);
}

TEST_F(PlanCacheTest, BytesAreFreedOldestFirst) {
  for (ValueId output : {1, 2, 3}) Put(output, 10 * output);
  const auto held = cache_.Find(PlanKey::Of(Request(1)));
  cache_.Evict(25);  // 2, then 3
  EXPECT_TRUE(Has(1));
  EXPECT_EQ(cache_.count(), 1);
  cache_.Evict(1000);
  EXPECT_EQ(cache_.size_bytes(), 0);
  EXPECT_EQ(held->size_bytes(), 10) << "whoever runs a plan keeps it";
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
