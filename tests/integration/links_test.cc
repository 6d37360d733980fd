// SPDX-License-Identifier: Apache-2.0
// Scores of links over a real socket: pairs, pieces of all edges, the best partners, a model's own decoder, refusals.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

template <class T>
std::vector<T> Values(const v1::Tensor& tensor) {
  std::vector<T> values(tensor.data().size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data().data(), tensor.data().size());
  return values;
}

class LinksServerTest : public IntegrationTest {
 protected:
  void SetUp() override {
    StartServer({"--tuning_budget=0s"});
    UploadTinyGraph();
    UploadTinyModel();
  }
  static v1::PredictLinksRequest Pairs(const std::string& model = "tiny") {
    v1::PredictLinksRequest request;
    request.mutable_target()->set_graph("path");
    request.mutable_target()->set_model(model);
    for (const int64_t id : {0, 4, 2}) request.mutable_pairs()->add_sources(id);
    for (const int64_t id : {1, 1, 2}) request.mutable_pairs()->add_targets(id);
    return request;
  }
  static v1::TopLinksRequest Top() {
    v1::TopLinksRequest request;
    request.mutable_target()->set_graph("path");
    request.mutable_target()->set_model("tiny");
    request.mutable_nodes()->add_ids(3);
    request.mutable_nodes()->add_ids(0);
    request.set_k(2);
    return request;
  }
  // The rows that are scored.
  std::vector<float> Rows() {
    v1::EmbedRequest request;
    request.mutable_target()->set_graph("path");
    request.mutable_target()->set_model("tiny");
    request.mutable_nodes()->set_all(true);
    request.set_output("logits");
    const auto reply = client_->Embed(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? Values<float>(reply->embeddings()) : std::vector<float>(10);
  }
};

TEST_F(LinksServerTest, PairsHaveTheirScores) {
  v1::PredictLinksRequest request = Pairs();
  request.set_return_probabilities(true);
  const auto reply = client_->PredictLinks(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->served_by().model(), "tiny");
  EXPECT_GT(reply->timing().total_seconds(), 0.0);
  EXPECT_FALSE(reply->has_links());
  const std::vector<float> rows = Rows(), scores = Values<float>(reply->scores()),
                           probabilities = Values<float>(reply->probabilities());
  ASSERT_EQ(scores.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const float* const u = rows.data() + 2 * request.pairs().sources(static_cast<int>(i));
    const float* const v = rows.data() + 2 * request.pairs().targets(static_cast<int>(i));
    const double expected = static_cast<double>(u[0]) * v[0] + static_cast<double>(u[1]) * v[1];
    EXPECT_NEAR(scores[i], expected, 1e-5);
    EXPECT_NEAR(probabilities[i], 1 / (1 + std::exp(-expected)), 1e-6);
  }
}

TEST_F(LinksServerTest, AllEdgesComeInOneMessageAndInPieces) {
  v1::PredictLinksRequest request = Pairs();
  request.clear_pairs();
  request.set_all_edges(true);
  const auto whole = client_->PredictLinks(request);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<int64_t> links = Values<int64_t>(whole->links());
  ASSERT_EQ(whole->links().shape(0), whole->scores().shape(0));
  std::string pieces, ends;
  ASSERT_TRUE(client_
                  ->PredictLinksStream(request,
                                       [&](const v1::PredictLinksResponse& piece) {
                                         pieces += piece.scores().data();
                                         ends += piece.links().data();
                                         return absl::OkStatus();
                                       })
                  .ok());
  EXPECT_EQ(pieces, whole->scores().data());
  EXPECT_EQ(ends, whole->links().data());
  request = Pairs();
  request.mutable_pairs()->Clear();
  for (size_t i = 0; i < links.size(); i += 2) {
    request.mutable_pairs()->add_sources(links[i]);
    request.mutable_pairs()->add_targets(links[i + 1]);
  }
  const auto pairs = client_->PredictLinks(request);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_EQ(pairs->scores().data(), whole->scores().data());
}

TEST_F(LinksServerTest, TheBestPartnersComeFirst) {
  const auto reply = client_->TopLinks(Top());
  ASSERT_TRUE(reply.ok()) << reply.status();
  const std::vector<float> rows = Rows(), scores = Values<float>(reply->scores());
  const std::vector<int64_t> partners = Values<int64_t>(reply->partners());
  ASSERT_EQ(partners.size(), 4u);
  for (size_t q = 0; q < 2; ++q) {
    const int64_t node = q == 0 ? 3 : 0;
    for (int64_t other = 0; other < 5; ++other) {
      if (other == node) continue;
      const float *u = rows.data() + 2 * node, *v = rows.data() + 2 * other;
      const double score = static_cast<double>(u[0]) * v[0] + static_cast<double>(u[1]) * v[1];
      const bool found = partners[2 * q] == other || partners[2 * q + 1] == other;
      if (found) continue;
      EXPECT_LE(score, scores[2 * q + 1] + 1e-5);
    }
    EXPECT_GE(scores[2 * q], scores[2 * q + 1]);
  }
  v1::TopLinksRequest few = Top();
  few.mutable_partners()->add_ids(3);
  few.mutable_partners()->add_ids(1);
  const auto named = client_->TopLinks(few);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(Values<int64_t>(named->partners())[0], 1);
  EXPECT_EQ(Values<int64_t>(named->partners())[1], -1);
  EXPECT_EQ(Values<float>(named->scores())[1], -std::numeric_limits<float>::infinity());
}

// Each piece has the rows of whole nodes, as many as max_response_bytes allows.
TEST_F(LinksServerTest, TheBestPartnersComeInPieces) {
  v1::TopLinksRequest request = Top();
  request.set_return_probabilities(true);
  for (int64_t i = 2; i < 71; ++i) request.mutable_nodes()->add_ids(i * i % 5);
  const auto whole = client_->TopLinks(request);
  ASSERT_TRUE(whole.ok()) << whole.status();
  TearDown();
  StartServer({"--max_response_bytes=1024", "--tuning_budget=0s"});
  UploadTinyGraph();
  UploadTinyModel();
  // 32 bytes a node: two ids, two scores, two probabilities.
  ExpectError(client_->TopLinks(request).status(), absl::StatusCode::kInvalidArgument, "use ClassifyStream");
  std::string partners, scores, probabilities;
  std::vector<int64_t> sizes;
  bool timed = false;
  const absl::Status status = client_->TopLinksStream(request, [&](const v1::TopLinksResponse& piece) {
    EXPECT_EQ(piece.first_row(), 32 * static_cast<int64_t>(sizes.size()));
    EXPECT_EQ(piece.served_by().graph(), "path");
    EXPECT_FALSE(timed);
    timed = piece.has_timing();
    sizes.push_back(piece.partners().shape(0));
    partners += piece.partners().data();
    scores += piece.scores().data();
    probabilities += piece.probabilities().data();
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(timed);
  EXPECT_EQ(sizes, (std::vector<int64_t>{32, 32, 7}));
  EXPECT_EQ(partners, whole->partners().data());
  EXPECT_EQ(scores, whole->scores().data());
  EXPECT_EQ(probabilities, whole->probabilities().data());
}

TEST_F(LinksServerTest, PiecesOfAllNodes) {
  v1::TopLinksRequest request = Top();
  request.mutable_nodes()->Clear();
  request.mutable_nodes()->set_all(true);
  const auto whole = client_->TopLinks(request);
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::string partners;
  const auto add = [&](const v1::TopLinksResponse& piece) {
    partners += piece.partners().data();
    return absl::OkStatus();
  };
  ASSERT_TRUE(client_->TopLinksStream(request, add, 5).ok());
  EXPECT_EQ(partners, whole->partners().data());
  ExpectError(client_->TopLinksStream(request, add, 4), absl::StatusCode::kInternal, "more than the 4 rows");
  const auto stop = [](const v1::TopLinksResponse&) { return absl::AbortedError("enough"); };
  ExpectError(client_->TopLinksStream(request, stop, 5), absl::StatusCode::kAborted, "enough");
  ExpectServes();
}

TEST_F(LinksServerTest, AModelBringsItsDecoder) {
  v1::UploadModelSpec spec;
  spec.set_name("linked");
  std::string document = TinyArchitecture();
  document.back() = ',';
  spec.set_architecture_json(document + R"("decoder": {"type": "distmult", "args": {"num_relations": 2}}})");
  const std::string weights = Safetensors(
      {Floats("conv1.lin.weight", {4, 3}, std::vector<float>(12, 0.25f)), Floats("conv1.bias", {4}, {1, 2, 3, 4}),
       Floats("conv2.lin.weight", {2, 4}, {1, -1, 2, 0.5f, 1, 1, -2, 1}), Floats("conv2.bias", {2}, {0.5f, -1}),
       Floats("decoder.weight", {2, 2}, {1, 1, 2, 2})});
  const auto model = client_->UploadModel(spec, {Bytes("weights", weights).view()});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->decoder().type(), "distmult");
  EXPECT_EQ(model->decoder().output(), "logits");
  EXPECT_EQ(model->decoder().relation_count(), 2);
  v1::PredictLinksRequest request = Pairs("linked");
  request.set_decoder(v1::LINK_DECODER_MODEL);
  for (const int32_t relation : {0, 1, 1}) request.mutable_pairs()->add_relations(relation);
  const auto own = client_->PredictLinks(request);
  ASSERT_TRUE(own.ok()) << own.status();
  request.mutable_pairs()->clear_relations();
  request.set_decoder(v1::LINK_DECODER_DOT);
  const auto dot = client_->PredictLinks(request);
  ASSERT_TRUE(dot.ok()) << dot.status();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_FLOAT_EQ(Values<float>(own->scores())[i], (i == 0 ? 1 : 2) * Values<float>(dot->scores())[i]);
  }
}

TEST_F(LinksServerTest, AStreamAnswersLinksBesideRows) {
  const auto stream = client_->OpenQueryStream(v1::ANSWER_ORDER_IN_ORDER, "path", std::chrono::seconds(20));
  v1::InferStreamRequest links, bad;
  links.set_request_id(1);
  *links.mutable_predict_links() = Pairs();
  bad.set_request_id(2);
  *bad.mutable_predict_links() = Pairs("nope");
  ASSERT_TRUE(stream->Send(links));
  ASSERT_TRUE(stream->Send(bad));
  stream->CloseSending();
  v1::InferStreamResponse answer;
  ASSERT_TRUE(stream->Receive(&answer));
  const auto alone = client_->PredictLinks(Pairs());
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(answer.predict_links().scores().data(), alone->scores().data());
  ASSERT_TRUE(stream->Receive(&answer));
  EXPECT_EQ(client::ErrorOf(answer).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(LinksServerTest, ExplainShowsTheScores) {
  v1::ExplainRequest request;
  *request.mutable_target() = Pairs().target();
  request.mutable_links()->set_decoder(v1::LINK_DECODER_COSINE);
  const auto plan = client_->Explain(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->links().decoder(), "cosine");
  EXPECT_EQ(plan->links().output(), "logits");
  EXPECT_EQ(plan->links().width(), 2);
  EXPECT_FALSE(plan->links().kernel().empty());
  EXPECT_GE(plan->whole_scratch_bytes(), plan->tiled_scratch_bytes());
  EXPECT_EQ(plan->scratch_bytes(), plan->whole_scratch_bytes());
  request.set_attention("conv1");
  ExpectError(client_->Explain(request).status(), absl::StatusCode::kInvalidArgument, "BAD_ATTENTION");
}

TEST_F(LinksServerTest, AttentionWeightsComeWhole) {
  v1::UploadModelSpec spec;
  spec.set_name("gat");
  spec.set_architecture_json(R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [
    {"name": "conv", "type": "GATConv", "args": {"in_channels": 3, "out_channels": 1, "heads": 2, "bias": false}}]})");
  const std::string weights =
      Safetensors({Floats("conv.lin.weight", {2, 3}, {0.5f, 0.25f, 0, 1, 0, -0.5f}),
                   Floats("conv.att_src", {1, 2, 1}, {0.75f, -1}), Floats("conv.att_dst", {1, 2, 1}, {0.5f, 2})});
  const auto model = client_->UploadModel(spec, {Bytes("weights", weights).view()});
  ASSERT_TRUE(model.ok()) << model.status();
  v1::EmbedRequest request;
  request.mutable_target()->set_graph("path");
  request.mutable_target()->set_model("gat");
  request.mutable_nodes()->set_all(true);
  request.set_attention("conv");
  const auto all = client_->Embed(request);
  ASSERT_TRUE(all.ok()) << all.status();
  const std::vector<int64_t> edges = Values<int64_t>(all->attention().edges());
  const std::vector<float> values = Values<float>(all->attention().weights());
  ASSERT_EQ(edges.size(), values.size()) << "two ends, two heads";
  std::vector<double> totals(10, 0.0);
  for (size_t i = 0; i < values.size(); ++i) totals[2 * static_cast<size_t>(edges[i | 1]) + i % 2] += values[i];
  for (const double total : totals) EXPECT_NEAR(total, 1.0, 1e-6);
  request.set_output("logits");
  ExpectError(client_->Embed(request).status(), absl::StatusCode::kInvalidArgument, "BAD_ATTENTION");
  request.clear_output();
  request.set_attention("pool");
  ExpectError(
      client_->Embed(request).status(), absl::StatusCode::kInvalidArgument,
      "the model has no layer 'pool', whose attention weights are asked for; the model's layers that have: 'conv'");
  ExpectServes();
}

TEST_F(LinksServerTest, BadRequestsAreRefused) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  v1::PredictLinksRequest request = Pairs();
  request.set_all_edges(true);
  ExpectError(client_->PredictLinks(request).status(), invalid, "BAD_LINKS");
  request = Pairs();
  request.clear_pairs();
  ExpectError(client_->PredictLinks(request).status(), invalid, "BAD_LINKS");
  request.mutable_pairs();  // without links
  ExpectError(client_->PredictLinks(request).status(), invalid, "pairs.sources is empty; name at least one source");
  request = Pairs();
  request.mutable_pairs()->set_sources(1, 5);
  ExpectError(client_->PredictLinks(request).status(), invalid, "pairs.sources[1]");
  request = Pairs();
  request.set_decoder(static_cast<v1::LinkDecoder>(99));
  ExpectError(client_->PredictLinks(request).status(), invalid, "BAD_DECODER");
  request.set_decoder(v1::LINK_DECODER_MODEL);
  ExpectError(client_->PredictLinks(request).status(), absl::StatusCode::kFailedPrecondition, "NO_DECODER");
  request = Pairs();
  request.mutable_target()->set_ids_digest("another");
  ExpectError(client_->PredictLinks(request).status(), absl::StatusCode::kFailedPrecondition, "IDS_DIGEST_MISMATCH");
  v1::TopLinksRequest top = Top();
  top.set_k(6);
  ExpectError(client_->TopLinks(top).status(), invalid, "BAD_TOP_K");
  top.set_k(0);
  ExpectError(client_->TopLinks(top).status(), invalid, "BAD_TOP_K");
  top = Top();
  top.mutable_partners();
  ExpectError(client_->TopLinks(top).status(), invalid, "BAD_NODES");
  top = Top();
  top.mutable_target()->set_model("nope");
  ExpectError(client_->TopLinks(top).status(), absl::StatusCode::kNotFound, "nope");
  const auto none = [](const v1::TopLinksResponse&) { return absl::OkStatus(); };
  ExpectError(client_->TopLinksStream(top, none), absl::StatusCode::kNotFound, "nope");
  top = Top();
  top.set_k(6);
  ExpectError(client_->TopLinksStream(top, none), invalid, "BAD_TOP_K");
  ExpectServes();
}

TEST_F(LinksServerTest, LimitsHold) {
  TearDown();
  StartServer({"--max_request_nodes=2", "--tuning_budget=0s"});
  UploadTinyGraph();
  UploadTinyModel();
  ExpectError(client_->PredictLinks(Pairs()).status(), absl::StatusCode::kInvalidArgument, "max_request_nodes");
  v1::TopLinksRequest top = Top();
  for (int i = 0; i < 3; ++i) top.mutable_partners()->add_ids(i);
  ExpectError(client_->TopLinks(top).status(), absl::StatusCode::kInvalidArgument, "max_request_nodes");
}

}  // namespace
}  // namespace vicinal::testing
