// SPDX-License-Identifier: Apache-2.0
// Handlers keep what they tell of models and plans within --max_response_bytes (fit_reply_test.cc: how).
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/handlers/model_handler.h"
#include "server/handlers/server_handler.h"
#include "tests/server/fake_engine.h"

namespace vicinal::server {
namespace {

constexpr int kLayers = 100;

// Its model and its plan have many layers.
class DeepEngine final : public ::vicinal::testing::FakeEngine {
 public:
  StatusOr<Explanation> Explain(const InferenceRequest&) override {
    Explanation explanation;
    explanation.steps.resize(kLayers);
    explanation.tuning.resize(kLayers);
    for (int i = 0; i < kLayers; ++i) explanation.tuning[i].emplace().note = "a note";
    return explanation;
  }
  StatusOr<ModelResource> GetModel(const std::string& name) const override {
    ModelResource model;
    model.name = name;
    model.layers.resize(kLayers);
    for (LayerInfo& layer : model.layers) layer.arguments_json = R"({"in_channels": 16})";
    return model;
  }
  std::vector<ModelResource> ListModels() const override { return {*GetModel("m")}; }
};

class ReplyLimitsTest : public ::testing::Test {
 protected:
  ReplyLimitsTest() { limits_.max_response_bytes = 1024; }

  Limits limits_;
  DeepEngine engine_;
  Call call_;
};

TEST_F(ReplyLimitsTest, Explain) {
  ServerHandler handler(engine_, limits_, {}, nullptr);
  v1::ExplainRequest request;
  request.mutable_target()->set_graph("g");
  request.mutable_target()->set_model("m");
  v1::ExplainResponse plan;
  ASSERT_TRUE(handler.Explain(call_, request, &plan).ok());
  EXPECT_LE(plan.ByteSizeLong(), 1024u);
  EXPECT_GT(plan.tuning_left_out(), 0);
}

TEST_F(ReplyLimitsTest, Models) {
  UploadStore uploads({.budget = &engine_.budget});
  Metrics metrics({});
  ModelHandler handler(engine_, uploads, metrics, limits_);
  v1::GetModelRequest get;
  get.set_name("m");
  v1::Model model;
  ASSERT_TRUE(handler.GetModel(call_, get, &model).ok());
  EXPECT_LE(model.ByteSizeLong(), 1024u);
  EXPECT_GT(model.layers_left_out(), 0);
  v1::ListModelsResponse list;
  ASSERT_TRUE(handler.ListModels(call_, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 1);
  EXPECT_EQ(list.models(0).layers_left_out(), model.layers_left_out());
}

}  // namespace
}  // namespace vicinal::server
