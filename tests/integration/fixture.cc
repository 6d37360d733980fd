// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/fixture.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace vicinal::testing {
namespace {

template <class T>
OwnedTensor Make(const std::string& name, v1::DataType dtype, std::vector<int64_t> shape,
                 const std::vector<T>& values) {
  return {name, dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

// Values that are neither equal nor large: -1, -0.75, ...
std::vector<float> Ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<int>(i % 9) - 4) * 0.25f;
  return values;
}

}  // namespace

v1::Tensor OwnedTensor::message() const {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  for (const int64_t extent : shape) tensor.add_shape(extent);
  tensor.set_data(bytes);
  return tensor;
}

OwnedTensor Floats(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values) {
  return Make(name, v1::DATA_TYPE_FLOAT32, std::move(shape), values);
}
OwnedTensor Ints(const std::string& name, std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return Make(name, v1::DATA_TYPE_INT64, std::move(shape), values);
}
OwnedTensor Bytes(const std::string& name, const std::string& bytes) {
  return {name, v1::DATA_TYPE_UINT8, {static_cast<int64_t>(bytes.size())}, bytes};
}

std::string ReadTestFile(const std::string& name) {
  std::ifstream file(std::string(VICINAL_TEST_DATA) + "/" + name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Safetensors(const std::vector<OwnedTensor>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string data;
  for (const OwnedTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype == v1::DATA_TYPE_INT64 ? "I64" : "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  std::string file(reinterpret_cast<const char*>(&size), sizeof(size));
  return file + text + data;
}

std::string TinyArchitecture() {
  return R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [
    {"name": "conv1", "type": "GCNConv", "args": {"in_channels": 3, "out_channels": 4}},
    {"name": "act", "type": "ReLU"},
    {"name": "conv2", "type": "GCNConv", "args": {"in_channels": 4, "out_channels": 2}}]})";
}

std::string TinyWeights() {
  return Safetensors({Floats("conv1.lin.weight", {4, 3}, Ramp(12)), Floats("conv1.bias", {4}, Ramp(4)),
                      Floats("conv2.lin.weight", {2, 4}, Ramp(8)), Floats("conv2.bias", {2}, Ramp(2))});
}

void IntegrationTest::StartServer(const std::vector<std::string>& flags, const std::string& token) {
  auto server = ServerProcess::Start(std::string(VICINAL_BIN_DIR) + "/vicinal-server", flags);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  client_ = NewClient(token);
}

std::unique_ptr<client::Client> IntegrationTest::NewClient(const std::string& token,
                                                           const std::string& service_config) const {
  client::ClientOptions options;
  options.target = server_->grpc_address();
  options.token = token;
  options.upload_attempts = 1;
  options.call_timeout = std::chrono::minutes(10);  // of a test that hangs: no server shall be as slow
  options.service_config = service_config;
  auto client = client::Client::Connect(options);
  return client.ok() ? *std::move(client) : nullptr;
}

void IntegrationTest::TearDown() {
  client_.reset();
  if (server_ == nullptr) return;
  EXPECT_EQ(server_->Stop(), 0) << server_->Log();
}

void IntegrationTest::UploadTinyGraph(const std::string& name, const client::UploadOptions& options, bool replace) {
  v1::UploadGraphSpec spec;
  spec.set_name(name);
  spec.set_replace(replace);
  spec.set_node_count(5);
  const OwnedTensor edges = Ints("edge_index", {2, 8}, {0, 1, 1, 2, 2, 3, 3, 4, 1, 0, 2, 1, 3, 2, 4, 3});
  std::vector<float> rows = Ramp(15);
  if (replace) std::reverse(rows.begin(), rows.end());
  const OwnedTensor x = Floats("x", {5, 3}, rows);
  const auto graph = client_->UploadGraph(spec, {edges.view(), x.view()}, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->state(), v1::Graph::STATE_READY);
  EXPECT_NE(graph->tier(), v1::Graph::TIER_UNSPECIFIED);
}

void IntegrationTest::UploadTinyModel(const std::string& name, const client::UploadOptions& options, bool replace) {
  v1::UploadModelSpec spec;
  spec.set_name(name);
  spec.set_replace(replace);
  spec.set_architecture_json(TinyArchitecture());
  const OwnedTensor weights = Bytes("weights", TinyWeights());
  const auto model = client_->UploadModel(spec, {weights.view()}, options);
  ASSERT_TRUE(model.ok()) << model.status();
}

v1::ClassifyRequest IntegrationTest::TinyRequest() {
  v1::ClassifyRequest request;
  request.mutable_target()->set_graph("path");
  request.mutable_target()->set_model("tiny");
  request.mutable_nodes()->add_ids(0);
  request.mutable_nodes()->add_ids(4);
  return request;
}

double IntegrationTest::MetricOf(const std::string& sample) const {
  const auto page = server_->Scrape();
  const size_t at = page.ok() ? page->find("\n" + sample + " ") : std::string::npos;
  return at == std::string::npos ? -1.0 : std::stod(page->substr(at + sample.size() + 2));
}

void IntegrationTest::ExpectServes() {
  ASSERT_NE(client_, nullptr);
  const auto reply = client_->Classify(TinyRequest());
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->classes().shape_size(), 2);
  EXPECT_EQ(reply->classes().shape(0), 2);
  EXPECT_EQ(reply->classes().shape(1), 1);
}

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& piece) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(client::Describe(status).find(piece), std::string::npos)
      << client::Describe(status) << "\nlacks: " << piece;
}

}  // namespace vicinal::testing
