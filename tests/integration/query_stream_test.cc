// SPDX-License-Identifier: Apache-2.0
// InferStream over a real socket: the answers of single calls, in the order that was asked for; requests that fail
// alone; clients that stop reading, cancel, or send nothing.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/errors.h"
#include "tests/integration/fixture.h"
#include "tests/support/eventually.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::testing {
namespace {

constexpr char kStreamMethod[] = "method=\"vicinal.v1.InferenceService/InferStream\"";
// 3.2 MB of embeddings, which fit in one reply.
constexpr int64_t kWideNodes = 200'000;

class QueryStreamTest : public IntegrationTest {
 protected:
  void Start(const std::vector<std::string>& flags = {}) {
    ASSERT_NO_FATAL_FAILURE(StartServer(flags));
    UploadTinyGraph();
    UploadTinyModel();
  }
  void UploadWideGraph() {
    v1::UploadGraphSpec spec;
    spec.set_name("wide");
    spec.set_node_count(kWideNodes);
    const OwnedTensor edges = Ints("edge_index", {2, 0}, {});
    const OwnedTensor x = Floats("x", {kWideNodes, 3}, std::vector<float>(kWideNodes * 3, 0.5f));
    ASSERT_TRUE(client_->UploadGraph(spec, {edges.view(), x.view()}).ok());
  }
  static v1::InferStreamRequest Classify(int64_t id, int64_t node) {
    v1::InferStreamRequest request;
    request.set_request_id(id);
    *request.mutable_classify() = TinyRequest();
    request.mutable_classify()->mutable_nodes()->clear_ids();
    request.mutable_classify()->mutable_nodes()->add_ids(node);
    return request;
  }
  static v1::InferStreamRequest EmbedWide(int64_t id) {
    v1::InferStreamRequest request;
    request.set_request_id(id);
    v1::EmbedRequest& embed = *request.mutable_embed();
    embed.mutable_target()->set_graph("wide");
    embed.mutable_target()->set_model("tiny");
    embed.mutable_nodes()->set_all(true);
    return request;
  }
  // All answers, in the order in which they came; the stream must end with OK.
  static std::vector<v1::InferStreamResponse> ReceiveAll(client::QueryStream& stream) {
    std::vector<v1::InferStreamResponse> answers;
    for (v1::InferStreamResponse answer; stream.Receive(&answer);) answers.push_back(answer);
    const absl::Status end = stream.Finish();
    EXPECT_TRUE(end.ok()) << end;
    return answers;
  }
  bool Scraped(const std::string& line) {
    const auto page = server_->Scrape();
    return page.ok() && page->find(line) != std::string::npos;
  }
  // Whether the metrics count one stream that ended so.
  bool Ended(const std::string& code) {
    return Scraped("vicinal_streams_total{code=\"" + code + "\"," + kStreamMethod + "} 1");
  }
  // How many requests on streams ended so.
  double Requests(const std::string& code) {
    return std::max(0.0, MetricOf("vicinal_requests_total{code=\"" + code + "\"," + kStreamMethod + "}"));
  }
  void AwaitEnd(const std::string& code) {
    EXPECT_TRUE(Eventually([&] { return Ended(code); }));
  }
};

TEST_F(QueryStreamTest, AnswersAreThoseOfSingleCallsInTheOrderOfTheRequests) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER, "path");
  // More than the server takes at a time, so that the sender waits for the receiver.
  constexpr int kCount = 500;
  std::thread sender([&] {
    for (int i = 0; i < kCount; ++i) EXPECT_TRUE(stream->Send(Classify(i, i % 5)));
    stream->CloseSending();
  });
  const std::vector<v1::InferStreamResponse> answers = ReceiveAll(*stream);
  sender.join();
  ASSERT_EQ(answers.size(), static_cast<size_t>(kCount));
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(answers[i].request_id(), i);
    ASSERT_TRUE(answers[i].has_classify()) << answers[i].ShortDebugString();
  }
  EXPECT_EQ(Requests("OK"), kCount);
  EXPECT_EQ(MetricOf("vicinal_request_duration_seconds_count{graph=\"path\"," + std::string(kStreamMethod) +
                     ",model=\"tiny\"}"),
            kCount);
  for (int node = 0; node < 5; ++node) {
    const auto single = client_->Classify(Classify(0, node).classify());
    ASSERT_TRUE(single.ok()) << single.status();
    EXPECT_EQ(answers[node].classify().classes().data(), single->classes().data());
    EXPECT_EQ(answers[node].classify().scores().data(), single->scores().data());
    EXPECT_EQ(answers[node].classify().served_by().SerializeAsString(), single->served_by().SerializeAsString());
  }
}

