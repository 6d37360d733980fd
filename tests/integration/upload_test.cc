// SPDX-License-Identifier: Apache-2.0
// The upload protocol over a socket: out of order, damaged, too long, repeated, resumed, taken over, finished twice,
// expired.
#include <grpcpp/grpcpp.h>

#include "proto/wire/crc32c.h"
#include "tests/integration/fixture.h"
#include "vicinal/v1/graph.grpc.pb.h"

namespace vicinal::testing {
namespace {

// One raw upload stream.
class RawUpload {
 public:
  explicit RawUpload(const std::string& address)
      : stub_(v1::GraphService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        writer_(stub_->UploadGraph(&context_, &response_)) {}

  void Spec(const std::string& name, const std::string& upload_id, int64_t edges = 4) {
    v1::UploadGraphRequest request;
    v1::UploadGraphSpec* spec = request.mutable_spec();
    spec->set_name(name);
    spec->set_upload_id(upload_id);
    spec->set_node_count(5);
    v1::TensorSpec* tensor = spec->add_tensors();
    tensor->set_name("edge_index");
    tensor->set_dtype(v1::DATA_TYPE_INT64);
    tensor->add_shape(2);
    tensor->add_shape(edges);
    writer_->Write(request);
  }
  void Resume(const std::string& upload_id) {
    v1::UploadGraphRequest request;
    request.set_resume_upload_id(upload_id);
    writer_->Write(request);
  }
  void Chunk(int64_t offset, const std::string& data, uint32_t crc_error = 0,
             const std::string& tensor = "edge_index") {
    v1::UploadGraphRequest request;
    v1::UploadChunk* chunk = request.mutable_chunk();
    chunk->set_tensor(tensor);
    chunk->set_offset_bytes(offset);
    chunk->set_data(data);
    chunk->set_crc32c(wire::Crc32c(data.data(), data.size()) ^ crc_error);
    writer_->Write(request);
  }
  void SayFinish() {
    v1::UploadGraphRequest request;
    request.mutable_finish();
    writer_->Write(request);
  }
  void Cancel() { context_.TryCancel(); }
  // Ends the stream; the server's answer.
  absl::Status End() {
    writer_->WritesDone();
    return AwaitEnd();
  }
  // Says no more, and does not say that.
  absl::Status AwaitEnd() { return client::FromGrpcStatus(writer_->Finish(), ""); }
  const v1::UploadGraphResponse& response() const { return response_; }

 private:
  std::unique_ptr<v1::GraphService::Stub> stub_;
  grpc::ClientContext context_;
  v1::UploadGraphResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::UploadGraphRequest>> writer_;
};

class UploadTest : public IntegrationTest {
 protected:
  void SetUp() override { StartServer({"--upload_ttl=1h"}); }
  // 4 edges: 64 bytes.
  static std::string Edges() { return Ints("", {2, 4}, {0, 1, 2, 3, 1, 2, 3, 4}).bytes; }
};

TEST_F(UploadTest, ChunksMayComeInPiecesAndRepeat) {
  RawUpload upload(server_->grpc_address());
  upload.Spec("pieces", "upload-pieces");
  upload.Chunk(0, Edges().substr(0, 20));
  upload.Chunk(0, Edges().substr(0, 20));  // a repeat
  upload.Chunk(8, Edges().substr(8, 12));  // wholly before
  upload.Chunk(20, Edges().substr(20));
  upload.SayFinish();
  ASSERT_TRUE(upload.End().ok());
  EXPECT_EQ(upload.response().upload().state(), v1::Upload::STATE_FINISHED);
  EXPECT_EQ(upload.response().graph().name(), "pieces");
  const auto graph = client_->WatchGraph("pieces", nullptr);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->edge_count(), 4);
}

TEST_F(UploadTest, BadChunksAreRefusedWithTheOffsetToGoOnFrom) {
  struct Case {
    const char* id;
    int64_t offset;
    std::string data;
    uint32_t crc_error;
    const char* reason;
  };
  const Case cases[] = {{"upload-out-of-place", 24, Edges().substr(24), 0, "CHUNK_OUT_OF_PLACE"},
                        {"upload-negative", -8, Edges().substr(0, 8), 0, "CHUNK_OUT_OF_PLACE"},
                        {"upload-damaged", 16, Edges().substr(16), 1, "CHUNK_DAMAGED"},
                        {"upload-too-long", 16, Edges() + Edges(), 0, "CHUNK_TOO_LONG"}};
  for (const Case& bad : cases) {
    RawUpload upload(server_->grpc_address());
    upload.Spec(bad.id, bad.id);
    upload.Chunk(0, Edges().substr(0, 16));
    upload.Chunk(bad.offset, bad.data, bad.crc_error);
    const absl::Status status = upload.End();
    ExpectError(status, absl::StatusCode::kAborted, bad.reason);
    const client::ErrorDetails details = client::DetailsOf(status);
    EXPECT_EQ(details.metadata.at("tensor"), "edge_index");
    EXPECT_EQ(details.metadata.at("offset"), "16");
    // And so it goes on.
    RawUpload again(server_->grpc_address());
    again.Resume(bad.id);
    again.Chunk(16, Edges().substr(16));
    again.SayFinish();
    EXPECT_TRUE(again.End().ok());
  }
}

TEST_F(UploadTest, AnUploadLeftHalfWayIsResumed) {
  {
    RawUpload upload(server_->grpc_address());
    upload.Spec("half", "upload-half-way");
    upload.Chunk(0, Edges().substr(0, 40));
    ASSERT_TRUE(upload.End().ok());  // ended without finish: stays open
    EXPECT_EQ(upload.response().upload().tensors(0).received_bytes(), 40);
    EXPECT_FALSE(upload.response().has_graph());
  }
  const auto open = client_->GetUpload("upload-half-way");
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->state(), v1::Upload::STATE_UPLOADING);
  EXPECT_EQ(open->resource_type(), "graph");
  EXPECT_EQ(open->tensors(0).received_bytes(), 40);
  EXPECT_EQ(open->tensors(0).size_bytes(), 64);
  EXPECT_GT(open->expire_time().seconds(), 0);
  // Finishing now is refused, and harms nothing.
  RawUpload early(server_->grpc_address());
  early.Resume("upload-half-way");
  early.SayFinish();
  ExpectError(early.End(), absl::StatusCode::kInvalidArgument, "UPLOAD_INCOMPLETE");
  RawUpload rest(server_->grpc_address());
  rest.Spec("half", "upload-half-way");  // the spec goes on as well as the id does
  rest.Chunk(40, Edges().substr(40));
  rest.SayFinish();
  EXPECT_TRUE(rest.End().ok());
}

TEST_F(UploadTest, ASecondFinishAnswersAsTheFirst) {
  RawUpload upload(server_->grpc_address());
  upload.Spec("twice", "upload-twice");
  upload.Chunk(0, Edges());
  upload.SayFinish();
  ASSERT_TRUE(upload.End().ok());
  ASSERT_TRUE(client_->WatchGraph("twice", nullptr).ok());
  RawUpload resumed(server_->grpc_address());
  resumed.Resume("upload-twice");
  resumed.SayFinish();
  ASSERT_TRUE(resumed.End().ok());
  EXPECT_EQ(resumed.response().graph().SerializeAsString(), upload.response().graph().SerializeAsString());
  RawUpload spelled(server_->grpc_address());
  spelled.Spec("twice", "upload-twice");
  spelled.Chunk(0, Edges());  // a client that does not know how far it came sends all again
  spelled.SayFinish();
  ASSERT_TRUE(spelled.End().ok());
  EXPECT_EQ(spelled.response().graph().SerializeAsString(), upload.response().graph().SerializeAsString());
}

TEST_F(UploadTest, TheNewerStreamTakesOver) {
  RawUpload older(server_->grpc_address());
  older.Spec("both", "upload-by-two");
  older.Chunk(0, Edges().substr(0, 8));
  while (!client_->GetUpload("upload-by-two").ok() ||
         client_->GetUpload("upload-by-two")->tensors(0).received_bytes() < 8) {
  }
  RawUpload newer(server_->grpc_address());
  newer.Resume("upload-by-two");
  newer.Chunk(8, Edges().substr(8));
  while (client_->GetUpload("upload-by-two")->tensors(0).received_bytes() < 64) {
  }
  older.Chunk(8, Edges().substr(8));
  ExpectError(older.End(), absl::StatusCode::kAborted, "UPLOAD_TAKEN_OVER");
  newer.SayFinish();
  EXPECT_TRUE(newer.End().ok());
}

TEST_F(UploadTest, AClientThatGoesAwayInMidCall) {
  {
    RawUpload upload(server_->grpc_address());
    upload.Spec("gone", "upload-gone-away");
    upload.Chunk(0, Edges().substr(0, 8));
    while (!client_->GetUpload("upload-gone-away").ok()) {
    }
    upload.Cancel();
    EXPECT_EQ(upload.End().code(), absl::StatusCode::kCancelled);
  }
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
}

TEST_F(UploadTest, StreamsThatBeginWrong) {
  RawUpload chunk_first(server_->grpc_address());
  chunk_first.Chunk(0, Edges());
  ExpectError(chunk_first.End(), absl::StatusCode::kInvalidArgument, "BAD_UPLOAD");
  RawUpload finish_first(server_->grpc_address());
  finish_first.SayFinish();
  ExpectError(finish_first.End(), absl::StatusCode::kInvalidArgument, "BAD_UPLOAD");
  RawUpload silent(server_->grpc_address());
  ExpectError(silent.End(), absl::StatusCode::kInvalidArgument, "BAD_UPLOAD");
  RawUpload unknown(server_->grpc_address());
  unknown.Resume("never-begun-upload");
  ExpectError(unknown.End(), absl::StatusCode::kNotFound, "never started");
  RawUpload twice(server_->grpc_address());
  twice.Spec("spec", "upload-spec-twice");
  twice.Chunk(0, Edges().substr(0, 8));
  twice.Spec("spec", "upload-spec-twice");
  ExpectError(twice.End(), absl::StatusCode::kInvalidArgument, "only the first message");
  RawUpload other(server_->grpc_address());
  other.Spec("spec", "upload-spec-twice", 5);
  ExpectError(other.End(), absl::StatusCode::kInvalidArgument, "UPLOAD_ID_TAKEN");
  RawUpload tensor(server_->grpc_address());
  tensor.Spec("tensor", "upload-no-tensor");
  tensor.Chunk(0, Edges(), 0, "edge_attr");
  ExpectError(tensor.End(), absl::StatusCode::kInvalidArgument, "was not declared");
  ExpectError(client_->GetUpload("never-begun-upload").status(), absl::StatusCode::kNotFound, "expired");
  ExpectError(client_->GetUpload("!").status(), absl::StatusCode::kInvalidArgument, "BAD_NAME");
}

TEST_F(UploadTest, NamesAreTakenOnlyWhenSaid) {
  UploadTinyGraph();
  RawUpload taken(server_->grpc_address());
  taken.Spec("path", "upload-taken-name");
  ExpectError(taken.End(), absl::StatusCode::kAlreadyExists, "replace");
  v1::UploadGraphSpec spec;
  spec.set_name("path");
  spec.set_node_count(2);
  spec.set_replace(true);
  const OwnedTensor edges = Ints("edge_index", {2, 0}, {});
  const int64_t version = client_->GetGraph("path")->version();
  spec.set_if_version(version + 5);
  ExpectError(client_->UploadGraph(spec, {edges.view()}).status(), absl::StatusCode::kAborted, "VERSION_MISMATCH");
  spec.set_if_version(version);
  spec.clear_upload_id();
  const auto replaced = client_->UploadGraph(spec, {edges.view()});
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_GT(replaced->version(), version);
  EXPECT_EQ(replaced->node_count(), 2);
  EXPECT_EQ(replaced->feature_sets_size(), 0);
  ExpectError(client_->DeleteGraph("path", version), absl::StatusCode::kAborted, "path");
  EXPECT_TRUE(client_->DeleteGraph("path", replaced->version()).ok());
  ExpectError(client_->GetGraph("path").status(), absl::StatusCode::kNotFound, "path");
}

TEST_F(UploadTest, TheDigestOfAUsersIdsIsKeptWithItsVersion) {
  v1::UploadGraphSpec spec;
  spec.set_name("g");
  spec.set_node_count(2);
  spec.set_ids_digest("crc32c:0123abcd");
  const OwnedTensor edges = Ints("edge_index", {2, 0}, {}), bad = Ints("edge_index", {2, 1}, {0, 9});
  ASSERT_EQ(client_->UploadGraph(spec, {edges.view()})->ids_digest(), "crc32c:0123abcd");
  spec.set_replace(true);
  spec.set_ids_digest("of-a-graph-that-fails");
  EXPECT_FALSE(client_->UploadGraph(spec, {bad.view()}).ok());
  EXPECT_EQ(client_->GetGraph("g")->ids_digest(), "crc32c:0123abcd");
  spec.clear_ids_digest();
  ASSERT_TRUE(client_->UploadGraph(spec, {edges.view()}).ok());
  EXPECT_EQ(client_->GetGraph("g")->ids_digest(), "");
}

TEST_F(UploadTest, TheDigestOfWhatAnUploadWasMadeFromIsKeptWithItsVersion) {
  v1::UploadGraphSpec spec;
  spec.set_name("g");
  spec.set_node_count(2);
  spec.set_source_digest("first");
  const OwnedTensor edges = Ints("edge_index", {2, 0}, {}), x = Floats("x", {2, 1}, {1.0f, 2.0f});
  ASSERT_TRUE(client_->UploadGraph(spec, {edges.view(), x.view()}).ok());
  v1::UploadFeaturesSpec set;
  set.set_graph("g");
  set.set_name("other");
  set.set_source_digest("second");
  ASSERT_EQ(client_->UploadFeatures(set, {x.view()})->source_digest(), "second");
  const auto graph = client_->GetGraph("g");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->source_digest(), "first");
  ASSERT_EQ(graph->feature_sets_size(), 2);
  EXPECT_EQ(graph->feature_sets(0).source_digest(), "first") << "it came with the graph";
  EXPECT_EQ(graph->feature_sets(1).source_digest(), "second");
  set.set_name("default");
  set.set_replace(true);
  set.clear_source_digest();
  ASSERT_TRUE(client_->UploadFeatures(set, {x.view()}).ok());
  EXPECT_EQ(client_->GetGraph("g")->feature_sets(0).source_digest(), "");
}

