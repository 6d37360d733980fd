// SPDX-License-Identifier: Apache-2.0
// What only direct calls can show; the rest goes over a socket (tests/integration/bad_graph_test.cc).
#include "server/uploads/upload_manifest.h"

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"

namespace vicinal::server {
namespace {

v1::UploadGraphSpec Spec() {
  v1::UploadGraphSpec spec;
  spec.set_name("g");
  spec.set_upload_id("upload-1");
  spec.set_node_count(5);
  return spec;
}

template <class AnySpec>
void Add(AnySpec* spec, const char* name, v1::DataType type, std::vector<int64_t> shape) {
  v1::TensorSpec* tensor = spec->add_tensors();
  tensor->set_name(name);
  tensor->set_dtype(type);
  for (const int64_t extent : shape) tensor->add_shape(extent);
}

TEST(UploadManifestTest, SizesAreCounted) {
  auto spec = Spec();
  Add(&spec, "edge_index", v1::DATA_TYPE_INT32, {2, 7});
  Add(&spec, "x", v1::DATA_TYPE_FLOAT16, {5, 3});
  const auto manifest = MakeUploadManifest(spec, Limits());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->size_bytes(), 2 * 7 * 4 + 5 * 3 * 2);
}

TEST(UploadManifestTest, FeaturesOfEdgesAreBounded) {
  auto spec = Spec();
  Add(&spec, "edge_index", v1::DATA_TYPE_INT32, {2, 7});
  Add(&spec, "edge_attr", v1::DATA_TYPE_FLOAT32, {7, 3});
  Limits limits;
  limits.max_features = 3;
  ASSERT_TRUE(MakeUploadManifest(spec, limits).ok());
  EXPECT_EQ(MakeUploadManifest(spec, limits)->SizeOf("edge_attr")->bytes, 7 * 3 * 4);
  limits.max_features = 2;
  const Status refused = MakeUploadManifest(spec, limits).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(refused)->field, "spec.tensors[1].shape[1]");
}

TEST(UploadManifestTest, ANumberOfFeaturesThatNothingReadsIsRefused) {
  const auto refusal = [](const auto& made) {
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << made.status();
    EXPECT_EQ(DetailOf(made.status())->field, "spec.feature_count");
    return std::string(made.status().message());
  };
  auto graph = Spec();
  graph.set_feature_count(3);
  Add(&graph, "edge_index", v1::DATA_TYPE_INT32, {2, 7});
  EXPECT_NE(refusal(MakeUploadManifest(graph, Limits())).find("no features are declared; leave it out"),
            std::string::npos);
  Add(&graph, "edge_attr", v1::DATA_TYPE_FLOAT32, {7, 2});
  EXPECT_NE(refusal(MakeUploadManifest(graph, Limits())).find("edge_attr has 2 columns"), std::string::npos);
  Add(&graph, "x", v1::DATA_TYPE_FLOAT32, {5, 4});
  EXPECT_NE(refusal(MakeUploadManifest(graph, Limits())).find("is 3, but x has 4 columns"), std::string::npos);
  graph.set_feature_count(4);
  EXPECT_TRUE(MakeUploadManifest(graph, Limits()).ok()) << "it says the same";

  v1::UploadFeaturesSpec set;
  set.set_graph("g");
  set.set_name("f");
  set.set_upload_id("upload-1");
  Add(&set, "edge_attr", v1::DATA_TYPE_FLOAT32, {7, 2});
  EXPECT_TRUE(MakeUploadManifest(set, 5, 7, Limits()).ok());
  set.set_feature_count(2);
  EXPECT_NE(refusal(MakeUploadManifest(set, 5, 7, Limits())).find("only features of nodes in CSR form"),
            std::string::npos);
}

TEST(UploadManifestTest, RowsThatDoNotFitTheGraphAreToldWhatTheyAreOf) {
  const auto message = [](const char* tensor, int64_t rows) {
    v1::UploadFeaturesSpec spec;
    spec.set_graph("g");
    spec.set_name("f");
    spec.set_upload_id("upload-1");
    v1::TensorSpec* const declared = spec.add_tensors();
    declared->set_name(tensor);
    declared->set_dtype(v1::DATA_TYPE_FLOAT32);
    declared->add_shape(rows);
    declared->add_shape(3);
    return std::string(MakeUploadManifest(spec, 5, 7, Limits()).status().message());
  };
  EXPECT_EQ(
      message("edge_attr", 6),
      "edge_attr is declared as [6, 3], it must be [7, any]: a row for each edge of the graph, in the order of its "
      "edge_index");
  EXPECT_EQ(message("x", 7), "x is declared as [7, 3], it must be [5, any]: a row for each node of the graph");
}

