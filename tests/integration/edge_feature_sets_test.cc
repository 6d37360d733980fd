// SPDX-License-Identifier: Apache-2.0
// Edge feature sets over a real socket: uploaded, selected, listed, replaced, deleted, durable, refused.
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/fixture.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kEdges = 8;

std::vector<float> EdgeRows(float first) {
  std::vector<float> rows(kEdges * 2);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = first + 0.25f * static_cast<float>(i * i % 7);
  return rows;
}

class EdgeFeatureSetsTest : public IntegrationTest {
 protected:
  void Upload() {
    UploadTinyGraph();
    Put("own", EdgeRows(0.5f));
    const OwnedTensor weights = Weights();
    const auto model = client_->UploadModel(ModelSpec("gine"), {weights.view()});
    ASSERT_TRUE(model.ok()) << model.status();
  }
  static v1::UploadModelSpec ModelSpec(const std::string& name) {
    v1::UploadModelSpec spec;
    spec.set_name(name);
    spec.set_architecture_json(
        R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "c", "type": "GINEConv",
        "args": {"edge_dim": 2, "nn": [{"type": "Linear", "args": {"out_channels": 2}}]}}]})");
    return spec;
  }
  static OwnedTensor Weights() {
    return Bytes("weights", Safetensors({Floats("c.lin.weight", {3, 2}, {0.5f, -1, 0.25f, 2, -0.75f, 1}),
                                         Floats("c.lin.bias", {3}, {0.125f, 0, -0.5f}),
                                         Floats("c.nn.0.weight", {2, 3}, {1, 0.5f, -2, -1, 0.25f, 1}),
                                         Floats("c.nn.0.bias", {2}, {0.5f, -0.25f})}));
  }
  // The path with these features of edges.
  void Put(const std::string& name, const std::vector<float>& rows) {
    v1::UploadGraphSpec spec;
    spec.set_name(name);
    spec.set_node_count(5);
    spec.set_reorder(v1::REORDER_DEGREE);
    const OwnedTensor edges = Ints("edge_index", {2, kEdges}, {0, 1, 1, 2, 2, 3, 3, 4, 1, 0, 2, 1, 3, 2, 4, 3});
    const OwnedTensor x = Floats("x", {5, 3}, std::vector<float>(15, 0.75f));
    const OwnedTensor attr = Floats("edge_attr", {kEdges, 2}, rows);
    const auto graph = client_->UploadGraph(spec, {edges.view(), x.view(), attr.view()});
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE(graph->edge_order_kept());
  }
  absl::StatusOr<v1::FeatureSet> PutSet(const std::string& name, const OwnedTensor& rows, bool replace = false,
                                        int64_t if_version = 0, const std::string& graph = "own") {
    v1::UploadFeaturesSpec spec;
    spec.set_graph(graph);
    spec.set_name(name);
    spec.set_replace(replace);
    spec.set_if_version(if_version);
    return client_->UploadFeatures(spec, {rows.view()});
  }
  absl::StatusOr<v1::ClassifyResponse> Ask(const std::string& graph, const std::string& set = "") {
    v1::ClassifyRequest request;
    request.mutable_target()->set_graph(graph);
    request.mutable_target()->set_model("gine");
    request.mutable_target()->set_edge_feature_set(set);
    request.mutable_nodes()->set_all(true);
    request.set_return_logits(true);
    return client_->Classify(request);
  }
};

