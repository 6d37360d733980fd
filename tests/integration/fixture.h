// SPDX-License-Identifier: Apache-2.0
// What integration tests share: a client of a fresh server process, small graphs and models to upload, and a check that
// the server still answers.
#ifndef VICINAL_TESTS_INTEGRATION_FIXTURE_H_
#define VICINAL_TESTS_INTEGRATION_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/client.h"
#include "client/cpp/errors.h"
#include "tests/integration/server_process.h"

namespace vicinal::testing {

// A tensor with its bytes.
struct OwnedTensor {
  std::string name;
  v1::DataType dtype = v1::DATA_TYPE_FLOAT32;
  std::vector<int64_t> shape;
  std::string bytes;

  client::UploadTensor view() const { return {name, dtype, shape, bytes}; }
  v1::Tensor message() const;
};
OwnedTensor Floats(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values);
OwnedTensor Ints(const std::string& name, std::vector<int64_t> shape, const std::vector<int64_t>& values);
OwnedTensor Bytes(const std::string& name, const std::string& bytes);

std::string ReadTestFile(const std::string& name);  // under tests/data

// A safetensors file of float32 tensors: names, shapes and values.
std::string Safetensors(const std::vector<OwnedTensor>& tensors);

// A small model: GCNConv(3 -> 4), ReLU, GCNConv(4 -> 2), on explicit layers.
std::string TinyArchitecture();
std::string TinyWeights();

class IntegrationTest : public ::testing::Test {
 protected:
  // Starts the server with the flags, and a client of it.
  void StartServer(const std::vector<std::string>& flags = {}, const std::string& token = "");
  // `service_config`: empty: without retries, so that no error is hidden.
  std::unique_ptr<client::Client> NewClient(const std::string& token = "",
                                            const std::string& service_config = "") const;
  // The server stops with 0 when asked.
  void TearDown() override;

  // A path of 5 nodes with 3 features each, named `name`, which are others where it replaces a graph; and the tiny
  // model `tiny`.
  void UploadTinyGraph(const std::string& name = "path", const client::UploadOptions& options = {},
                       bool replace = false);
  void UploadTinyModel(const std::string& name = "tiny", const client::UploadOptions& options = {},
                       bool replace = false);
  static v1::ClassifyRequest TinyRequest();
  // The value of a sample of the metrics page, such as name{label="value"}; below 0: it is not there.
  double MetricOf(const std::string& sample) const;
  // Whatever happened before, a good request is answered.
  void ExpectServes();

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<client::Client> client_;
};

// Matches a status by code and a piece of its description (message, reason, fields).
void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& piece);

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_INTEGRATION_FIXTURE_H_
