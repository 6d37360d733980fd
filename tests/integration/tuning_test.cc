// SPDX-License-Identifier: Apache-2.0
// How a request is computed, over a socket: receptive fields, precision, tuning. Whatever is said about it, float32
// answers keep their bits.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

using absl::StatusCode;

class TuningTest : public IntegrationTest {
 protected:
  void SetUp() override {
    StartServer({"--tuning_budget=0s"});
    UploadTinyGraph();
    UploadTinyModel();
  }
  void TearDown() override {
    ExpectServes();
    IntegrationTest::TearDown();
  }
  // The answer for node 0 of the path: two layers reach nodes 0, 1 and 2.
  absl::StatusOr<v1::ClassifyResponse> Ask(const v1::ExecutionOptions& execution) {
    auto request = TinyRequest();
    request.mutable_nodes()->clear_ids();
    request.mutable_nodes()->add_ids(0);
    request.set_return_logits(true);
    *request.mutable_execution() = execution;
    return client_->Classify(request);
  }
  std::string Logits(const v1::ExecutionOptions& execution = {}) {
    const auto reply = Ask(execution);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->logits().data() : std::string();
  }
  static v1::TuneGraphRequest Widths(std::vector<int64_t> widths) {
    v1::TuneGraphRequest request;
    request.set_name("path");
    for (const int64_t width : widths) request.add_widths(width);
    request.mutable_budget()->set_nanos(10'000'000);
    return request;
  }
};

TEST_F(TuningTest, AReceptiveFieldHasTheBitsOfTheFullGraph) {
  v1::ExecutionOptions execution;
  execution.set_receptive_field(v1::RECEPTIVE_FIELD_NEVER);
  const auto full = Ask(execution);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_FALSE(full->timing().receptive_field());
  EXPECT_EQ(full->timing().computed_node_count(), 5);
  execution.set_receptive_field(v1::RECEPTIVE_FIELD_ALWAYS);
  const auto field = Ask(execution);
  ASSERT_TRUE(field.ok()) << field.status();
  EXPECT_TRUE(field->timing().receptive_field());
  EXPECT_EQ(field->timing().computed_node_count(), 3);
  EXPECT_EQ(field->logits().data(), full->logits().data());
  EXPECT_EQ(Logits(), full->logits().data());
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->find("vicinal_computed_nodes_total{computed=\"receptive_field\"}"), std::string::npos);
}

TEST_F(TuningTest, LowerPrecisionIsNearAndOnlyWhereAskedFor) {
  const std::string exact = Logits();
  for (const v1::Precision precision : {v1::PRECISION_BFLOAT16, v1::PRECISION_FLOAT16}) {
    v1::ExecutionOptions execution;
    execution.set_precision(precision);
    const std::string rounded = Logits(execution);
    ASSERT_EQ(rounded.size(), exact.size());
    for (size_t at = 0; at < exact.size(); at += sizeof(float)) {
      float expected = 0.0f, got = 0.0f;
      std::memcpy(&expected, exact.data() + at, sizeof(float));
      std::memcpy(&got, rounded.data() + at, sizeof(float));
      // Values near 1 whose gathered rows have 8 bits of significand, twice.
      EXPECT_NEAR(got, expected, 0.05);
    }
  }
  v1::ExecutionOptions execution;
  execution.set_precision(v1::PRECISION_FLOAT32);
  EXPECT_EQ(Logits(execution), exact);
  // A CPU multiplies in float32 whatever may be rounded.
  execution.set_product_precision(v1::PRODUCT_PRECISION_TF32);
  EXPECT_EQ(Logits(execution), exact);
}

