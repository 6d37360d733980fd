// SPDX-License-Identifier: Apache-2.0
// Plans with a kernel that works on a structure of its own, and adds in an order of its own: the structure is made once
// and stays as long as a plan uses it, receptive fields are refused, and the order shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/tune/work.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

class Blocks final : public AdjacencyLayout {
 public:
  explicit Blocks(int64_t edges) : edges(edges) {}
  int64_t size_bytes() const override { return 500; }
  const int64_t edges;
};

// The reference, which wants a layout here.
class LayeredKernel final : public AggregateKernel {
 public:
  explicit LayeredKernel(const AggregateKernel& reference) : reference_(reference) {}
  std::string_view name() const override { return "layered"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"layered", 1}; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return {}; }
  std::vector<std::string_view> ParameterNames() const override { return {"level"}; }
  std::string LayoutName(const AggregateProblem&, const KernelConfig& config) const override {
    return std::to_string(config.values[0]);
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem&, const KernelConfig&,
                                          LayoutSource& source) const override {
    if (refuses) return FailedPrecondition("KERNEL_REFUSED", "nothing here is dense");
    ++made;
    return AdjacencyLayoutRef(std::make_shared<Blocks>(source.adjacency().nnz));
  }
  int64_t LayoutBytesBound(int64_t, int64_t edges) const override { return 500 + edges; }
  std::vector<int64_t> OrderParameters(const AggregateProblem&, const KernelConfig& config) const override {
    return {config.values[0]};
  }
  bool whole_graph_only() const override { return true; }
  Status Run(DeviceContext& context, const AggregateArgs& args, void* scratch) const override {
    VICINAL_CHECK(args.layout != nullptr);
    VICINAL_CHECK(static_cast<const Blocks*>(args.layout)->edges == args.adjacency.nnz);
    return reference_.Run(context, args, scratch);
  }
  mutable int made = 0;
  bool refuses = false;

 private:
  const AggregateKernel& reference_;
};

// The reference multiplies what it sums up, and a layered kernel does not: with a product that is forced, neither does.
const ForcedKernels kApart = {{"aggregate", "reference"}, {"dense_update", "simd_rows"}};

class LayoutTest : public ::testing::Test {
 protected:
  LayoutTest() {
    RegisterCpuKernels(registry_);
    for (const auto& kernel : registry_.aggregate.kernels()) {
      if (kernel->kernel().fallback_only()) reference_ = &kernel->kernel();
    }
    auto layered = std::make_unique<LayeredKernel>(*reference_);
    layered_ = layered.get();
    registry_.aggregate.Add(std::move(layered));
    std::mt19937 random(3);
    graph_ = PrepareEdges(RandomEdges(60, 240, false, random), OrderKind::kRcm);
    features_ = UploadFeatures(RandomFeatures(60, 12, random), 12, false, *graph_);
    ModelMaker maker(12);
    const ValueId one = maker.Linear(maker.Propagate(0, Reduce::kMean), 9, true);
    model_ = maker.Done(maker.Linear(maker.Propagate(one, Reduce::kMax), 4, true));
  }

  std::shared_ptr<Plan> Build(const ForcedKernels& forced) {
    const auto plan = Plan::Build(RequestFor(model_, graph_, *features_, forced), registry_, *ThePlanBench().device);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *plan;
  }

  KernelRegistry registry_;
  const AggregateKernel* reference_ = nullptr;
  LayeredKernel* layered_ = nullptr;
  std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const FeatureMatrix> features_;
  std::shared_ptr<const Model> model_;
};

TEST_F(LayoutTest, IsMadeOnceAndComesBackWithEveryRun) {
  const int64_t before = [&] { return Build({})->size_bytes(), graph_->size_bytes(); }();
  const auto plan = Build({{"aggregate", "layered"}});
  EXPECT_EQ(layered_->made, 1) << "both steps work on the same";
  EXPECT_EQ(graph_->size_bytes(), before + 500);
  const auto again = Build({{"aggregate", "layered"}});
  EXPECT_EQ(layered_->made, 1);
  EXPECT_EQ(RunPlan(*plan, *features_, *graph_, false), RunPlan(*Build(kApart), *features_, *graph_, false));
}