// Requests that are read while the first one waits for company share its run. A busy machine gets more time.
TEST_F(QueryStreamTest, RequestsAreReadWhileOthersAreComputed) {
  int64_t together = 0;
  for (const char* const delay : {"1s", "10s", "100s"}) {
    ASSERT_NO_FATAL_FAILURE(Start({std::string("--max_batch_delay=") + delay, "--keep_answers=never"}));
    const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_AS_COMPLETED);
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(stream->Send(Classify(i, i % 5)));
    stream->CloseSending();
    const std::vector<v1::InferStreamResponse> answers = ReceiveAll(*stream);
    ASSERT_EQ(answers.size(), 8u);
    for (const v1::InferStreamResponse& answer : answers)
      together = std::max<int64_t>(together, answer.classify().timing().run_request_count());
    if (together >= 4) break;
    ASSERT_EQ(server_->Stop(), 0);
  }
  EXPECT_GE(together, 4);
}

TEST_F(QueryStreamTest, AnEmbeddingAndFeaturesOfTheRequest) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER);
  v1::InferStreamRequest features = Classify(1, 2);
  *features.mutable_classify()->mutable_features()->mutable_dense() =
      Floats("", {5, 3}, std::vector<float>(15, -2.0f)).message();
  v1::InferStreamRequest embed;
  embed.set_request_id(2);
  *embed.mutable_embed()->mutable_target() = features.classify().target();
  embed.mutable_embed()->mutable_nodes()->set_all(true);
  ASSERT_TRUE(stream->Send(features));
  ASSERT_TRUE(stream->Send(embed));
  stream->CloseSending();
  const std::vector<v1::InferStreamResponse> answers = ReceiveAll(*stream);
  ASSERT_EQ(answers.size(), 2u);
  const auto classified = client_->Classify(features.classify());
  const auto embedded = client_->Embed(embed.embed());
  ASSERT_TRUE(classified.ok() && embedded.ok());
  EXPECT_EQ(answers[0].classify().scores().data(), classified->scores().data());
  EXPECT_EQ(answers[1].embed().embeddings().data(), embedded->embeddings().data());
}

TEST_F(QueryStreamTest, ABadRequestFailsAlone) {
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const auto order : {v1::ANSWER_ORDER_IN_ORDER, v1::ANSWER_ORDER_AS_COMPLETED}) {
    const auto stream = client_->OpenQueryStream(order);
    v1::InferStreamRequest negative = Classify(5, 0);
    negative.set_timeout_ms(-1);
    v1::InferStreamRequest empty;
    empty.set_request_id(3);
    for (const auto& request : {Classify(1, 0), Classify(2, 99), empty, Classify(4, 1), negative}) {
      ASSERT_TRUE(stream->Send(request));
    }
    stream->CloseSending();
    std::map<int64_t, v1::InferStreamResponse> answers;
    for (const auto& answer : ReceiveAll(*stream)) answers[answer.request_id()] = answer;
    ASSERT_EQ(answers.size(), 5u);
    EXPECT_TRUE(answers[1].has_classify());
    EXPECT_TRUE(answers[4].has_classify());
    EXPECT_TRUE(client::ErrorOf(answers[4]).ok());
    ExpectError(client::ErrorOf(answers[2]), absl::StatusCode::kInvalidArgument, "NODE_OUT_OF_RANGE");
    ExpectError(client::ErrorOf(answers[3]), absl::StatusCode::kInvalidArgument, "BAD_REQUEST");
    ExpectError(client::ErrorOf(answers[5]), absl::StatusCode::kInvalidArgument, "BAD_TIMEOUT");
  }
}

