// SPDX-License-Identifier: Apache-2.0
// Edge feature sets at the engine's door. The oracle of an answer is a graph that was uploaded with the same numbers as
// its edge_attr: the bits must be equal. One sum is also made here, in double.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/api/answer_testing.h"
#include "tests/engine/api/small_world.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kSmallEdges = 6;

// Its loops have the mean features of a node's in-edges.
constexpr char kGat[] =
    R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "c", "type": "GATConv",
    "args": {"out_channels": 2, "edge_dim": 2}}]})";

// Differs by more than a constant, which a softmax does not see.
std::vector<float> EdgeRows(float first, int64_t width = 2) {
  const auto step = static_cast<int64_t>(8 * first);
  std::vector<float> rows;
  for (int64_t i = 0; i < kSmallEdges * width; ++i)
    rows.push_back(first + 0.375f * static_cast<float>((i * i + step * i) % 11));
  return rows;
}

std::string ReasonOf(const Status& status) {
  const auto detail = DetailOf(status);
  return detail ? detail->reason : "";
}

class EdgeFeatureSetsTest : public ::testing::Test {
 protected:
  void SetUp() override { Fill(); }
  // An engine of the same content that keeps the answers of each first request.
  void KeepAllAnswers() {
    EngineOptions options;
    options.keep_answers = KeepAnswers::kAlways;
    options.stats = &passes_;
    options.clock = &clock_;
    engine_ = MakeEngine(options);
    Fill();
  }
  void Fill() {
    PutSmallWorld(*engine_);
    PutModel("gine", kSmallGine, SmallGineWeights());
    PutModel("gat", kGat,
             SafetensorsBuilder()
                 .AddRamp("c.lin.weight", {2, 3})
                 .AddRamp("c.att_src", {1, 1, 2})
                 .AddRamp("c.att_dst", {1, 1, 2})
                 .AddRamp("c.att_edge", {1, 1, 2})
                 .AddRamp("c.lin_edge.weight", {2, 2})
                 .AddRamp("c.bias", {2})
                 .Build());
    Put("own", EdgeRows(0.5f));
    GraphSource bare = SmallGraph("bare");
    bare.keep_edge_order = true;
    ASSERT_TRUE(engine_->PutGraph(std::move(bare)).ok());
    ASSERT_TRUE(AwaitGraph(*engine_, "bare").ok());
  }
  void PutModel(const std::string& name, const char* architecture, std::string weights) {
    ModelSource source;
    source.name = name;
    source.architecture_json = architecture;
    source.weights_file = std::move(weights);
    const auto model = engine_->PutModel(std::move(source), {});
    ASSERT_TRUE(model.ok()) << model.status();
  }
  // The small graph with these features of edges.
  void Put(const std::string& name, const std::vector<float>& rows, bool replace = false) {
    GraphSource source = SmallGraph(name);
    source.edge_attr = Floats(rows, {kSmallEdges, 2});
    source.replace = replace;
    ASSERT_TRUE(engine_->PutGraph(std::move(source)).ok());
    const auto graph = AwaitGraph(*engine_, name);
    ASSERT_TRUE(graph.ok() && graph->state == GraphState::kReady) << graph.status();
  }
  StatusOr<FeatureSetResource> PutSet(const std::string& graph, const std::string& name, const std::vector<float>& rows,
                                      bool replace = false, int64_t if_version = 0, int64_t width = 2) {
    const HostTensor tensor = Floats(rows, {static_cast<int64_t>(rows.size()) / width, width});
    return engine_->PutEdgeFeatures(graph, name, {tensor.view(), "digest"}, replace, if_version);
  }
  static InferenceRequest With(const std::string& graph, const std::string& model, const std::string& set,
                               int64_t version = 0) {
    InferenceRequest request = AllNodes(graph, model);
    request.edge_feature_set = set;
    request.edge_feature_set_version = version;
    return request;
  }
  std::vector<float> Values(const InferenceRequest& request) {
    const auto answer = Infer(*engine_, request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->values : std::vector<float>();
  }
  // What a graph with `rows` of its own answers.
  std::vector<float> Expected(const std::string& model, const std::vector<float>& rows) {
    Put("oracle", rows, /*replace=*/true);
    return Values(AllNodes("oracle", model));
  }
  void ExpectRefused(const Status& status, StatusCode code, const std::string& reason) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(ReasonOf(status), reason) << status;
  }

  PassRecorder passes_;
  SteppingClock clock_;
  std::unique_ptr<Engine> engine_ = MakeEngine();
};