TEST_F(EdgeFeatureSetsTest, AreSelectedByName) {
  StartServer();
  Upload();
  Put("oracle", EdgeRows(2.0f));
  const auto set = PutSet("daily", Floats("edge_attr", {kEdges, 2}, EdgeRows(2.0f)));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->kind(), v1::FEATURE_KIND_EDGES);
  EXPECT_EQ(set->edge_count(), kEdges);
  const auto expected = Ask("oracle"), own = Ask("own"), daily = Ask("own", "daily");
  ASSERT_TRUE(expected.ok() && own.ok() && daily.ok()) << daily.status();
  EXPECT_EQ(daily->logits().data(), expected->logits().data());
  EXPECT_NE(own->logits().data(), expected->logits().data());
  EXPECT_EQ(daily->served_by().edge_feature_set(), "daily");
  EXPECT_EQ(daily->served_by().edge_feature_set_version(), set->version());
  EXPECT_EQ(own->served_by().edge_feature_set(), "");

  EXPECT_EQ(client_->ListFeatures("own")->size(), 1);
  EXPECT_EQ(client_->ListFeatures("own", v1::FEATURE_KIND_EDGES)->front().name(), "daily");
  EXPECT_EQ(client_->GetGraph("own")->edge_feature_sets_size(), 1);
  EXPECT_EQ(client_->GetGraph("own")->feature_sets_size(), 1);
  const auto next = PutSet("daily", Floats("edge_attr", {kEdges, 2}, EdgeRows(0.5f)), true, set->version());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(Ask("own", "daily")->logits().data(), own->logits().data());
  ExpectError(client_->DeleteFeatures("own", "daily"), absl::StatusCode::kNotFound,
              "an edge feature set has this name: to delete that, send the kind EDGES (--edges)");
  ExpectError(client_->DeleteFeatures("own", "daily", v1::FEATURE_KIND_EDGES, set->version()),
              absl::StatusCode::kAborted, "VERSION_MISMATCH");
  ASSERT_TRUE(client_->DeleteFeatures("own", "daily", v1::FEATURE_KIND_EDGES, next->version()).ok());
  ExpectError(Ask("own", "daily").status(), absl::StatusCode::kNotFound, "edge feature set 'daily'");
  ExpectError(client_->DeleteFeatures("own", "daily", v1::FEATURE_KIND_EDGES), absl::StatusCode::kNotFound, "daily");
}

