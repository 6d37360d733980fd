// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/open_inference_handler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "tests/server/fake_engine.h"

namespace vicinal::server {
namespace {

using ::vicinal::testing::FakeEngine;

// An engine whose models predict numbers: refuses whoever wants classes.
class RegressionEngine final : public FakeEngine {
 public:
  Status Submit(InferenceRequest request, InferenceCallback done) override {
    if (regression && request.check_answer) {
      AnswerShape shape{static_cast<int64_t>(request.nodes.ids.size()), kClasses};
      shape.regression = true;
      VICINAL_RETURN_IF_ERROR(request.check_answer(shape));
    }
    return FakeEngine::Submit(std::move(request), std::move(done));
  }
  bool regression = false;
};

class OpenInferenceHandlerTest : public ::testing::Test {
 protected:
  OpenInferenceHandlerTest()
      : metrics_({}),
        workers_(2, 10),
        inference_(engine_, metrics_, workers_, limits_, nullptr),
        handler_(
            engine_, inference_, limits_, [this] { return ready_; }, nullptr) {
    call_.method = Method::kModelInfer;
    call_.begin = Clock::Real().Now();
    limits_.default_deadline = std::chrono::seconds(0);
    request_.set_model_name("g/m");
    request_.set_id("one");
    auto* const nodes = request_.add_inputs();
    nodes->set_name("nodes");
    nodes->set_datatype("INT64");
    nodes->add_shape(2);
    for (const int64_t id : {7, 3}) nodes->mutable_contents()->add_int64_contents(id);
  }
  Status Infer() {
    std::promise<Status> outcome;  // large results come on a worker
    response_.Clear();
    handler_.ModelInfer(call_, request_, &response_, [&](const Status& status) { outcome.set_value(status); });
    return outcome.get_future().get();
  }
  void Want(std::initializer_list<const char*> outputs) {
    request_.clear_outputs();
    for (const char* output : outputs) request_.add_outputs()->set_name(output);
  }

