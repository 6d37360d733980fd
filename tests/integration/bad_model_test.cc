// SPDX-License-Identifier: Apache-2.0
// Models that are wrong: JSON, safetensors, tensors that do not fit, references that are missed.
#include <grpcpp/grpcpp.h>

#include <cstring>

#include "tests/integration/fixture.h"
#include "vicinal/v1/model.grpc.pb.h"

namespace vicinal::testing {
namespace {

class BadModelTest : public IntegrationTest {
 protected:
  void SetUp() override {
    StartServer({"--max_upload_bytes=1000000000"});
    UploadTinyGraph();
    UploadTinyModel();
  }
  void TearDown() override {
    ExpectServes();
    IntegrationTest::TearDown();
  }
  absl::StatusOr<v1::Model> Upload(const std::string& architecture, const std::string& weights,
                                   const std::string& reference = "", const v1::ModelReference& described = {}) {
    v1::UploadModelSpec spec;
    spec.set_name("model" + std::to_string(count_++));
    spec.set_architecture_json(architecture);
    const OwnedTensor file = Bytes("weights", weights), expected = Bytes("reference", reference);
    std::vector<client::UploadTensor> tensors = {file.view()};
    if (!reference.empty()) {
      tensors.push_back(expected.view());
      *spec.mutable_reference() = described;
    }
    return client_->UploadModel(spec, tensors);
  }
  void ExpectRefused(const std::string& architecture, const std::string& weights, const std::string& piece) {
    ExpectError(Upload(architecture, weights).status(), absl::StatusCode::kInvalidArgument, piece);
  }
  // A safetensors file with this header and that many bytes of data.
  static std::string File(const std::string& header, size_t data_bytes, uint64_t claimed_header = 0) {
    const uint64_t size = claimed_header != 0 ? claimed_header : header.size();
    return std::string(reinterpret_cast<const char*>(&size), 8) + header + std::string(data_bytes, '\0');
  }

