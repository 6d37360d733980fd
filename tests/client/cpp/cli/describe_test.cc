// SPDX-License-Identifier: Apache-2.0
// What people read of profiles and tuning.
#include "client/cpp/cli/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/cpp/cli/describe_tuning.h"

namespace vicinal::client::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DescribeTest, AProfileWithCommunities) {
  v1::Graph graph;
  v1::GraphProfile& profile = *graph.mutable_profile();
  profile.set_window(1024);
  profile.set_density_tile(256);
  for (const double bound : {1.0 / 64, 0.25}) profile.add_density_bounds(bound);
  for (v1::Locality* locality : {profile.mutable_before(), profile.mutable_after()}) {
    for (const double share : {0.5, 0.25, 0.125}) locality->add_tile_density_shares(share);
    v1::ReuseEstimate* reuse = locality->add_reuse();
    reuse->set_width(16);
    reuse->set_l2(0.75);
    reuse->set_llc(0.875);
  }
  profile.mutable_after()->set_inside_window_and_community(0.4);
  std::ostringstream without;
  PrintProfile(graph, without);
  EXPECT_THAT(without.str(), Not(HasSubstr("communities")));
  v1::CommunityProfile& communities = *profile.mutable_communities();
  communities.set_community_count(12);
  communities.set_modularity(0.625);
  communities.set_inside(0.8);
  for (const double share : {0.3, 0.3, 0.2}) communities.add_density_shares(share);
  std::ostringstream out;
  PrintProfile(graph, out);
  EXPECT_THAT(out.str(), HasSubstr("communities: 12, modularity 0.625, 80.0 % of the edges inside"));
  EXPECT_THAT(out.str(), HasSubstr("reuse at width 16: L2, last cache"));
  EXPECT_THAT(out.str(), HasSubstr("75.0 %, 87.5 %"));
  EXPECT_THAT(out.str(), HasSubstr("below 1/64"));
  EXPECT_THAT(out.str(), HasSubstr("from 1/64 to 1/4"));
  EXPECT_THAT(out.str(), HasSubstr("from 1/4"));
  EXPECT_THAT(out.str(), HasSubstr("256x256 tiles before"));
}

TEST(DescribeTest, AProfileOfAnOlderServerIsShownAsFarAsItGoes) {
  v1::Graph graph;
  graph.mutable_profile()->set_window(1024);
  std::ostringstream out;
  PrintProfile(graph, out);
  EXPECT_THAT(out.str(), HasSubstr("edges inside a window of 1024"));
  EXPECT_THAT(out.str(), Not(HasSubstr("tiles")));
}

TEST(DescribeTest, ListsShowTheFeaturesOfEdges) {
  std::vector<v1::Graph> graphs(2);
  std::vector<v1::Model> models(2);
  graphs[0].set_name("with");
  graphs[0].set_edge_feature_width(17);
  models[1].set_name("reads");
  models[1].set_edge_feature_width(19);
  std::ostringstream listed, read;
  PrintGraphs(graphs, listed);
  PrintModels(models, read);
  for (const auto& [text, width] : {std::pair(listed.str(), "  17 "), std::pair(read.str(), "  19 ")}) {
    EXPECT_THAT(text, HasSubstr("  edge features  "));
    EXPECT_THAT(text, HasSubstr(width));
    EXPECT_THAT(text, HasSubstr("  -  ")) << "the other has none";
  }
}

TEST(DescribeTest, ListsShowWhereGraphsAre) {
  std::vector<v1::Graph> graphs(5);
  for (v1::Graph& graph : graphs) graph.set_version(1);
  graphs[0].set_tier(v1::Graph::TIER_DISK);
  graphs[1].set_resident(true);
  graphs[1].set_tier(v1::Graph::TIER_HOST);
  graphs[1].set_pinned(true);
  graphs[2].set_resident(true);
  graphs[2].set_tier(v1::Graph::TIER_DEVICE);
  graphs[3].set_version(0);
  graphs[4].set_version(77);
  graphs[4].set_state(v1::Graph::STATE_FAILED);
  std::ostringstream listed;
  PrintGraphs(graphs, listed);
  std::vector<std::string> lines = absl::StrSplit(listed.str(), '\n');
  ASSERT_GE(lines.size(), 6u);
  EXPECT_THAT(lines[0], HasSubstr("where"));
  EXPECT_THAT(lines[1], HasSubstr("  disk"));
  EXPECT_THAT(lines[2], HasSubstr("  memory, pinned"));
  EXPECT_THAT(lines[3], HasSubstr("  GPU"));
  EXPECT_THAT(lines[4], Not(HasSubstr("disk"))) << "nothing of it serves";
  EXPECT_THAT(lines[5], HasSubstr("77"));
  EXPECT_THAT(lines[5], Not(HasSubstr("disk"))) << "its version cannot be loaded";
  std::ostringstream one;
  PrintGraph(graphs[4], one);
  EXPECT_THAT(one.str(), HasSubstr("version 77 is FAILED"));
  EXPECT_THAT(one.str(), Not(HasSubstr("the next request loads it")));
}