  Limits limits_;
  RegressionEngine engine_;
  Metrics metrics_;
  Workers workers_;
  InferenceHandler inference_;
  bool ready_ = true;
  OpenInferenceHandler handler_;
  Call call_;
  inference::ModelInferRequest request_;
  inference::ModelInferResponse response_;
};

TEST_F(OpenInferenceHandlerTest, RawOutputsInTheOrderAskedFor) {
  Want({"logits", "classes"});
  ASSERT_TRUE(Infer().ok()) << Infer();
  EXPECT_EQ(response_.model_name(), "g/m");
  EXPECT_EQ(response_.id(), "one");
  ASSERT_EQ(response_.outputs_size(), 2);
  ASSERT_EQ(response_.raw_output_contents_size(), 2);
  EXPECT_EQ(response_.outputs(0).name(), "logits");
  EXPECT_EQ(response_.outputs(0).datatype(), "FP32");
  EXPECT_EQ(response_.outputs(0).shape(0), 2);
  EXPECT_EQ(response_.outputs(0).shape(1), FakeEngine::kClasses);
  EXPECT_FALSE(response_.outputs(0).has_contents());
  float logits[8];
  ASSERT_EQ(response_.raw_output_contents(0).size(), sizeof(logits));
  std::memcpy(logits, response_.raw_output_contents(0).data(), sizeof(logits));
  EXPECT_EQ(logits[0], 70.0f);
  EXPECT_EQ(logits[4], 30.0f);
  EXPECT_EQ(response_.outputs(1).datatype(), "INT32");
  int32_t classes[2];
  ASSERT_EQ(response_.raw_output_contents(1).size(), sizeof(classes));
  std::memcpy(classes, response_.raw_output_contents(1).data(), sizeof(classes));
  EXPECT_EQ(classes[0], 3);
  EXPECT_EQ(call_.graph, "g") << "labels of metrics";
  EXPECT_EQ(call_.model, "m");
}

TEST_F(OpenInferenceHandlerTest, TypedOutputsWhereAskedFor) {
  (*request_.mutable_parameters())["binary_data_output"].set_bool_param(false);
  ASSERT_TRUE(Infer().ok()) << Infer();
  EXPECT_EQ(response_.raw_output_contents_size(), 0);
  ASSERT_EQ(response_.outputs_size(), 2);
  ASSERT_EQ(response_.outputs(0).contents().int_contents_size(), 2);
  EXPECT_EQ(response_.outputs(0).contents().int_contents(0), 3);
  EXPECT_EQ(response_.outputs(1).contents().fp32_contents_size(), 2);
}

TEST_F(OpenInferenceHandlerTest, TheOnlyReplyIsTheFinalOneWhereAsked) {
  ASSERT_TRUE(Infer().ok()) << Infer();
  EXPECT_FALSE(response_.parameters().contains("triton_final_response"));
  (*request_.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  ASSERT_TRUE(Infer().ok()) << Infer();
  EXPECT_TRUE(response_.parameters().at("triton_final_response").bool_param());
}

TEST_F(OpenInferenceHandlerTest, EmbeddingsAreThePlansNamedOutputs) {
  Want({"embeddings"});
  ASSERT_TRUE(Infer().ok()) << Infer();
  EXPECT_EQ(engine_.last_request->options.output, "last_conv_input");
  EXPECT_EQ(response_.outputs(0).shape(1), 16);
}

TEST_F(OpenInferenceHandlerTest, ARegressionAnswersItsLogits) {
  engine_.regression = true;
  ASSERT_TRUE(Infer().ok()) << Infer();
  ASSERT_EQ(response_.outputs_size(), 1);
  EXPECT_EQ(response_.outputs(0).name(), "logits");
  EXPECT_EQ(engine_.last_request->nodes.ids, (std::vector<int64_t>{7, 3}));
  Want({"logits"});
  EXPECT_TRUE(Infer().ok());
  Want({"classes"});
  EXPECT_EQ(DetailOf(Infer())->reason, "REGRESSION_MODEL");
}

TEST_F(OpenInferenceHandlerTest, TheSameLimitsAndPrincipals) {
  call_.principal = "web";
  (*request_.mutable_parameters())["priority"].set_uint64_param(2);
  ASSERT_TRUE(Infer().ok());
  EXPECT_EQ(engine_.last_request->requester.principal, "web");
  EXPECT_EQ(engine_.last_request->requester.priority, Priority::kBatch);
  call_.routed_graph = "other";
  EXPECT_EQ(DetailOf(Infer())->reason, "ROUTED_ELSEWHERE");
  call_.routed_graph.clear();
  limits_.max_response_bytes = 15;
  EXPECT_EQ(DetailOf(Infer())->metadata.at("limit"), "max_response_bytes");
  limits_.max_request_nodes = 1;
  EXPECT_EQ(DetailOf(Infer())->metadata.at("limit"), "max_request_nodes");
}

TEST_F(OpenInferenceHandlerTest, ATimeoutShortensTheDeadlineOnly) {
  (*request_.mutable_parameters())["timeout"].set_int64_param(3'600'000'000);
  ASSERT_TRUE(Infer().ok());
  EXPECT_EQ(call_.limits.deadline, call_.begin + std::chrono::hours(1));
  (*request_.mutable_parameters())["timeout"].set_int64_param(7'200'000'000);
  ASSERT_TRUE(Infer().ok());
  EXPECT_EQ(call_.limits.deadline, call_.begin + std::chrono::hours(1)) << "its own comes first";
  call_.limits.deadline.reset();
  (*request_.mutable_parameters())["timeout"].set_int64_param(std::numeric_limits<int64_t>::max());
  ASSERT_TRUE(Infer().ok());
  EXPECT_FALSE(call_.limits.deadline.has_value());
}

TEST_F(OpenInferenceHandlerTest, TensorsAreReservedWhileTheRequestWaits) {
  auto* const nodes = request_.mutable_inputs(0);
  nodes->clear_contents();
  nodes->set_shape(0, 100'000);
  request_.add_raw_input_contents(std::string(800'000, '\0'));
  StatusOr<Reservation> rest = engine_.budget.Reserve(Account::kGraphs, (int64_t{1} << 30) - 500'000, "the rest");
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(Infer().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(engine_.budget.Snapshot().requests, 0);
  rest->Release();
  EXPECT_TRUE(Infer().ok());
}

TEST_F(OpenInferenceHandlerTest, StatisticsCountAnswersAndFailures) {
  ASSERT_TRUE(Infer().ok());
  Want({"nothing"});
  EXPECT_FALSE(Infer().ok());
  request_.set_model_name("g/unknown");
  EXPECT_FALSE(Infer().ok());
  inference::ModelStatisticsRequest ask;
  inference::ModelStatisticsResponse told;
  ASSERT_TRUE(handler_.ModelStatistics(call_, ask, &told).ok());
  ASSERT_EQ(told.model_stats_size(), 1) << "names that do not exist are not kept";
  EXPECT_EQ(told.model_stats(0).name(), "g/m");
  EXPECT_EQ(told.model_stats(0).inference_stats().success().count(), 1u);
  EXPECT_EQ(told.model_stats(0).inference_stats().fail().count(), 1u);
  ask.set_name("g/unknown");
  told.Clear();
  EXPECT_EQ(handler_.ModelStatistics(call_, ask, &told).code(), StatusCode::kNotFound);
}

TEST_F(OpenInferenceHandlerTest, NamesVersionsAndKinds) {
  inference::ModelMetadataRequest ask;
  inference::ModelMetadataResponse told;
  ask.set_name("g/m");
  ASSERT_TRUE(handler_.ModelMetadata(call_, ask, &told).ok());
  EXPECT_EQ(told.versions(0), "1");
  ask.set_version("1");
  EXPECT_TRUE(handler_.ModelMetadata(call_, ask, &told).ok());
  ask.set_version("2");
  EXPECT_EQ(DetailOf(handler_.ModelMetadata(call_, ask, &told))->reason, "VERSION_NOT_FOUND");
  ask.set_version("x");
  EXPECT_EQ(DetailOf(handler_.ModelMetadata(call_, ask, &told))->reason, "BAD_VERSION");
  ask.clear_version();
  for (const auto& [name, reason] : std::map<std::string, std::string>{{"m", "NODE_MODEL"},
                                                                       {"unknown", "NOT_FOUND"},
                                                                       {"g/unknown", "NOT_FOUND"},
                                                                       {"h/m", "NOT_FOUND"},
                                                                       {"", "BAD_NAME"},
                                                                       {"g/m/1", "BAD_NAME"}}) {
    ask.set_name(name);
    EXPECT_EQ(DetailOf(handler_.ModelMetadata(call_, ask, &told))->reason, reason) << name;
  }
}

TEST_F(OpenInferenceHandlerTest, ReadinessIsTheServersAndTheGraphs) {
  inference::ServerReadyResponse server;
  ASSERT_TRUE(handler_.ServerReady(call_, {}, &server).ok());
  EXPECT_TRUE(server.ready());
  ready_ = false;
  ASSERT_TRUE(handler_.ServerReady(call_, {}, &server).ok());
  EXPECT_FALSE(server.ready());
  inference::ServerLiveResponse live;
  ASSERT_TRUE(handler_.ServerLive(call_, {}, &live).ok());
  EXPECT_TRUE(live.live());
  ready_ = true;
  inference::ModelReadyRequest ask;
  inference::ModelReadyResponse model;
  ask.set_name("g/m");
  ASSERT_TRUE(handler_.ModelReady(call_, ask, &model).ok());
  EXPECT_FALSE(model.ready()) << "no version of the fake's graph serves";
  ask.set_name("g/unknown");
  ASSERT_TRUE(handler_.ModelReady(call_, ask, &model).ok());
  EXPECT_FALSE(model.ready());
  ask.set_name("..");
  EXPECT_EQ(handler_.ModelReady(call_, ask, &model).code(), StatusCode::kInvalidArgument);
}

TEST_F(OpenInferenceHandlerTest, ThereIsOneRepository) {
  inference::RepositoryIndexRequest ask;
  inference::RepositoryIndexResponse told;
  EXPECT_TRUE(handler_.RepositoryIndex(call_, ask, &told).ok());
  ask.set_repository_name("other");
  EXPECT_EQ(DetailOf(handler_.RepositoryIndex(call_, ask, &told))->field, "repository_name");
}

}  // namespace
}  // namespace vicinal::server