// The reference holds the answers on a graph whose own features of edges are those of the set.
TEST_F(EdgeFeatureSetsTest, AReferenceReadsTheSetThatARequestWould) {
  StartServer();
  Upload();
  Put("oracle", EdgeRows(2.0f));
  const auto expected = Ask("oracle");
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(PutSet("daily", Floats("edge_attr", {kEdges, 2}, EdgeRows(2.0f))).ok());
  std::vector<float> logits(10);
  ASSERT_EQ(expected->logits().data().size(), logits.size() * sizeof(float));
  std::memcpy(logits.data(), expected->logits().data().data(), logits.size() * sizeof(float));
  const OwnedTensor reference = Bytes("reference", Safetensors({Floats("logits", {5, 2}, logits)}));
  const auto upload = [&](const std::string& graph, const std::string& set) {
    v1::UploadModelSpec spec = ModelSpec("checked");
    spec.set_replace(true);
    spec.mutable_reference()->set_graph(graph);
    spec.mutable_reference()->set_edge_feature_set(set);
    const OwnedTensor weights = Weights();
    return client_->UploadModel(spec, {weights.view(), reference.view()});
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectError(upload("own", "").status(), invalid, "REFERENCE_MISSED");
  const auto named = upload("own", "daily");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_TRUE(named->reference_checked());
  EXPECT_EQ(named->reference_error(), 0);
  ExpectError(upload("own", "nightly").status(), absl::StatusCode::kNotFound, "edge feature set 'nightly'");
  ExpectError(upload("", "daily").status(), invalid, "spec.reference.edge_feature_set");
  ExpectError(upload("own", "No Name").status(), invalid, "spec.reference.edge_feature_set");
  ASSERT_TRUE(PutSet("default", Floats("edge_attr", {kEdges, 2}, EdgeRows(2.0f))).ok());
  EXPECT_TRUE(upload("own", "").ok()) << "the set that a request without a name reads";
  ASSERT_TRUE(PutSet("wide", Floats("edge_attr", {kEdges, 3}, std::vector<float>(3 * kEdges))).ok());
  ExpectError(upload("own", "wide").status(), absl::StatusCode::kFailedPrecondition,
              "edge feature set 'wide' has 3 columns");
  ExpectError(upload("path", "").status(), absl::StatusCode::kFailedPrecondition,
              "name one that it has (edge_feature_set)");
}

TEST_F(EdgeFeatureSetsTest, WhatDoesNotFitIsRefusedBeforeItIsSent) {
  StartServer();
  Upload();
  const OwnedTensor good = Floats("edge_attr", {kEdges, 2}, EdgeRows(1.0f));
  ASSERT_TRUE(PutSet("s", good).ok());
  ExpectError(PutSet("s", good).status(), absl::StatusCode::kAlreadyExists, "edge feature set 's'");
  ExpectError(PutSet("s", good, true, 99).status(), absl::StatusCode::kAborted, "VERSION_MISMATCH");
  ExpectError(PutSet("t", Floats("edge_attr", {kEdges - 1, 2}, std::vector<float>(14))).status(),
              absl::StatusCode::kInvalidArgument, "edge_attr is declared as [7, 2]");
  ExpectError(PutSet("t", Floats("edge_attr", {kEdges, 0}, {})).status(), absl::StatusCode::kInvalidArgument,
              "edge_attr has no columns");
  std::vector<float> broken = EdgeRows(1.0f);
  broken[5] = std::numeric_limits<float>::quiet_NaN();
  ExpectError(PutSet("t", Floats("edge_attr", {kEdges, 2}, broken)).status(), absl::StatusCode::kInvalidArgument,
              "edge_attr[2, 1]");
  ExpectError(PutSet("t", good, false, 0, "path").status(), absl::StatusCode::kFailedPrecondition,
              "EDGE_ORDER_MISSING");
  ExpectError(PutSet("t", good, false, 0, "none").status(), absl::StatusCode::kNotFound, "none");
  v1::UploadFeaturesSpec both;
  both.set_graph("own");
  both.set_name("both");
  const OwnedTensor x = Floats("x", {5, 3}, std::vector<float>(15));
  ExpectError(client_->UploadFeatures(both, {x.view(), good.view()}).status(), absl::StatusCode::kInvalidArgument,
              "a set of its own");
  ASSERT_TRUE(PutSet("wide", Floats("edge_attr", {kEdges, 3}, std::vector<float>(kEdges * 3))).ok());
  ExpectError(Ask("own", "wide").status(), absl::StatusCode::kFailedPrecondition, "EDGE_ATTR_WIDTH");
  ExpectError(Ask("own", "Bad Name").status(), absl::StatusCode::kInvalidArgument, "target.edge_feature_set");
  ExpectError(Ask("path").status(), absl::StatusCode::kFailedPrecondition, "EDGE_ATTR_MISSING");
}

TEST_F(EdgeFeatureSetsTest, SurviveARestart) {
  TemporaryDirectory directory;
  const std::string flag = "--state_dir=" + (directory / "state");
  StartServer({flag});
  Upload();
  v1::UploadFeaturesSpec spec;
  spec.set_graph("own");
  spec.set_name("default");
  client::UploadOptions durable;
  durable.wait_for = v1::WAIT_FOR_DURABLE;
  const OwnedTensor rows = Floats("edge_attr", {kEdges, 2}, EdgeRows(3.0f));
  const auto set = client_->UploadFeatures(spec, {rows.view()}, durable);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->durability(), v1::DURABILITY_DURABLE);
  const auto before = Ask("own");
  ASSERT_TRUE(before.ok()) << before.status();
  TearDown();

  StartServer({flag});
  const auto after = Ask("own");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->logits().data(), before->logits().data());
  EXPECT_EQ(after->served_by().edge_feature_set_version(), set->version());
}