TEST(DescribeTest, ATuningRecord) {
  v1::TuningRecord record;
  record.mutable_key()->set_operation("attention");
  record.mutable_key()->set_kind("gat");
  record.mutable_key()->set_width(8);
  record.mutable_key()->set_heads(4);
  record.mutable_key()->set_precision(v1::PRECISION_BFLOAT16);
  record.set_state(v1::TuningRecord::STATE_TUNED);
  record.set_gain(1.25);
  v1::TuningCandidate* slow = record.add_candidates();
  slow->set_kernel("reference");
  slow->set_outcome(v1::TuningCandidate::OUTCOME_PRUNED);
  v1::TuningCandidate* chosen = record.add_candidates();
  chosen->set_kernel("simd_rows");
  for (const int value : {64, 0}) {
    v1::KernelParameter* parameter = chosen->add_parameters();
    parameter->set_name(value == 0 ? "left_out" : "feature_tile");
    parameter->set_value(value);
  }
  chosen->set_outcome(v1::TuningCandidate::OUTCOME_CHOSEN);
  chosen->set_measured_seconds(0.002);
  v1::Refusal* refusal = record.add_refusals();
  refusal->set_kernel("narrow");
  refusal->set_reason("only width 4");
  std::ostringstream out;
  PrintTuning({record}, /*candidates=*/true, out);
  EXPECT_THAT(out.str(), HasSubstr("attention gat, width 8 x 4 heads, averaged, bfloat16"));
  EXPECT_THAT(out.str(), HasSubstr("simd_rows feature_tile=64"));
  EXPECT_THAT(out.str(), Not(HasSubstr("left_out")));
  v1::TuningRecord product;
  product.mutable_key()->set_operation("dense_update");
  product.mutable_key()->set_kind("float32");
  product.mutable_key()->set_width(128);
  product.mutable_key()->set_outputs(64);
  product.mutable_key()->set_precision(v1::PRECISION_FLOAT32);
  product.mutable_key()->set_epilogue(true);
  PrintTuning({product}, /*candidates=*/false, out);
  EXPECT_THAT(out.str(), HasSubstr("dense_update float32, width 128, outputs 64, with epilogue"));
  v1::TuningRecord expression;
  expression.mutable_key()->set_operation("expression");
  expression.mutable_key()->set_kind("mean");
  expression.mutable_key()->set_width(16);
  expression.mutable_key()->set_weights("none");
  expression.mutable_key()->set_precision(v1::PRECISION_FLOAT32);
  expression.mutable_key()->set_program("0123456789abcdef");
  PrintTuning({expression}, /*candidates=*/false, out);
  EXPECT_THAT(out.str(), HasSubstr("expression mean, width 16, weights none, program 0123456789abcdef"));
  EXPECT_THAT(out.str(), HasSubstr("2.00 ms"));
  EXPECT_THAT(out.str(), HasSubstr("pruned"));
  EXPECT_THAT(out.str(), HasSubstr("unsupported: narrow: only width 4"));
  std::ostringstream short_form;
  PrintTuning({record}, /*candidates=*/false, short_form);
  EXPECT_THAT(short_form.str(), Not(HasSubstr("pruned")));
}

TEST(DescribeTest, HowAChoiceWasFoundAndWhatThatCost) {
  v1::TuningRecord record;
  record.mutable_key()->set_operation("aggregate");
  record.mutable_key()->set_kind("sum");
  record.set_state(v1::TuningRecord::STATE_TUNED);
  record.add_candidates()->set_kernel("simd_rows");
  record.set_strategy(v1::TUNING_STRATEGY_MEASURED);
  std::ostringstream measured;
  PrintTuning({record}, /*candidates=*/true, measured);
  EXPECT_THAT(measured.str(), Not(HasSubstr("estimated")));
  record.set_strategy(v1::TUNING_STRATEGY_ESTIMATED);
  record.set_modelled_count(321);
  record.set_model_seconds(0.002);
  record.set_profile_seconds(0.25);
  std::ostringstream estimated;
  PrintTuning({record}, /*candidates=*/true, estimated);
  EXPECT_THAT(estimated.str(), HasSubstr("tuned (estimated)"));
  EXPECT_THAT(estimated.str(), HasSubstr("models ranked 321 settings in 2.00 ms"));
  EXPECT_THAT(estimated.str(), HasSubstr("communities took 250.00 ms"));
}

}  // namespace
}  // namespace vicinal::client::cli
