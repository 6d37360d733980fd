// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/inference_handler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <thread>

#include "engine/api/links.h"
#include "engine/base/error.h"
#include "engine/execute/awaited.h"
#include "tests/server/fake_engine.h"

namespace vicinal::server {
namespace {

using ::vicinal::testing::FakeEngine;

class InferenceHandlerTest : public ::testing::Test {
 protected:
  InferenceHandlerTest() : metrics_({}), workers_(2, 10), handler_(engine_, metrics_, workers_, limits_, &clock_) {
    limits_.default_deadline = std::chrono::seconds(0);  // the engine does not live in the time of `clock_`
    call_.method = Method::kClassify;
    request_.mutable_target()->set_graph("g");
    request_.mutable_target()->set_model("m");
    request_.mutable_nodes()->add_ids(7);
    request_.mutable_nodes()->add_ids(3);
  }
  Status Classify() {
    Status outcome = Internal("done was not called");
    handler_.Classify(call_, request_, &response_, [&](const Status& status) { outcome = status; });
    return outcome;
  }

  Limits limits_;
  FakeClock clock_;
  FakeEngine engine_;
  Metrics metrics_;
  Workers workers_;
  InferenceHandler handler_;
  Call call_;
  v1::ClassifyRequest request_;
  v1::ClassifyResponse response_;
};

TEST_F(InferenceHandlerTest, EncodesWhatWasAskedFor) {
  request_.set_top_k(2);
  request_.set_return_logits(true);
  ASSERT_TRUE(Classify().ok()) << Classify();
  int32_t classes[4];
  ASSERT_EQ(response_.classes().data().size(), sizeof(classes));
  std::memcpy(classes, response_.classes().data().data(), sizeof(classes));
  EXPECT_EQ(classes[0], 3);  // the fake's last column is the largest
  EXPECT_EQ(classes[1], 2);
  float logits[8];
  ASSERT_EQ(response_.logits().data().size(), sizeof(logits));
  std::memcpy(logits, response_.logits().data().data(), sizeof(logits));
  EXPECT_EQ(logits[0], 70.0f);
  EXPECT_EQ(logits[4], 30.0f);
  EXPECT_FALSE(response_.has_probabilities());
  EXPECT_EQ(response_.served_by().graph(), "g");
  EXPECT_EQ(call_.graph, "g");
  EXPECT_EQ(call_.model, "m");
}

TEST_F(InferenceHandlerTest, RefusesBeforeTheEngineIsAsked) {
  call_.routed_graph = "other";
  EXPECT_EQ(Classify().code(), StatusCode::kInvalidArgument);
  call_.routed_graph.clear();
  request_.set_top_k(FakeEngine::kClasses + 1);
  EXPECT_EQ(Classify().code(), StatusCode::kInvalidArgument);
  request_.set_top_k(1);
  limits_.max_response_bytes = 15;
  EXPECT_EQ(DetailOf(Classify())->metadata.at("limit"), "max_response_bytes");
  EXPECT_NE(Classify().message().find(" bytes, over this server's limit of 15 bytes"), std::string::npos) << Classify();
  EXPECT_NE(Classify().message().find("ClassifyStream"), std::string::npos) << Classify();
  limits_.max_request_nodes = 1;
  EXPECT_EQ(DetailOf(Classify())->metadata.at("limit"), "max_request_nodes");
  EXPECT_FALSE(engine_.last_request.has_value());
}

TEST_F(InferenceHandlerTest, ThePrincipalAndItsPriorityReachTheEngine) {
  call_.principal = "web";
  ASSERT_TRUE(Classify().ok());
  EXPECT_EQ(engine_.last_request->requester.principal, "web");
  EXPECT_EQ(engine_.last_request->requester.priority, Priority::kInteractive);
  request_.mutable_execution()->set_priority(v1::PRIORITY_BATCH);
  ASSERT_TRUE(Classify().ok());
  EXPECT_EQ(engine_.last_request->requester.priority, Priority::kBatch);
}

TEST_F(InferenceHandlerTest, InteractiveIsARightOfThePrincipal) {
  call_.interactive = false;
  ASSERT_TRUE(Classify().ok());
  EXPECT_EQ(engine_.last_request->requester.priority, Priority::kBatch) << "the best that it may have";
  request_.mutable_execution()->set_priority(v1::PRIORITY_INTERACTIVE);
  const Status refused = Classify();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(DetailOf(refused)->reason, "PRIORITY_NOT_ALLOWED");
  request_.mutable_execution()->set_priority(static_cast<v1::Priority>(9));
  EXPECT_EQ(Classify().code(), StatusCode::kInvalidArgument);
}

TEST_F(InferenceHandlerTest, ACallWithoutADeadlineGetsTheServers) {
  call_.begin = Clock::Real().Now();
  limits_.default_deadline = std::chrono::hours(7);
  ASSERT_TRUE(Classify().ok());
  EXPECT_EQ(engine_.last_request->limits.deadline, call_.begin + std::chrono::hours(7));
  EXPECT_TRUE(engine_.last_request->limits.default_deadline);
  EXPECT_FALSE(call_.limits.deadline.has_value()) << "sending a stream may take longer";
  call_.limits.deadline = call_.begin + std::chrono::hours(100);
  ASSERT_TRUE(Classify().ok());
  EXPECT_EQ(engine_.last_request->limits.deadline, call_.limits.deadline) << "its own is longer";
  call_.limits.deadline.reset();
  limits_.default_deadline = std::chrono::hours(0);
  ASSERT_TRUE(Classify().ok());
  EXPECT_FALSE(engine_.last_request->limits.deadline.has_value());
}

TEST(WorkLimitsTest, SaysWhoseTheDeadlineWas) {
  FakeClock clock;
  WorkLimits limits;
  limits.deadline = clock.Now();
  EXPECT_EQ(limits.Check(clock).message().find("--default_deadline"), std::string::npos);
  limits.default_deadline = true;
  EXPECT_NE(limits.Check(clock).message().find("--default_deadline"), std::string::npos);
}

// Memory that ends at the second look at the time, which is in the middle of encoding.
class ThrowingClock final : public Clock {
 public:
  MonotonicTime Now() const override {
    if (++looks_ == 2) throw std::bad_alloc();
    return MonotonicTime();
  }
  WallTime WallNow() const override { return WallTime(); }

