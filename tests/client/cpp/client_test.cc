// SPDX-License-Identifier: Apache-2.0
// The client against a fake server on a real socket: chunks, offsets and checksums, uploads that break in every place,
// metadata, retries.
#include "client/cpp/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "client/cpp/errors.h"
#include "proto/wire/tensors.h"
#include "tests/client/cpp/fake_server.h"

namespace vicinal::client {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    ClientOptions options;
    options.target = server_.target();
    options.sleep = [this](std::chrono::milliseconds wait) { waits_.push_back(wait.count()); };
    // The default retries, without their waits.
    options.service_config =
        absl::StrReplaceAll(options.service_config, {{R"("initialBackoff": "0.1s")", R"("initialBackoff": "0.001s")"}});
    client_ = Client::Connect(options).value();
    for (int i = 0; i < 50; ++i) edges_.push_back(static_cast<char>(i));
    edges_.resize(400, 'e');
    weights_.resize(200, 'w');
  }

  // 400 bytes of edges, 200 of weights: 7 + 4 chunks of 64.
  std::vector<UploadTensor> Tensors() const {
    return {{"edge_index", v1::DATA_TYPE_INT32, {2, 50}, edges_},
            {"edge_weight", v1::DATA_TYPE_FLOAT32, {50}, weights_}};
  }

  absl::StatusOr<v1::Graph> Upload(const std::string& upload_id = "", const UploadOptions& options = {}) {
    v1::UploadGraphSpec spec;
    spec.set_name("g");
    spec.set_node_count(10);
    spec.set_upload_id(upload_id);
    return client_->UploadGraph(spec, Tensors(), options);
  }

  void ExpectAllArrivedOnce() {
    EXPECT_EQ(server_.Uploaded("edge_index"), edges_);
    EXPECT_EQ(server_.Uploaded("edge_weight"), weights_);
    EXPECT_EQ(server_.seen().chunks.size(), 11u);
    EXPECT_EQ(server_.seen().prepared, 1);
  }

  FakeServer server_;
  std::vector<int64_t> waits_;
  std::unique_ptr<Client> client_;
  std::string edges_, weights_;
};

TEST_F(ClientTest, UploadsInChunksTheServerAllows) {
  std::vector<int64_t> sent;
  std::vector<double> watched;
  UploadOptions options;
  options.progress = [&](const UploadProgress& progress) {
    sent.push_back(progress.sent_bytes);
    EXPECT_EQ(progress.total_bytes, 600);
  };
  options.watch = [&](const v1::Graph& graph) { watched.push_back(graph.progress()); };
  const auto graph = Upload("", options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->state(), v1::Graph::STATE_READY);
  ExpectAllArrivedOnce();
  EXPECT_EQ(server_.seen().largest_chunk, server_.max_chunk_bytes());
  EXPECT_THAT(server_.seen().first_messages, ElementsAre("spec"));
  EXPECT_EQ(sent.size(), 11u);
  EXPECT_EQ(sent.back(), 600);
  EXPECT_THAT(watched, ElementsAre(0.5, 1.0));
  EXPECT_THAT(server_.seen().graph_metadata, Each("g"));
  EXPECT_TRUE(waits_.empty());
}

TEST_F(ClientTest, ABrokenStreamIsGoneOnWithWhereItStood) {
  server_.faults().break_after_chunks = 3;
  server_.faults().breaks = 3;
  const auto graph = Upload();
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectAllArrivedOnce();
  EXPECT_THAT(server_.seen().first_messages, ElementsAre("spec", "resume", "resume", "resume"));
  EXPECT_THAT(waits_, ElementsAre(200, 400, 800));
}

TEST_F(ClientTest, SoIsOneThatGrpcBrokeOffToKeepItsMemory) {
  server_.faults().break_after_chunks = 3;
  server_.faults().breaks = 2;
  server_.faults().break_code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  const auto graph = Upload();
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectAllArrivedOnce();
  EXPECT_THAT(server_.seen().first_messages, ElementsAre("spec", "resume", "resume"));
  EXPECT_THAT(waits_, ElementsAre(200, 400));
}

TEST_F(ClientTest, ARefusalIsNotTriedAgainButTellsHowToGoOn) {
  server_.faults().break_after_chunks = 3;
  server_.faults().breaks = 1;
  server_.faults().break_code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  server_.faults().break_reason = "BUDGET_FULL";
  const absl::Status status = Upload().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailsOf(status).reason, "BUDGET_FULL");
  EXPECT_TRUE(waits_.empty());
  const std::string id = UploadIdOf(status);
  ASSERT_FALSE(id.empty());
  const auto graph = Upload(id);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectAllArrivedOnce();
}