TEST_F(TuningTest, TuningForcingAndResettingKeepTheBits) {
  const std::string before = Logits();
  const auto tuned = client_->TuneGraph(Widths({2, 4}));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(tuned->name(), "path");
  EXPECT_EQ(tuned->version(), client_->GetGraph("path")->version());
  EXPECT_EQ(Logits(), before);
  auto reset = Widths({2, 4});
  reset.clear_budget();
  reset.set_reset(true);
  EXPECT_TRUE(client_->TuneGraph(reset).ok());
  EXPECT_EQ(Logits(), before);
  const auto known = client_->GetTuning("path");
  ASSERT_TRUE(known.ok()) << known.status();
  for (const v1::TuningRecord& record : known->records()) EXPECT_EQ(record.state(), v1::TuningRecord::STATE_DEFAULT);
}

// The real kernels, communities and clock; the graph has a path of five nodes.
TEST_F(TuningTest, EstimatesWhereThatIsAskedFor) {
  const std::string before = Logits();
  auto request = Widths({4});
  request.mutable_budget()->set_nanos(500'000'000);
  request.set_strategy(v1::TUNING_STRATEGY_ESTIMATED);
  const auto estimated = client_->TuneGraph(request);
  ASSERT_TRUE(estimated.ok()) << estimated.status();
  ASSERT_GT(estimated->records_size(), 0);
  for (const v1::TuningRecord& record : estimated->records()) {
    EXPECT_EQ(record.state(), v1::TuningRecord::STATE_TUNED) << record.note();
    EXPECT_EQ(record.strategy(), v1::TUNING_STRATEGY_ESTIMATED);
    EXPECT_GT(record.modelled_count(), record.candidates_size());
    EXPECT_GT(record.used_seconds(), record.profile_seconds());
    EXPECT_LE(record.candidates_size(), 7);  // the default and six more
    EXPECT_EQ(record.note().rfind("estimated: models ranked ", 0), 0) << record.note();
  }
  EXPECT_EQ(Logits(), before);
  request.set_strategy(v1::TUNING_STRATEGY_UNSPECIFIED);  // the server's, which measures
  const auto measured = client_->TuneGraph(request);
  ASSERT_TRUE(measured.ok()) << measured.status();
  for (const v1::TuningRecord& record : measured->records()) {
    EXPECT_EQ(record.strategy(), v1::TUNING_STRATEGY_MEASURED);
    EXPECT_EQ(record.modelled_count(), 0);
  }
  request.set_strategy(static_cast<v1::TuningStrategy>(99));
  ExpectError(client_->TuneGraph(request).status(), StatusCode::kInvalidArgument, "STRATEGY_UNKNOWN");
  request.set_strategy(v1::TUNING_STRATEGY_ESTIMATED);
  request.clear_budget();
  request.set_reset(true);
  ExpectError(client_->TuneGraph(request).status(), StatusCode::kInvalidArgument, "STRATEGY_UNUSED");
}

TEST_F(TuningTest, AServerMayEstimateByRule) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--tuning_budget=0s", "--tuning_strategy=estimated"}));
  UploadTinyGraph();
  UploadTinyModel();
  (void)Logits();
  v1::TuneGraphRequest request;
  request.set_name("path");
  ASSERT_TRUE(client_->TuneGraph(request).ok());
  v1::ExplainRequest explain;
  *explain.mutable_target() = TinyRequest().target();
  const auto plan = client_->Explain(explain);
  ASSERT_TRUE(plan.ok()) << plan.status();
  int estimated = 0;
  for (const v1::PlanStep& step : plan->steps()) {
    if (step.has_tuning() && step.tuning().strategy() == v1::TUNING_STRATEGY_ESTIMATED) ++estimated;
  }
  EXPECT_EQ(estimated, 2);  // one sum per layer
}