 private:
  mutable int looks_ = 0;
};

TEST_F(InferenceHandlerTest, AnAnswerWithoutMemoryFails) {
  const ThrowingClock clock;
  InferenceHandler handler(engine_, metrics_, workers_, limits_, &clock);
  std::vector<Status> outcomes;
  handler.Classify(call_, request_, &response_, [&](const Status& status) { outcomes.push_back(status); });
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(outcomes[0])->reason, "OUT_OF_MEMORY");
}

TEST_F(InferenceHandlerTest, EngineRefusalsAndLimitsReachTheCaller) {
  engine_.refuse_submit = Unavailable("QUEUE_FULL", "full", std::chrono::milliseconds(20));
  EXPECT_EQ(Classify().code(), StatusCode::kUnavailable);
  engine_.refuse_submit = OkStatus();
  auto cancel = std::make_shared<CancelToken>();
  cancel->Cancel();
  call_.limits.cancel = cancel;
  EXPECT_EQ(Classify().code(), StatusCode::kCancelled);
}

// Of a period the first refusals are sent, and the others wait for its end; the clock stands still.
TEST_F(InferenceHandlerTest, RefusalsOfEveryKindOfCallAreHeld) {
  engine_.refuse_submit = Unavailable("QUEUE_FULL", "full", std::chrono::milliseconds(20));
  v1::EmbedRequest embed;
  *embed.mutable_target() = request_.target();
  *embed.mutable_nodes() = request_.nodes();
  v1::PredictLinksRequest links;
  *links.mutable_target() = request_.target();
  links.set_all_edges(true);
  v1::TopLinksRequest top;
  *top.mutable_target() = request_.target();
  *top.mutable_nodes() = request_.nodes();
  const auto stream = [&](int kind, InferenceHandler& handler, int* answers) {
    const auto count = [answers](const auto& outcome) {
      EXPECT_EQ(outcome.status().code(), StatusCode::kUnavailable);
      ++*answers;
    };
    if (kind == 0) handler.ClassifyStream(call_, request_, count);
    if (kind == 1) handler.EmbedStream(call_, embed, count);
    if (kind == 2) handler.PredictLinksStream(call_, links, count);
    if (kind == 3) handler.TopLinksStream(call_, top, count);
  };
  for (int kind = 0; kind < 4; ++kind) {
    int answers = 0;
    {
      InferenceHandler handler(engine_, metrics_, workers_, limits_, &clock_);
      for (int i = 0; i < HeldRefusals::kAtOnce + 5; ++i) stream(kind, handler, &answers);
      EXPECT_EQ(answers, HeldRefusals::kAtOnce) << kind;
    }
    EXPECT_EQ(answers, HeldRefusals::kAtOnce + 5) << kind;
  }
}

// Large replies wait for a worker; by then the client may have gone.
TEST_F(InferenceHandlerTest, AReplyThatNobodyWaitsForIsNotEncoded) {
  Awaited<bool> go_on;
  Workers workers(1, 10);
  workers.PostAdmitted([&] { go_on.Take(); });
  InferenceHandler handler(engine_, metrics_, workers, limits_, &clock_);
  for (int i = 0; i < 5000; ++i) request_.mutable_nodes()->add_ids(1);
  const auto cancel = std::make_shared<CancelToken>();
  call_.limits.cancel = cancel;
  Awaited<Status> outcome;
  handler.Classify(call_, request_, &response_, [&](const Status& status) { outcome.Set(status); });
  cancel->Cancel();
  go_on.Set(true);
  EXPECT_EQ(outcome.Take().code(), StatusCode::kCancelled);
  EXPECT_FALSE(response_.has_classes());
}

TEST_F(InferenceHandlerTest, ALargeReplyCountsAgainstTheBudget) {
  Awaited<Status> outcome;
  constexpr int64_t kRows = 100'000;
  limits_.max_response_bytes = 1 << 30;
  for (int i = 2; i < kRows; ++i) request_.mutable_nodes()->add_ids(1);
  request_.set_return_logits(true);
  request_.set_return_probabilities(true);
  handler_.Classify(call_, request_, &response_, [&](const Status& status) { outcome.Set(status); });
  EXPECT_TRUE(outcome.Take().ok());
  EXPECT_GE(engine_.budget.Snapshot().requests, kRows * (8 + 2 * 4 * FakeEngine::kClasses));
  EXPECT_EQ(call_.reply_memory.bytes(), engine_.budget.Snapshot().requests);
  EXPECT_EQ(response_.probabilities().data().size(), static_cast<size_t>(kRows * 4 * FakeEngine::kClasses));

  Awaited<Status> refused;
  call_.reply_memory.Release();
  const MemoryUse use = engine_.budget.Snapshot();
  const auto others = engine_.budget.Reserve(Account::kGraphs, use.budget - use.total(), "all that is left");
  handler_.Classify(call_, request_, &response_, [&](const Status& status) { refused.Set(status); });
  EXPECT_EQ(refused.Take().code(), StatusCode::kResourceExhausted);
}

TEST_F(InferenceHandlerTest, ExecutionIsHandedOnAndWhatWasComputedComesBack) {
  ASSERT_TRUE(Classify().ok());
  EXPECT_EQ(engine_.last_request->options.receptive_field, ReceptiveField::kAuto);
  EXPECT_EQ(engine_.last_request->options.precision, Storage::kFloat32);
  EXPECT_EQ(engine_.last_request->options.product_precision, ProductPrecision::kFloat32);
  EXPECT_FALSE(response_.timing().receptive_field());
  EXPECT_EQ(response_.timing().computed_node_count(), FakeEngine::kNodes);
  request_.mutable_execution()->set_receptive_field(v1::RECEPTIVE_FIELD_ALWAYS);
  request_.mutable_execution()->set_precision(v1::PRECISION_BFLOAT16);
  request_.mutable_execution()->set_product_precision(v1::PRODUCT_PRECISION_TF32);
  ASSERT_TRUE(Classify().ok());
  EXPECT_EQ(engine_.last_request->options.receptive_field, ReceptiveField::kAlways);
  EXPECT_EQ(engine_.last_request->options.precision, Storage::kBfloat16);
  EXPECT_EQ(engine_.last_request->options.product_precision, ProductPrecision::kTf32);
  EXPECT_TRUE(response_.timing().receptive_field());
  EXPECT_EQ(response_.timing().computed_node_count(), 2);
  EXPECT_NE(metrics_.Text().find("vicinal_computed_nodes_total{computed=\"receptive_field\"} 2"), std::string::npos);
  request_.mutable_execution()->set_receptive_field(static_cast<v1::ReceptiveField>(99));
  EXPECT_EQ(DetailOf(Classify())->field, "execution.receptive_field");
  request_.mutable_execution()->clear_receptive_field();
  request_.mutable_execution()->set_precision(static_cast<v1::Precision>(99));
  EXPECT_EQ(DetailOf(Classify())->field, "execution.precision");
  request_.mutable_execution()->clear_precision();
  request_.mutable_execution()->set_product_precision(static_cast<v1::ProductPrecision>(99));
  EXPECT_EQ(DetailOf(Classify())->field, "execution.product_precision");
}

TEST_F(InferenceHandlerTest, BatchesAnswerAsNodesDoAndHaveNoReceptiveField) {
  v1::ClassifyGraphsRequest request;
  request.set_model("m");
  const std::vector<int64_t> ptr = {0, 1, 1, 3};
  v1::Tensor* tensor = request.mutable_graphs()->mutable_ptr();
  tensor->set_dtype(v1::DATA_TYPE_INT64);
  tensor->add_shape(4);
  tensor->set_data(reinterpret_cast<const char*>(ptr.data()), ptr.size() * 8);
  request.mutable_graphs()->mutable_edge_index()->set_dtype(v1::DATA_TYPE_INT64);
  request.mutable_graphs()->mutable_features()->mutable_dense()->set_dtype(v1::DATA_TYPE_FLOAT32);
  request.mutable_execution()->set_precision(v1::PRECISION_FLOAT16);
  request.mutable_execution()->set_product_precision(v1::PRODUCT_PRECISION_BFLOAT16);
  v1::ClassifyGraphsResponse response;
  Status outcome;
  const auto classify = [&] {
    outcome = Internal("done was not called");
    handler_.ClassifyGraphs(call_, request, &response, [&](const Status& status) { outcome = status; });
    return outcome;
  };
  ASSERT_TRUE(classify().ok()) << outcome;
  EXPECT_EQ(response.classes().shape(0), 3);
  EXPECT_EQ(engine_.last_request->options.precision, Storage::kFloat16);
  EXPECT_EQ(engine_.last_request->options.product_precision, ProductPrecision::kBfloat16);
  limits_.max_response_bytes = 8;
  EXPECT_EQ(DetailOf(classify())->metadata.at("limit"), "max_response_bytes");
  request.mutable_execution()->set_receptive_field(v1::RECEPTIVE_FIELD_ALWAYS);
  EXPECT_EQ(DetailOf(classify())->field, "execution.receptive_field");
}

TEST_F(InferenceHandlerTest, LinksReachTheEngineAsTheyWereSent) {
  v1::PredictLinksRequest pairs;
  *pairs.mutable_target() = request_.target();
  pairs.mutable_pairs()->add_sources(7);
  pairs.mutable_pairs()->add_targets(3);
  pairs.mutable_pairs()->add_relations(2);
  pairs.set_decoder(v1::LINK_DECODER_MODEL);
  pairs.set_output("conv1");
  v1::PredictLinksResponse scores;
  handler_.PredictLinks(call_, pairs, &scores, [](const Status& status) { EXPECT_TRUE(status.ok()) << status; });
  const WantedLinks& of_pairs = *engine_.last_request->links;
  EXPECT_EQ(of_pairs.pairs->sources, (std::vector<int64_t>{7}));
  EXPECT_EQ(of_pairs.pairs->targets, (std::vector<int64_t>{3}));
  EXPECT_EQ(of_pairs.pairs->relations, (std::vector<int32_t>{2}));
  EXPECT_EQ(of_pairs.decoder, LinkDecoder::kModel);
  EXPECT_FALSE(of_pairs.partners.has_value());
  EXPECT_EQ(engine_.last_request->options.output, "conv1");
  v1::TopLinksRequest top;
  *top.mutable_target() = request_.target();
  top.mutable_nodes()->add_ids(5);
  top.mutable_partners()->add_ids(9);
  top.set_exclude_links(true);
  top.set_nodes_are_targets(true);
  top.set_decoder(v1::LINK_DECODER_COSINE);
  v1::TopLinksResponse partners;
  handler_.TopLinks(call_, top, &partners, [](const Status& status) { EXPECT_TRUE(status.ok()) << status; });
  const WantedPartners& wanted = *engine_.last_request->links->partners;
  EXPECT_EQ(wanted.nodes.ids, (std::vector<int64_t>{5}));
  EXPECT_EQ(wanted.partners.ids, (std::vector<int64_t>{9}));
  EXPECT_EQ(wanted.k, 0) << "the engine's default";
  EXPECT_TRUE(wanted.exclude_links && wanted.nodes_are_targets && !wanted.include_self);
  EXPECT_EQ(engine_.last_request->links->decoder, LinkDecoder::kCosine);
}

TEST_F(InferenceHandlerTest, AReplyOfLinksKeepsItsLimit) {
  v1::PredictLinksRequest edges;
  *edges.mutable_target() = request_.target();
  edges.set_all_edges(true);
  v1::PredictLinksResponse scores;
  handler_.PredictLinks(call_, edges, &scores, [](const Status&) {});
  limits_.max_response_bytes = 39;  // two edges of 20 bytes each
  const AnswerCheck check = engine_.last_request->check_answer;
  EXPECT_EQ(DetailOf(check({2, 1}))->metadata.at("limit"), "max_response_bytes");
  limits_.max_response_bytes = 40;
  EXPECT_TRUE(check({2, 1}).ok());
  edges.clear_all_edges();
  Status outcome;
  handler_.PredictLinks(call_, edges, &scores, [&](const Status& status) { outcome = status; });
  EXPECT_EQ(DetailOf(outcome)->reason, "BAD_LINKS");
}

TEST_F(InferenceHandlerTest, EdgesInPiecesCountWithTheirEnds) {
  limits_.max_reply_bytes_per_client = 8 << 20;
  InferenceHandler handler(engine_, metrics_, workers_, limits_, &clock_);
  v1::PredictLinksRequest edges;
  *edges.mutable_target() = request_.target();
  edges.set_all_edges(true);
  const auto check_of = [&](Call& call) {
    handler.PredictLinksStream(call, edges, [](const auto&) {});
    return engine_.last_request->check_answer;
  };
  Call another;
  another.method = Method::kPredictLinksStream;
  EXPECT_TRUE(check_of(call_)({300'000, 1}).ok());  // 20 bytes each
  EXPECT_EQ(DetailOf(check_of(another)({300'000, 1}))->reason, "CLIENT_REPLIES_FULL");
}

// A stream has any number of nodes, but never parts the partners of one.
TEST_F(InferenceHandlerTest, PartnersInPiecesCountWithTheirIds) {
  limits_.max_reply_bytes_per_client = 8 << 20;
  limits_.max_response_bytes = 1600;
  InferenceHandler handler(engine_, metrics_, workers_, limits_, &clock_);
  v1::TopLinksRequest top;
  *top.mutable_target() = request_.target();
  top.mutable_nodes()->set_all(true);
  top.set_return_probabilities(true);
  const auto check = [&](Call& call, const AnswerShape& answer) {
    call.method = Method::kTopLinksStream;
    handler.TopLinksStream(call, top, [](const auto&) {});
    return engine_.last_request->check_answer(answer);
  };
  Call another, wide;
  EXPECT_TRUE(check(call_, {6'000, 100}).ok());  // 12 bytes each, 16 in the reply
  const Status full = check(another, {2'000, 100});
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(DetailOf(full)->reason, "CLIENT_REPLIES_FULL");
  const Status refused = check(wide, {1, 101});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(DetailOf(refused)->metadata.at("limit"), "max_response_bytes");
  EXPECT_NE(refused.message().find("the partners of one node have 1616 bytes"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("ask for fewer partners (k)"), std::string::npos) << refused;
}

TEST_F(InferenceHandlerTest, AttentionComesInPlaceOfEmbeddings) {
  v1::EmbedRequest request;
  *request.mutable_target() = request_.target();
  request.mutable_nodes()->add_ids(7);
  request.mutable_nodes()->add_ids(3);
  request.set_attention("conv1");
  v1::EmbedResponse response;
  Status outcome = Internal("done was not called");
  const auto embed = [&] {
    response.Clear();
    handler_.Embed(call_, request, &response, [&](const Status& status) { outcome = status; });
    return outcome;
  };
  ASSERT_TRUE(embed().ok()) << outcome;
  EXPECT_EQ(engine_.last_request->links->attention->layer, "conv1");
  EXPECT_EQ(engine_.last_request->options.output, "") << "not Embed's default";
  EXPECT_FALSE(response.has_embeddings());
  const v1::Tensor& edges = response.attention().edges();
  const v1::Tensor& weights = response.attention().weights();
  EXPECT_EQ(edges.dtype(), v1::DATA_TYPE_INT64);
  EXPECT_EQ(std::vector<int64_t>(edges.shape().begin(), edges.shape().end()), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(std::vector<int64_t>(weights.shape().begin(), weights.shape().end()),
            (std::vector<int64_t>{2, FakeEngine::kClasses}));
  std::vector<int64_t> ends(4);
  std::memcpy(ends.data(), edges.data().data(), edges.data().size());
  EXPECT_EQ(ends, (std::vector<int64_t>{7, 7, 3, 3}));
  const AnswerCheck check = engine_.last_request->check_answer;
  limits_.max_response_bytes = 2 * (16 + 4 * 8) - 1;  // two edges of eight heads
  EXPECT_EQ(DetailOf(check({2, 8}))->metadata.at("limit"), "max_response_bytes");
  EXPECT_EQ(
      check({2, 8}).message(),
      "the attention weights of the nodes' 2 in-edges with 8 heads have 96 bytes, over this server's limit of 95 bytes "
      "for one message (--max_response_bytes); use EmbedStream, or ask for fewer nodes");
  limits_.max_response_bytes += 1;
  EXPECT_TRUE(check({2, 8}).ok());
  limits_.max_response_bytes = 1 << 20;
  request.clear_attention();
  ASSERT_TRUE(embed().ok()) << outcome;
  EXPECT_TRUE(response.has_embeddings() && !response.has_attention());
}

TEST_F(InferenceHandlerTest, AttentionInPiecesJoinsToTheWhole) {
  limits_.max_response_bytes = 100;  // three edges of 16 + 16 bytes
  v1::EmbedRequest request;
  *request.mutable_target() = request_.target();
  request.mutable_nodes()->set_all(true);
  request.set_attention("conv1");
  std::unique_ptr<Pieces<v1::EmbedResponse>> pieces;
  handler_.EmbedStream(call_, request, [&](auto made) { pieces = *std::move(made); });
  ASSERT_NE(pieces, nullptr);
  std::string weights, edges;
  for (bool last = false; !last;) {
    v1::EmbedResponse piece;
    last = *pieces->Next(&piece);
    EXPECT_EQ(piece.first_row() * 16, static_cast<int64_t>(weights.size()));
    EXPECT_LE(piece.attention().edges().shape(0), 3);
    weights += piece.attention().weights().data();
    edges += piece.attention().edges().data();
  }
  EXPECT_EQ(edges.size(), static_cast<size_t>(FakeEngine::kNodes * 16));
  EXPECT_EQ(weights.size(), static_cast<size_t>(FakeEngine::kNodes * FakeEngine::kClasses * 4));
}

TEST_F(InferenceHandlerTest, AStreamTakesLinks) {
  v1::InferStreamRequest request;
  v1::PredictLinksRequest* const links = request.mutable_predict_links();
  *links->mutable_target() = request_.target();
  links->mutable_pairs()->add_sources(7);
  links->mutable_pairs()->add_targets(3);
  v1::InferStreamResponse response;
  Status outcome = Internal("done was not called");
  handler_.Infer(call_, request, &response, [&](const Status& status) { outcome = status; });
  ASSERT_TRUE(outcome.ok()) << outcome;
  EXPECT_TRUE(response.has_predict_links());
  EXPECT_EQ(engine_.last_request->links->pairs->sources, (std::vector<int64_t>{7}));
}

TEST_F(InferenceHandlerTest, PiecesJoinToTheWhole) {
  limits_.max_response_bytes = 100;  // 6 rows of 16 bytes
  v1::EmbedRequest request;
  *request.mutable_target() = request_.target();
  request.mutable_nodes()->set_all(true);
  request.set_output("logits");
  std::unique_ptr<Pieces<v1::EmbedResponse>> pieces;
  handler_.EmbedStream(call_, request, [&](auto made) { pieces = *std::move(made); });
  ASSERT_NE(pieces, nullptr);
  std::string bytes;
  bool last = false;
  int count = 0;
  while (!last) {
    v1::EmbedResponse piece;
    last = *pieces->Next(&piece);
    EXPECT_EQ(piece.first_row() * 16, static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(piece.has_timing(), last);
    bytes += piece.embeddings().data();
    ++count;
    clock_.Advance(std::chrono::milliseconds(250));  // the piece leaves
  }
  EXPECT_EQ(bytes.size(), static_cast<size_t>(FakeEngine::kNodes * FakeEngine::kClasses * 4));
  EXPECT_EQ(count, 17);
  for (const char* line : {"vicinal_phase_duration_seconds_count{phase=\"encode\"} 1\n",
                           "vicinal_phase_duration_seconds_sum{phase=\"send\"} 4\n"}) {  // sixteen waits for the next
    EXPECT_NE(metrics_.Text().find(line), std::string::npos) << line;
  }
}

TEST_F(InferenceHandlerTest, StressManyCallers) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 200; ++i) {
        Call call;
        call.method = Method::kClassify;
        v1::ClassifyRequest request = request_;
        request.mutable_nodes()->clear_ids();
        // Some large enough to be encoded by the workers.
        for (int n = 0; n < (i % 50 == 0 ? 5000 : 3); ++n) request.mutable_nodes()->add_ids((t + n) % 100);
        v1::ClassifyResponse response;
        std::atomic<bool> done{false};
        handler_.Classify(call, request, &response, [&](const Status& status) {
          EXPECT_TRUE(status.ok()) << status;
          done = true;
        });
        while (!done) std::this_thread::yield();
        EXPECT_EQ(response.classes().shape(0), request.nodes().ids_size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vicinal::server