TEST_F(LayoutTest, AnOrderOfItsOwnShowsAndRulesOutReceptiveFields) {
  const auto usual = Build({}), forced = Build({{"aggregate", "layered"}});
  EXPECT_EQ(usual->reduction_order(), 0);
  EXPECT_EQ(usual->field().refusal, "");
  EXPECT_NE(forced->reduction_order(), 0);
  EXPECT_EQ(forced->reduction_order(), Build({{"aggregate", "layered"}})->reduction_order());
  EXPECT_THAT(forced->field().refusal, ::testing::HasSubstr("'layered' supports whole graphs only"));
  EXPECT_EQ(NumericsRevision(101, usual->reduction_order()), 101);
  EXPECT_NE(NumericsRevision(101, forced->reduction_order()), 101);
}

TEST_F(LayoutTest, RowsStoredOtherwiseHaveRevisionsOfTheirOwn) {
  std::vector<int64_t> reduction_orders;
  for (const Storage storage : {Storage::kFloat32, Storage::kBfloat16, Storage::kFloat16}) {
    PlanRequest request = RequestFor(model_, graph_, *features_);
    request.precision = storage;
    const auto plan = Plan::Build(request, registry_, *ThePlanBench().device);
    ASSERT_TRUE(plan.ok()) << plan.status();
    reduction_orders.push_back((*plan)->reduction_order());
  }
  EXPECT_EQ(reduction_orders[0], 0);
  EXPECT_NE(reduction_orders[1], 0);
  EXPECT_NE(reduction_orders[2], 0);
  EXPECT_NE(reduction_orders[1], reduction_orders[2]);
}

TEST_F(LayoutTest, TuningOneStepIsNotTuningAnother) {
  (void)Build({});
  std::vector<int64_t> reduction_orders;
  for (const TuningWork& work : graph_->tuning().Works()) {
    for (const int32_t value : {0, 5}) {
      TuningRecord record;
      record.key = work.key;
      record.state = TuningState::kForced;
      record.candidates.resize(1);
      record.candidates[0].setting = {"layered", {{value}}};
      graph_->tuning().Put(record);
      reduction_orders.push_back(Build({})->reduction_order());
    }
    graph_->tuning().Reset(work.key);
  }
  ASSERT_EQ(reduction_orders.size(), 4);
  EXPECT_THAT(reduction_orders, ::testing::Not(::testing::Contains(0)));
  std::sort(reduction_orders.begin(), reduction_orders.end());
  EXPECT_EQ(std::unique(reduction_orders.begin(), reduction_orders.end()), reduction_orders.end());
}