TEST_F(ClientTest, WhereTheServerGoesSilentTheUploadMayBeGoneOnWith) {
  server_.faults().break_after_chunks = 3;
  server_.faults().breaks = 1;
  server_.faults().silent = true;
  const absl::Status status = Upload().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  const std::string id = UploadIdOf(status);
  ASSERT_FALSE(id.empty()) << status;
  server_.faults().silent = false;
  const auto graph = Upload(id);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectAllArrivedOnce();
}

TEST_F(ClientTest, AnUploadOfWhichNothingArrivedIsNotToBeGoneOnWith) {
  server_.faults().break_after_chunks = 0;
  server_.faults().breaks = 1;
  server_.faults().break_code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  server_.faults().break_reason = "BUDGET_FULL";
  EXPECT_EQ(UploadIdOf(Upload().status()), "");
  // Nor is one whose fault stays.
  server_.faults() = {};
  server_.faults().break_after_chunks = 1;
  server_.faults().breaks = 1;
  server_.faults().break_code = grpc::StatusCode::INVALID_ARGUMENT;
  server_.faults().break_reason = "BAD_UPLOAD";
  EXPECT_EQ(UploadIdOf(Upload().status()), "");
}

TEST_F(ClientTest, ADamagedChunkIsSentAgain) {
  server_.faults().damage_chunk = true;
  const auto graph = Upload();
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectAllArrivedOnce();
  // It was the first: nothing had arrived that could be gone on with.
  EXPECT_THAT(server_.seen().first_messages, ElementsAre("spec", "spec"));
}

TEST_F(ClientTest, ALostAnswerToFinishIsAskedForAgain) {
  server_.faults().lose_finish = true;
  const auto graph = Upload();
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectAllArrivedOnce();
  EXPECT_EQ(server_.seen().finishes, 2);
  EXPECT_THAT(server_.seen().first_messages, ElementsAre("spec", "resume"));
}

