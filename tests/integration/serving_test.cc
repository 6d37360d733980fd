// SPDX-License-Identifier: Apache-2.0
// What a well-behaved client gets: the same answer by every way of asking, features that come along, versions, watches,
// capabilities.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "tests/integration/fixture.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::testing {
namespace {

class ServingTest : public IntegrationTest {
 protected:
  void SetUp() override {
    StartServer();
    UploadTinyGraph();
    UploadTinyModel();
  }
  static v1::ClassifyRequest All() {
    auto request = TinyRequest();
    request.mutable_nodes()->clear_ids();
    request.mutable_nodes()->set_all(true);
    request.set_top_k(2);
    request.set_return_logits(true);
    request.set_return_probabilities(true);
    return request;
  }
};

TEST_F(ServingTest, EveryWayOfAskingGivesTheSameBits) {
  const auto whole = client_->Classify(All());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->served_by().graph(), "path");
  EXPECT_EQ(whole->served_by().model(), "tiny");
  EXPECT_EQ(whole->served_by().feature_set(), "default");
  EXPECT_GT(whole->served_by().numerics_revision(), 0);
  EXPECT_GT(whole->timing().total_seconds(), 0.0);
  EXPECT_EQ(whole->probabilities().shape(1), 2);
  auto some = All();
  some.mutable_nodes()->set_all(false);
  for (const int64_t id : {3, 0, 3}) some.mutable_nodes()->add_ids(id);
  const auto part = client_->Classify(some);
  ASSERT_TRUE(part.ok()) << part.status();
  const std::string& logits = whole->logits().data();
  EXPECT_EQ(part->logits().data(), logits.substr(24, 8) + logits.substr(0, 8) + logits.substr(24, 8));
  std::string streamed;
  ASSERT_TRUE(client_
                  ->ClassifyStream(All(),
                                   [&](const v1::ClassifyResponse& piece) {
                                     streamed += piece.logits().data();
                                     return absl::OkStatus();
                                   })
                  .ok());
  EXPECT_EQ(streamed, logits);
  v1::EmbedRequest embed;
  *embed.mutable_target() = All().target();
  embed.mutable_nodes()->set_all(true);
  embed.set_output("logits");
  EXPECT_EQ(client_->Embed(embed)->embeddings().data(), logits);
  embed.clear_output();
  const auto hidden = client_->Embed(embed);
  ASSERT_TRUE(hidden.ok());
  EXPECT_EQ(hidden->embeddings().shape(1), 4);
  std::string rows;
  ASSERT_TRUE(client_
                  ->EmbedStream(embed,
                                [&](const v1::EmbedResponse& piece) {
                                  rows += piece.embeddings().data();
                                  return absl::OkStatus();
                                })
                  .ok());
  EXPECT_EQ(rows, hidden->embeddings().data());
}

TEST_F(ServingTest, FeaturesMayComeAlong) {
  const auto stored = client_->Classify(All());
  ASSERT_TRUE(stored.ok());
  // The same values, dense and as CSR.
  std::vector<float> x(15);
  for (int i = 0; i < 15; ++i) x[i] = static_cast<float>(i % 9 - 4) * 0.25f;
  auto request = All();
  *request.mutable_features()->mutable_dense() = Floats("", {5, 3}, x).message();
  const auto sent = client_->Classify(request);
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_EQ(sent->logits().data(), stored->logits().data());
  EXPECT_EQ(sent->served_by().feature_set(), "");
  // One row replaced by itself changes nothing; by another it does.
  request.mutable_features()->mutable_dense()->Clear();
  *request.mutable_features()->mutable_dense() = Floats("", {1, 3}, {x[6], x[7], x[8]}).message();
  request.mutable_features()->add_rows(2);
  EXPECT_EQ(client_->Classify(request)->logits().data(), stored->logits().data());
  *request.mutable_features()->mutable_dense() = Floats("", {1, 3}, {9, 9, 9}).message();
  EXPECT_NE(client_->Classify(request)->logits().data(), stored->logits().data());
  EXPECT_EQ(client_->Classify(All())->logits().data(), stored->logits().data());
}

