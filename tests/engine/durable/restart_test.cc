// SPDX-License-Identifier: Apache-2.0
// An engine with a state directory, through its own API: what was durable is there after a restart, with the same
// versions and bits; what was deleted is not. What is damaged: damage_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "engine/base/uuid.h"
#include "engine/state/sealed_json.h"
#include "tests/engine/durable/restart_testing.h"

namespace vicinal {
namespace {

using testing::AllNodes;
using ::testing::HasSubstr;
using testing::Infer;
using testing::SmallGraph;
using testing::SmallModel;

TEST_F(RestartTest, EverythingComesBackWithItsVersionsAndBits) {
  Start();
  const std::string incarnation = engine_->incarnation();
  EXPECT_TRUE(IsUuid(incarnation));
  Put(SmallGraph("other"));
  Put(SmallGraph("g"));
  const std::vector<float> rows = testing::SmallRows(0.75f);
  const HostTensor x = testing::Floats(rows, {testing::kSmallNodes, testing::kSmallFeatures});
  FeatureTensors tensors;
  tensors.dense = x.view();
  ASSERT_TRUE(engine_->PutFeatures("g", "second", tensors, false, 0).ok());
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  InferenceRequest second = AllNodes("g", "m");
  second.feature_set = "second";
  const auto before = Infer(*engine_, AllNodes("g", "m")), before_second = Infer(*engine_, second);
  ASSERT_TRUE(before.ok() && before_second.ok());
  EXPECT_NE(before->values, before_second->values);
  EXPECT_EQ(before->served_by.incarnation, incarnation);
  EXPECT_EQ(AwaitDurable("g").serving->durability, Durability::kDurable);
  Stop();

  Start();
  EXPECT_EQ(engine_->incarnation(), incarnation);
  const GraphResource graph = AwaitLoaded("g");
  ASSERT_EQ(graph.state, GraphState::kReady) << graph.error;
  EXPECT_EQ(graph.serving->durability, Durability::kDurable);
  ASSERT_EQ(graph.feature_sets.size(), 2u);
  EXPECT_EQ(graph.feature_sets[1].name, "second");
  EXPECT_EQ(graph.feature_sets[1].durability, Durability::kDurable);
  const auto model = engine_->GetModel("m");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->durability, Durability::kDurable);
  for (const auto& [request, former] : {std::pair(AllNodes("g", "m"), *before), std::pair(second, *before_second)}) {
    const auto after = Infer(*engine_, request);
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_EQ(after->values, former.values);
    EXPECT_EQ(after->served_by.graph_version, former.served_by.graph_version);
    EXPECT_EQ(after->served_by.model_version, former.served_by.model_version);
    EXPECT_EQ(after->served_by.feature_set_version, former.served_by.feature_set_version);
    EXPECT_EQ(after->served_by.numerics_revision, former.served_by.numerics_revision);
    EXPECT_EQ(after->served_by.incarnation, incarnation);
  }
  EXPECT_TRUE(AwaitLoaded("other").serving.has_value());
}

// A model that reads two features of each edge.
ModelSource SmallGine() {
  ModelSource source;
  source.name = "gine";
  source.architecture_json =
      R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "c", "type": "GINEConv",
      "args": {"edge_dim": 2, "nn": [{"type": "Linear", "args": {"out_channels": 2}}]}}]})";
  source.weights_file = testing::SafetensorsBuilder()
                            .AddRamp("c.lin.weight", {3, 2})
                            .AddRamp("c.lin.bias", {3})
                            .AddRamp("c.nn.0.weight", {2, 3})
                            .AddRamp("c.nn.0.bias", {2})
                            .Build();
  return source;
}

StatusOr<FeatureSetResource> PutEdges(Engine& engine, const std::string& name, float first, bool replace = false) {
  std::vector<float> rows;
  for (int i = 0; i < 12; ++i) rows.push_back(first + 0.5f * static_cast<float>(i % 5));
  const HostTensor tensor = testing::Floats(rows, {6, 2});
  return engine.PutEdgeFeatures("g", name, {tensor.view(), ""}, replace, 0);
}