TEST_F(EdgeFeatureSetsTest, AnswersAreThoseOfAGraphWithTheseFeatures) {
  const std::vector<float> monday = EdgeRows(-1.0f), tuesday = EdgeRows(2.0f);
  for (const std::string graph : {"own", "bare"}) {
    ASSERT_TRUE(PutSet(graph, "monday", monday).ok());
    ASSERT_TRUE(PutSet(graph, "tuesday", tuesday).ok());
    for (const std::string model : {"gine", "gat"}) {
      EXPECT_EQ(Values(With(graph, model, "monday")), Expected(model, monday)) << graph << model;
      EXPECT_EQ(Values(With(graph, model, "tuesday")), Expected(model, tuesday)) << graph << model;
      InferenceRequest some = With(graph, model, "monday");
      some.nodes = {false, {4, 1}};
      some.options.receptive_field = ReceptiveField::kAlways;
      const std::vector<float> all = Expected(model, monday), rows = Values(some);
      ASSERT_EQ(rows.size(), 4u);
      EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + 2, all.begin() + 8)) << graph << model;
      EXPECT_TRUE(std::equal(rows.begin() + 2, rows.end(), all.begin() + 2)) << graph << model;
    }
  }
  // Nothing is named: the graph's own, or nothing.
  EXPECT_EQ(Values(AllNodes("own", "gine")), Expected("gine", EdgeRows(0.5f)));
  ExpectRefused(Infer(*engine_, AllNodes("bare", "gine")).status(), StatusCode::kFailedPrecondition,
                "EDGE_ATTR_MISSING");
}

TEST_F(EdgeFeatureSetsTest, ASumIsThatOfTheFormula) {
  const std::vector<float> rows = EdgeRows(0.75f);
  ASSERT_TRUE(PutSet("bare", "s", rows).ok());
  const std::vector<float> values = Values(With("bare", "gine", "s"));
  const std::vector<float> x = SmallRows();
  const std::vector<int64_t> ends = SmallEnds();
  const auto ramp = [](int64_t i) { return -0.5 + 0.125 * static_cast<double>(i % 11); };  // of AddRamp
  for (int64_t node = 0; node < kSmallNodes; ++node) {
    std::vector<double> sum(3);
    for (int64_t c = 0; c < 3; ++c) sum[c] = x[node * 3 + c];
    for (int64_t e = 0; e < kSmallEdges; ++e) {
      if (ends[kSmallEdges + e] != node) continue;
      for (int64_t c = 0; c < 3; ++c) {
        double message = x[ends[e] * 3 + c] + ramp(c);
        for (int64_t a = 0; a < 2; ++a) message += ramp(c * 2 + a) * rows[e * 2 + a];
        sum[c] += std::max(message, 0.0);
      }
    }
    for (int64_t o = 0; o < 2; ++o) {
      double expected = ramp(o);
      for (int64_t c = 0; c < 3; ++c) expected += ramp(o * 3 + c) * sum[c];
      EXPECT_NEAR(values[node * 2 + o], expected, 2e-6 * std::max(1.0, std::abs(expected))) << node;
    }
  }
}

TEST_F(EdgeFeatureSetsTest, ResourcesAndAnswersTellOfThem) {
  const auto set = PutSet("own", "daily", EdgeRows(1.0f));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->kind, FeatureKind::kEdges);
  EXPECT_EQ(set->edge_count, kSmallEdges);
  EXPECT_EQ(set->feature_count, 2);
  EXPECT_EQ(set->entry_count, 2 * kSmallEdges);
  EXPECT_EQ(set->node_count, 0);
  EXPECT_EQ(set->source_digest, "digest");
  EXPECT_EQ(set->size_bytes, (kSmallEdges + kSmallNodes) * 2 * 4);
  const auto graph = engine_->GetGraph("own");
  ASSERT_EQ(graph->feature_sets.size(), 2u);
  EXPECT_EQ(graph->feature_sets[0].kind, FeatureKind::kNodes);
  EXPECT_EQ(graph->feature_sets[1].name, "daily");
  EXPECT_TRUE(graph->serving->edge_order_kept);
  EXPECT_FALSE(engine_->GetGraph("g")->serving->edge_order_kept);
  const auto answer = Infer(*engine_, With("own", "gine", "daily"));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->served_by.edge_feature_set, "daily");
  EXPECT_EQ(answer->served_by.edge_feature_set_version, set->version);
  EXPECT_EQ(Infer(*engine_, AllNodes("own", "gine"))->served_by.edge_feature_set, "");
  // A model that reads none is not served by any, but what is named must be there.
  EXPECT_EQ(Infer(*engine_, With("own", "m", "daily"))->served_by.edge_feature_set, "");
  ExpectRefused(Infer(*engine_, With("own", "m", "nightly")).status(), StatusCode::kNotFound, "NOT_FOUND");
}

