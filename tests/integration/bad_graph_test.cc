// SPDX-License-Identifier: Apache-2.0
// Graphs and features that are wrong: each is refused with its code and a message that names the fault, and the server
// serves on.
#include <cmath>
#include <limits>

#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class BadGraphTest : public IntegrationTest {
 protected:
  void SetUp() override {
    StartServer();
    UploadTinyGraph();
    UploadTinyModel();
  }
  void TearDown() override {
    ExpectServes();
    IntegrationTest::TearDown();
  }
  absl::StatusOr<v1::Graph> Upload(int64_t nodes, const std::vector<OwnedTensor>& tensors, int64_t feature_count = 0) {
    v1::UploadGraphSpec spec;
    spec.set_name("bad" + std::to_string(count_++));
    spec.set_node_count(nodes);
    spec.set_feature_count(feature_count);
    std::vector<client::UploadTensor> views;
    for (const OwnedTensor& tensor : tensors) views.push_back(tensor.view());
    return client_->UploadGraph(spec, views);
  }
  void ExpectRefused(int64_t nodes, const std::vector<OwnedTensor>& tensors, const std::string& piece,
                     int64_t feature_count = 0) {
    ExpectError(Upload(nodes, tensors, feature_count).status(), absl::StatusCode::kInvalidArgument, piece);
  }
  static OwnedTensor TwoEdges() { return Ints("edge_index", {2, 2}, {0, 1, 1, 2}); }

  int count_ = 0;
};

TEST_F(BadGraphTest, Ids) {
  ExpectRefused(3, {Ints("edge_index", {2, 2}, {0, 1, 1, 3})}, "edge_index[1, 1]");
  ExpectRefused(3, {Ints("edge_index", {2, 2}, {0, -1, 1, 2})}, "edge_index[0, 1]");
  ExpectRefused(3, {Ints("edge_index", {2, 1}, {0, int64_t{1} << 40})}, "edge_index[1, 0]");
  // The name of a graph that failed may be looked at, and says why.
  const auto failed = client_->GetGraph("bad0");
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->state(), v1::Graph::STATE_FAILED);
  EXPECT_EQ(failed->error_code(), 3);
}

TEST_F(BadGraphTest, ShapesAndCounts) {
  ExpectRefused(0, {TwoEdges()}, "at least one node");
  ExpectRefused(-5, {TwoEdges()}, "at least one node");
  ExpectRefused(3, {}, "edge_index");
  ExpectRefused(3, {Ints("edge_index", {4}, {0, 1, 1, 2})}, "edge_index");
  ExpectRefused(3, {Ints("edge_index", {1, 4}, {0, 1, 1, 2})}, "edge_index");
  ExpectRefused(3, {Floats("edge_index", {2, 2}, {0, 1, 1, 2})}, "int32 or int64");
  ExpectRefused(3, {TwoEdges(), Floats("edge_weight", {3}, {1, 1, 1})}, "edge_weight");
  ExpectRefused(3, {TwoEdges(), Floats("edge_attr", {3, 1}, {1, 1, 1})}, "edge_attr is declared as [3, 1]");
  ExpectRefused(3, {TwoEdges(), Floats("edge_attr", {2}, {1, 1})}, "edge_attr is declared as [2]");
  ExpectRefused(3, {TwoEdges(), Floats("edge_attr", {2, 0}, {})}, "edge_attr has no columns");
  ExpectRefused(3, {TwoEdges(), Ints("edge_attr", {2, 1}, {1, 2})}, "edge_attr must be float32");
  ExpectRefused(3, {TwoEdges(), Floats("x", {4, 2}, std::vector<float>(8))}, "x");
  ExpectRefused(3, {TwoEdges(), Floats("x", {3, 0}, {})}, "columns");
  ExpectRefused(3, {TwoEdges(), Ints("x", {3, 1}, {1, 2, 3})}, "float32");
  ExpectRefused(3, {TwoEdges(), Floats("y", {3, 1}, {1, 2, 3})}, "there is no tensor 'y'");
  ExpectRefused(3, {TwoEdges(), TwoEdges()}, "twice");
}

TEST_F(BadGraphTest, Values) {
  ExpectRefused(3, {TwoEdges(), Floats("edge_weight", {2}, {1, kNan})}, "edge_weight[1]");
  ExpectRefused(3, {TwoEdges(), Floats("edge_weight", {2}, {-kInf, 1})}, "edge_weight[0]");
  ExpectRefused(3, {TwoEdges(), Floats("edge_attr", {2, 2}, {1, 2, kNan, 4})}, "edge_attr[1, 0]");
  ExpectRefused(3, {TwoEdges(), Floats("x", {3, 2}, {1, 2, 3, kInf, 5, 6})}, "x[1, 1]");
}