TEST_F(TuningTest, DecisionsTravelAsText) {
  auto force = Widths({3});
  force.clear_budget();
  force.mutable_force()->set_kernel("tiled_rows");
  ASSERT_TRUE(client_->TuneGraph(force).ok());
  const auto text = client_->ExportTuning("path");
  ASSERT_TRUE(text.ok()) << text.status();
  auto reset = Widths({3});
  reset.clear_budget();
  reset.set_reset(true);
  ASSERT_TRUE(client_->TuneGraph(reset).ok());
  v1::TuneGraphRequest request;
  request.set_name("path");
  request.set_import_text(*text);
  const auto imported = client_->TuneGraph(request);
  ASSERT_TRUE(imported.ok()) << imported.status();
  ASSERT_GT(imported->records_size(), 0);
  for (const v1::TuningRecord& record : imported->records()) {
    EXPECT_EQ(record.state(), v1::TuningRecord::STATE_FORCED);
    EXPECT_EQ(record.candidates(0).kernel(), "tiled_rows");
  }
  request.set_import_text(text->substr(0, text->size() / 2));
  ExpectError(client_->TuneGraph(request).status(), StatusCode::kInvalidArgument, "BAD_TUNING_TEXT");
  ExpectError(client_->ExportTuning("unknown").status(), StatusCode::kNotFound, "unknown");
}

TEST_F(TuningTest, WhatCannotBeTunedIsNamed) {
  auto request = Widths({16});
  request.set_name("unknown");
  ExpectError(client_->TuneGraph(request).status(), StatusCode::kNotFound, "unknown");
  ExpectError(client_->GetTuning("unknown").status(), StatusCode::kNotFound, "unknown");
  ExpectError(client_->GetTuning("No Good").status(), StatusCode::kInvalidArgument, "BAD_NAME");
  request = Widths({16});
  request.set_version(-1);
  ExpectError(client_->TuneGraph(request).status(), StatusCode::kInvalidArgument, "version");
  request = Widths({16});
  request.mutable_budget()->set_seconds(100000);
  ExpectError(client_->TuneGraph(request).status(), StatusCode::kInvalidArgument, "10 minutes");
  const std::pair<const char*, void (*)(v1::TuneGraphRequest&)> cases[] = {
      {"BAD_WIDTH", [](v1::TuneGraphRequest& r) { r.add_widths(0); }},
      {"KIND_UNKNOWN", [](v1::TuneGraphRequest& r) { r.add_kinds("median"); }},
      {"WEIGHTS_UNKNOWN", [](v1::TuneGraphRequest& r) { r.add_weights("heavy"); }},
      {"HEADS_UNEXPECTED", [](v1::TuneGraphRequest& r) { r.add_heads(2); }},
      {"WIDTHS_UNEXPECTED", [](v1::TuneGraphRequest& r) { r.set_operation("expression"); }},
      {"PROGRAMS_UNEXPECTED", [](v1::TuneGraphRequest& r) { r.add_programs("0123456789abcdef"); }},
      {"OUTPUTS_UNEXPECTED", [](v1::TuneGraphRequest& r) { r.add_outputs(2); }},
      {"OUTPUTS_MISSING", [](v1::TuneGraphRequest& r) { r.set_operation("dense_update"); }},
      {"KERNEL_MISSING", [](v1::TuneGraphRequest& r) { r.mutable_force(); }},
      {"KERNEL_UNKNOWN", [](v1::TuneGraphRequest& r) { r.mutable_force()->set_kernel("no_such_kernel"); }},
      {"RESET_AND_FORCE",
       [](v1::TuneGraphRequest& r) { r.set_reset(true), r.mutable_force()->set_kernel("reference"); }},
  };
  for (const auto& [reason, spoil] : cases) {
    request = Widths({16});
    spoil(request);
    ExpectError(client_->TuneGraph(request).status(), StatusCode::kInvalidArgument, reason);
  }
}

TEST_F(TuningTest, KernelsTellTheirParameters) {
  const auto capabilities = client_->GetCapabilities();
  ASSERT_TRUE(capabilities.ok());
  bool some = false;
  for (const v1::KernelInfo& kernel : capabilities->kernels()) {
    some = some || kernel.parameters_size() > 0;
    for (const std::string& parameter : kernel.parameters()) EXPECT_FALSE(parameter.empty()) << kernel.name();
  }
  EXPECT_TRUE(some);
}

}  // namespace
}  // namespace vicinal::testing