TEST_F(UploadTest, FeatureSetsComeAndGo) {
  UploadTinyGraph();
  UploadTinyModel();
  v1::UploadFeaturesSpec spec;
  spec.set_graph("path");
  spec.set_name("other");
  const OwnedTensor x = Floats("x", {5, 3}, std::vector<float>(15, 0.5f));
  const auto set = client_->UploadFeatures(spec, {x.view()});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->feature_count(), 3);
  EXPECT_EQ(set->node_count(), 5);
  EXPECT_EQ(client_->ListFeatures("path")->size(), 2);
  auto request = TinyRequest();
  request.mutable_target()->set_feature_set("other");
  EXPECT_TRUE(client_->Classify(request).ok());
  ExpectError(client_->UploadFeatures(spec, {x.view()}).status(), absl::StatusCode::kAlreadyExists, "other");
  const auto nodes = v1::FEATURE_KIND_NODES, edges = v1::FEATURE_KIND_EDGES;
  ExpectError(client_->DeleteFeatures("path", "other", nodes, set->version() + 1), absl::StatusCode::kAborted,
              "VERSION_MISMATCH");
  ExpectError(client_->DeleteFeatures("path", "other", nodes, -1), absl::StatusCode::kInvalidArgument, "BAD_VERSION");
  ExpectError(client_->DeleteFeatures("path", "other", edges), absl::StatusCode::kNotFound,
              "a feature set of nodes has this name");
  EXPECT_TRUE(client_->Classify(request).ok()) << "it is still there";
  EXPECT_TRUE(client_->DeleteFeatures("path", "other", nodes, set->version()).ok());
  ExpectError(client_->Classify(request).status(), absl::StatusCode::kNotFound, "other");
  ExpectError(client_->DeleteFeatures("path", "other"), absl::StatusCode::kNotFound, "other");
  spec.set_graph("nowhere");
  ExpectError(client_->UploadFeatures(spec, {x.view()}).status(), absl::StatusCode::kNotFound, "nowhere");
  ExpectServes();
}