// A spec is kept after the upload has ended; what comes in no chunk must not be large.
TEST(UploadManifestTest, ASpecIsNoPlaceForTensors) {
  v1::UploadModelSpec spec;
  spec.set_name("m");
  spec.set_upload_id("upload-1");
  v1::TensorSpec* weights = spec.add_tensors();
  weights->set_name("weights");
  weights->set_dtype(v1::DATA_TYPE_UINT8);
  weights->add_shape(8);
  spec.set_architecture_json(std::string(4 << 20, ' '));
  EXPECT_TRUE(MakeUploadManifest(spec, Limits()).ok());  // the largest that is read
  spec.set_architecture_json(std::string(5 << 20, ' '));
  const Status refused = MakeUploadManifest(spec, Limits()).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(refused)->field, "spec");
  // Fields that this server does not know are bytes, too.
  auto graph = Spec();
  Add(&graph, "edge_index", v1::DATA_TYPE_INT32, {2, 7});
  graph.GetReflection()->MutableUnknownFields(&graph)->AddLengthDelimited(999, std::string(5 << 20, 'x'));
  EXPECT_EQ(MakeUploadManifest(graph, Limits()).status().code(), StatusCode::kInvalidArgument);
}

TEST(UploadManifestTest, ExtentsThatOverflowAreRefused) {
  for (const int64_t extent : {INT64_MAX, INT64_MAX / 2, int64_t{1} << 61, int64_t{-1}}) {
    auto spec = Spec();
    Add(&spec, "edge_index", v1::DATA_TYPE_INT64, {2, extent});
    EXPECT_EQ(MakeUploadManifest(spec, Limits()).status().code(), StatusCode::kInvalidArgument) << extent;
  }
  // A sum that would overflow: each is refused by itself.
  v1::UploadModelSpec model;
  model.set_name("m");
  model.set_upload_id("upload-1");
  for (const char* name : {"weights", "reference"}) {
    v1::TensorSpec* tensor = model.add_tensors();
    tensor->set_name(name);
    tensor->set_dtype(v1::DATA_TYPE_UINT8);
    tensor->add_shape(INT64_MAX / 16);
  }
  EXPECT_EQ(DetailOf(MakeUploadManifest(model, Limits()).status())->metadata.at("limit"), "max_upload_bytes");
}

TEST(UploadManifestTest, ModelReferences) {
  v1::UploadModelSpec model;
  model.set_name("m");
  model.set_upload_id("upload-1");
  v1::TensorSpec* tensor = model.add_tensors();
  tensor->set_name("weights");
  tensor->set_dtype(v1::DATA_TYPE_UINT8);
  tensor->add_shape(8);
  EXPECT_TRUE(MakeUploadManifest(model, Limits()).ok());
  model.mutable_reference()->set_graph("g");
  EXPECT_FALSE(MakeUploadManifest(model, Limits()).ok());  // described, but no tensor
  tensor = model.add_tensors();
  tensor->set_name("reference");
  tensor->set_dtype(v1::DATA_TYPE_UINT8);
  tensor->add_shape(8);
  EXPECT_TRUE(MakeUploadManifest(model, Limits()).ok());
  for (const double tolerance : {-1.0, 1.0, static_cast<double>(NAN)}) {
    model.mutable_reference()->set_tolerance(tolerance);
    EXPECT_FALSE(MakeUploadManifest(model, Limits()).ok()) << tolerance;
  }
  model.mutable_reference()->set_tolerance(0.999);
  EXPECT_TRUE(MakeUploadManifest(model, Limits()).ok());
}

TEST(UploadManifestTest, DigestsAreShortAndVisible) {
  auto spec = Spec();
  Add(&spec, "edge_index", v1::DATA_TYPE_INT32, {2, 7});
  for (const std::string& good : {std::string(), std::string("crc32c:00ff00ff"), std::string(128, 'x')}) {
    spec.set_ids_digest(good);
    spec.set_source_digest(good);
    EXPECT_TRUE(MakeUploadManifest(spec, Limits()).ok()) << good;
  }
  for (const std::string& bad : {std::string(129, 'x'), std::string("a b"), std::string("a\n"), std::string("\x1b[1m"),
                                 std::string("\xC3\xA9"), std::string(1, '\0')}) {
    spec.set_ids_digest(bad);
    const Status status = MakeUploadManifest(spec, Limits()).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(DetailOf(status)->field, "spec.ids_digest") << bad;
    EXPECT_EQ(status.message(), "spec.ids_digest must have at most 128 visible ASCII characters") << bad;
  }
  spec.clear_ids_digest();
  v1::UploadModelSpec model;
  model.set_name("m");
  model.set_upload_id("upload-1");
  Add(&model, "weights", v1::DATA_TYPE_UINT8, {7});
  ASSERT_TRUE(MakeUploadManifest(model, Limits()).ok());
  spec.set_source_digest("a b");
  model.set_source_digest("a b");
  for (const Status& status :
       {MakeUploadManifest(spec, Limits()).status(), MakeUploadManifest(model, Limits()).status()}) {
    EXPECT_EQ(status.message(), "spec.source_digest must have at most 128 visible ASCII characters");
  }
}

TEST(UploadManifestTest, IfVersionNeedsReplace) {
  auto spec = Spec();
  Add(&spec, "edge_index", v1::DATA_TYPE_INT32, {2, 7});
  spec.set_if_version(3);
  EXPECT_FALSE(MakeUploadManifest(spec, Limits()).ok());
  spec.set_replace(true);
  EXPECT_TRUE(MakeUploadManifest(spec, Limits()).ok());
}

}  // namespace
}  // namespace vicinal::server