TEST_F(EdgeFeatureSetsTest, TheDefaultSetStandsForTheGraphsOwn) {
  const std::vector<float> own = Values(AllNodes("own", "gat"));
  ASSERT_TRUE(PutSet("own", "default", EdgeRows(3.0f)).ok());
  ASSERT_TRUE(PutSet("bare", "default", EdgeRows(3.0f)).ok());
  const std::vector<float> expected = Expected("gat", EdgeRows(3.0f));
  EXPECT_NE(own, expected);
  EXPECT_EQ(Values(AllNodes("own", "gat")), expected);
  EXPECT_EQ(Values(AllNodes("bare", "gat")), expected);
  EXPECT_EQ(Infer(*engine_, AllNodes("own", "gat"))->served_by.edge_feature_set, "default");
  // It has the name of a set of nodes, and is another one.
  ASSERT_TRUE(engine_->DeleteFeatures("own", "default", FeatureKind::kEdges).ok());
  EXPECT_EQ(Values(AllNodes("own", "gat")), own);
  EXPECT_EQ(engine_->DeleteFeatures("own", "default", FeatureKind::kEdges).code(), StatusCode::kNotFound);
}

TEST_F(EdgeFeatureSetsTest, VersionsAreThoseOfFeatureSets) {
  const auto first = PutSet("own", "s", EdgeRows(1.0f));
  ASSERT_TRUE(first.ok());
  ExpectRefused(PutSet("own", "s", EdgeRows(2.0f)).status(), StatusCode::kAlreadyExists, "ALREADY_EXISTS");
  ExpectRefused(PutSet("own", "s", EdgeRows(2.0f), true, first->version + 7).status(), StatusCode::kAborted,
                "VERSION_MISMATCH");
  const auto second = PutSet("own", "s", EdgeRows(2.0f), true, first->version);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(second->version, first->version);
  EXPECT_EQ(Values(With("own", "gine", "s")), Expected("gine", EdgeRows(2.0f)));
  EXPECT_EQ(Values(With("own", "gine", "s", second->version)), Expected("gine", EdgeRows(2.0f)));
  ExpectRefused(Infer(*engine_, With("own", "gine", "s", first->version)).status(), StatusCode::kNotFound,
                "VERSION_NOT_FOUND");
  // A replacement of the graph drops them.
  Put("own", EdgeRows(0.5f), /*replace=*/true);
  ExpectRefused(Infer(*engine_, With("own", "gine", "s")).status(), StatusCode::kNotFound, "NOT_FOUND");
}

// A replacement of the graph may have as many edges, others or in another order: rows that were made for those before
// would belong to wrong ones.
TEST_F(EdgeFeatureSetsTest, RowsOfAnotherVersionOfTheGraphAreRefused) {
  const int64_t version = engine_->GetGraph("own")->serving->version;
  Put("own", EdgeRows(0.5f), /*replace=*/true);
  const int64_t now = engine_->GetGraph("own")->serving->version;
  ASSERT_GT(now, version);
  const HostTensor fits = Floats(EdgeRows(1.0f), {kSmallEdges, 2}),
                   short_by_one = Floats(std::vector<float>(10), {5, 2});
  for (const HostTensor* const rows : {&fits, &short_by_one}) {
    const Status old = engine_->PutEdgeFeatures("own", "s", {rows->view(), "", version}, false, 0).status();
    ExpectRefused(old, StatusCode::kAborted, "GRAPH_REPLACED");
    EXPECT_EQ(DetailOf(old)->metadata.at("version"), std::to_string(now));
  }
  FeatureTensors nodes;
  const HostTensor x = Floats(std::vector<float>(18, 1.0f), {kSmallNodes, kSmallFeatures});
  nodes.dense = x.view();
  nodes.graph_version = version;
  ExpectRefused(engine_->PutFeatures("own", "s", nodes, false, 0).status(), StatusCode::kAborted, "GRAPH_REPLACED");
  EXPECT_EQ(engine_->GetGraph("own")->feature_sets.size(), 1u) << "its own";
  nodes.graph_version = now;
  EXPECT_TRUE(engine_->PutFeatures("own", "s", nodes, false, 0).ok());
  EXPECT_TRUE(engine_->PutEdgeFeatures("own", "s", {fits.view(), "", now}, false, 0).ok());
}