TEST_F(QueryStreamTest, TheOrderIsTheStreams) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto stub =
      v1::InferenceService::NewStub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->InferStream(&context);
  v1::InferStreamRequest request = Classify(1, 0);
  const auto ask = [&](v1::AnswerOrder order) {
    v1::InferStreamResponse answer;
    request.set_order(order);
    EXPECT_TRUE(stream->Write(request) && stream->Read(&answer));
    return client::ErrorOf(answer);
  };
  EXPECT_TRUE(ask(v1::ANSWER_ORDER_AS_COMPLETED).ok());
  EXPECT_TRUE(ask(v1::ANSWER_ORDER_UNSPECIFIED).ok());
  ExpectError(ask(v1::ANSWER_ORDER_IN_ORDER), absl::StatusCode::kInvalidArgument, "BAD_ORDER");
  ExpectError(ask(static_cast<v1::AnswerOrder>(9)), absl::StatusCode::kInvalidArgument, "BAD_ORDER");
  EXPECT_TRUE(ask(v1::ANSWER_ORDER_AS_COMPLETED).ok());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(QueryStreamTest, OneRequestsDeadlineIsNotTheStreams) {
  ASSERT_NO_FATAL_FAILURE(Start({"--keep_answers=never"}));
  ASSERT_NO_FATAL_FAILURE(UploadWideGraph());
  const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER);
  // Behind a pass over 200,000 nodes, a millisecond is too short.
  ASSERT_TRUE(stream->Send(EmbedWide(1)));
  v1::InferStreamRequest hurried = EmbedWide(2);
  hurried.set_timeout_ms(1);
  ASSERT_TRUE(stream->Send(hurried));
  ASSERT_TRUE(stream->Send(Classify(3, 0)));
  stream->CloseSending();
  const std::vector<v1::InferStreamResponse> answers = ReceiveAll(*stream);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_TRUE(answers[0].has_embed());
  EXPECT_TRUE(answers[1].has_error());
  EXPECT_TRUE(answers[2].has_classify());
}

TEST_F(QueryStreamTest, TheCallsDeadlineEndsTheStream) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER, "path", /*timeout=*/std::chrono::seconds(1));
  stream->Send(Classify(1, 0));  // answered, unless the machine is so busy that the deadline comes first
  for (v1::InferStreamResponse answer; stream->Receive(&answer);) continue;
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kDeadlineExceeded);
  // The client's end of the call may come before the deadline by the server's clock.
  EXPECT_TRUE(Eventually([&] { return Ended("DEADLINE_EXCEEDED") || Ended("CANCELLED"); }));
  ExpectServes();
}

TEST_F(QueryStreamTest, ACancelledStreamEndsWithItsWork) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(UploadWideGraph());
  const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_AS_COMPLETED);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(stream->Send(EmbedWide(i)));
  stream->Cancel();
  for (v1::InferStreamResponse answer; stream->Receive(&answer);) continue;
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
  AwaitEnd("CANCELLED");
  ExpectServes();
}

TEST_F(QueryStreamTest, AStreamWithoutARequestEndsWell) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER);
  stream->CloseSending();
  EXPECT_TRUE(ReceiveAll(*stream).empty());
  AwaitEnd("OK");
}

// Streams of one client that nobody reads: together they hold no more than its share, and others are served.
TEST_F(QueryStreamTest, AClientHasAShareOfStreams) {
  // An answer has 3.2 MB, encoded twice that: one stream may have two under way, and stops reading at half of the
  // share.
  ASSERT_NO_FATAL_FAILURE(
      Start({"--max_stream_bytes_per_client=24MiB", "--keep_answers=always", "--memory_budget_bytes=1GiB"}));
  ASSERT_NO_FATAL_FAILURE(UploadWideGraph());
  grpc::ChannelArguments arguments;  // the connection takes 64 KiB and no more, until somebody reads
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = v1::InferenceService::NewStub(
      grpc::CreateCustomChannel(server_->grpc_address(), grpc::InsecureChannelCredentials(), arguments));
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::InferStreamRequest, v1::InferStreamResponse>> calls;
  };
  constexpr int kStreams = 6, kEach = 3;
  std::vector<Stream> streams(kStreams);
  for (Stream& stream : streams) {
    stream.calls = stub->InferStream(&stream.context);
    for (int i = 0; i < kEach; ++i) ASSERT_TRUE(stream.calls->Write(EmbedWide(i)));
    ASSERT_TRUE(stream.calls->WritesDone());
  }
  // Each stream has read its first request: those that found no room were refused.
  EXPECT_TRUE(Eventually([&] { return MetricOf("vicinal_stream_refusals_total") >= kStreams - 2; }));
  const double held = MetricOf("vicinal_stream_bytes");
  EXPECT_GT(held, 9e6);
  EXPECT_LE(held, 24 << 20);
  ExpectServes();
  int answered = 0, refused = 0;
  for (Stream& stream : streams) {
    for (v1::InferStreamResponse answer; stream.calls->Read(&answer);) {
      if (answer.has_embed()) {
        ++answered;
        continue;
      }
      ++refused;
      ExpectError(client::ErrorOf(answer), absl::StatusCode::kResourceExhausted, "CLIENT_STREAMS_FULL");
    }
    EXPECT_TRUE(stream.calls->Finish().ok());
  }
  EXPECT_EQ(answered + refused, kStreams * kEach) << "each request has its answer or its error";
  EXPECT_GE(answered, 2) << "what found room";
  EXPECT_EQ(Requests("OK"), answered);
  EXPECT_EQ(Requests("RESOURCE_EXHAUSTED"), refused);
  EXPECT_TRUE(Eventually([&] { return MetricOf("vicinal_stream_bytes") == 0; }));
}

