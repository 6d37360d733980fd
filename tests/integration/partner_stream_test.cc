// SPDX-License-Identifier: Apache-2.0
// TopLinksStream over a real socket, against partners that are found by brute force: how streams end (whole, by a
// deadline, by their client, with the server), what each has sent by then, and what is refused before a stream begins.
// Features and weights are multiples of a quarter, so that all scores are exact in float32.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/fixture.h"
#include "tests/support/eventually.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::testing {
namespace {

class PartnerStreamTest : public IntegrationTest {
 protected:
  // An answer has 4.8 MB, of which a connection that nobody reads takes little.
  static constexpr int64_t kWideNodes = 50'000, kWideCandidates = 16, kWidePartners = 8;

  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::TopLinksResponse>> reader;
    int64_t rows = 0;  // that came
  };
  // Rows of an answer, one behind the other.
  struct Answer {
    std::vector<int64_t> partners;
    std::vector<float> scores;
    int64_t k = 0;
  };

  void Start(const std::vector<std::string>& flags = {}) {
    ASSERT_NO_FATAL_FAILURE(StartServer(flags));
    UploadTinyGraph();  // for ExpectServes
    UploadTinyModel();
    // The connection takes 64 KiB and no more, until somebody reads.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    stub_ = v1::InferenceService::NewStub(
        grpc::CreateCustomChannel(server_->grpc_address(), grpc::InsecureChannelCredentials(), arguments));
  }
  void TearDown() override {
    stub_.reset();  // a stopping server waits for its connections
    IntegrationTest::TearDown();
  }
  void StartWide(const std::vector<std::string>& flags = {}) {
    ASSERT_NO_FATAL_FAILURE(Start(flags));
    ASSERT_NO_FATAL_FAILURE(Upload("wide", kWideNodes));
  }
  // A graph without edges, with features that begin at `shift` of a sequence that repeats: many nodes have equal rows.
  void Upload(const std::string& name, int64_t nodes, int64_t shift = 0) {
    v1::UploadGraphSpec spec;
    spec.set_name(name);
    spec.set_node_count(nodes);
    spec.set_replace(shift != 0);
    std::vector<float> x;
    for (int64_t i = 0; i < nodes; ++i) {
      for (const float value : Features(i + shift)) x.push_back(value);
    }
    const OwnedTensor edges = Ints("edge_index", {2, 0}, {});
    const auto graph = client_->UploadGraph(spec, {edges.view(), Floats("x", {nodes, 3}, x).view()});
    ASSERT_TRUE(graph.ok()) << graph.status();
  }

  static float Quarter(int64_t i) { return static_cast<float>(i) * 0.25f; }
  static std::array<float, 3> Features(int64_t i) {
    const int64_t n = i % 500;
    return {Quarter(n % 11 - 5), Quarter(n / 11 % 7 - 3), Quarter(n / 77 - 3)};
  }
  // The tiny model's two layers on a node without neighbours, which is its own only one.
  static std::array<double, 2> Row(int64_t i) {
    const std::array<float, 3> x = Features(i);
    const auto weight = [](int64_t place) { return static_cast<double>(Quarter(place % 9 - 4)); };
    std::array<double, 4> hidden;
    for (int64_t h = 0; h < 4; ++h) {
      double sum = weight(h);
      for (int64_t c = 0; c < 3; ++c) sum += weight(3 * h + c) * x[c];
      hidden[h] = std::max(0.0, sum);
    }
    std::array<double, 2> row;
    for (int64_t o = 0; o < 2; ++o) {
      row[o] = weight(o);
      for (int64_t h = 0; h < 4; ++h) row[o] += weight(4 * o + h) * hidden[h];
    }
    return row;
  }
  // Every candidate is scored and all are sorted.
  static Answer BruteForce(int64_t nodes, int64_t candidates, int64_t k, int64_t shift = 0) {
    std::vector<std::array<double, 2>> rows;
    for (int64_t i = 0; i < std::max(nodes, candidates); ++i) rows.push_back(Row(i + shift));
    Answer answer;
    answer.k = k;
    for (int64_t i = 0; i < nodes; ++i) {
      std::vector<std::pair<double, int64_t>> ranked;  // minus the score, so that both ascend
      for (int64_t j = 0; j < candidates; ++j) {
        if (j != i) ranked.emplace_back(-(rows[i][0] * rows[j][0] + rows[i][1] * rows[j][1]), j);
      }
      std::sort(ranked.begin(), ranked.end());
      for (int64_t place = 0; place < k; ++place) {
        answer.partners.push_back(ranked[place].second);
        answer.scores.push_back(static_cast<float>(-ranked[place].first));
      }
    }
    return answer;
  }
  static Answer WideAnswer(int64_t shift = 0) { return BruteForce(kWideNodes, kWideCandidates, kWidePartners, shift); }

  static v1::TopLinksRequest RequestOf(const std::string& graph, int k) {
    v1::TopLinksRequest request;
    request.mutable_target()->set_graph(graph);
    request.mutable_target()->set_model("tiny");
    request.mutable_nodes()->set_all(true);
    request.set_k(k);
    return request;
  }
  static v1::TopLinksRequest WideRequest() {
    v1::TopLinksRequest request = RequestOf("wide", kWidePartners);
    for (int64_t i = 0; i < kWideCandidates; ++i) request.mutable_partners()->add_ids(i);
    return request;
  }

  using Deadline = std::chrono::system_clock::time_point;
  std::unique_ptr<Stream> Open(const v1::TopLinksRequest& request, Deadline deadline = Deadline::max()) {
    auto stream = std::make_unique<Stream>();
    stream->context.set_deadline(deadline);
    stream->reader = stub_->TopLinksStream(&stream->context, request);
    return stream;
  }
  template <class T>
  static bool Holds(const v1::Tensor& tensor, const std::vector<T>& expected, int64_t first, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    return first + count <= static_cast<int64_t>(expected.size()) && tensor.data().size() == bytes &&
           std::memcmp(tensor.data().data(), expected.data() + first, bytes) == 0;
  }
  // Whether a piece came. It begins where the one before ended and has the expected rows.
  static bool Read(Stream* stream, const Answer& expected) {
    v1::TopLinksResponse piece;
    if (!stream->reader->Read(&piece)) return false;
    EXPECT_EQ(piece.first_row(), stream->rows);
    EXPECT_EQ(piece.partners().shape_size(), 2);
    const int64_t rows = piece.partners().shape(0);
    EXPECT_EQ(piece.partners().shape(1), expected.k);
    const int64_t first = stream->rows * expected.k, count = rows * expected.k;
    EXPECT_TRUE(Holds(piece.partners(), expected.partners, first, count)) << "from row " << stream->rows;
    EXPECT_TRUE(Holds(piece.scores(), expected.scores, first, count)) << "from row " << stream->rows;
    stream->rows += rows;
    return true;
  }
  static grpc::Status ReadToEnd(Stream* stream, const Answer& expected) {
    while (Read(stream, expected)) continue;
    return stream->reader->Finish();
  }
  void ExpectWhole(const v1::TopLinksRequest& request, const Answer& expected) {
    const auto stream = Open(request);
    const grpc::Status end = ReadToEnd(stream.get(), expected);
    EXPECT_TRUE(end.ok()) << end.error_message();
    EXPECT_EQ(stream->rows * expected.k, static_cast<int64_t>(expected.partners.size()));
  }
  void ExpectRefused(const v1::TopLinksRequest& request, const std::string& piece) {
    int pieces = 0;
    const auto count = [&](const v1::TopLinksResponse&) {
      ++pieces;
      return absl::OkStatus();
    };
    ExpectError(client_->TopLinksStream(request, count), absl::StatusCode::kInvalidArgument, piece);
    EXPECT_EQ(pieces, 0);
  }
  double EndedWith(const std::string& code) {
    return std::max(0.0, MetricOf("vicinal_requests_total{code=\"" + code +
                                  "\",method=\"vicinal.v1.InferenceService/TopLinksStream\"}"));
  }
  // Memory of answers that are under way. A plan that waits for its next run holds less than a tenth of an answer.
  bool HoldsAnAnswer() { return MetricOf("vicinal_memory_bytes{kind=\"requests\"}") > 1e6; }
  void AwaitNoAnswerHeld() {
    EXPECT_TRUE(Eventually([&] { return !HoldsAnAnswer(); }));
  }

  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