  int count_ = 0;
};

TEST_F(BadModelTest, JsonThatIsNone) {
  for (const char* json : {"", "{", "[]", "null", "{\"format\": 3}", "{\"format\": \"vicinal.model/1\"}",
                           "not json at all", "{\"class\": \"GCN\"}"}) {
    EXPECT_FALSE(Upload(json, TinyWeights()).ok()) << json;
  }
  ExpectRefused(std::string(100000, '['), TinyWeights(), "BAD_JSON");
  ExpectRefused(
      "{\"format\": \"vicinal.model/1\", \"in_channels\": 3, \"layers\": [{\"name\": \"a\", \"type\": \"NoConv\"}]}",
      TinyWeights(), "NoConv");
}

TEST_F(BadModelTest, SafetensorsThatAreCutOrLie) {
  const std::string whole = TinyWeights();
  for (const size_t size : {size_t{0}, size_t{4}, size_t{8}, size_t{20}, whole.size() - 1}) {
    ExpectRefused(TinyArchitecture(), whole.substr(0, size), "");
  }
  ExpectRefused(TinyArchitecture(), File("{}", 0, uint64_t{1} << 62), "BAD_SAFETENSORS");
  ExpectRefused(TinyArchitecture(),
                File("{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}, "
                     "\"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [4, 12]}}",
                     12),
                "BAD_SAFETENSORS");
  ExpectRefused(TinyArchitecture(),
                File("{\"a\": {\"dtype\": \"F32\", \"shape\": [1073741824], \"data_offsets\": [0, 4294967296]}}", 16),
                "BAD_SAFETENSORS");
  ExpectRefused(TinyArchitecture(),
                File("{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [8, 4]}}", 16),
                "BAD_SAFETENSORS");
  ExpectRefused(TinyArchitecture(), File("this is not json", 16), "BAD_SAFETENSORS");
}

TEST_F(BadModelTest, FourGigabytesAreRefusedWhenClaimed) {
  // The limit answers before a byte is sent or reserved.
  const auto stub =
      v1::ModelService::NewStub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::UploadModelResponse response;
  const auto writer = stub->UploadModel(&context, &response);
  v1::UploadModelRequest request;
  request.mutable_spec()->set_name("huge");
  request.mutable_spec()->set_upload_id("upload-of-4-gb");
  request.mutable_spec()->set_architecture_json(TinyArchitecture());
  v1::TensorSpec* tensor = request.mutable_spec()->add_tensors();
  tensor->set_name("weights");
  tensor->set_dtype(v1::DATA_TYPE_UINT8);
  tensor->add_shape(int64_t{4} << 30);
  writer->Write(request);
  ExpectError(client::FromGrpcStatus(writer->Finish(), ""), absl::StatusCode::kInvalidArgument, "max_upload_bytes");
}

TEST_F(BadModelTest, TensorsThatDoNotFit) {
  const auto bias = Floats("conv1.bias", {4}, {1, 2, 3, 4});
  ExpectRefused(TinyArchitecture(), Safetensors({bias}), "conv1.lin.weight");
  ExpectRefused(
      TinyArchitecture(),
      Safetensors({Floats("conv1.lin.weight", {3, 4}, std::vector<float>(12)), bias,
                   Floats("conv2.lin.weight", {2, 4}, std::vector<float>(8)), Floats("conv2.bias", {2}, {1, 2})}),
      "[3, 4]");
}

TEST_F(BadModelTest, References) {
  // The answers of the model itself are a reference that it meets.
  auto request = TinyRequest();
  request.mutable_nodes()->clear_ids();
  request.mutable_nodes()->set_all(true);
  request.set_return_logits(true);
  const auto reply = client_->Classify(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  OwnedTensor logits{"logits", v1::DATA_TYPE_FLOAT32, {5, 2}, reply->logits().data()};
  v1::ModelReference described;
  described.set_graph("path");
  const auto met = Upload(TinyArchitecture(), TinyWeights(), Safetensors({logits}), described);
  ASSERT_TRUE(met.ok()) << met.status();
  EXPECT_TRUE(met->reference_checked());
  EXPECT_LE(met->reference_error(), 1e-6);
  float spoiled = 0.0f;
  std::memcpy(&spoiled, logits.bytes.data() + 3 * 8, 4);
  spoiled += 5.0f;
  std::memcpy(logits.bytes.data() + 3 * 8, &spoiled, 4);
  const auto missed = Upload(TinyArchitecture(), TinyWeights(), Safetensors({logits}), described);
  ExpectError(missed.status(), absl::StatusCode::kInvalidArgument, "3");
  described.set_graph("unknown");
  EXPECT_FALSE(Upload(TinyArchitecture(), TinyWeights(), Safetensors({logits}), described).ok());
}

TEST_F(BadModelTest, AReferenceNeedsTheEdgeWeightsThatTheModelReads) {
  std::string weighted = TinyArchitecture();
  const std::string conv = R"("type": "GCNConv",)";
  weighted.insert(weighted.find(conv), R"("edge_weight": true, )");
  const std::vector<OwnedTensor> graph = {Floats("logits", {2, 2}, {0, 0, 0, 0}), Ints("edge_index", {2, 1}, {0, 1}),
                                          Floats("x", {2, 3}, {1, 2, 3, 4, 5, 6})};
  ExpectError(Upload(weighted, TinyWeights(), Safetensors(graph)).status(), absl::StatusCode::kFailedPrecondition,
              "EDGE_WEIGHT_MISSING");
  v1::ModelReference described;
  described.set_graph("path");
  const OwnedTensor logits = Floats("logits", {5, 2}, std::vector<float>(10));
  ExpectError(Upload(weighted, TinyWeights(), Safetensors({logits}), described).status(),
              absl::StatusCode::kFailedPrecondition, "EDGE_WEIGHT_MISSING");
  // With weights it is run, and missed.
  std::vector<OwnedTensor> complete = graph;
  complete.push_back(Floats("edge_weight", {1}, {0.5f}));
  complete[0] = Floats("logits", {2, 2}, {99, 99, 99, 99});
  ExpectError(Upload(weighted, TinyWeights(), Safetensors(complete)).status(), absl::StatusCode::kInvalidArgument,
              "REFERENCE_MISSED");
}

TEST_F(BadModelTest, AReferenceOfAModelOfGraphsIsInLine) {
  const std::string pooled = R"({"format": "vicinal.model/1", "task": "graph", "in_channels": 3, "layers": [
    {"name": "pool", "type": "global_mean_pool"},
    {"name": "lin", "type": "Linear", "args": {"in_channels": 3, "out_channels": 2, "bias": false}}]})";
  const std::string weights = Safetensors({Floats("lin.weight", {2, 3}, {1, 2, 3, 4, 5, 6})});
  const std::string answers = Safetensors({Floats("graph_logits", {1, 2}, {0, 0})});
  v1::ModelReference described;
  described.set_graph("path");
  ExpectError(Upload(pooled, weights, answers, described).status(), absl::StatusCode::kFailedPrecondition,
              "leave reference.graph empty");
  ExpectError(Upload(pooled, weights, answers).status(), absl::StatusCode::kInvalidArgument, "ptr beside graph_logits");
}

TEST_F(BadModelTest, NamesAndVersions) {
  ExpectError(client_->GetModel("unknown").status(), absl::StatusCode::kNotFound, "unknown");
  ExpectError(client_->DeleteModel("unknown"), absl::StatusCode::kNotFound, "unknown");
  v1::UploadModelSpec spec;
  spec.set_name("tiny");
  spec.set_architecture_json(TinyArchitecture());
  const OwnedTensor weights = Bytes("weights", TinyWeights());
  ExpectError(client_->UploadModel(spec, {weights.view()}).status(), absl::StatusCode::kAlreadyExists, "tiny");
  const int64_t version = client_->GetModel("tiny")->version();
  spec.set_replace(true);
  spec.set_if_version(version + 1);
  ExpectError(client_->UploadModel(spec, {weights.view()}).status(), absl::StatusCode::kAborted, "tiny");
  spec.set_if_version(version);
  const auto replaced = client_->UploadModel(spec, {weights.view()});
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_GT(replaced->version(), version);
  EXPECT_EQ(client_->ListModels()->size(), 1);
  spec.set_name("No Good");
  ExpectError(client_->UploadModel(spec, {weights.view()}).status(), absl::StatusCode::kInvalidArgument, "BAD_NAME");
}

}  // namespace
}  // namespace vicinal::testing