// Tuning may have measured it on some of the rows, or for other self-loops.
TEST_F(LayoutTest, WhereTheTunedKernelFindsNothingToDoTheDefaultServes) {
  const auto usual = Build({});
  const std::vector<TuningWork> works = graph_->tuning().Works();
  TuningRecord record;
  record.key = works[0].key;
  record.state = TuningState::kTuned;
  record.candidates.resize(1);
  record.candidates[0].setting = {"layered", {{5}}};
  graph_->tuning().Put(record);
  layered_->refuses = true;
  std::vector<int64_t> admitted;
  const auto plan = Plan::Build(RequestFor(model_, graph_, *features_), registry_, *ThePlanBench().device,
                                [&](int64_t bytes) { return admitted.push_back(bytes), OkStatus(); });
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(RunPlan(**plan, *features_, *graph_, false), RunPlan(*usual, *features_, *graph_, false));
  EXPECT_EQ((*plan)->reduction_order(), usual->reduction_order());
  ASSERT_EQ(admitted.size(), 4) << "rewriting, packing, the plan, and again for what serves in its place";
  EXPECT_LT(admitted[3], admitted[2]);
  int aggregations = 0;
  for (const PlanStepInfo& step : (*plan)->Steps()) {
    if (!step.tuning_key.has_value() || !(*step.tuning_key == works[0].key)) continue;
    ++aggregations;
    EXPECT_EQ(step.kernel, "simd_rows");
    EXPECT_FALSE(step.tuned);
    ASSERT_FALSE(step.refusals.empty());
    EXPECT_EQ(step.refusals[0].kernel, "layered");
    EXPECT_EQ(step.refusals[0].reason, "nothing here is dense");
  }
  EXPECT_EQ(aggregations, 1);
  EXPECT_THAT(
      (*plan)->Decisions(),
      ::testing::Contains(Describe(works[0].key) +
                          ": layered, which tuning chose, does not support this adjacency, so the default serves: "
                          "nothing here is dense"));
  // A request that names it is refused.
  const auto forced = Plan::Build(RequestFor(model_, graph_, *features_, {{"aggregate", "layered"}}), registry_,
                                  *ThePlanBench().device);
  EXPECT_EQ(forced.status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(LayoutTest, ARequestForcesParametersWithTheKernel) {
  const auto plain = Build({{"aggregate", "layered"}}), third = Build({{"aggregate", "layered:level=3"}});
  EXPECT_EQ(layered_->made, 2) << "a layout for each level";
  EXPECT_NE(third->reduction_order(), plain->reduction_order());
  EXPECT_EQ(third->reduction_order(), Build({{"aggregate", "layered:level=3"}})->reduction_order());
  EXPECT_EQ(RunPlan(*third, *features_, *graph_, false), RunPlan(*Build(kApart), *features_, *graph_, false));
  const std::pair<std::string, std::string> wrong[] = {{"layered:depth=3", "PARAMETER_UNKNOWN"},
                                                       {"layered:level=1048577", "PARAMETER_RANGE"},
                                                       {"layered:", "PARAMETER_MALFORMED"},
                                                       {"layered:level", "PARAMETER_MALFORMED"},
                                                       {"layered:level=", "PARAMETER_MALFORMED"},
                                                       {"layered:level=1,level=2", "PARAMETER_MALFORMED"},
                                                       {"layered:level=1,,level=2", "PARAMETER_MALFORMED"},
                                                       {"reference:level=1", "PARAMETER_UNKNOWN"},
                                                       {"none:level=1", "KERNEL_UNKNOWN"}};
  for (const auto& [text, reason] : wrong) {
    const auto plan =
        Plan::Build(RequestFor(model_, graph_, *features_, {{"aggregate", text}}), registry_, *ThePlanBench().device);
    ASSERT_EQ(plan.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(DetailOf(plan.status())->reason, reason) << text;
  }
}

TEST_F(LayoutTest, IsCountedBeforeItIsMade) {
  // Beside what the plan itself holds. Refuses, so that no layout is made.
  const auto counted = [&](const ForcedKernels& forced) {
    int64_t bytes = 0, times = 0;
    const auto admit = [&](int64_t asked) {
      bytes = asked;
      return ++times < 3 ? OkStatus() : absl::CancelledError("counted what the built plan adds");
    };
    const auto plan =
        Plan::Build(RequestFor(model_, graph_, *features_, forced), registry_, *ThePlanBench().device, admit);
    EXPECT_EQ(plan.status().code(), StatusCode::kCancelled);
    return bytes - Build(kApart)->size_bytes();
  };
  (void)Build(kApart);
  EXPECT_EQ(counted(kApart), 0);
  constexpr int64_t kTexts = 300;  // what is told of other kernels and their parameters differs in length
  const int64_t layout = 500 + graph_->num_edges();
  EXPECT_NEAR(counted({{"aggregate", "layered"}}), layout, kTexts) << "both steps work on the same";
  TuningRecord record;
  record.key = graph_->tuning().Works()[0].key;
  record.state = TuningState::kForced;
  record.candidates.resize(1);
  record.candidates[0].setting = {"layered", {}};
  graph_->tuning().Put(record);
  EXPECT_NEAR(counted({}), layout, kTexts) << "tuning's choice for one of the steps";
  EXPECT_EQ(layered_->made, 0);
  (void)Build({});
  EXPECT_EQ(layered_->made, 1);
  EXPECT_NEAR(counted({}), 0, kTexts) << "the graph has it";
}

}  // namespace
}  // namespace vicinal::testing