// All nodes are candidates, and rows that are equal must rank by id. Each piece has whole rows.
TEST_F(PartnerStreamTest, PiecesJoinToThePartnersOfAllNodes) {
  constexpr int64_t kNodes = 700, kPartners = 5;
  ASSERT_NO_FATAL_FAILURE(Start({"--max_response_bytes=4096"}));
  ASSERT_NO_FATAL_FAILURE(Upload("all", kNodes));
  const Answer expected = BruteForce(kNodes, kNodes, kPartners);
  v1::TopLinksRequest request = RequestOf("all", kPartners);
  request.set_return_probabilities(true);
  std::vector<int64_t> sizes;
  std::vector<float> probabilities;
  const auto stream = Open(request);
  for (v1::TopLinksResponse piece; stream->reader->Read(&piece);) {
    EXPECT_EQ(piece.first_row(), stream->rows);
    sizes.push_back(piece.partners().shape(0));
    const int64_t first = stream->rows * kPartners, count = sizes.back() * kPartners;
    EXPECT_TRUE(Holds(piece.partners(), expected.partners, first, count)) << "from row " << stream->rows;
    EXPECT_TRUE(Holds(piece.scores(), expected.scores, first, count)) << "from row " << stream->rows;
    ASSERT_EQ(piece.probabilities().data().size(), static_cast<size_t>(count) * sizeof(float));
    probabilities.resize(static_cast<size_t>(first + count));
    std::memcpy(probabilities.data() + first, piece.probabilities().data().data(), piece.probabilities().data().size());
    stream->rows += sizes.back();
    EXPECT_EQ(piece.has_timing(), stream->rows == kNodes) << "in the last piece";
  }
  EXPECT_TRUE(stream->reader->Finish().ok());
  ASSERT_EQ(probabilities.size(), expected.scores.size());
  for (size_t i = 0; i < probabilities.size(); ++i) {
    ASSERT_NEAR(probabilities[i], 1 / (1 + std::exp(-static_cast<double>(expected.scores[i]))), 1e-6) << i;
  }
  // A row has five times 16 bytes, of which 51 fit.
  std::vector<int64_t> wanted(kNodes / 51, 51);
  wanted.push_back(kNodes % 51);
  EXPECT_EQ(sizes, wanted);
}