// Also if the stop begins before the writer has heard of it.
TEST_F(RestartTest, WhatIsReadyWhenAStopBeginsComesBack) {
  Start();
  Put(SmallGraph("g", 0.25f));
  const int64_t first = AwaitDurable("g").serving->version;
  std::promise<void> ready, goes_on;
  std::atomic<bool> seen{false}, stops{false};
  auto watch = engine_->WatchGraph("g", [&] {  // on the thread that publishes
    if (engine_->GetGraph("g")->serving->version == first || seen.exchange(true)) return;
    ready.set_value();
    goes_on.get_future().wait();
  });
  ASSERT_TRUE(watch.ok()) << watch.status();
  GraphSource again = SmallGraph("g", 0.5f);
  again.replace = true;
  ASSERT_TRUE(engine_->PutGraph(std::move(again)).ok());
  ready.get_future().wait();
  const int64_t second = engine_->GetGraph("g")->serving->version;
  std::jthread stop([&] {
    stops = true;
    EXPECT_TRUE(engine_->Drain(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    EXPECT_EQ(engine_->GetGraph("g")->serving->durability, Durability::kDurable);
  });
  while (!stops) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // without the fault that this test is for, it only waits
  goes_on.set_value();
  stop.join();
  watch->reset();
  engine_.reset();
  Start();
  EXPECT_EQ(AwaitLoaded("g").serving->version, second);
}

TEST_F(RestartTest, EdgeFeatureSetsComeBackWithTheirVersionsAndBits) {
  Start();
  GraphSource graph = SmallGraph("g");
  graph.keep_edge_order = true;
  Put(std::move(graph));
  ASSERT_TRUE(engine_->PutModel(SmallGine(), {}).ok());
  InferenceRequest daily = AllNodes("g", "gine");
  daily.edge_feature_set = "daily";
  ASSERT_TRUE(PutEdges(*engine_, "daily", 7.0f).ok());
  ASSERT_TRUE(PutEdges(*engine_, "daily", 1.0f, /*replace=*/true).ok());
  ASSERT_TRUE(PutEdges(*engine_, "gone", 2.0f).ok());
  const auto before = Infer(*engine_, daily);
  ASSERT_TRUE(before.ok()) << before.status();
  const auto durable = [](const GraphResource& graph) {
    return std::all_of(graph.feature_sets.begin(), graph.feature_sets.end(),
                       [](const FeatureSetResource& set) { return set.durability == Durability::kDurable; });
  };
  Await("g", durable);
  ASSERT_TRUE(engine_->DeleteFeatures("g", "gone", FeatureKind::kEdges).ok());
  Stop();

  Start();
  const GraphResource there = AwaitLoaded("g");
  ASSERT_EQ(there.feature_sets.size(), 2u);
  EXPECT_EQ(there.feature_sets[1].kind, FeatureKind::kEdges);
  EXPECT_EQ(there.feature_sets[1].version, before->served_by.edge_feature_set_version);
  EXPECT_EQ(there.feature_sets[1].durability, Durability::kDurable);
  const auto after = Infer(*engine_, daily);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->values, before->values);
  EXPECT_EQ(after->served_by.edge_feature_set_version, before->served_by.edge_feature_set_version);
  // The order of the edges is there as well.
  const auto next = PutEdges(*engine_, "daily", 7.0f, /*replace=*/true);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_GT(next->version, before->served_by.edge_feature_set_version);
}

TEST_F(RestartTest, ADamagedEdgeFeatureSetIsLostUntilItIsUploadedAgain) {
  Start();
  GraphSource graph = SmallGraph("g");
  graph.keep_edge_order = true;
  Put(std::move(graph));
  ASSERT_TRUE(engine_->PutModel(SmallGine(), {}).ok());
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  const auto set = PutEdges(*engine_, "default", 1.0f);
  ASSERT_TRUE(set.ok());
  const int64_t version = AwaitDurable("g").serving->version;
  Stop();
  const std::string file = directory_ / ("state/graphs/g/" + std::to_string(version) + "/edge_features/default/" +
                                         std::to_string(set->version) + "/features.vsec");
  std::filesystem::resize_file(file, 100);

  for (int start = 0; start < 2; ++start) {
    Start();
    EXPECT_EQ(AwaitLoaded("g").feature_sets.size(), 1u);
    // What reads it is told; what does not is served.
    EXPECT_EQ(Infer(*engine_, AllNodes("g", "gine")).status().code(), StatusCode::kDataLoss);
    EXPECT_TRUE(Infer(*engine_, AllNodes("g", "m")).ok());
    Stop();
  }
  Start();
  AwaitLoaded("g");
  ASSERT_TRUE(PutEdges(*engine_, "default", 2.0f).ok());
  EXPECT_TRUE(Infer(*engine_, AllNodes("g", "gine")).ok());
}

TEST_F(RestartTest, AReplacedVersionDoesNotComeBack) {
  Start();
  Put(SmallGraph("g"));
  const int64_t first = AwaitDurable("g").serving->version;
  GraphSource source = SmallGraph("g", 3.0f);
  source.replace = true;
  Put(std::move(source));
  const int64_t second = AwaitDurable("g").serving->version;
  EXPECT_GT(second, first);
  Stop();
  Start();
  EXPECT_EQ(AwaitLoaded("g").serving->version, second);
}

TEST_F(RestartTest, ADeletionIsDurableAndVersionsDoNotReturn) {
  Start();
  Put(SmallGraph("g"));
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  const int64_t graph_version = AwaitDurable("g").serving->version;
  const int64_t model_version = engine_->GetModel("m")->version;
  ASSERT_TRUE(engine_->DeleteGraph("g", 0).ok());
  ASSERT_TRUE(engine_->DeleteModel("m", 0).ok());
  EXPECT_EQ(engine_->DeleteGraph("g", 0).code(), StatusCode::kNotFound);
  engine_.reset();  // at once: acknowledged deletions need no drain
  Start();
  EXPECT_EQ(engine_->GetGraph("g").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(engine_->GetModel("m").status().code(), StatusCode::kNotFound);
  Put(SmallGraph("g"));
  EXPECT_GT(engine_->GetGraph("g")->serving->version, graph_version);
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  EXPECT_GT(engine_->GetModel("m")->version, model_version);
}

TEST_F(RestartTest, ADeletedFeatureSetStaysDeleted) {
  Start();
  Put(SmallGraph("g"));
  AwaitDurable("g");
  const int64_t version = engine_->GetGraph("g")->feature_sets.front().version;
  EXPECT_EQ(ReasonOf(engine_->DeleteFeatures("g", "default", FeatureKind::kNodes, version + 1)), "VERSION_MISMATCH");
  Stop();
  Start();
  ASSERT_EQ(AwaitLoaded("g").feature_sets.size(), 1u) << "what was refused deleted nothing";
  ASSERT_TRUE(engine_->DeleteFeatures("g", "default", FeatureKind::kNodes, version).ok());
  Stop();
  Start();
  const GraphResource graph = AwaitLoaded("g");
  ASSERT_EQ(graph.state, GraphState::kReady);
  EXPECT_TRUE(graph.feature_sets.empty());
}

TEST_F(RestartTest, ASecondWriterIsRefused) {
  Start();
  const auto second = Engine::Create(Options());
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(second.status()), "STATE_LOCKED");
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(std::to_string(getpid())));
}