// Streams that have had an answer and say nothing more leave places for others.
TEST_F(QueryStreamTest, SilentStreamsOfOneClientKeepNobodyOut) {
  ASSERT_NO_FATAL_FAILURE(Start({"--max_open_calls=5"}));
  std::vector<std::unique_ptr<client::QueryStream>> silent;
  for (int i = 0; i < 2; ++i) {
    silent.push_back(client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER, "path"));
    EXPECT_TRUE(silent.back()->Send(Classify(i, i)));
    v1::InferStreamResponse answer;
    EXPECT_TRUE(silent.back()->Receive(&answer));
  }
  const auto third = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER, "path");
  third->Send(Classify(2, 2));
  v1::InferStreamResponse none;
  EXPECT_FALSE(third->Receive(&none));
  const absl::Status full = third->Finish();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(full.message(), ::testing::HasSubstr("has 2 streams of requests open"));
  EXPECT_TRUE(client_->Classify(TinyRequest()).ok());
  EXPECT_TRUE(client_->ListGraphs().ok());
  silent.front()->CloseSending();
  EXPECT_TRUE(silent.front()->Finish().ok());
  EXPECT_TRUE(Eventually([&] {
    const auto again = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER, "path");
    again->Send(Classify(3, 3));
    v1::InferStreamResponse answer;
    const bool answered = again->Receive(&answer);
    again->CloseSending();
    again->Finish().IgnoreError();
    return answered;
  }));
}

TEST_F(QueryStreamTest, AStreamThatNobodyReadsHoldsABoundedPartAndEnds) {
  ASSERT_NO_FATAL_FAILURE(Start({"--send_timeout=1s", "--keep_answers=always"}));
  ASSERT_NO_FATAL_FAILURE(UploadWideGraph());
  // The connection takes 64 KiB and no more, until somebody reads.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = v1::InferenceService::NewStub(
      grpc::CreateCustomChannel(server_->grpc_address(), grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  const auto stream = stub->InferStream(&context);
  for (int i = 0; i < 3; ++i) stream->Write(EmbedWide(i));  // the end may come before the last
  AwaitEnd("DEADLINE_EXCEEDED");
  v1::InferStreamResponse answer;
  int answers = 0;
  while (stream->Read(&answer)) ++answers;
  EXPECT_LT(answers, 3) << "what was under way";
  const grpc::Status end = stream->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(end.error_message().find("REPLY_NOT_READ: "), 0u) << end.error_message();
  ExpectServes();
}

TEST_F(QueryStreamTest, AStreamThatSaysNothingEnds) {
  ASSERT_NO_FATAL_FAILURE(
      StartServer({"--upload_ttl=1s"}));  // without uploads, which a busy machine may not end in time
  const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER);
  stream->Send(Classify(1, 0));  // its answer, that there is no such graph, may come too late
  for (v1::InferStreamResponse answer; stream->Receive(&answer);) EXPECT_TRUE(answer.has_error());
  ExpectError(stream->Finish(), absl::StatusCode::kDeadlineExceeded, "STREAM_SILENT");
}

TEST_F(QueryStreamTest, ADrainingServerAnswersWhatItHas) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER);
  ASSERT_TRUE(stream->Send(Classify(1, 0)));
  v1::InferStreamResponse answer;
  ASSERT_TRUE(stream->Receive(&answer));
  server_->Signal(SIGTERM);
  EXPECT_FALSE(stream->Receive(&answer));
  ExpectError(stream->Finish(), absl::StatusCode::kUnavailable, "DRAINING");
  EXPECT_EQ(server_->Wait(), 0);
  server_.reset();
}

}  // namespace
}  // namespace vicinal::testing