TEST_F(PartnerStreamTest, ADeadlineThatPassesAmidAStreamEndsIt) {
  ASSERT_NO_FATAL_FAILURE(StartWide());
  const Answer expected = WideAnswer();
  int64_t begun = 0, rows = 0;
  // A busy machine gets more time for the first piece.
  for (const int milliseconds : {300, 3'000, 30'000}) {
    const auto stream = Open(WideRequest(), std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds));
    ++begun;
    const bool came = Read(stream.get(), expected);
    // It reads on when the server has seen the end: the deadline's, or that of a client whose deadline has passed.
    const auto ended = [&] {
      return EndedWith("DEADLINE_EXCEEDED") + EndedWith("CANCELLED") + EndedWith("UNAVAILABLE");
    };
    EXPECT_TRUE(Eventually([&] { return ended() == static_cast<double>(begun); }));
    const grpc::Status end = ReadToEnd(stream.get(), expected);
    rows = stream->rows;
    if (!came) continue;
    EXPECT_EQ(end.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << end.error_message();
    break;
  }
  EXPECT_GT(rows, 0);
  EXPECT_LT(rows, kWideNodes);
  AwaitNoAnswerHeld();
  ExpectServes();
}

TEST_F(PartnerStreamTest, ACancelledStreamGivesBackMemoryAndShare) {
  // A stream takes 4.8 MB of its client's share of replies, and there is no room for two.
  ASSERT_NO_FATAL_FAILURE(StartWide({"--max_reply_bytes_per_client=8MiB"}));
  const Answer expected = WideAnswer();
  const auto cancelled = Open(WideRequest());
  ASSERT_TRUE(Read(cancelled.get(), expected));
  EXPECT_TRUE(HoldsAnAnswer());
  const auto refused = Open(WideRequest());
  const grpc::Status full = ReadToEnd(refused.get(), expected);
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(full.error_details().find("CLIENT_REPLIES_FULL"), std::string::npos) << full.error_message();
  EXPECT_EQ(refused->rows, 0);
  cancelled->context.TryCancel();
  EXPECT_EQ(ReadToEnd(cancelled.get(), expected).error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_LT(cancelled->rows, kWideNodes);
  EXPECT_TRUE(Eventually([&] { return EndedWith("CANCELLED") == 1; }));
  AwaitNoAnswerHeld();
  // The share comes back with the end of the call, which may be after the metrics know of it.
  EXPECT_TRUE(Eventually([&] {
    const auto again = Open(WideRequest());
    return ReadToEnd(again.get(), expected).ok() && again->rows == kWideNodes;
  }));
}

// Whenever the end comes, what came before is the beginning of the answer.
TEST_F(PartnerStreamTest, AnEndAtAnyMomentLeavesABeginning) {
  ASSERT_NO_FATAL_FAILURE(StartWide({"--max_response_bytes=65536"}));
  const Answer expected = WideAnswer();
  for (int i = 0; i < 30; ++i) {
    const auto stream = Open(WideRequest(), std::chrono::system_clock::now() + std::chrono::microseconds(i * 700));
    const grpc::Status end = ReadToEnd(stream.get(), expected);
    // Or the server saw, before it ran the request, that the deadline would pass first.
    const bool refused = end.error_code() == grpc::StatusCode::UNAVAILABLE &&
                         end.error_details().find("SERVER_OVERLOADED") != std::string::npos;
    EXPECT_TRUE(end.ok() || refused || end.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) << end.error_message();
    EXPECT_TRUE(!end.ok() || stream->rows == kWideNodes);
    EXPECT_TRUE(!refused || stream->rows == 0);
  }
  for (int i = 0; i < 30; ++i) {
    const auto stream = Open(WideRequest());
    for (int read = 0; read < i % 5; ++read) EXPECT_TRUE(Read(stream.get(), expected));
    std::thread canceller([&] { stream->context.TryCancel(); });
    const grpc::Status end = ReadToEnd(stream.get(), expected);
    canceller.join();
    EXPECT_TRUE(end.ok() || end.error_code() == grpc::StatusCode::CANCELLED) << end.error_message();
    EXPECT_TRUE(!end.ok() || stream->rows == kWideNodes);
  }
  AwaitNoAnswerHeld();
  ExpectWhole(WideRequest(), expected);
}

TEST_F(PartnerStreamTest, AClientThatRefusesAPieceEndsTheStream) {
  ASSERT_NO_FATAL_FAILURE(StartWide());
  int pieces = 0;
  const auto refuse_second = [&](const v1::TopLinksResponse&) {
    return ++pieces == 2 ? absl::DataLossError("the second piece is bad") : absl::OkStatus();
  };
  ExpectError(client_->TopLinksStream(WideRequest(), refuse_second, kWideNodes), absl::StatusCode::kDataLoss,
              "the second piece is bad");
  EXPECT_EQ(pieces, 2);
  // The server may have sent all of it by then.
  EXPECT_TRUE(Eventually([&] { return EndedWith("CANCELLED") + EndedWith("OK") == 1; }));
  AwaitNoAnswerHeld();
  ExpectServes();
}

TEST_F(PartnerStreamTest, AStreamGoesOnAboutTheVersionItBeganWith) {
  constexpr int64_t kShift = 37;
  ASSERT_NO_FATAL_FAILURE(StartWide());
  const Answer before = WideAnswer(), after = WideAnswer(kShift);
  ASSERT_NE(before.partners, after.partners);
  const auto replaced = Open(WideRequest());
  ASSERT_TRUE(Read(replaced.get(), before));
  ASSERT_NO_FATAL_FAILURE(Upload("wide", kWideNodes, kShift));
  const auto deleted = Open(WideRequest());
  ASSERT_TRUE(Read(deleted.get(), after));
  EXPECT_TRUE(client_->DeleteGraph("wide").ok());
  EXPECT_TRUE(ReadToEnd(replaced.get(), before).ok());
  EXPECT_EQ(replaced->rows, kWideNodes);
  EXPECT_TRUE(ReadToEnd(deleted.get(), after).ok());
  EXPECT_EQ(deleted->rows, kWideNodes);
  const auto none = Open(WideRequest());
  EXPECT_EQ(ReadToEnd(none.get(), after).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(PartnerStreamTest, AStoppingServerSendsTheRest) {
  ASSERT_NO_FATAL_FAILURE(StartWide({"--drain_timeout=300s"}));
  const Answer expected = WideAnswer();
  const auto stream = Open(WideRequest());
  ASSERT_TRUE(Read(stream.get(), expected));
  server_->Signal(SIGTERM);
  while (client_->GetGraph("wide").ok()) {
  }
  const auto late = Open(WideRequest());
  EXPECT_EQ(ReadToEnd(late.get(), expected).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(late->rows, 0);
  const grpc::Status end = ReadToEnd(stream.get(), expected);
  EXPECT_TRUE(end.ok()) << end.error_message();
  EXPECT_EQ(stream->rows, kWideNodes);
  EXPECT_EQ(server_->Wait(), 0);
  server_.reset();
}

// One bad id among many good ones, or no ids at all: no piece comes.
TEST_F(PartnerStreamTest, BadNodesBeginNoStream) {
  ASSERT_NO_FATAL_FAILURE(StartWide());
  v1::TopLinksRequest good = WideRequest();
  good.mutable_nodes()->clear_all();
  for (int64_t i = 0; i < 3'000; ++i) good.mutable_nodes()->add_ids(i);
  for (const int64_t bad : {kWideNodes, int64_t{-1}}) {
    v1::TopLinksRequest request = good;
    request.mutable_nodes()->set_ids(1'500, bad);
    ExpectRefused(request, "nodes.ids[1500]");
    request = good;
    request.mutable_partners()->set_ids(7, bad);
    ExpectRefused(request, "partners.ids[7]");
  }
  v1::TopLinksRequest empty = good;
  empty.mutable_nodes()->clear_ids();
  ExpectRefused(empty, "no nodes requested: set nodes.ids or nodes.all");
  empty.clear_nodes();
  ExpectRefused(empty, "no nodes requested: set nodes.ids or nodes.all");
  empty = good;
  empty.mutable_partners()->clear_ids();
  ExpectRefused(empty, "no partners requested: set partners.ids or partners.all");
  good.mutable_nodes()->set_all(true);
  ExpectRefused(good, "set nodes.ids or nodes.all, not both");
  EXPECT_EQ(EndedWith("INVALID_ARGUMENT"), 8);
  ExpectServes();
}

// The only candidate is the node itself.
TEST_F(PartnerStreamTest, NodesWithoutPartnersHaveRows) {
  ASSERT_NO_FATAL_FAILURE(Start({"--max_response_bytes=1024"}));
  ASSERT_NO_FATAL_FAILURE(Upload("alone", 1));
  v1::TopLinksRequest request = RequestOf("alone", 1);
  request.mutable_nodes()->clear_all();
  constexpr int64_t kTimes = 200;  // two pieces of 12 bytes a row, and a third
  for (int64_t i = 0; i < kTimes; ++i) request.mutable_nodes()->add_ids(0);
  ExpectWhole(request, {std::vector<int64_t>(kTimes, -1),
                        std::vector<float>(kTimes, -std::numeric_limits<float>::infinity()), 1});
  request.set_include_self(true);
  const std::array<double, 2> row = Row(0);
  const auto score = static_cast<float>(row[0] * row[0] + row[1] * row[1]);
  ExpectWhole(request, {std::vector<int64_t>(kTimes, 0), std::vector<float>(kTimes, score), 1});
}

TEST_F(PartnerStreamTest, LimitsHold) {
  // 64 partners fill a piece: 16 bytes each, with probabilities.
  ASSERT_NO_FATAL_FAILURE(Start({"--max_request_nodes=3", "--max_response_bytes=1024"}));
  constexpr int64_t kNodes = 100;
  ASSERT_NO_FATAL_FAILURE(Upload("small", kNodes));
  ExpectWhole(RequestOf("small", 64), BruteForce(kNodes, kNodes, 64));
  v1::TopLinksRequest request = RequestOf("small", 64);
  request.set_return_probabilities(true);
  const auto rows_apart = Open(request);
  for (v1::TopLinksResponse piece; rows_apart->reader->Read(&piece); ++rows_apart->rows) {
    EXPECT_EQ(piece.partners().shape(0), 1);
  }
  EXPECT_TRUE(rows_apart->reader->Finish().ok());
  EXPECT_EQ(rows_apart->rows, kNodes);
  request.set_k(65);
  ExpectRefused(request, "the partners of one node have 1040 bytes, over this server's limit of 1024 bytes");
  request.set_k(static_cast<int>(kNodes) + 1);
  ExpectRefused(request, "BAD_TOP_K");
  request.set_k(0);
  ExpectRefused(request, "k is 0; it must be at least 1");
  request.set_k(2);
  for (int64_t i = 0; i < 4; ++i) request.mutable_partners()->add_ids(i);
  ExpectRefused(request, "max_request_nodes");
  request.clear_partners();
  request.mutable_nodes()->clear_all();
  for (int64_t i = 0; i < 4; ++i) request.mutable_nodes()->add_ids(i);
  ExpectRefused(request, "max_request_nodes");
  ExpectServes();
}

}  // namespace
}  // namespace vicinal::testing