TEST_F(EdgeFeatureSetsTest, WhatDoesNotFitIsRefused) {
  ExpectRefused(PutSet("g", "s", EdgeRows(1.0f)).status(), StatusCode::kFailedPrecondition, "EDGE_ORDER_MISSING");
  ExpectRefused(PutSet("none", "s", EdgeRows(1.0f)).status(), StatusCode::kNotFound, "NOT_FOUND");
  std::vector<float> few = EdgeRows(1.0f);
  few.resize(10);
  const Status rows = PutSet("own", "s", few).status();
  ExpectRefused(rows, StatusCode::kInvalidArgument, "COUNT_MISMATCH");
  EXPECT_EQ(DetailOf(rows)->field, "edge_attr");
  std::vector<float> broken = EdgeRows(1.0f);
  broken[7] = std::nanf("");
  const Status finite = PutSet("own", "s", broken).status();
  EXPECT_EQ(finite.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(finite.message()).find("3"), std::string::npos) << finite;  // the edge
  ASSERT_TRUE(PutSet("own", "wide", EdgeRows(1.0f, 3), false, 0, 3).ok());
  const Status width = Infer(*engine_, With("own", "gine", "wide")).status();
  ExpectRefused(width, StatusCode::kFailedPrecondition, "EDGE_ATTR_WIDTH");
  EXPECT_NE(std::string(width.message()).find("'wide'"), std::string::npos) << width;
  EXPECT_EQ(engine_->GetGraph("own")->feature_sets.size(), 2u);
}

TEST_F(EdgeFeatureSetsTest, KeptAnswersAreOfOneVersion) {
  EngineOptions options;
  options.keep_answers = KeepAnswers::kAlways;
  engine_ = MakeEngine(options);
  Fill();
  for (const float first : {1.0f, 2.0f, 3.0f}) {
    ASSERT_TRUE(PutSet("own", "default", EdgeRows(first), true).ok());
    const std::vector<float> expected = Expected("gine", EdgeRows(first));
    for (int i = 0; i < 20; ++i) {
      const auto answer = Infer(*engine_, AllNodes("own", "gine"));
      ASSERT_TRUE(answer.ok());
      EXPECT_EQ(answer->values, expected);
      if (answer->kept && i > 2) break;
    }
  }
}

// A graph is replaced without its sets, which follow: the first request on each is answered from kept rows.
TEST_F(EdgeFeatureSetsTest, AnswersOfSetsThatFollowTheirGraphAreMadeAhead) {
  KeepAllAnswers();
  size_t passes = 0;
  const auto use = [&](const InferenceRequest& request) {
    Values(request);
    ASSERT_EQ(passes_.Await(passes++), "kept");
    const auto kept = Infer(*engine_, request);
    ASSERT_TRUE(kept.ok() && kept->kept);
  };
  const auto put_nodes = [&](const std::string& name, float first) {
    const HostTensor x = Floats(SmallRows(first), {kSmallNodes, kSmallFeatures});
    FeatureTensors tensors;
    tensors.dense = x.view();
    ASSERT_TRUE(engine_->PutFeatures("bare", name, tensors, false, 0).ok());
  };
  for (const std::string set : {"daily", "default"}) ASSERT_TRUE(PutSet("bare", set, EdgeRows(1.0f)).ok());
  put_nodes("more", 1.5f);
  InferenceRequest other_nodes = With("bare", "gine", "daily");
  other_nodes.feature_set = "more";
  ASSERT_NO_FATAL_FAILURE(use(With("bare", "gine", "daily")));
  ASSERT_NO_FATAL_FAILURE(use(With("bare", "gat", "")));
  ASSERT_NO_FATAL_FAILURE(use(other_nodes));

  GraphSource next = SmallGraph("bare");
  next.keep_edge_order = true;
  next.replace = true;
  ASSERT_TRUE(engine_->PutGraph(std::move(next)).ok());
  ASSERT_TRUE(AwaitGraph(*engine_, "bare").ok());
  ASSERT_TRUE(PutSet("bare", "daily", EdgeRows(2.0f)).ok());
  ASSERT_EQ(passes_.Await(passes++), "ahead");
  ASSERT_TRUE(PutSet("bare", "default", EdgeRows(3.0f)).ok());
  ASSERT_EQ(passes_.Await(passes++), "ahead");
  put_nodes("more", 1.75f);  // both of these sets have followed now
  ASSERT_EQ(passes_.Await(passes++), "ahead");
  ASSERT_TRUE(PutSet("bare", "unused", EdgeRows(3.0f)).ok());

  std::vector<std::vector<float>> first;
  for (const InferenceRequest& request : {With("bare", "gine", "daily"), With("bare", "gat", ""), other_nodes}) {
    const auto answer = Infer(*engine_, request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->kept) << first.size();
    first.push_back(answer->values);
  }
  EXPECT_FALSE(Infer(*engine_, With("bare", "gine", "unused"))->kept);
  EXPECT_EQ(first[0], Expected("gine", EdgeRows(2.0f)));
  EXPECT_EQ(first[1], Expected("gat", EdgeRows(3.0f)));
  InferenceRequest computed = other_nodes;
  computed.options.receptive_field = ReceptiveField::kNever;
  EXPECT_EQ(first[2], Values(computed));
  EXPECT_NE(first[2], first[0]);
  // Long after their use they are forgotten.
  next = SmallGraph("bare");
  next.keep_edge_order = true;
  next.replace = true;
  ASSERT_TRUE(engine_->PutGraph(std::move(next)).ok());
  ASSERT_TRUE(AwaitGraph(*engine_, "bare").ok());
  clock_.Skip(std::chrono::minutes(11));
  ASSERT_TRUE(PutSet("bare", "daily", EdgeRows(2.0f)).ok());
  EXPECT_FALSE(Infer(*engine_, With("bare", "gine", "daily"))->kept);
}