TEST_F(ClientTest, GivesUpAfterItsAttempts) {
  server_.faults().break_after_chunks = 0;
  server_.faults().breaks = 100;
  const absl::Status status = Upload("upload-0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(IsCallError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("resume the upload with the id upload-0"));
  EXPECT_EQ(UploadIdOf(status), "upload-0");
  EXPECT_EQ(server_.seen().first_messages.size(), 5u);
}

TEST_F(ClientTest, AnUploadOfAnEarlierProcessIsGoneOnWith) {
  server_.faults().break_after_chunks = 1;
  server_.faults().breaks = 100;
  EXPECT_FALSE(Upload("upload-1").ok());
  server_.faults().breaks = 0;
  const size_t before = server_.seen().chunks.size();
  EXPECT_GT(before, 0u);
  const auto graph = Upload("upload-1");
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectAllArrivedOnce();
  // And once more: it is finished, so nothing is sent and the same answer comes.
  ASSERT_TRUE(Upload("upload-1").ok());
  ExpectAllArrivedOnce();
}

TEST_F(ClientTest, AnUploadOfOtherTensorsIsNotGoneOnWith) {
  server_.faults().break_after_chunks = 1;
  server_.faults().breaks = 100;
  EXPECT_FALSE(Upload("upload-2").ok());
  edges_.resize(408);
  v1::UploadGraphSpec spec;
  spec.set_name("g");
  spec.set_upload_id("upload-2");
  const absl::Status status =
      client_->UploadGraph(spec, {{"edge_index", v1::DATA_TYPE_INT32, {2, 51}, edges_}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("started with other tensors"));
}

TEST_F(ClientTest, AVersionThatDiffersIsNotTriedAgain) {
  server_.faults().abort_version = true;
  const absl::Status status = Upload().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(server_.seen().first_messages.size(), 1u);
}

TEST_F(ClientTest, TensorsOfAWrongSizeAreNotSent) {
  weights_.resize(199);
  const absl::Status status = Upload().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(IsCallError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'edge_weight' of shape [50] needs 200 bytes, not 199"));
  EXPECT_TRUE(server_.seen().first_messages.empty());
}

TEST_F(ClientTest, AGraphThatFailsIsAnErrorOfItsOwnCode) {
  server_.faults().fail_preparation = true;
  const absl::Status status = Upload().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(IsCallError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("edge 7 points to node 99"));
}

TEST_F(ClientTest, FeaturesAndModels) {
  v1::UploadFeaturesSpec features;
  features.set_graph("g");
  features.set_name("today");
  const std::string x(80, 'x');
  const auto set = client_->UploadFeatures(features, {{"x", v1::DATA_TYPE_FLOAT32, {10, 2}, x}});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->name(), "today");
  EXPECT_EQ(server_.Uploaded("x"), x);
  v1::UploadModelSpec model;
  model.set_name("m");
  model.mutable_reference()->set_graph("g");
  const std::string weights(1000, 'w');
  server_.faults().break_after_chunks = 7;
  server_.faults().breaks = 1;
  const auto made = client_->UploadModel(model, {{"weights", v1::DATA_TYPE_UINT8, {1000}, weights}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(server_.Uploaded("weights"), weights);
  EXPECT_EQ(server_.seen().model_spec.reference().graph(), "g");
}

TEST_F(ClientTest, RefusalsKeepTheServersWords) {
  const absl::Status status = client_->GetGraph("nope").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(IsCallError(status));
  EXPECT_EQ(status.message(), "graph 'nope' does not exist");
  EXPECT_EQ(DetailsOf(status).reason, "GRAPH_NOT_FOUND");
}

TEST_F(ClientTest, ABusyServerIsAskedAgain) {
  ASSERT_TRUE(Upload().ok());
  server_.faults().busy_calls = 2;
  EXPECT_TRUE(client_->GetGraph("g").ok());
  server_.faults().busy_calls = 100;
  EXPECT_EQ(client_->GetGraph("g").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ClientTest, ListsAllPagesAndDeletes) {
  for (const char* name : {"b", "a", "c"}) {
    v1::UploadGraphSpec spec;
    spec.set_name(name);
    ASSERT_TRUE(client_->UploadGraph(spec, Tensors()).ok());
  }
  const auto graphs = client_->ListGraphs();
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  ASSERT_EQ(graphs->size(), 3u);
  EXPECT_EQ((*graphs)[0].name(), "a");
  EXPECT_TRUE(client_->DeleteGraph("a").ok());
  EXPECT_EQ(client_->DeleteGraph("a").code(), absl::StatusCode::kNotFound);
}

TEST_F(ClientTest, TunesAndLooksAtTuning) {
  v1::TuneGraphRequest request;
  request.set_name("g");
  request.add_widths(16);
  request.add_widths(64);
  const auto tuned = client_->TuneGraph(request);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(tuned->records_size(), 2);
  EXPECT_EQ(server_.seen().tune.widths(1), 64);
  EXPECT_EQ(server_.seen().graph_metadata.back(), "g");
  const auto known = client_->GetTuning("g");
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->records(0).key().width(), 1);
  EXPECT_EQ(server_.seen().graph_metadata.back(), "g");
}

TEST_F(ClientTest, AnUploadThatBrokeBeforeAnythingArrivedIsBegunAnew) {
  // The server may have forgotten it: only its spec begins it again.
  server_.faults().break_after_chunks = 0;
  server_.faults().breaks = 1;
  const auto graph = Upload();
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectAllArrivedOnce();
  EXPECT_THAT(server_.seen().first_messages, ElementsAre("spec", "spec"));
}

TEST_F(ClientTest, StreamsAreReadToTheirEndOrStopped) {
  ASSERT_TRUE(Upload().ok());
  v1::ClassifyRequest request;
  request.mutable_target()->set_graph("g");
  request.mutable_nodes()->set_all(true);
  request.set_top_k(1);
  std::vector<int64_t> rows;
  ASSERT_TRUE(client_
                  ->ClassifyStream(request,
                                   [&](const v1::ClassifyResponse& piece) {
                                     rows.push_back(piece.first_row());
                                     return absl::OkStatus();
                                   })
                  .ok());
  EXPECT_THAT(rows, ElementsAre(0, 4, 8));
  EXPECT_EQ(client_->ClassifyStream(request, [](const v1::ClassifyResponse&) { return absl::DataLossError("enough"); }),
            absl::DataLossError("enough"));
}

TEST_F(ClientTest, SendsTheToken) {
  ClientOptions options;
  options.target = server_.target();
  options.token = "secret";
  EXPECT_FALSE(Client::Connect(options).value()->GetGraph("g").ok());
  EXPECT_EQ(server_.seen().authorization, "Bearer secret");
  options.token = "two\nlines";
  EXPECT_EQ(Client::Connect(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, ANameOutsideTheGrammarStillReachesTheServer) {
  EXPECT_EQ(client_->GetGraph("Not a name\n").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(server_.seen().graph_metadata.back(), "-");
}

TEST_F(ClientTest, Health) {
  EXPECT_EQ(client_->CheckHealth("").value(), "SERVING");
  EXPECT_EQ(client_->CheckHealth("no such service").status().code(), absl::StatusCode::kNotFound);
}

// A port that is taken and that nobody listens on: whoever connects is refused. The port of a server that was would not
// do, because another process may get it meanwhile.
class DeafPort {
 public:
  DeafPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    target_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~DeafPort() { close(fd_); }
  const std::string& target() const { return target_; }

 private:
  const int fd_;
  std::string target_;
};

TEST(ClientWithoutServerTest, SaysThatItCannotBeReached) {
  const DeafPort port;
  const std::string target = port.target();
  ClientOptions options;
  options.target = target;
  options.service_config = "";
  const auto client = Client::Connect(options).value();
  const absl::Status status = client->GetCapabilities().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot reach the server at " + target));
  v1::UploadGraphSpec spec;
  spec.set_name("g");
  EXPECT_EQ(client->UploadGraph(spec, {}).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace vicinal::client
