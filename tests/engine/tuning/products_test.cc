// SPDX-License-Identifier: Apache-2.0
// Products with weights are tuned as aggregations are: on a device with two kernels of them, which add in different
// orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/tune/work.h"
#include "engine/tuning/product_work.h"
#include "tests/engine/tuning/tuning_testing.h"

namespace vicinal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// The second kernel of products takes `share` of the default's time; nothing else differs.
ToldMeter::Times PairedTakes(double share) {
  return [share](const TuningKey& key, const KernelSetting& setting) {
    const bool faster = key.operation == "dense_update" && setting.kernel == "paired";
    return RunSample{(faster ? share : 1.0) * kRunSeconds, false};
  };
}

bool IsOfProducts(const TuningRecord& record) { return record.key.operation == "dense_update"; }

class ProductsTest : public TuningTest {
 protected:
  // For twenty rounds of two candidates.
  static constexpr Nanoseconds kBudget = std::chrono::milliseconds(200);

  void MakeWithTwo(double share, Nanoseconds budget) { MakeOn("two_products", share, budget); }
  // On the device of that backend.
  void MakeOn(const std::string& backend, double share, Nanoseconds budget) {
    meter_ = std::make_unique<ToldMeter>(PairedTakes(share));
    EngineOptions options;
    options.clock = engine_clock_;
    options.device = "cuda:0";
    options.backend_path = VICINAL_LIB_DIR "/libvicinal_" + backend + "_backend.so";
    options.memory_budget_bytes = int64_t{1} << 30;
    options.tuning_budget = budget;
    options.stats = &ended_;
    engine_ = MakeEngine(options, meter_.get());
    PutLargeWorld(*engine_);
  }
  InferenceResult Result(InferenceRequest request = AllNodes("g", "m")) {
    const auto answer = Infer(*engine_, std::move(request));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : InferenceResult();
  }
  std::vector<TuningRecord> ProductRecords() {
    auto report = engine_->GetTuning("g");
    EXPECT_TRUE(report.ok()) << report.status();
    std::erase_if(report->records, [](const TuningRecord& record) { return !IsOfProducts(record); });
    return report->records;
  }
  std::vector<std::string> ProductKernels() {
    const auto explanation = engine_->Explain(AllNodes("g", "m"));
    EXPECT_TRUE(explanation.ok()) << explanation.status();
    std::vector<std::string> kernels;
    for (size_t i = 0; i < explanation->steps.size(); ++i) {
      if (explanation->steps[i].operation != "dense_update") continue;
      kernels.push_back(explanation->steps[i].kernel);
      EXPECT_TRUE(explanation->tuning[i].has_value()) << "Explain shows the record";
    }
    return kernels;
  }
  TuneGraphRequest Products() {
    TuneGraphRequest request = Request();
    request.operation = "dense_update";
    request.budget = kBudget;
    return request;
  }
};

using Kernels = std::vector<std::string>;

// The last bits may differ between orders, no more.
void ExpectNear(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  double difference = 0.0, norm = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  EXPECT_LE(std::sqrt(difference), 2e-6 * std::sqrt(norm));
}

TEST_F(ProductsTest, UntunedTheFirstKernelServesInTheStandardOrder) {
  Make(PairedTakes(0.5), Nanoseconds::zero());
  const InferenceResult on_cpu = Result();
  EXPECT_TRUE(ProductRecords().empty()) << "one kernel: nothing to choose on a CPU, and nothing noted";
  MakeWithTwo(0.5, Nanoseconds::zero());
  const InferenceResult untuned = Result();
  EXPECT_EQ(untuned.values, on_cpu.values);
  EXPECT_EQ(ProductKernels(), (Kernels{"simd_rows", "simd_rows"}));
  std::vector<std::string> works;
  for (const TuningRecord& record : ProductRecords()) {
    EXPECT_EQ(record.state, TuningState::kDefault);
    works.push_back(Describe(record.key));
  }
  EXPECT_THAT(works, UnorderedElementsAre("dense_update float32, width 12, outputs 16, with epilogue",
                                          "dense_update float32, width 16, outputs 8, with epilogue"))
      << "the second one is scaled by the degrees of sources";
}

