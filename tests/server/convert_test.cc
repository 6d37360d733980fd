// SPDX-License-Identifier: Apache-2.0
// Every value of the engine's vocabularies has a name in the API, and no field of a profile or of a tuning record is
// lost on the way.
#include "server/convert.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "engine/base/error.h"
#include "engine/reorder/order.h"
#include "server/convert_profile.h"
#include "server/convert_replies.h"
#include "server/convert_resources.h"
#include "server/convert_tuning.h"

namespace vicinal::server {
namespace {

TEST(ConvertTest, EveryOrderHasItsOwnNameInTheApi) {
  std::set<v1::Reorder> seen;
  for (const OrderKind kind : KnownOrders()) {
    const v1::Reorder reorder = ToProto(kind);
    EXPECT_NE(reorder, v1::REORDER_UNSPECIFIED) << ToString(kind);
    EXPECT_TRUE(seen.insert(reorder).second) << ToString(kind);
    const StatusOr<OrderKind> back = FromProto(reorder);
    if (IsAvailable(kind)) {
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, kind);
    } else {
      EXPECT_EQ(back.status().code(), StatusCode::kFailedPrecondition);
    }
  }
  EXPECT_EQ(*FromProto(v1::REORDER_UNSPECIFIED), OrderKind::kAuto);
  EXPECT_FALSE(FromProto(static_cast<v1::Reorder>(99)).ok());
}

TEST(ConvertTest, ExecutionOptionsThatAreLeftOutAreExact) {
  const StatusOr<ExecutionOptions> options = FromProto(v1::ExecutionOptions());
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(*options, ExecutionOptions());
}

TEST(ConvertTest, NoExecutionOptionIsLost) {
  v1::ExecutionOptions options;
  (*options.mutable_kernels())["aggregate"] = "reference";
  options.set_precision(v1::PRECISION_FLOAT16);
  options.set_product_precision(v1::PRODUCT_PRECISION_BFLOAT16);
  options.set_receptive_field(v1::RECEPTIVE_FIELD_NEVER);
  const StatusOr<ExecutionOptions> converted = FromProto(options);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_EQ(
      *converted,
      (ExecutionOptions{
          {{"aggregate", "reference"}}, Storage::kFloat16, ProductPrecision::kBfloat16, ReceptiveField::kNever, ""}));
}

TEST(ConvertTest, EachValueOfAnExecutionOptionHasItsOwn) {
  std::set<Storage> precisions;
  for (const auto value : {v1::PRECISION_FLOAT32, v1::PRECISION_BFLOAT16, v1::PRECISION_FLOAT16}) {
    v1::ExecutionOptions options;
    options.set_precision(value);
    EXPECT_TRUE(precisions.insert(FromProto(options)->precision).second) << value;
  }
  std::set<ProductPrecision> products;
  for (const auto value : {v1::PRODUCT_PRECISION_FLOAT32, v1::PRODUCT_PRECISION_TF32, v1::PRODUCT_PRECISION_BFLOAT16,
                           v1::PRODUCT_PRECISION_FLOAT16}) {
    v1::ExecutionOptions options;
    options.set_product_precision(value);
    EXPECT_TRUE(products.insert(FromProto(options)->product_precision).second) << value;
  }
  std::set<ReceptiveField> fields;
  for (const auto value : {v1::RECEPTIVE_FIELD_AUTO, v1::RECEPTIVE_FIELD_NEVER, v1::RECEPTIVE_FIELD_ALWAYS}) {
    v1::ExecutionOptions options;
    options.set_receptive_field(value);
    EXPECT_TRUE(fields.insert(FromProto(options)->receptive_field).second) << value;
  }
}

TEST(ConvertTest, ABadExecutionOptionIsNamed) {
  const auto field_of = [](const v1::ExecutionOptions& options) {
    const Status status = FromProto(options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    const auto detail = DetailOf(status);
    EXPECT_TRUE(detail.has_value() && detail->reason == "BAD_EXECUTION") << status;
    // Clients that do not decode details see the message alone.
    EXPECT_TRUE(detail && status.message().find(detail->field) == 0) << status;
    return detail ? detail->field : "";
  };
  v1::ExecutionOptions precision, product_precision, receptive_field;
  precision.set_precision(static_cast<v1::Precision>(99));
  product_precision.set_product_precision(static_cast<v1::ProductPrecision>(99));
  receptive_field.set_receptive_field(static_cast<v1::ReceptiveField>(99));
  EXPECT_EQ(field_of(precision), "execution.precision");
  EXPECT_EQ(field_of(product_precision), "execution.product_precision");
  EXPECT_EQ(field_of(receptive_field), "execution.receptive_field");
}

TEST(ConvertTest, NothingOfAProfileIsLost) {
  GraphProfile profile;
  profile.degree_quantiles = {2, 5, 9};
  profile.window = 1024;
  profile.before.inside_window = 0.25;
  profile.after.inside_window = 0.5;
  profile.after.inside_window_and_community = 0.375;
  profile.after.tile_density[0] = 0.75;
  profile.after.reuse[1] = {0.5, 0.9};
  profile.caches = {1000, 2000};
  EXPECT_FALSE(ToProto(profile).has_communities());
  profile.communities.known = true;
  profile.communities.count = 12;
  profile.communities.modularity = 0.6;
  profile.communities.size_quantiles = {3, 30, 300};
  profile.communities.inside = 0.8;
  profile.communities.density.back() = 0.1;
  const v1::GraphProfile out = ToProto(profile);
  EXPECT_EQ(out.communities().community_count(), 12);
  EXPECT_EQ(out.communities().modularity(), 0.6);
  EXPECT_EQ(out.communities().size_quantiles(2), 300);
  EXPECT_EQ(out.communities().inside(), 0.8);
  ASSERT_EQ(out.communities().density_shares_size(), out.density_bounds_size() + 1);
  EXPECT_EQ(out.communities().density_shares(out.density_bounds_size()), 0.1);
  EXPECT_EQ(out.inside_window_before(), 0.25);
  EXPECT_EQ(out.inside_window_after(), 0.5);
  EXPECT_EQ(out.after().inside_window_and_community(), 0.375);
  ASSERT_EQ(out.after().tile_density_shares_size(), out.density_bounds_size() + 1);
  EXPECT_EQ(out.after().tile_density_shares(0), 0.75);
  ASSERT_EQ(out.after().reuse_size(), static_cast<int>(kReuseWidths.size()));
  EXPECT_EQ(out.after().reuse(1).width(), kReuseWidths[1]);
  EXPECT_EQ(out.after().reuse(1).l2(), 0.5);
  EXPECT_EQ(out.after().reuse(1).llc(), 0.9);
  EXPECT_EQ(out.density_tile(), kDensityTile);
  EXPECT_EQ(out.l2_bytes(), 1000);
  EXPECT_EQ(out.llc_bytes(), 2000);
}

TEST(ConvertTest, NothingOfATuningRecordIsLost) {
  TuningRecord record;
  record.key = {"attention",       "gat", 16, 8, false, EdgeWeights::kPerSource, Storage::kFloat16, 32, true,
                "0123456789abcdef"};
  record.state = TuningState::kTuned;
  TuningCandidate candidate;
  candidate.setting.kernel = "simd_rows";
  candidate.parameters = {{"feature_tile", 64}, {"prefetch_edges", 0}};
  candidate.predicted_seconds = 0.5;
  candidate.measured_seconds = 0.25;
  candidate.spread = 0.125;
  candidate.ratio = 0.75;
  candidate.samples = 9;
  candidate.dropped_samples = 2;
  candidate.outcome = CandidateOutcome::kChosen;
  record.candidates = {candidate};
  record.refused = {{"narrow", "only width 4"}};
  record.gain = 1.5;
  record.budget_seconds = 2.0;
  record.used_seconds = 1.0;
  record.uses = 77;
  record.finish_time = WallTime(std::chrono::seconds(100));
  record.note = "a note";
  const v1::TuningRecord out = ToProto(record);
  EXPECT_EQ(out.key().operation(), "attention");
  EXPECT_EQ(out.key().kind(), "gat");
  EXPECT_EQ(out.key().width(), 16);
  EXPECT_EQ(out.key().heads(), 8);
  EXPECT_FALSE(out.key().concat());
  EXPECT_EQ(out.key().weights(), "per_source");
  EXPECT_EQ(out.key().precision(), v1::PRECISION_FLOAT16);
  EXPECT_EQ(out.key().outputs(), 32);
  EXPECT_TRUE(out.key().epilogue());
  EXPECT_EQ(out.key().program(), "0123456789abcdef");
  EXPECT_EQ(out.state(), v1::TuningRecord::STATE_TUNED);
  ASSERT_EQ(out.candidates_size(), 1);
  EXPECT_EQ(out.candidates(0).kernel(), "simd_rows");
  EXPECT_EQ(out.candidates(0).parameters(0).name(), "feature_tile");
  EXPECT_EQ(out.candidates(0).parameters(0).value(), 64);
  EXPECT_EQ(out.candidates(0).outcome(), v1::TuningCandidate::OUTCOME_CHOSEN);
  EXPECT_EQ(out.candidates(0).predicted_seconds(), 0.5);
  EXPECT_EQ(out.candidates(0).measured_seconds(), 0.25);
  EXPECT_EQ(out.candidates(0).spread(), 0.125);
  EXPECT_EQ(out.candidates(0).ratio(), 0.75);
  EXPECT_EQ(out.candidates(0).sample_count(), 9);
  EXPECT_EQ(out.candidates(0).dropped_sample_count(), 2);
  EXPECT_EQ(out.refusals(0).kernel(), "narrow");
  EXPECT_EQ(out.refusals(0).reason(), "only width 4");
  EXPECT_EQ(out.gain(), 1.5);
  EXPECT_EQ(out.budget_seconds(), 2.0);
  EXPECT_EQ(out.used_seconds(), 1.0);
  EXPECT_EQ(out.use_count(), 77);
  EXPECT_EQ(out.finish_time().seconds(), 100);
  EXPECT_EQ(out.note(), "a note");
  EXPECT_FALSE(ToProto(TuningRecord()).has_finish_time());
}

TEST(ConvertTest, StepsAndLinksTellTheParametersOfTheirKernels) {
  Explanation explanation;
  explanation.steps.resize(2);
  explanation.steps[0].kernel = "edge_tiles";
  explanation.steps[0].parameters = {{"edge_tile", 192}, {"prefetch_columns", 0}};
  explanation.links.emplace();
  explanation.links->kernel = "template_sddmm";
  explanation.links->parameters = {{"hilbert_order", 3}};
  const v1::ExplainResponse out = ToProto(explanation);
  ASSERT_EQ(out.steps(0).parameters_size(), 2);
  EXPECT_EQ(out.steps(0).parameters(0).name(), "edge_tile");
  EXPECT_EQ(out.steps(0).parameters(0).value(), 192);
  EXPECT_EQ(out.steps(0).parameters(1).value(), 0);
  EXPECT_EQ(out.steps(1).parameters_size(), 0);
  ASSERT_EQ(out.links().parameters_size(), 1);
  EXPECT_EQ(out.links().parameters(0).name(), "hilbert_order");
  EXPECT_EQ(out.links().parameters(0).value(), 3);
}

TEST(ConvertTest, RunsOverFieldsAreToldApart) {
  Explanation explanation;
  explanation.steps.resize(2);
  explanation.steps[0].run_count = 4;
  explanation.steps[0].total_seconds = 2.0;
  explanation.steps[0].receptive_field_run_count = 8;
  explanation.steps[0].receptive_field_total_seconds = 1.0;
  const v1::ExplainResponse out = ToProto(explanation);
  EXPECT_EQ(out.steps(0).run_count(), 4);
  EXPECT_EQ(out.steps(0).mean_seconds(), 0.5);
  EXPECT_EQ(out.steps(0).receptive_field_run_count(), 8);
  EXPECT_EQ(out.steps(0).receptive_field_mean_seconds(), 0.125);
  EXPECT_EQ(out.steps(1).receptive_field_run_count(), 0);
  EXPECT_EQ(out.steps(1).receptive_field_mean_seconds(), 0.0);
}

TEST(ConvertTest, AStepsTuningGoesWithItsStep) {
  Explanation explanation;
  explanation.steps.resize(3);
  explanation.tuning.resize(3);
  explanation.tuning[1].emplace().note = "of step 1";
  const v1::ExplainResponse out = ToProto(explanation);
  EXPECT_FALSE(out.steps(0).has_tuning());
  EXPECT_EQ(out.steps(1).tuning().note(), "of step 1");
  EXPECT_FALSE(out.steps(2).has_tuning());
}

TEST(ConvertTest, AGraphThatCannotBeLoadedShowsItsVersion) {
  GraphResource graph;
  graph.name = "g";
  graph.state = GraphState::kFailed;
  EXPECT_EQ(ToProto(graph).version(), 0) << "none was published";
  graph.unloaded_version = 7;
  EXPECT_EQ(ToProto(graph).version(), 7);
  EXPECT_FALSE(ToProto(graph).resident());
  EXPECT_EQ(ToProto(graph).tier(), v1::Graph::TIER_UNSPECIFIED);
}

// Found by fuzzing: one less than the smallest number overflows.
TEST(ConvertTest, AnExtentBelowOneIsRefusedWhateverItIs) {
  v1::FeatureInput features;
  v1::CsrMatrix* csr = features.mutable_csr();
  csr->set_row_count(1);
  for (v1::Tensor* tensor : {csr->mutable_indptr(), csr->mutable_indices(), csr->mutable_values()}) {
    tensor->set_dtype(v1::DATA_TYPE_INT64);
    tensor->add_shape(std::numeric_limits<int64_t>::min());
  }
  const Status status = FromProto(features, "features").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(status)->field, "features.csr.row_count");
}

TEST(ConvertTest, AnUploadIdThatIsMissingIsNotCalledInvalid) {
  EXPECT_TRUE(CheckUploadId("0123-abc", "spec.upload_id").ok());
  EXPECT_EQ(CheckUploadId("", "spec.upload_id").message(),
            "spec.upload_id is required; upload ids match [a-z0-9-]{8,64}");
  EXPECT_EQ(CheckUploadId("no good", "upload_id").message(),
            "upload_id is not a valid id; upload ids match [a-z0-9-]{8,64}");
}

}  // namespace
}  // namespace vicinal::server