// The clock stands still and the executor is busy: only the end of the call ends the wait for the answers.
TEST_F(EdgeFeatureSetsTest, OfACallThatHasEndedWaitForNoAnswers) {
  KeepAllAnswers();
  ASSERT_TRUE(PutSet("bare", "default", EdgeRows(1.0f)).ok());
  Values(AllNodes("bare", "gine"));
  ASSERT_EQ(passes_.Await(0), "kept");
  Values(AllNodes("bare", "gine"));  // in use
  const std::vector<float> rows = EdgeRows(2.0f);
  const HostTensor tensor = Floats(rows, {kSmallEdges, 2});
  auto cancel = std::make_shared<CancelToken>();
  WorkLimits limits;
  limits.cancel = cancel;
  {
    const Busy busy(*engine_, AllNodes("g", "m"));
    std::thread gone([&cancel] { cancel->Cancel(); });
    const auto set = engine_->PutEdgeFeatures("bare", "default", {tensor.view(), ""}, true, 0, 0, limits);
    gone.join();
    ASSERT_TRUE(set.ok()) << set.status();
  }
  EXPECT_EQ(passes_.Await(1), "late");
  EXPECT_EQ(Values(AllNodes("bare", "gine")), Expected("gine", rows));
}

TEST_F(EdgeFeatureSetsTest, TheBudgetCountsThem) {
  const int64_t before = engine_->memory().Snapshot().features;
  const auto set = PutSet("own", "s", EdgeRows(1.0f));
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(engine_->memory().Snapshot().features, before + set->size_bytes);
  ASSERT_TRUE(engine_->DeleteFeatures("own", "s", FeatureKind::kEdges).ok());
  EXPECT_EQ(engine_->memory().Snapshot().features, before);
}

TEST_F(EdgeFeatureSetsTest, ReplacingUnderLoadMixesNoVersions) {
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 4; ++i) expected.push_back(Expected("gat", EdgeRows(static_cast<float>(i))));
  const auto first = PutSet("own", "s", EdgeRows(0.0f));
  ASSERT_TRUE(first.ok());
  std::atomic<int64_t> newest{first->version};
  std::atomic<bool> ended{false};
  std::atomic<int64_t> asked{0};
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      int64_t last = 0;
      while (!ended) {
        const auto answer = Infer(*engine_, With("own", "gat", "s"));
        ASSERT_TRUE(answer.ok()) << answer.status();
        const int64_t version = answer->served_by.edge_feature_set_version;
        EXPECT_GE(version, last);
        last = version;
        EXPECT_EQ(answer->values, expected[static_cast<size_t>((version - first->version) % 4)]);
        ++asked;
      }
    });
  }
  for (int64_t i = 1; i <= 40; ++i) {
    const int64_t seen = asked;
    const auto put = PutSet("own", "s", EdgeRows(static_cast<float>(i % 4)), true, newest);
    ASSERT_TRUE(put.ok()) << put.status();
    ASSERT_EQ(put->version, first->version + i);
    newest = put->version;
    while (asked < seen + 2) std::this_thread::yield();
  }
  ended = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vicinal::testing
