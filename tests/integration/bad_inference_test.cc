// SPDX-License-Identifier: Apache-2.0
// Requests for inference that are wrong, over a limit, or given up: each answered with its code, and the server serves
// on.
#include <grpcpp/grpcpp.h>

#include <limits>
#include <thread>

#include "tests/integration/fixture.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::testing {
namespace {

using absl::StatusCode;

class BadInferenceTest : public IntegrationTest {
 protected:
  void SetUp() override {
    StartServer({"--max_request_nodes=100", "--max_response_bytes=1024", "--max_batch_graphs=3"});
    UploadTinyGraph();
    UploadTinyModel();
  }
  void TearDown() override {
    ExpectServes();
    IntegrationTest::TearDown();
  }
  void Expect(const v1::ClassifyRequest& request, StatusCode code, const std::string& piece) {
    ExpectError(client_->Classify(request).status(), code, piece);
    const auto none = [](const v1::ClassifyResponse&) { return absl::OkStatus(); };
    ExpectError(client_->ClassifyStream(request, none), code, piece);
  }
};

TEST_F(BadInferenceTest, Targets) {
  for (const char* name : {"", "Path", "no good", "../path"}) {
    auto request = TinyRequest();
    request.mutable_target()->set_graph(name);
    Expect(request, StatusCode::kInvalidArgument, "target.graph");
    request = TinyRequest();
    request.mutable_target()->set_model(name);
    Expect(request, StatusCode::kInvalidArgument, "target.model");
  }
  auto request = TinyRequest();
  request.mutable_target()->set_graph("unknown");
  Expect(request, StatusCode::kNotFound, "unknown");
  request = TinyRequest();
  request.mutable_target()->set_model("unknown");
  Expect(request, StatusCode::kNotFound, "unknown");
  request = TinyRequest();
  request.mutable_target()->set_feature_set("unknown");
  Expect(request, StatusCode::kNotFound, "unknown");
  request = TinyRequest();
  request.mutable_target()->set_graph_version(99999);
  Expect(request, StatusCode::kNotFound, "99999");
  request = TinyRequest();
  request.mutable_target()->set_model_version(99999);
  Expect(request, StatusCode::kNotFound, "99999");
  request = TinyRequest();
  request.mutable_target()->set_model_version(-1);
  Expect(request, StatusCode::kInvalidArgument, "target.model_version");
}

TEST_F(BadInferenceTest, Nodes) {
  for (const int64_t id :
       {int64_t{5}, int64_t{-1}, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    auto request = TinyRequest();
    request.mutable_nodes()->add_ids(id);
    Expect(request, StatusCode::kInvalidArgument, "nodes.ids[2]");
  }
  auto request = TinyRequest();
  request.mutable_nodes()->set_all(true);
  Expect(request, StatusCode::kInvalidArgument, "not both");
  request.clear_nodes();
  Expect(request, StatusCode::kInvalidArgument, "nodes");
  request = TinyRequest();
  for (int i = 0; i < 100; ++i) request.mutable_nodes()->add_ids(1);
  Expect(request, StatusCode::kInvalidArgument, "max_request_nodes");
}

TEST_F(BadInferenceTest, TopK) {
  for (const int k : {0, -1, 3, std::numeric_limits<int>::max()}) {
    auto request = TinyRequest();
    request.set_top_k(k);
    Expect(request, StatusCode::kInvalidArgument, "top_k");
  }
  auto request = TinyRequest();
  request.set_top_k(2);
  EXPECT_TRUE(client_->Classify(request).ok());
}

TEST_F(BadInferenceTest, Features) {
  const auto expect = [&](const OwnedTensor& x, std::vector<int64_t> rows, const std::string& piece) {
    auto request = TinyRequest();
    *request.mutable_features()->mutable_dense() = x.message();
    for (const int64_t row : rows) request.mutable_features()->add_rows(row);
    Expect(request, StatusCode::kInvalidArgument, piece);
  };
  expect(Floats("", {5, 2}, std::vector<float>(10)), {}, "features");
  expect(Floats("", {4, 3}, std::vector<float>(12)), {}, "features");
  expect(Ints("", {5, 3}, std::vector<int64_t>(15)), {}, "features");
  expect(Floats("", {5, 3}, std::vector<float>(14)), {}, "features");
  expect(Floats("", {5, 3}, std::vector<float>(15, std::numeric_limits<float>::infinity())), {}, "inf");
  expect(Floats("", {1, 3}, {1, 2, 3}), {9}, "features.rows");
  expect(Floats("", {2, 3}, {1, 2, 3, 4, 5, 6}), {1, 1}, "features.rows");
  expect(Floats("", {2, 3}, {1, 2, 3, 4, 5, 6}), {1}, "features");
  auto request = TinyRequest();
  request.mutable_features();
  Expect(request, StatusCode::kInvalidArgument, "features");
  request = TinyRequest();
  request.mutable_features()->mutable_dense()->set_dtype(v1::DATA_TYPE_FLOAT32);
  request.mutable_features()->mutable_dense()->add_shape(std::numeric_limits<int64_t>::max());
  request.mutable_features()->mutable_dense()->add_shape(3);
  Expect(request, StatusCode::kInvalidArgument, "features");
  v1::CsrMatrix* csr = request.mutable_features()->mutable_csr();
  csr->set_row_count(5);
  csr->set_column_count(3);
  *csr->mutable_indptr() = Ints("", {6}, {0, 1, 1, 1, 1, 1}).message();
  *csr->mutable_indices() = Ints("", {1}, {0}).message();  // int64 where int32 must be
  *csr->mutable_values() = Floats("", {1}, {1}).message();
  Expect(request, StatusCode::kInvalidArgument, "features.csr.indices");
  *csr->mutable_indptr() = Ints("", {6}, {1, 1, 1, 1, 1, 1}).message();
  csr->mutable_indices()->set_dtype(v1::DATA_TYPE_INT32);
  csr->mutable_indices()->set_data(std::string(4, '\0'));
  Expect(request, StatusCode::kInvalidArgument, "features.csr.indptr[0] is 1");
  csr->set_row_count(7);
  Expect(request, StatusCode::kInvalidArgument, "row_count");
}

TEST_F(BadInferenceTest, KernelsAndOutputs) {
  auto request = TinyRequest();
  (*request.mutable_execution()->mutable_kernels())["aggregate"] = "no_such_kernel";
  Expect(request, StatusCode::kInvalidArgument, "no_such_kernel");
  request = TinyRequest();
  (*request.mutable_execution()->mutable_kernels())["no_such_operation"] = "reference";
  Expect(request, StatusCode::kInvalidArgument, "no_such_operation");
  v1::EmbedRequest embed;
  *embed.mutable_target() = TinyRequest().target();
  *embed.mutable_nodes() = TinyRequest().nodes();
  EXPECT_TRUE(client_->Embed(embed).ok());
  embed.set_output("no_such_output");
  ExpectError(client_->Embed(embed).status(), StatusCode::kInvalidArgument, "no_such_output");
  v1::ExplainRequest explain;
  *explain.mutable_target() = TinyRequest().target();
  EXPECT_TRUE(client_->Explain(explain).ok());
  explain.set_output("no_such_output");
  ExpectError(client_->Explain(explain).status(), StatusCode::kInvalidArgument, "no_such_output");
  explain.mutable_target()->set_graph("unknown");
  ExpectError(client_->Explain(explain).status(), StatusCode::kNotFound, "unknown");
}

TEST_F(BadInferenceTest, Execution) {
  auto request = TinyRequest();
  request.mutable_execution()->set_receptive_field(static_cast<v1::ReceptiveField>(77));
  Expect(request, StatusCode::kInvalidArgument, "execution.receptive_field");
  request = TinyRequest();
  request.mutable_execution()->set_product_precision(static_cast<v1::ProductPrecision>(77));
  Expect(request, StatusCode::kInvalidArgument, "execution.product_precision");
  request = TinyRequest();
  request.mutable_execution()->set_precision(static_cast<v1::Precision>(77));
  Expect(request, StatusCode::kInvalidArgument, "execution.precision");
  v1::ExplainRequest explain;
  *explain.mutable_target() = TinyRequest().target();
  *explain.mutable_execution() = request.execution();
  ExpectError(client_->Explain(explain).status(), StatusCode::kInvalidArgument, "execution.precision");
}

TEST_F(BadInferenceTest, LargeRepliesAreForStreams) {
  auto request = TinyRequest();
  for (int i = 0; i < 90; ++i) request.mutable_nodes()->add_ids(i % 5);
  request.set_return_logits(true);
  ExpectError(client_->Classify(request).status(), StatusCode::kInvalidArgument, "max_response_bytes");
  int64_t rows = 0, pieces = 0;
  bool timed = false;
  const absl::Status status = client_->ClassifyStream(request, [&](const v1::ClassifyResponse& piece) {
    EXPECT_EQ(piece.first_row(), rows);
    EXPECT_FALSE(timed);
    rows += piece.classes().shape(0);
    timed = piece.has_timing();
    ++pieces;
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(rows, 92);
  EXPECT_GT(pieces, 1);
  EXPECT_TRUE(timed);
}

TEST_F(BadInferenceTest, GraphModelsAndBatches) {
  v1::ClassifyGraphsRequest request;
  request.set_model("tiny");
  *request.mutable_graphs()->mutable_ptr() = Ints("", {2}, {0, 3}).message();
  *request.mutable_graphs()->mutable_edge_index() = Ints("", {2, 1}, {0, 1}).message();
  *request.mutable_graphs()->mutable_features()->mutable_dense() = Floats("", {3, 3}, std::vector<float>(9)).message();
  ExpectError(client_->ClassifyGraphs(request).status(), StatusCode::kFailedPrecondition, "");
  request.set_model("unknown");
  ExpectError(client_->ClassifyGraphs(request).status(), StatusCode::kNotFound, "unknown");
  request.set_model("");
  ExpectError(client_->ClassifyGraphs(request).status(), StatusCode::kInvalidArgument, "model");
  request.set_model("tiny");
  *request.mutable_graphs()->mutable_ptr() = Ints("", {5}, {0, 1, 1, 2, 3}).message();
  ExpectError(client_->ClassifyGraphs(request).status(), StatusCode::kInvalidArgument, "max_batch_graphs");
  request.clear_graphs();
  ExpectError(client_->ClassifyGraphs(request).status(), StatusCode::kInvalidArgument, "graphs");
}

TEST_F(BadInferenceTest, DeadlinesAndClientsThatGoAway) {
  const auto stub =
      v1::InferenceService::NewStub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
  v1::ClassifyResponse response;
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(i * 20));
    const grpc::Status status = stub->Classify(&context, TinyRequest(), &response);
    // Or the server saw, before it ran the request, that the deadline would pass first.
    const bool refused = status.error_code() == grpc::StatusCode::UNAVAILABLE &&
                         status.error_details().find("SERVER_OVERLOADED") != std::string::npos;
    EXPECT_TRUE(status.ok() || refused || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
        << status.error_message();
  }
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    std::thread canceller([&] { context.TryCancel(); });
    const grpc::Status status = stub->Classify(&context, TinyRequest(), &response);
    canceller.join();
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED) << status.error_message();
  }
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    auto request = TinyRequest();
    const auto reader = stub->ClassifyStream(&context, request);
    if (i % 2 == 0) reader->Read(&response);
    context.TryCancel();
    reader->Finish();
  }
}

