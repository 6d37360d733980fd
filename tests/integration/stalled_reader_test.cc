// SPDX-License-Identifier: Apache-2.0
// Clients that ask for much and do not read: how much they may hold, and for how long.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/integration/fixture.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::testing {
namespace {

// 8 MB of embeddings.
constexpr int64_t kNodes = 500'000;

class StalledReaderTest : public IntegrationTest {
 protected:
  template <class Response>
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<Response>> reader;
  };

  void Start(const std::vector<std::string>& flags) {
    ASSERT_NO_FATAL_FAILURE(StartServer(flags));
    UploadTinyModel();
    v1::UploadGraphSpec spec;
    spec.set_name("wide");
    spec.set_node_count(kNodes);
    const OwnedTensor edges = Ints("edge_index", {2, 0}, {});
    const OwnedTensor x = Floats("x", {kNodes, 3}, std::vector<float>(kNodes * 3, 0.5f));
    ASSERT_TRUE(client_->UploadGraph(spec, {edges.view(), x.view()}).ok());
    // The connection takes 64 KiB and no more, until somebody reads.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    stub_ = v1::InferenceService::NewStub(
        grpc::CreateCustomChannel(server_->grpc_address(), grpc::InsecureChannelCredentials(), arguments));
  }
  std::unique_ptr<Stream<v1::EmbedResponse>> Ask() {
    v1::EmbedRequest request;
    request.mutable_target()->set_graph("wide");
    request.mutable_target()->set_model("tiny");
    request.mutable_nodes()->set_all(true);
    auto stream = std::make_unique<Stream<v1::EmbedResponse>>();
    stream->reader = stub_->EmbedStream(&stream->context, request);
    return stream;
  }
  // 6 MB: the better of two partners of each node.
  std::unique_ptr<Stream<v1::TopLinksResponse>> AskForPartners() {
    v1::TopLinksRequest request;
    request.mutable_target()->set_graph("wide");
    request.mutable_target()->set_model("tiny");
    request.mutable_nodes()->set_all(true);
    request.mutable_partners()->add_ids(0);
    request.mutable_partners()->add_ids(1);
    request.set_k(1);
    auto stream = std::make_unique<Stream<v1::TopLinksResponse>>();
    stream->reader = stub_->TopLinksStream(&stream->context, request);
    return stream;
  }
  static int64_t RowsOf(const v1::EmbedResponse& piece) { return piece.embeddings().shape(0); }
  static int64_t RowsOf(const v1::TopLinksResponse& piece) { return piece.partners().shape(0); }
  // Rows until the stream ends.
  template <class Response>
  static int64_t ReadAll(Stream<Response>* stream) {
    Response piece;
    int64_t rows = 0;
    while (stream->reader->Read(&piece)) rows += RowsOf(piece);
    return rows;
  }
  void AwaitEnded(const std::string& method) {
    const std::string ended =
        "vicinal_requests_total{code=\"DEADLINE_EXCEEDED\",method=\"vicinal.v1.InferenceService/" + method + "\"} 1";
    for (std::string page; page.find(ended) == std::string::npos;) {
      const auto scraped = server_->Scrape();
      ASSERT_TRUE(scraped.ok()) << scraped.status();
      page = *scraped;
    }
  }

  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

TEST_F(StalledReaderTest, AStreamThatNobodyReadsEnds) {
  ASSERT_NO_FATAL_FAILURE(Start({"--send_timeout=1s"}));
  const auto stream = Ask();
  v1::EmbedResponse piece;
  ASSERT_TRUE(stream->reader->Read(&piece));
  // From now on it does not read.
  ASSERT_NO_FATAL_FAILURE(AwaitEnded("EmbedStream"));
  EXPECT_LT(ReadAll(stream.get()), kNodes) << "what was under way";
  const grpc::Status end = stream->reader->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(end.error_message().find("REPLY_NOT_READ: "), 0u) << end.error_message();
  const auto read = Ask();
  EXPECT_EQ(ReadAll(read.get()), kNodes) << "one that is read does not end";
  EXPECT_TRUE(read->reader->Finish().ok());
}

TEST_F(StalledReaderTest, AStreamOfPartnersThatNobodyReadsEnds) {
  ASSERT_NO_FATAL_FAILURE(Start({"--send_timeout=1s"}));
  const auto stream = AskForPartners();
  v1::TopLinksResponse piece;
  ASSERT_TRUE(stream->reader->Read(&piece));
  ASSERT_NO_FATAL_FAILURE(AwaitEnded("TopLinksStream"));
  EXPECT_LT(ReadAll(stream.get()), kNodes);
  const grpc::Status end = stream->reader->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(end.error_message().find("REPLY_NOT_READ: "), 0u) << end.error_message();
  const auto read = AskForPartners();
  EXPECT_EQ(ReadAll(read.get()), kNodes);
  EXPECT_TRUE(read->reader->Finish().ok());
}

// The ids of partners count: 6 MB, which with 8 MB of embeddings exceed the share.
TEST_F(StalledReaderTest, AStreamOfPartnersTakesItsShareOfReplies) {
  ASSERT_NO_FATAL_FAILURE(Start({"--max_reply_bytes_per_client=12MiB"}));
  const auto first = Ask();
  v1::EmbedResponse piece;
  ASSERT_TRUE(first->reader->Read(&piece));
  const auto second = AskForPartners();
  EXPECT_EQ(ReadAll(second.get()), 0);
  const grpc::Status refused = second->reader->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_details().find("CLIENT_REPLIES_FULL"), std::string::npos) << refused.error_message();
  EXPECT_EQ(ReadAll(first.get()) + RowsOf(piece), kNodes);
  EXPECT_TRUE(first->reader->Finish().ok());
}

TEST_F(StalledReaderTest, AClientHasAShareOfReplies) {
  ASSERT_NO_FATAL_FAILURE(Start({"--max_reply_bytes_per_client=12MiB"}));
  const auto first = Ask();
  v1::EmbedResponse piece;
  ASSERT_TRUE(first->reader->Read(&piece));
  const auto second = Ask();
  EXPECT_EQ(ReadAll(second.get()), 0);
  const grpc::Status refused = second->reader->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_details().find("CLIENT_REPLIES_FULL"), std::string::npos) << refused.error_message();
  EXPECT_EQ(ReadAll(first.get()) + piece.embeddings().shape(0), kNodes);
  EXPECT_TRUE(first->reader->Finish().ok());
  // The share is given back when the call has ended on the server, which may be after its client has heard of it.
  for (bool answered = false; !answered;) {
    const auto third = Ask();
    const int64_t rows = ReadAll(third.get());
    const grpc::Status status = third->reader->Finish();
    ASSERT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    answered = status.ok();
    EXPECT_EQ(rows, answered ? kNodes : 0);
  }
}

}  // namespace
}  // namespace vicinal::testing