class UploadLimitsTest : public IntegrationTest {};

TEST_F(UploadLimitsTest, AnUploadExpiresAndItsMemoryComesBack) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--upload_ttl=1s"}));
  RawUpload upload(server_->grpc_address());
  upload.Spec("late", "upload-late");
  upload.Chunk(0, std::string(8, '\0'));
  ASSERT_TRUE(upload.End().ok());
  while (client_->GetUpload("upload-late").ok()) {
  }
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->find("vicinal_open_uploads 0"), std::string::npos);
  RawUpload resumed(server_->grpc_address());
  resumed.Resume("upload-late");
  ExpectError(resumed.End(), absl::StatusCode::kNotFound, "start it");
}

TEST_F(UploadLimitsTest, ASilentStreamIsEndedInWords) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--upload_ttl=1s"}));
  RawUpload upload(server_->grpc_address());
  upload.Spec("silent", "upload-silent");
  upload.Chunk(0, std::string(8, '\0'));
  ExpectError(upload.AwaitEnd(), absl::StatusCode::kDeadlineExceeded, "UPLOAD_SILENT");
  RawUpload wordless(server_->grpc_address());
  ExpectError(wordless.AwaitEnd(), absl::StatusCode::kDeadlineExceeded, "UPLOAD_SILENT");
}