TEST_F(BadInferenceTest, AFullQueueAsksForARetry) {
  ASSERT_EQ(server_->Stop(), 0);
  // Kept answers would do without the queue.
  ASSERT_NO_FATAL_FAILURE(StartServer({"--max_queue=1", "--keep_answers=never"}));
  UploadTinyGraph();
  UploadTinyModel();
  const auto stub =
      v1::InferenceService::NewStub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
  // Many calls at once, until some found the queue full.
  struct Pending {
    grpc::ClientContext context;
    v1::ClassifyResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ClassifyResponse>> reader;
  };
  int refused = 0;
  while (refused == 0) {
    grpc::CompletionQueue queue;
    std::vector<std::unique_ptr<Pending>> calls;
    for (int i = 0; i < 200; ++i) {
      calls.push_back(std::make_unique<Pending>());
      calls.back()->reader = stub->AsyncClassify(&calls.back()->context, TinyRequest(), &queue);
      calls.back()->reader->Finish(&calls.back()->response, &calls.back()->status, calls.back().get());
    }
    void* tag = nullptr;
    bool ok = false;
    for (size_t i = 0; i < calls.size(); ++i) ASSERT_TRUE(queue.Next(&tag, &ok));
    for (const auto& call : calls) {
      if (call->status.ok()) continue;
      ++refused;
      EXPECT_EQ(call->status.error_code(), grpc::StatusCode::UNAVAILABLE) << call->status.error_message();
      EXPECT_EQ(call->context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
    }
  }
}

TEST_F(BadInferenceTest, MessagesOverTheLimit) {
  v1::ClassifyRequest request = TinyRequest();
  OwnedTensor x = Floats("", {1, 1}, {1});
  x.bytes.assign(65 << 20, '\0');
  *request.mutable_features()->mutable_dense() = x.message();
  ExpectError(client_->Classify(request).status(), StatusCode::kInvalidArgument, "max_message_bytes");
}

}  // namespace
}  // namespace vicinal::testing
