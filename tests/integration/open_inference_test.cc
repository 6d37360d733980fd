// SPDX-License-Identifier: Apache-2.0
// The Open Inference Protocol over a real socket: the same bits as Classify and Embed, and wrong requests that leave
// the server as it was.
#include <grpcpp/grpcpp.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "inference/grpc_inference.grpc.pb.h"
#include "tests/integration/fixture.h"
#include "tests/support/eventually.h"

namespace vicinal::testing {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

class OpenInferenceTest : public IntegrationTest {
 protected:
  void SetUp() override {
    StartServer({"--max_request_nodes=100", "--upload_ttl=10m"});
    UploadTinyGraph();
    UploadTinyModel();
    Connect();
  }
  void Connect() {
    stub_ = inference::GRPCInferenceService::NewStub(
        grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
  }
  // Nodes 1 and 3 of the graph of TinyRequest.
  static ModelInferRequest Request(const std::vector<std::string>& outputs = {}) {
    ModelInferRequest request;
    request.set_model_name("path/tiny");
    request.set_id("request 1");
    auto* const nodes = request.add_inputs();
    nodes->set_name("nodes");
    nodes->set_datatype("INT64");
    nodes->add_shape(2);
    const int64_t ids[] = {1, 3};
    request.add_raw_input_contents(ids, sizeof(ids));
    for (const std::string& output : outputs) request.add_outputs()->set_name(output);
    return request;
  }
  grpc::Status Infer(const ModelInferRequest& request, ModelInferResponse* response) {
    grpc::ClientContext context;
    response->Clear();
    return stub_->ModelInfer(&context, request, response);
  }
  void ExpectRefused(const ModelInferRequest& request, grpc::StatusCode code, const std::string& piece) {
    ModelInferResponse response;
    const grpc::Status status = Infer(request, &response);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE((status.error_message() + status.error_details()).find(piece), std::string::npos)
        << status.error_message() << ", not " << piece;
  }

  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(OpenInferenceTest, TheSameBitsAsClassifyAndEmbed) {
  v1::ClassifyRequest classify = TinyRequest();
  classify.mutable_nodes()->clear_ids();
  for (const int64_t id : {1, 3}) classify.mutable_nodes()->add_ids(id);
  classify.set_top_k(2);
  classify.set_return_logits(true);
  classify.set_return_probabilities(true);
  const auto expected = client_->Classify(classify);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ModelInferRequest request = Request({"probabilities", "classes", "logits", "scores"});
  (*request.mutable_parameters())["top_k"].set_int64_param(2);
  ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.id(), "request 1");
  EXPECT_EQ(response.model_version(), std::to_string(expected->served_by().model_version()));
  EXPECT_EQ(response.parameters().at("graph_version").int64_param(), expected->served_by().graph_version());
  EXPECT_EQ(response.parameters().at("feature_set").string_param(), "default");
  ASSERT_EQ(response.raw_output_contents_size(), 4);
  EXPECT_EQ(response.raw_output_contents(0), expected->probabilities().data());
  EXPECT_EQ(response.raw_output_contents(1), expected->classes().data());
  EXPECT_EQ(response.raw_output_contents(2), expected->logits().data());
  EXPECT_EQ(response.raw_output_contents(3), expected->scores().data());
  ASSERT_TRUE(Infer(Request({"logits"}), &response).ok());
  EXPECT_EQ(response.raw_output_contents(0), expected->logits().data());
  v1::EmbedRequest embed;
  *embed.mutable_target() = classify.target();
  *embed.mutable_nodes() = classify.nodes();
  const auto embedded = client_->Embed(embed);
  ASSERT_TRUE(embedded.ok());
  ASSERT_TRUE(Infer(Request({"embeddings"}), &response).ok());
  EXPECT_EQ(response.raw_output_contents(0), embedded->embeddings().data());
}

TEST_F(OpenInferenceTest, FeaturesThatComeAlong) {
  ModelInferRequest request = Request({"logits"});
  auto* const x = request.add_inputs();
  x->set_name("x");
  x->set_datatype("FP32");
  for (const int64_t extent : {1, 3}) x->add_shape(extent);
  const float row[] = {0.5f, -2.0f, 4.0f};
  request.add_raw_input_contents(row, sizeof(row));
  auto* const rows = request.add_inputs();
  rows->set_name("x_nodes");
  rows->set_datatype("INT64");
  rows->add_shape(1);
  const int64_t node = 1;
  request.add_raw_input_contents(&node, sizeof(node));
  ModelInferResponse with, without;
  const grpc::Status status = Infer(request, &with);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_TRUE(Infer(Request({"logits"}), &without).ok());
  EXPECT_NE(with.raw_output_contents(0), without.raw_output_contents(0));
  v1::ClassifyRequest classify = TinyRequest();
  classify.mutable_nodes()->clear_ids();
  for (const int64_t id : {1, 3}) classify.mutable_nodes()->add_ids(id);
  classify.set_return_logits(true);
  *classify.mutable_features()->mutable_dense() = Floats("", {1, 3}, {0.5f, -2.0f, 4.0f}).message();
  classify.mutable_features()->add_rows(1);
  EXPECT_EQ(with.raw_output_contents(0), client_->Classify(classify)->logits().data());
}

TEST_F(OpenInferenceTest, ModelsAreListedAndDescribed) {
  grpc::ClientContext c1, c2, c3, c4, c5;
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(stub_->RepositoryIndex(&c1, {}, &index).ok());
  ASSERT_EQ(index.models_size(), 1);
  EXPECT_EQ(index.models(0).name(), "path/tiny");
  EXPECT_EQ(index.models(0).state(), "READY");
  inference::ModelReadyRequest ask;
  inference::ModelReadyResponse ready;
  ask.set_name("path/tiny");
  ask.set_version(index.models(0).version());
  ASSERT_TRUE(stub_->ModelReady(&c2, ask, &ready).ok());
  EXPECT_TRUE(ready.ready());
  inference::ServerReadyResponse server;
  ASSERT_TRUE(stub_->ServerReady(&c3, {}, &server).ok());
  EXPECT_TRUE(server.ready());
  inference::ServerMetadataResponse about;
  ASSERT_TRUE(stub_->ServerMetadata(&c4, {}, &about).ok());
  EXPECT_EQ(about.name(), "vicinal");
  inference::ModelMetadataRequest which;
  inference::ModelMetadataResponse metadata;
  which.set_name("path/tiny");
  ASSERT_TRUE(stub_->ModelMetadata(&c5, which, &metadata).ok());
  EXPECT_EQ(metadata.inputs(1).name(), "x");
  EXPECT_EQ(metadata.inputs(1).shape(1), 3);
}

TEST_F(OpenInferenceTest, BadRequestsHaveTheirCodes) {
  using grpc::StatusCode;
  ModelInferRequest request = Request();
  request.set_model_name("tiny");
  request.clear_inputs();
  request.clear_raw_input_contents();
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "'ptr' is missing");
  for (const char* name : {"", "path/", "/tiny", "Path/tiny", "path/tiny/1", "../tiny"}) {
    request = Request();
    request.set_model_name(name);
    ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "BAD_NAME");
  }
  for (const char* name : {"path/unknown", "unknown/tiny"}) {
    request = Request();
    request.set_model_name(name);
    ExpectRefused(request, StatusCode::NOT_FOUND, "unknown");
  }
  request = Request();
  request.set_model_version("99999");
  ExpectRefused(request, StatusCode::NOT_FOUND, "99999");
  request.set_model_version("latest");
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "BAD_VERSION");
  request = Request();
  request.mutable_inputs(0)->set_shape(0, int64_t{1} << 61);
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "too large");
  request = Request();
  request.mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "inputs[0].contents");
  request = Request();
  const int64_t ids[] = {1, 5};
  request.set_raw_input_contents(0, ids, sizeof(ids));
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "nodes.ids[1]");
  request = Request();
  request.mutable_inputs(0)->set_shape(0, 101);
  request.set_raw_input_contents(0, std::string(808, '\0'));
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "max_request_nodes");
  request = Request();
  (*request.mutable_parameters())["top_k"].set_int64_param(3);
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "BAD_TOP_K");
  request = Request({"embeddings"});
  (*request.mutable_parameters())["output"].set_string_param("no_such_output");
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "no_such_output");
  ExpectServes();
}