// After BUDGET_FULL a client deletes something and finishes again, without sending the rows twice; or it begins anew,
// and what it had sent is in nobody's way.
TEST_F(EdgeFeatureSetsTest, AFinishThatFindsNoMemoryIsRepeatedOrBegunAnew) {
  constexpr int64_t kNodes = 50'000, kManyEdges = 60'000, kWidth = 24;
  ASSERT_NO_FATAL_FAILURE(StartServer({"--memory_budget_bytes=" + std::to_string(40 << 20)}));
  v1::UploadGraphSpec graph;
  graph.set_name("own");
  graph.set_node_count(kNodes);
  graph.set_keep_edge_order(true);
  graph.set_reorder(v1::REORDER_NONE);
  std::vector<int64_t> ends(2 * kManyEdges);
  for (size_t i = 0; i < ends.size(); ++i) ends[i] = static_cast<int64_t>(i * i % kNodes);
  const auto made = client_->UploadGraph(graph, {Ints("edge_index", {2, kManyEdges}, ends).view()});
  ASSERT_TRUE(made.ok()) << made.status();

  const auto upload = [this](const std::string& set, const std::string& id, const OwnedTensor& rows,
                             const client::UploadOptions& options = {}) {
    v1::UploadFeaturesSpec spec;
    spec.set_graph("own");
    spec.set_name(set);
    spec.set_upload_id(id);
    return client_->UploadFeatures(spec, {rows.view()}, options).status();
  };
  const OwnedTensor filler = Floats("x", {kNodes, 10}, std::vector<float>(kNodes * 10, 1.0f));
  const OwnedTensor rows = Floats("edge_attr", {kManyEdges, kWidth}, std::vector<float>(kManyEdges * kWidth, 0.5f));
  const auto size = static_cast<int64_t>(rows.bytes.size());
  int fillers = 0;
  // Before `finish` and after the last byte, sets of nodes take all memory that is left.
  const auto refuse = [&](const std::string& id) {
    client::UploadOptions options;
    options.progress = [&](const client::UploadProgress& progress) {
      if (progress.sent_bytes < size) return;
      for (auto there = client_->GetUpload(id); there.ok() && there->tensors(0).received_bytes() < size;)
        there = client_->GetUpload(id);
      absl::Status full;
      while ((full = upload(absl::StrCat("filler-", fillers), "", filler)).ok()) ++fillers;
      ExpectError(full, absl::StatusCode::kResourceExhausted, "BUDGET_FULL");
    };
    const absl::Status refused = upload("daily", id, rows, options);
    ExpectError(refused, absl::StatusCode::kResourceExhausted, "BUDGET_FULL");
    EXPECT_EQ(client::UploadIdOf(refused), id);
    while (fillers > 0) {
      const absl::Status deleted = client_->DeleteFeatures("own", absl::StrCat("filler-", --fillers));
      ASSERT_TRUE(deleted.ok()) << deleted;
    }
  };
  ASSERT_NO_FATAL_FAILURE(refuse("upload-first"));
  EXPECT_EQ(client_->GetUpload("upload-first")->state(), v1::Upload::STATE_UPLOADING);
  client::UploadOptions counting;
  int64_t sent = 0;
  counting.progress = [&sent](const client::UploadProgress&) { ++sent; };
  const absl::Status repeated = upload("daily", "upload-first", rows, counting);
  ASSERT_TRUE(repeated.ok()) << repeated;
  EXPECT_EQ(sent, 0);
  EXPECT_EQ(client_->GetGraph("own")->edge_feature_sets(0).edge_count(), kManyEdges);

  ASSERT_TRUE(client_->DeleteFeatures("own", "daily", v1::FEATURE_KIND_EDGES).ok());
  ASSERT_NO_FATAL_FAILURE(refuse("upload-second"));
  const absl::Status anew = upload("daily", "upload-third", rows);
  ASSERT_TRUE(anew.ok()) << anew;
  ExpectError(client_->GetUpload("upload-second").status(), absl::StatusCode::kNotFound, "upload-second");
}

}  // namespace
}  // namespace vicinal::testing