TEST_F(RestartTest, RequestsCanRequireTheIncarnationAndTheIds) {
  Start();
  GraphSource source = SmallGraph("g");
  source.ids_digest = "crc32c:00000001";
  Put(std::move(source));
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  InferenceRequest request = AllNodes("g", "m");
  request.incarnation = engine_->incarnation();
  request.ids_digest = "crc32c:00000001";
  EXPECT_TRUE(Infer(*engine_, request).ok());
  request.incarnation = MakeUuid();
  EXPECT_EQ(ReasonOf(Infer(*engine_, request).status()), "INCARNATION_MISMATCH");
  // Servers cut long messages: the advice must stand in what is left.
  request.incarnation = std::string(100000, 'i');
  EXPECT_THAT(std::string(Infer(*engine_, request).status().message()),
              HasSubstr("iii...', but this server's state is"));
  request.incarnation.clear();
  request.ids_digest = std::string(100000, 'd');
  EXPECT_THAT(std::string(Infer(*engine_, request).status().message()), HasSubstr("ddd...', but version"));
  request.ids_digest = "crc32c:00000002";
  const auto answer = Infer(*engine_, request);
  EXPECT_EQ(answer.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(answer.status()), "IDS_DIGEST_MISMATCH");
}

TEST(WithoutAStateDirectory, NothingIsDurableAndEveryStartIsAnotherIncarnation) {
  const auto first = testing::MakeEngine(), second = testing::MakeEngine();
  EXPECT_TRUE(IsUuid(first->incarnation()));
  EXPECT_NE(first->incarnation(), second->incarnation());
  EXPECT_FALSE(first->durable());
  testing::PutSmallWorld(*first);
  EXPECT_EQ(first->GetGraph("g")->serving->durability, Durability::kMemory);
  EXPECT_EQ(first->GetGraph("g")->incarnation, first->incarnation());
  EXPECT_EQ(first->GetModel("m")->durability, Durability::kMemory);
}

// A build that adds in another order than the one that stored the graph: its manifest says so.
TEST_F(RestartTest, AnotherNumericsRevisionIsToldByTheLogAndByExplain) {
  Start();
  Put(SmallGraph("g"));
  Put(SmallGraph("other"));
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  const int64_t version = AwaitDurable("g").serving->version;
  const int64_t revision = engine_->GetGraph("g")->serving->numerics_revision;
  AwaitDurable("other");
  Stop();
  const std::string path = directory_ / ("state/graphs/g/" + std::to_string(version) + "/manifest.json");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  auto manifest = state::internal::UnsealJson(path, text.str());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  manifest->erase("crc32c");
  ASSERT_EQ((*manifest)["metadata"]["numerics_revision"], revision);
  (*manifest)["metadata"]["numerics_revision"] = 4711;
  std::ofstream(path) << state::internal::SealJson(*manifest);
  Start();
  EXPECT_EQ(AwaitLoaded("g").serving->numerics_revision, revision);
  EXPECT_THAT(lines_.all(), HasSubstr("numerics revision changed"));
  const std::string change =
      "the numerics revision " + std::to_string(revision) + " in place of 4711, with which it was stored";
  const auto explanation = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  EXPECT_EQ(explanation->served_by.numerics_revision, revision);
  EXPECT_THAT(explanation->decisions, ::testing::Contains(HasSubstr(change)));
  AwaitLoaded("other");
  EXPECT_THAT(engine_->Explain(AllNodes("other", "m"))->decisions,
              ::testing::Not(::testing::Contains(HasSubstr(change))));
}

}  // namespace
}  // namespace vicinal