TEST_F(OpenInferenceTest, AStreamAnswersInOrderAndOutlivesBadRequests) {
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  ModelInferResponse expected;
  ASSERT_TRUE(Infer(Request(), &expected).ok());
  for (int i = 0; i < 6; ++i) {
    ModelInferRequest request = Request();
    request.set_id(std::to_string(i));
    if (i % 2 == 1) request.mutable_inputs(0)->set_datatype("FP32");
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  for (int i = 0; i < 6; ++i) {
    inference::ModelStreamInferResponse response;
    ASSERT_TRUE(stream->Read(&response)) << i;
    EXPECT_EQ(response.infer_response().id(), std::to_string(i));
    if (i % 2 == 1) {
      EXPECT_NE(response.error_message().find("must be INT64"), std::string::npos) << response.error_message();
      EXPECT_EQ(response.infer_response().outputs_size(), 0);
    } else {
      EXPECT_EQ(response.error_message(), "");
      EXPECT_EQ(response.infer_response().raw_output_contents(0), expected.raw_output_contents(0));
    }
  }
  inference::ModelStreamInferResponse more;
  EXPECT_FALSE(stream->Read(&more));
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok());
  EXPECT_NE(
      page->find("vicinal_streams_total{code=\"OK\",method=\"inference.GRPCInferenceService/ModelStreamInfer\"} 1"),
      std::string::npos);
  const auto requests = [&](const std::string& code) {
    return MetricOf("vicinal_requests_total{code=\"" + code +
                    "\",method=\"inference.GRPCInferenceService/ModelStreamInfer\"}");
  };
  EXPECT_EQ(requests("OK"), 3);
  EXPECT_EQ(requests("INVALID_ARGUMENT"), 3);
  EXPECT_NE(page->find("graph=\"path\",method=\"inference.GRPCInferenceService/ModelInfer\",model=\"tiny\""),
            std::string::npos);
}