TEST_F(ProductsTest, TheFasterKernelServesUnderARevisionOfItsOwn) {
  Make(PairedTakes(0.5), Nanoseconds::zero());
  const std::vector<float> on_cpu = Result().values;
  MakeWithTwo(0.5, Nanoseconds::zero());
  const InferenceResult untuned = Result();
  ASSERT_TRUE(engine_->TuneGraph(Products()).ok());
  const std::vector<TuningRecord> records = ProductRecords();
  ASSERT_EQ(records.size(), 2u);
  for (const TuningRecord& record : records) {
    ExpectTheFastOne(record);
    EXPECT_EQ(record.choice()->setting.kernel, "paired");
    EXPECT_EQ(record.strategy, TuningStrategy::kMeasured);
  }
  const InferenceResult tuned = Result();
  EXPECT_EQ(ProductKernels(), (Kernels{"paired", "paired"}));
  EXPECT_NE(tuned.served_by.numerics_revision, untuned.served_by.numerics_revision);
  EXPECT_NE(tuned.values, untuned.values) << "the kernels add in different orders";
  ExpectNear(tuned.values, on_cpu);

  // Rows of a receptive field have the bits of the full pass.
  InferenceRequest some = AllNodes("g", "m");
  some.nodes.all = false;
  some.nodes.ids = {3, 19'999, 7, 3};
  for (const ReceptiveField field : {ReceptiveField::kAlways, ReceptiveField::kNever}) {
    some.options.receptive_field = field;
    const InferenceResult rows = Result(some);
    EXPECT_EQ(rows.served_by.numerics_revision, tuned.served_by.numerics_revision);
    const size_t width = tuned.values.size() / kNodes;
    ASSERT_EQ(rows.values.size(), some.nodes.ids.size() * width);
    for (size_t i = 0; i < some.nodes.ids.size(); ++i) {
      const auto row = tuned.values.begin() + some.nodes.ids[i] * static_cast<int64_t>(width);
      EXPECT_TRUE(
          std::equal(row, row + static_cast<int64_t>(width), rows.values.begin() + static_cast<int64_t>(i * width)));
    }
  }

  // A reset brings the former bits back.
  TuneGraphRequest reset = Products();
  reset.reset = true;
  ASSERT_TRUE(engine_->TuneGraph(reset).ok());
  const InferenceResult again = Result();
  EXPECT_EQ(again.values, untuned.values);
  EXPECT_EQ(again.served_by.numerics_revision, untuned.served_by.numerics_revision);
}

TEST_F(ProductsTest, InTheBackgroundToo) {
  MakeWithTwo(0.5, kBudget);
  (void)Result();
  (void)AwaitTuning("g");
  for (const TuningRecord& record : ProductRecords()) ExpectTheFastOne(record);
  (void)Result();
  EXPECT_EQ(ProductKernels(), (Kernels{"paired", "paired"}));
}

// Who asks it would prepare it at once, and the backend ends the process then.
TEST_F(ProductsTest, NoRequestAsksAKernelThatMemoryWasTooShortFor) {
  MakeOn("unaffordable_product", 1.0, kBudget);
  const InferenceResult before = Result();
  (void)AwaitTuning("g");
  const auto expect_left_out = [this] {
    const std::vector<TuningRecord> records = ProductRecords();
    EXPECT_EQ(records.size(), 2u);
    for (const TuningRecord& record : records) {
      EXPECT_EQ(record.state, TuningState::kTuned) << record.note;
      EXPECT_THAT(record.note, HasSubstr("unaffordable was left out"));
      EXPECT_TRUE(std::any_of(record.refused.begin(), record.refused.end(), [](const KernelRefusal& refused) {
        return refused.kernel == "unaffordable" && refused.reason.find("--memory_budget_bytes") != std::string::npos;
      }));
    }
  };
  expect_left_out();
  ASSERT_TRUE(engine_->TuneGraph(Products()).ok()) << "asked for again, it is tried again";
  expect_left_out();
  const InferenceResult after = Result();
  EXPECT_EQ(after.values, before.values);
  EXPECT_EQ(after.served_by.numerics_revision, before.served_by.numerics_revision);
  InferenceRequest some = AllNodes("g", "m");
  some.nodes.all = false;
  some.nodes.ids = {3, 19'999};
  (void)Result(some);
  EXPECT_EQ(ProductKernels(), (Kernels{"simd_rows", "simd_rows"}));
  EXPECT_TRUE(engine_->ExportTuning("g").ok());
}

TEST_F(ProductsTest, AnotherOrderMustBeWorthIt) {
  MakeWithTwo(0.97, Nanoseconds::zero());
  (void)Result();
  ASSERT_TRUE(engine_->TuneGraph(Products()).ok());
  for (const TuningRecord& record : ProductRecords()) {
    EXPECT_EQ(record.state, TuningState::kTuned);
    EXPECT_EQ(record.chosen, 0);
    EXPECT_THAT(record.note, HasSubstr("paired takes 0.97 of the default's time, but adds in another order"));
  }
  EXPECT_EQ(ProductKernels(), (Kernels{"simd_rows", "simd_rows"}));
}

TEST_F(ProductsTest, ForcedOnTheGraphAndCarriedToAnotherServer) {
  MakeWithTwo(1.0, Nanoseconds::zero());
  const InferenceResult untuned = Result();
  TuneGraphRequest force = Request();
  force.force = ForcedConfiguration{"paired", {}};
  const auto forced = engine_->TuneGraph(force);
  ASSERT_TRUE(forced.ok()) << forced.status();
  ASSERT_EQ(forced->records.size(), 2u) << "the operation that has the kernel";
  for (const TuningRecord& record : forced->records) EXPECT_EQ(record.state, TuningState::kForced);
  const InferenceResult by_force = Result();
  EXPECT_EQ(ProductKernels(), (Kernels{"paired", "paired"}));
  EXPECT_NE(by_force.served_by.numerics_revision, untuned.served_by.numerics_revision);

  const auto text = engine_->ExportTuning("g");
  ASSERT_TRUE(text.ok()) << text.status();
  MakeWithTwo(1.0, Nanoseconds::zero());
  TuneGraphRequest import = Request();
  import.import_text = *text;
  const auto imported = engine_->TuneGraph(import);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const InferenceResult there = Result();
  EXPECT_EQ(there.values, by_force.values);
  EXPECT_EQ(there.served_by.numerics_revision, by_force.served_by.numerics_revision);
}

// A CPU has one kernel of products: no widths would help.
TEST_F(ProductsTest, WhereThereIsNoChoiceThereIsNothingToTune) {
  Make(PairedTakes(0.5), Nanoseconds::zero());
  (void)Result();
  const Status nothing = engine_->TuneGraph(Products()).status();
  EXPECT_EQ(nothing.code(), StatusCode::kFailedPrecondition) << nothing;
  EXPECT_EQ(DetailOf(nothing)->reason, "NOTHING_TO_TUNE");
  EXPECT_NE(std::string(nothing.message()).find("one kernel for dense_update, 'simd_rows'"), std::string::npos)
      << nothing;
  TuneGraphRequest named = Products();
  named.widths = {8};
  named.outputs = {8};
  const auto report = engine_->TuneGraph(named);
  ASSERT_TRUE(report.ok()) << report.status();
  for (const TuningRecord& record : report->records) EXPECT_EQ(record.note, "one candidate only: nothing to measure");
  // Two kernels, and no such work yet: widths are what is missing.
  MakeWithTwo(0.5, Nanoseconds::zero());
  TuneGraphRequest rounded = Products();
  rounded.kinds = {"tf32"};
  EXPECT_EQ(DetailOf(engine_->TuneGraph(rounded).status())->reason, "WIDTHS_MISSING");
}

TEST_F(ProductsTest, ByName) {
  MakeWithTwo(0.5, Nanoseconds::zero());
  TuneGraphRequest request = Products();
  request.widths = {100, 50};
  request.outputs = {7};
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->records.size(), 4u) << "with and without an epilogue";
  for (const TuningRecord& record : report->records) ExpectTheFastOne(record);
  request.kinds = {"tf32"};
  const auto rounded = engine_->TuneGraph(request);
  ASSERT_TRUE(rounded.ok()) << rounded.status();
  for (const TuningRecord& record : rounded->records) {
    EXPECT_EQ(record.note, "one candidate only: nothing to measure");
    EXPECT_EQ(record.used_seconds, 0.0);
    ASSERT_FALSE(record.refused.empty());
    EXPECT_TRUE(std::any_of(record.refused.begin(), record.refused.end(), [](const KernelRefusal& refused) {
      return refused.kernel == "paired" && refused.reason == "only float32 products";
    }));
  }
  const auto reason = [&](auto change) {
    TuneGraphRequest bad = Products();
    bad.widths = {8};
    bad.outputs = {8};
    change(&bad);
    const auto detail = DetailOf(engine_->TuneGraph(bad).status());
    return detail.has_value() ? detail->reason + " " + detail->field : "OK";
  };
  EXPECT_EQ(reason([](auto*) {}), "OK");
  EXPECT_EQ(reason([](auto* r) { r->outputs.clear(); }), "OUTPUTS_MISSING outputs");
  EXPECT_EQ(reason([](auto* r) { r->operation = "aggregate"; }), "OUTPUTS_UNEXPECTED outputs");
  EXPECT_EQ(reason([](auto* r) { r->outputs = {0}; }), "BAD_WIDTH outputs[0]");
  EXPECT_EQ(reason([](auto* r) { r->kinds = {"sum"}; }), "KIND_UNKNOWN kinds[0]");
  EXPECT_EQ(reason([](auto* r) { r->heads = {2}; }), "HEADS_UNEXPECTED heads");
  EXPECT_EQ(reason([](auto* r) { r->weights = {"none"}; }), "WEIGHTS_UNEXPECTED weights");
  EXPECT_EQ(reason([](auto* r) {
              r->outputs.clear();
              for (int64_t i = 1; i <= 129; ++i) r->outputs.push_back(i);
            }),
            "TOO_MANY_COMBINATIONS widths");
}

TEST(ProductWork, AllRowsUnlessTheyAreMoreThanNeeded) {
  TuningKey key;
  key.operation = "dense_update";
  key.width = 64, key.outputs = 64;
  EXPECT_EQ(MeasuredProductRows(key, 0), 0);
  EXPECT_EQ(MeasuredProductRows(key, 1'900'000), 1'900'000);
  EXPECT_EQ(MeasuredProductRows(key, 10'000'000), (int64_t{1} << 30) / (4 * 128)) << "1 GiB";
  key.width = 2048, key.outputs = 1024;
  EXPECT_EQ(MeasuredProductRows(key, 100'000), 100'000);
  EXPECT_EQ(MeasuredProductRows(key, 10'000'000), kProductRowsAtLeast);
}

}  // namespace
}  // namespace vicinal::testing