TEST_F(BadGraphTest, SparseFeatures) {
  const auto csr = [](std::vector<int64_t> indptr, std::vector<int32_t> indices, std::vector<float> values) {
    OwnedTensor columns{"x_indices",
                        v1::DATA_TYPE_INT32,
                        {static_cast<int64_t>(indices.size())},
                        std::string(reinterpret_cast<const char*>(indices.data()), indices.size() * 4)};
    return std::vector<OwnedTensor>{TwoEdges(), Ints("x_indptr", {static_cast<int64_t>(indptr.size())}, indptr),
                                    columns, Floats("x_values", {static_cast<int64_t>(values.size())}, values)};
  };
  EXPECT_TRUE(Upload(3, csr({0, 1, 1, 2}, {0, 4}, {1, 2}), 5).ok());
  ExpectRefused(3, csr({0, 1, 1, 2}, {0, 4}, {1, 2}), "feature_count", 0);
  ExpectRefused(3, csr({0, 1, 1, 2}, {0, 5}, {1, 2}), "x_indices", 5);
  ExpectRefused(3, csr({0, 1, 1, 2}, {0, -1}, {1, 2}), "x_indices", 5);
  ExpectRefused(3, csr({0, 2, 1, 2}, {0, 4}, {1, 2}), "x_indptr", 5);
  ExpectRefused(3, csr({1, 1, 1, 2}, {0, 4}, {1, 2}), "x_indptr", 5);
  ExpectRefused(3, csr({0, 1, 1, 3}, {0, 4}, {1, 2}), "x_indptr", 5);
  ExpectRefused(3, csr({0, 1, 2}, {0, 4}, {1, 2}), "x_indptr", 5);
  ExpectRefused(3, csr({0, 2, 2, 2}, {4, 0}, {1, 2}), "x_indices", 5);
  ExpectRefused(3, csr({0, 1, 1, 2}, {0, 4}, {1, kNan}), "nan", 5);
  ExpectRefused(3, csr({0, 1, 1, 2}, {0, 4}, {1}), "x_values", 5);
}

TEST_F(BadGraphTest, Names) {
  v1::UploadGraphSpec spec;
  spec.set_node_count(3);
  const OwnedTensor edges = TwoEdges();
  for (const std::string& name : {std::string(), std::string("Upper"), std::string("../etc"), std::string(64, 'a'),
                                  std::string("sp ace"), std::string(".dot")}) {
    spec.set_name(name);
    ExpectError(client_->UploadGraph(spec, {edges.view()}).status(), absl::StatusCode::kInvalidArgument, "BAD_NAME");
    ExpectError(client_->GetGraph(name).status(), absl::StatusCode::kInvalidArgument, "BAD_NAME");
  }
  spec.set_name("fine");
  spec.set_upload_id("SHOUT");
  ExpectError(client_->UploadGraph(spec, {edges.view()}).status(), absl::StatusCode::kInvalidArgument, "upload_id");
}

TEST_F(BadGraphTest, AwkwardButFine) {
  // No edge; isolated nodes; loops; duplicates: kept as sent.
  auto graph = Upload(4, {Ints("edge_index", {2, 0}, {})});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->profile().isolated_node_count(), 4);
  graph = Upload(4, {Ints("edge_index", {2, 5}, {0, 0, 0, 2, 2, 1, 1, 1, 2, 2})});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->edge_count(), 5);
  EXPECT_EQ(graph->profile().isolated_node_count(), 1);
  EXPECT_EQ(graph->profile().self_loop_count(), 2);
  EXPECT_EQ(graph->profile().duplicate_edge_count(), 3);
  EXPECT_EQ(graph->stages_size(), 6);
}

TEST_F(BadGraphTest, FeatureSets) {
  v1::UploadFeaturesSpec spec;
  spec.set_graph("path");
  spec.set_name("bad");
  const auto expect = [&](const OwnedTensor& x, const std::string& piece) {
    spec.clear_upload_id();
    ExpectError(client_->UploadFeatures(spec, {x.view()}).status(), absl::StatusCode::kInvalidArgument, piece);
  };
  expect(Floats("x", {4, 3}, std::vector<float>(12)), "x");
  expect(Floats("x", {5, 1}, {1, 2, kNan, 4, 5}), "x[2, 0]");
  expect(Ints("x", {5, 1}, {1, 2, 3, 4, 5}), "float32");
  // Features of another width than a model reads are no fault of theirs.
  spec.clear_upload_id();
  const OwnedTensor narrow = Floats("x", {5, 2}, std::vector<float>(10));
  ASSERT_TRUE(client_->UploadFeatures(spec, {narrow.view()}).ok());
  auto request = TinyRequest();
  request.mutable_target()->set_feature_set("bad");
  const absl::Status status = client_->Classify(request).status();
  EXPECT_TRUE(status.code() == absl::StatusCode::kInvalidArgument ||
              status.code() == absl::StatusCode::kFailedPrecondition)
      << status;
}

TEST_F(BadGraphTest, Pages) {
  UploadTinyGraph("another");
  EXPECT_EQ(client_->ListGraphs()->size(), 2);
  ExpectError(client_->GetGraph("unknown").status(), absl::StatusCode::kNotFound, "unknown");
  ExpectError(client_->DeleteGraph("unknown"), absl::StatusCode::kNotFound, "unknown");
  ExpectError(client_->WatchGraph("unknown", nullptr).status(), absl::StatusCode::kNotFound, "unknown");
  ExpectError(client_->ListFeatures("unknown").status(), absl::StatusCode::kNotFound, "unknown");
}

}  // namespace
}  // namespace vicinal::testing