TEST_F(OpenInferenceTest, AStreamEndsWhenTheServerStops) {
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(Request()));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  server_->Signal(SIGTERM);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(OpenInferenceTest, AStreamWithoutARequestEndsWell) {
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(OpenInferenceTest, ASilentStreamEnds) {
  StartServer({"--upload_ttl=1s"});
  UploadTinyGraph();
  UploadTinyModel();
  Connect();
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Write(Request()));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  EXPECT_NE(status.error_details().find("STREAM_SILENT"), std::string::npos);
}

TEST_F(OpenInferenceTest, AStreamWhoseRepliesAreNotReadEnds) {
  StartServer({"--send_timeout=1s"});
  UploadTinyGraph();
  UploadTinyModel();
  Connect();
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  // Until neither side's buffers take more, and the server gives up.
  while (stream->Write(Request({"classes", "scores", "logits", "probabilities"}))) {
  }
  inference::ModelStreamInferResponse response;
  while (stream->Read(&response)) {
  }
  const grpc::Status end = stream->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(end.error_message().find("REPLY_NOT_READ: "), 0u) << end.error_message();
  const std::string line =
      "vicinal_streams_total{code=\"DEADLINE_EXCEEDED\",method=\"inference.GRPCInferenceService/ModelStreamInfer\"} 1";
  // The client knows first.
  EXPECT_TRUE(Eventually([&] { return server_->Scrape()->find(line) != std::string::npos; }));
  ExpectServes();
}

TEST_F(OpenInferenceTest, StatisticsCount) {
  ModelInferResponse response;
  ASSERT_TRUE(Infer(Request(), &response).ok());
  ASSERT_FALSE(Infer(Request({"nothing"}), &response).ok());
  grpc::ClientContext context;
  inference::ModelStatisticsRequest ask;
  ask.set_name("path/tiny");
  inference::ModelStatisticsResponse told;
  ASSERT_TRUE(stub_->ModelStatistics(&context, ask, &told).ok());
  ASSERT_EQ(told.model_stats_size(), 1);
  EXPECT_EQ(told.model_stats(0).inference_count(), 1u);
  EXPECT_EQ(told.model_stats(0).inference_stats().fail().count(), 1u);
  EXPECT_GT(told.model_stats(0).inference_stats().success().ns(), 0u);
}

}  // namespace
}  // namespace vicinal::testing