TEST_F(ServingTest, ExplainAndCapabilities) {
  v1::ExplainRequest request;
  *request.mutable_target() = TinyRequest().target();
  const auto explained = client_->Explain(request);
  ASSERT_TRUE(explained.ok()) << explained.status();
  ASSERT_GT(explained->steps_size(), 0);
  for (const v1::PlanStep& step : explained->steps()) EXPECT_FALSE(step.kernel().empty()) << step.operation();
  const auto capabilities = client_->GetCapabilities();
  ASSERT_TRUE(capabilities.ok());
  std::set<std::string> limits, operations;
  for (const v1::Limit& limit : capabilities->limits()) limits.insert(limit.name());
  for (const v1::KernelInfo& kernel : capabilities->kernels()) operations.insert(kernel.operation());
  EXPECT_TRUE(limits.count("max_chunk_bytes"));
  EXPECT_TRUE(limits.count("max_response_bytes"));
  EXPECT_TRUE(operations.count("aggregate"));
  EXPECT_GT(capabilities->layer_types_size(), 5);
  std::set<std::string> orders(capabilities->orders().begin(), capabilities->orders().end());
  orders.erase("metis");  // not in every build
  EXPECT_EQ(orders, (std::set<std::string>{"auto", "none", "degree", "rcm", "community"}));
  EXPECT_FALSE(capabilities->devices(0).description().empty());
}

TEST_F(ServingTest, AReplyThatNobodyReadsCountsAgainstTheBudget) {
  constexpr int64_t kNodes = 200'000, kWidth = 4;
  v1::UploadGraphSpec spec;
  spec.set_name("wide");
  spec.set_node_count(kNodes);
  const OwnedTensor edges = Ints("edge_index", {2, 0}, {});
  const OwnedTensor x = Floats("x", {kNodes, 3}, std::vector<float>(kNodes * 3, 0.5f));
  ASSERT_TRUE(client_->UploadGraph(spec, {edges.view(), x.view()}).ok());
  v1::EmbedRequest request;
  request.mutable_target()->set_graph("wide");
  request.mutable_target()->set_model("tiny");
  // A small answer makes the plan.
  request.mutable_nodes()->add_ids(0);
  request.mutable_execution()->set_receptive_field(v1::RECEPTIVE_FIELD_NEVER);
  ASSERT_TRUE(client_->Embed(request).ok());
  request.mutable_nodes()->clear_ids();
  request.mutable_nodes()->set_all(true);
  const std::string requests = "vicinal_memory_bytes{kind=\"requests\"}";
  const double before = MetricOf(requests);
  // The connection takes 64 KiB and no more, until somebody reads.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = v1::InferenceService::NewStub(
      grpc::CreateCustomChannel(server_->grpc_address(), grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  const auto reader = stub->EmbedStream(&context, request);
  v1::EmbedResponse piece;
  ASSERT_TRUE(reader->Read(&piece));
  EXPECT_EQ(MetricOf(requests), before + kNodes * kWidth * sizeof(float));
  context.TryCancel();
  reader->Finish();
  while (MetricOf(requests) != before) {
  }
}

TEST_F(ServingTest, ManyClientsAtOnceWhileTheModelChanges) {
  std::atomic<int> answered{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      const auto client = NewClient();
      while (!stop) {
        const auto reply = client->Classify(TinyRequest());
        EXPECT_TRUE(reply.ok()) << reply.status();
        ++answered;
      }
    });
  }
  v1::UploadModelSpec spec;
  spec.set_name("tiny");
  spec.set_architecture_json(TinyArchitecture());
  spec.set_replace(true);
  const OwnedTensor weights = Bytes("weights", TinyWeights());
  for (int i = 0; i < 10 || answered < 100; ++i) {
    spec.clear_upload_id();
    const auto replaced = client_->UploadModel(spec, {weights.view()});
    ASSERT_TRUE(replaced.ok()) << replaced.status();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(client_->Classify(TinyRequest())->served_by().model_version(), client_->GetModel("tiny")->version());
}

}  // namespace
}  // namespace vicinal::testing