TEST_F(UploadLimitsTest, NothingThatArrivedHoldsNoSlot) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--max_open_uploads=1", "--upload_ttl=1h"}));
  for (int i = 0; i < 3; ++i) {
    RawUpload silent(server_->grpc_address());
    silent.Spec("silent", "upload-silent-" + std::to_string(i));
    ASSERT_TRUE(silent.End().ok());
    RawUpload refused(server_->grpc_address());
    refused.Spec("refused", "upload-refused-" + std::to_string(i));
    refused.Chunk(0, "12345678", 0, "no_such_tensor");
    ExpectError(refused.End(), absl::StatusCode::kInvalidArgument, "was not declared");
  }
  ExpectError(client_->GetUpload("upload-silent-0").status(), absl::StatusCode::kNotFound, "upload-silent-0");
  UploadTinyGraph();
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->find("vicinal_open_uploads 0"), std::string::npos);
}

// A server that has nothing any more has room for as much as at its start.
TEST_F(UploadLimitsTest, WhatAGraphLeftBehindIsInNoUploadsWay) {
  constexpr int64_t kBudget = 64 << 20, kNodes = 100'000;
  ASSERT_NO_FATAL_FAILURE(StartServer({"--memory_budget_bytes=" + std::to_string(kBudget)}));
  UploadTinyModel();
  v1::UploadGraphSpec spec;
  spec.set_name("large");
  spec.set_node_count(kNodes);
  const OwnedTensor edges = Ints("edge_index", {2, 1}, {0, kNodes - 1});
  const OwnedTensor x = Floats("x", {kNodes, 3}, std::vector<float>(3 * kNodes, 0.5f));
  const auto large = client_->UploadGraph(spec, {edges.view(), x.view()});
  ASSERT_TRUE(large.ok()) << large.status();
  v1::ClassifyRequest request = TinyRequest();
  request.mutable_target()->set_graph("large");
  request.mutable_execution()->set_receptive_field(v1::RECEPTIVE_FIELD_ALWAYS);
  const auto reply = client_->Classify(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_TRUE(client_->DeleteModel("tiny").ok());
  ASSERT_TRUE(client_->DeleteGraph("large").ok());
  // A trial of kernels on the graph may be under way, and ends by itself: the error then says to retry.
  absl::Status status;
  do {
    RawUpload all(server_->grpc_address());
    all.Spec("all", "upload-of-all-there-is", kBudget / 24);  // 16 bytes an edge, and 8 in the list made of them
    all.Chunk(0, std::string(16, '\0'));
    status = all.End();
  } while (client::DetailsOf(status).retry_after_seconds.has_value());
  EXPECT_TRUE(status.ok()) << status;
}

// The tensor alone would fit.
TEST_F(UploadLimitsTest, WhatCannotBePreparedIsRefusedWhenItIsAnnounced) {
  constexpr int64_t kBudget = 64 << 20;
  ASSERT_NO_FATAL_FAILURE(StartServer({"--memory_budget_bytes=" + std::to_string(kBudget)}));
  RawUpload graph(server_->grpc_address());
  graph.Spec("all", "upload-of-a-graph", kBudget / 16);
  ExpectError(graph.End(), absl::StatusCode::kFailedPrecondition, "preparing the graph needs up to");
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
}

TEST_F(UploadLimitsTest, EveryLimitIsNamed) {
  StartServer({"--max_open_uploads=1", "--max_nodes=10", "--max_edges=20", "--max_features=8", "--max_upload_bytes=400",
               "--memory_budget_bytes=100000000"});
  UploadTinyGraph();
  const OwnedTensor edges = Ints("edge_index", {2, 0}, {});
  v1::UploadGraphSpec spec;
  spec.set_name("big");
  spec.set_node_count(11);
  ExpectError(client_->UploadGraph(spec, {edges.view()}).status(), absl::StatusCode::kInvalidArgument, "max_nodes");
  spec.set_node_count(5);
  const OwnedTensor many = Ints("edge_index", {2, 21}, std::vector<int64_t>(42, 0));
  ExpectError(client_->UploadGraph(spec, {many.view()}).status(), absl::StatusCode::kInvalidArgument, "max_edges");
  const OwnedTensor wide = Floats("x", {5, 9}, std::vector<float>(45, 0.f));
  ExpectError(client_->UploadGraph(spec, {edges.view(), wide.view()}).status(), absl::StatusCode::kInvalidArgument,
              "max_features");
  const OwnedTensor twenty = Ints("edge_index", {2, 20}, std::vector<int64_t>(40, 0));
  const OwnedTensor x = Floats("x", {5, 8}, std::vector<float>(40, 0.f));
  ExpectError(client_->UploadGraph(spec, {twenty.view(), x.view()}).status(), absl::StatusCode::kInvalidArgument,
              "max_upload_bytes");
  RawUpload open(server_->grpc_address());
  open.Spec("open", "upload-open-1");
  open.Chunk(0, std::string(8, '\0'));
  ASSERT_TRUE(open.End().ok());
  RawUpload second(server_->grpc_address());
  second.Spec("second", "upload-open-2");
  const absl::Status full = second.End();
  ExpectError(full, absl::StatusCode::kResourceExhausted, "max_open_uploads");
  EXPECT_TRUE(client::DetailsOf(full).retry_after_seconds.has_value());
}

}  // namespace
}  // namespace vicinal::testing
