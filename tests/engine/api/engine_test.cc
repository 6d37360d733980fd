// SPDX-License-Identifier: Apache-2.0
// The engine's door on a small graph: right answers against the oracle, and for each wrong call its code and reason,
// after which it serves on.
#include "engine/api/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "engine/base/error.h"
#include "tests/engine/api/small_world.h"
#include "tests/engine/plan_interpreter/interpreter.h"

namespace vicinal::testing {
namespace {

using ::testing::HasSubstr;

// The oracle's logits for the small graph with features `x`.
std::vector<double> Oracle(const std::vector<float>& x, float weights = -0.5f) {
  const auto model = LoadModel(kSmallGcn, SmallGcnWeights(weights));
  EdgeList edges;
  edges.num_nodes = kSmallNodes;
  const std::vector<int64_t> ends = SmallEnds();
  edges.source.assign(ends.begin(), ends.begin() + 6);
  edges.target.assign(ends.begin() + 6, ends.end());
  const std::vector<double> rows(x.begin(), x.end());
  return *Interpret(**model, {&edges, &rows, {}}, (*model)->FindOutput("logits")->value);
}

void ExpectRows(const StatusOr<InferenceResult>& got, const std::vector<double>& expected,
                const std::vector<int64_t>& ids) {
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->rows, static_cast<int64_t>(ids.size()));
  ASSERT_EQ(got->width, 2);
  for (size_t i = 0; i < ids.size(); ++i) {
    for (int64_t c = 0; c < 2; ++c)
      EXPECT_NEAR(got->values[2 * i + c], expected[2 * ids[i] + c], 1e-5) << "node " << ids[i];
  }
}
const std::vector<int64_t> kAll = {0, 1, 2, 3, 4, 5};

void ExpectError(const Status& status, StatusCode code, const std::string& reason, const std::string& message = "") {
  EXPECT_EQ(status.code(), code) << status;
  ASSERT_TRUE(DetailOf(status).has_value()) << status;
  EXPECT_EQ(DetailOf(status)->reason, reason);
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override { PutSmallWorld(*engine_); }
  // A wrong request never spoils the next one.
  void TearDown() override { ExpectRows(Infer(*engine_, AllNodes("g", "m")), Oracle(SmallRows()), kAll); }

  void ExpectRefused(const InferenceRequest& request, StatusCode code, const std::string& reason,
                     const std::string& message = "") {
    ExpectError(Infer(*engine_, request).status(), code, reason, message);
  }
  InferenceRequest WithFeatures(const HostTensor& x, std::vector<int64_t> rows = {}) {
    InferenceRequest request = AllNodes("g", "m");
    request.features.emplace();
    request.features->tensors.dense = x.view();
    request.features->rows = std::move(rows);
    return request;
  }

  std::unique_ptr<Engine> engine_ = MakeEngine();
};

TEST_F(EngineTest, AnswersInTheClientsIdsAndOrder) {
  const auto all = Infer(*engine_, AllNodes("g", "m"));
  ExpectRows(all, Oracle(SmallRows()), kAll);
  EXPECT_EQ(all->served_by.graph, "g");
  EXPECT_EQ(all->served_by.feature_set, "default");
  EXPECT_GT(all->served_by.graph_version, 0);
  EXPECT_GT(all->served_by.numerics_revision, 0);
  InferenceRequest some = AllNodes("g", "m");
  some.nodes = {false, {5, 0, 5, 3}};
  ExpectRows(Infer(*engine_, some), Oracle(SmallRows()), {5, 0, 5, 3});
}

TEST_F(EngineTest, RefusesUnknownNamesAndBadSelections) {
  ExpectRefused(AllNodes("nowhere", "m"), StatusCode::kNotFound, "NOT_FOUND");
  ExpectRefused(AllNodes("g", "nobody"), StatusCode::kNotFound, "NOT_FOUND");
  InferenceRequest request = AllNodes("g", "m");
  request.graph_version = 99;
  ExpectRefused(request, StatusCode::kNotFound, "VERSION_NOT_FOUND");
  request = AllNodes("g", "m");
  request.feature_set = "tuesday";
  ExpectRefused(request, StatusCode::kNotFound, "NOT_FOUND",
                "feature set 'tuesday' does not exist; upload it to graph 'g', or");
  request = AllNodes("g", "m");
  request.options.output = "conv9";
  ExpectRefused(request, StatusCode::kInvalidArgument, "OUTPUT_UNKNOWN", "conv1");
  // A server cuts long messages: the known names must stand in what is left.
  request.options.output = std::string(100000, 'o');
  ExpectRefused(request, StatusCode::kInvalidArgument, "OUTPUT_UNKNOWN", "ooo...'; there are: conv1");
  ModelSource single;
  single.name = "single";
  single.architecture_json = R"({"format": "vicinal.model/1", "in_channels": 3,
      "layers": [{"name": "conv", "type": "GCNConv", "args": {"out_channels": 4}}]})";
  single.weights_file = SafetensorsBuilder().AddRamp("conv.lin.weight", {4, 3}).AddRamp("conv.bias", {4}).Build();
  ASSERT_TRUE(engine_->PutModel(single, {}).ok());
  request.model = "single";
  request.options.output = "last_conv_input";
  ExpectRefused(request, StatusCode::kInvalidArgument, "OUTPUT_UNKNOWN",
                "which Embed takes where none is named: no layer comes before its last convolution; there are: conv");
  request = AllNodes("g", "m");
  request.nodes = {false, {0, 1, 6}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "NODE_OUT_OF_RANGE", "nodes.ids[2] is 6");
  request.nodes = {false, {-1}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "NODE_OUT_OF_RANGE", "nodes.ids[0] is -1");
  request.nodes = {false, {}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "BAD_SELECTION");
  request.nodes = {true, {1}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "BAD_SELECTION");
  request = AllNodes("g", "m");
  request.options.kernels["aggregate"] = "magic";
  ExpectRefused(request, StatusCode::kInvalidArgument, "KERNEL_UNKNOWN");
  request.options.kernels = {{"aggregat", "reference"}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "OPERATION_UNKNOWN");
  request.options.kernels = {{"aggre\ngat", "refe\nrence"}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "OPERATION_UNKNOWN",
                "there is no operation 'aggre?gat' for the forced kernel 'refe?rence'");
}

TEST_F(EngineTest, WhatIsForcedForOperationsThatTheModelDoesNotUseMustExistToo) {
  InferenceRequest request = AllNodes("g", "m");
  request.options.kernels = {{"attention", "simd_row"}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "KERNEL_UNKNOWN", "simd_rows, reference");
  request.options.kernels = {{"expression", "edge_tiles:edge_tyle=96"}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "PARAMETER_UNKNOWN", "there are: edge_tile, prefetch_columns");
  request.options.kernels = {{"expression", "edge_tiles:edge_tile=1000"}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "PARAMETER_RANGE", "0 or 4 to 192");
  request.options.kernels = {{"expression", ":edge_tile=96"}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "KERNEL_UNKNOWN");
  request.options.kernels = {{"attention", "simd_rows"}, {"expression", "edge_tiles:edge_tile=96"}};
  EXPECT_TRUE(Infer(*engine_, request).ok());
  const auto explanation = engine_->Explain(request);
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  EXPECT_THAT(explanation->decisions,
              ::testing::Contains(::testing::HasSubstr(
                  "expression edge_tiles:edge_tile=96 was forced, but no step is of that operation")));
}

TEST_F(EngineTest, AModelThatReadsWeightsNeedsThem) {
  std::string weighted = kSmallGcn;
  const std::string type = "\"type\": \"GCNConv\"";
  ASSERT_NE(weighted.find(type), std::string::npos);
  weighted.insert(weighted.find(type), "\"edge_weight\": true, ");
  ModelSource source;
  source.name = "weighted";
  source.architecture_json = weighted;
  source.weights_file = SmallGcnWeights(-0.5f);
  ASSERT_TRUE(engine_->PutModel(source, {}).ok());
  ExpectRefused(AllNodes("g", "weighted"), StatusCode::kFailedPrecondition, "EDGE_WEIGHT_MISSING", "'weighted'");
}

TEST_F(EngineTest, TakesFeaturesWithTheRequest) {
  const std::vector<float> other = SmallRows(-1.0f);
  const HostTensor x = Floats(other, {kSmallNodes, kSmallFeatures});
  const auto all = Infer(*engine_, WithFeatures(x));
  ExpectRows(all, Oracle(other), kAll);
  EXPECT_EQ(all->served_by.feature_set, "");

  // Rows of nodes 4 and 1 replaced.
  std::vector<float> mixed = SmallRows();
  const std::vector<float> rows = {9, 8, 7, 6, 5, 4};
  std::copy(rows.begin(), rows.begin() + 3, mixed.begin() + 4 * 3);
  std::copy(rows.begin() + 3, rows.end(), mixed.begin() + 1 * 3);
  const HostTensor two = Floats(rows, {2, kSmallFeatures});
  const auto replaced = Infer(*engine_, WithFeatures(two, {4, 1}));
  ExpectRows(replaced, Oracle(mixed), kAll);
  EXPECT_EQ(replaced->served_by.feature_set, "default");
}

TEST_F(EngineTest, RefusesBadFeatures) {
  const HostTensor narrow = Floats(std::vector<float>(12, 1.0f), {6, 2});
  ExpectRefused(WithFeatures(narrow), StatusCode::kInvalidArgument, "FEATURE_WIDTH");
  std::vector<float> values = SmallRows();
  values[7] = std::numeric_limits<float>::quiet_NaN();
  const HostTensor nan = Floats(values, {6, 3});
  EXPECT_EQ(Infer(*engine_, WithFeatures(nan)).status().code(), StatusCode::kInvalidArgument);
  const HostTensor few = Floats(std::vector<float>(9, 1.0f), {3, 3});
  EXPECT_EQ(Infer(*engine_, WithFeatures(few)).status().code(), StatusCode::kInvalidArgument);
  const HostTensor ints = Ints(std::vector<int64_t>(18, 1), {6, 3});
  EXPECT_EQ(Infer(*engine_, WithFeatures(ints)).status().code(), StatusCode::kInvalidArgument);
  const HostTensor row = Floats({1, 2, 3}, {1, 3});
  ExpectRefused(WithFeatures(row, {6}), StatusCode::kInvalidArgument, "NODE_OUT_OF_RANGE", "features.rows[0]");
  const HostTensor rows = Floats({1, 2, 3, 4, 5, 6}, {2, 3});
  ExpectRefused(WithFeatures(rows, {2, 2}), StatusCode::kInvalidArgument, "DUPLICATE_NODE", "features.rows[1]");
}

// Under overload most requests are refused, and their features may be as large as the graph's.
TEST_F(EngineTest, FeaturesAreReadOnlyOfRequestsThatMayCome) {
  const HostTensor narrow = Floats(std::vector<float>(12, 1.0f), {6, 2});
  InferenceRequest request = WithFeatures(narrow);
  ExpectRefused(request, StatusCode::kInvalidArgument, "FEATURE_WIDTH");
  request.limits.deadline = Clock::Real().Now();
  EXPECT_EQ(Infer(*engine_, request).status().code(), StatusCode::kDeadlineExceeded);
  request.nodes = {false, {6}};
  ExpectRefused(request, StatusCode::kInvalidArgument, "NODE_OUT_OF_RANGE", "nodes.ids[0] is 6");
}

TEST_F(EngineTest, FeatureSetsComeAndGo) {
  const std::vector<float> other = SmallRows(2.0f);
  const HostTensor x = Floats(other, {6, 3});
  FeatureTensors tensors;
  tensors.dense = x.view();
  ASSERT_TRUE(engine_->PutFeatures("g", "tuesday", tensors, false, 0).ok());
  InferenceRequest request = AllNodes("g", "m");
  request.feature_set = "tuesday";
  ExpectRows(Infer(*engine_, request), Oracle(other), kAll);
  EXPECT_EQ(engine_->PutFeatures("g", "tuesday", tensors, false, 0).status().code(), StatusCode::kAlreadyExists);
  const HostTensor wide = Floats(std::vector<float>(24, 1.0f), {6, 4});
  tensors.dense = wide.view();
  ASSERT_TRUE(engine_->PutFeatures("g", "wide", tensors, false, 0).ok());
  request.feature_set = "wide";
  ExpectRefused(request, StatusCode::kFailedPrecondition, "FEATURE_WIDTH");
  EXPECT_TRUE(engine_->DeleteFeatures("g", "tuesday").ok());
  request.feature_set = "tuesday";
  ExpectRefused(request, StatusCode::kNotFound, "NOT_FOUND");
}

TEST_F(EngineTest, ModelsOfNodesAndOfGraphsKeepToTheirs) {
  ModelSource pooled;
  pooled.name = "pooled";
  pooled.architecture_json = kSmallPooled;
  pooled.weights_file = SmallPooledWeights();
  const auto stored = engine_->PutModel(pooled, {});
  ASSERT_TRUE(stored.ok()) << stored.status();
  ExpectRefused(AllNodes("g", "pooled"), StatusCode::kFailedPrecondition, "GRAPH_MODEL");

  const HostTensor ptr = Ints({0, 6, 6, 8}, {4}), edges = Ints({0, 1, 2, 3, 3, 4, 6, 1, 2, 0, 3, 4, 0, 7}, {2, 7});
  std::vector<float> rows = SmallRows();
  for (int i = 0; i < 6; ++i) rows.push_back(0.5f * static_cast<float>(i));
  const HostTensor x = Floats(rows, {8, 3});
  GraphBatchRequest batch;
  batch.model = "pooled";
  batch.ptr = ptr.view();
  batch.edge_index = edges.view();
  batch.features.dense = x.view();
  const auto got = InferBatch(*engine_, batch);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->rows, 3);
  // The first graph alone: the same bits.
  const HostTensor one_ptr = Ints({0, 6}, {2}), one_edges = Ints(SmallEnds(), {2, 6}),
                   one_x = Floats(SmallRows(), {6, 3});
  batch.ptr = one_ptr.view();
  batch.edge_index = one_edges.view();
  batch.features.dense = one_x.view();
  const auto alone = InferBatch(*engine_, batch);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->values, std::vector<float>(got->values.begin(), got->values.begin() + 2));
  batch.model = "m";
  ExpectError(InferBatch(*engine_, batch).status(), StatusCode::kFailedPrecondition, "NODE_MODEL");
}

TEST_F(EngineTest, ReplacingAndDeletingTakeEffectAtOnce) {
  GraphSource again = SmallGraph("g", 3.0f);
  EXPECT_EQ(engine_->PutGraph(again).status().code(), StatusCode::kAlreadyExists);
  again.replace = true;
  ASSERT_TRUE(engine_->PutGraph(again).ok());
  ASSERT_TRUE(AwaitGraph(*engine_, "g").ok());
  ExpectRows(Infer(*engine_, AllNodes("g", "m")), Oracle(SmallRows(3.0f)), kAll);
  ModelSource model = SmallModel("m", 0.25f);
  EXPECT_EQ(engine_->PutModel(model, {}).status().code(), StatusCode::kAlreadyExists);
  model.replace = true;
  ASSERT_TRUE(engine_->PutModel(model, {}).ok());
  ExpectRows(Infer(*engine_, AllNodes("g", "m")), Oracle(SmallRows(3.0f), 0.25f), kAll);
  model.if_version = 1;
  ExpectError(engine_->PutModel(model, {}).status(), StatusCode::kAborted, "VERSION_MISMATCH");
  // Nothing of what was replaced stays.
  EXPECT_TRUE(engine_->DeleteModel("m", 0).ok());
  ExpectRefused(AllNodes("g", "m"), StatusCode::kNotFound, "NOT_FOUND");
  EXPECT_EQ(engine_->memory().Snapshot().plans, 0);
  EXPECT_EQ(engine_->memory().Snapshot().models, 0);
  EXPECT_TRUE(engine_->DeleteGraph("g", 0).ok());
  EXPECT_EQ(engine_->memory().Snapshot().graphs + engine_->memory().Snapshot().features, 0);
  PutSmallWorld(*engine_);
}

TEST_F(EngineTest, ABadGraphSaysWhyAndGoes) {
  GraphSource bad = SmallGraph("bad");
  bad.edge_index = Ints({0, 9, 1, 2}, {2, 2});
  ASSERT_TRUE(engine_->PutGraph(bad).ok());
  const auto status = AwaitGraph(*engine_, "bad");
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->state, GraphState::kFailed);
  EXPECT_EQ(status->error.code(), StatusCode::kInvalidArgument);
  ExpectRefused(AllNodes("bad", "m"), StatusCode::kFailedPrecondition, "GRAPH_NOT_READY");
}

TEST_F(EngineTest, ReferencesAreHeld) {
  std::vector<float> logits;
  for (double value : Oracle(SmallRows(), 0.75f)) logits.push_back(static_cast<float>(value));
  ModelSource source = SmallModel("checked", 0.75f);
  source.reference.emplace();
  source.reference->graph = "g";
  source.reference->file = SafetensorsBuilder().Add("logits", {6, 2}, logits).Build();
  auto handle = engine_->PutModel(source, {});
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_TRUE(handle->reference_checked);
  EXPECT_LT(handle->reference_error, 1e-5);

  logits[2 * 4 + 1] += 0.5f;
  source.name = "wrong";
  source.reference->file = SafetensorsBuilder().Add("logits", {6, 2}, logits).Build();
  ExpectError(engine_->PutModel(source, {}).status(), StatusCode::kInvalidArgument, "REFERENCE_MISSED", "node 4");
  EXPECT_FALSE(engine_->GetModel("wrong").ok());

  // Some nodes, on a graph in line.
  logits[2 * 4 + 1] -= 0.5f;
  const std::vector<int64_t> ends = SmallEnds(), nodes = {5, 2};
  source.reference->graph = "";
  source.reference->file = SafetensorsBuilder()
                               .Add("logits", {2, 2}, {logits[10], logits[11], logits[4], logits[5]})
                               .AddBytes("nodes", "I64", {2}, BytesOf(nodes))
                               .AddBytes("edge_index", "I64", {2, 6}, BytesOf(ends))
                               .Add("x", {6, 3}, SmallRows())
                               .Build();
  source.name = "inline";
  handle = engine_->PutModel(source, {});
  EXPECT_TRUE(handle.ok()) << handle.status();

  source.name = "bad";
  source.reference->file = "not safetensors";
  const Status broken = engine_->PutModel(source, {}).status();
  ExpectError(broken, StatusCode::kInvalidArgument, "BAD_SAFETENSORS");
  EXPECT_EQ(DetailOf(broken)->field, "reference");
  source.reference->file = SafetensorsBuilder().Add("logits", {2, 3}, {0, 0, 0, 0, 0, 0}).Build();
  ExpectError(engine_->PutModel(source, {}).status(), StatusCode::kInvalidArgument, "BAD_REFERENCE");
  source.reference->graph = "g";
  source.reference->file = SafetensorsBuilder().Add("logits", {5, 2}, std::vector<float>(10, 0.0f)).Build();
  ExpectError(engine_->PutModel(source, {}).status(), StatusCode::kInvalidArgument, "BAD_REFERENCE");
}

TEST_F(EngineTest, ExplainTellsThePlanAndRunsNothing) {
  const auto before = engine_->Kernels();
  const auto plan = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->steps.size(), 4u);
  EXPECT_THAT(plan->order, HasSubstr("rcm"));
  EXPECT_GT(plan->scratch_bytes, 0);
  const auto after = engine_->Kernels();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].launches, after[i].launches);
}

TEST_F(EngineTest, CancelledAndExpiredRequestsDoNotRun) {
  InferenceRequest request = AllNodes("g", "m");
  auto cancel = std::make_shared<CancelToken>();
  cancel->Cancel();
  request.limits.cancel = cancel;
  ExpectRefused(request, StatusCode::kCancelled, "CANCELLED");
  request = AllNodes("g", "m");
  request.limits.deadline = Clock::Real().Now() - std::chrono::seconds(1);
  ExpectRefused(request, StatusCode::kDeadlineExceeded, "DEADLINE_EXCEEDED");
  // Nor is a plan built to be told about.
  const int64_t made_ahead = engine_->memory().Snapshot().plans;
  request.options.output = "conv1";
  ExpectError(engine_->Explain(request).status(), StatusCode::kDeadlineExceeded, "DEADLINE_EXCEEDED");
  EXPECT_EQ(engine_->memory().Snapshot().plans, made_ahead);
}

TEST(EngineBudget, RefusesWhatNeverFitsAndWhatDoesNotFitNow) {
  EngineOptions options;
  options.memory_budget_bytes = 150'000;
  auto engine = MakeEngine(options);
  PutSmallWorld(*engine);
  const auto fits = Infer(*engine, AllNodes("g", "m"));
  ASSERT_TRUE(fits.ok()) << fits.status();
  GraphSource big = SmallGraph("big");
  big.node_count = 100'000;
  ExpectError(engine->PutGraph(big).status(), StatusCode::kFailedPrecondition, "OVER_BUDGET");
  big.node_count = 1'000;
  big.x = Floats(std::vector<float>(1000 * 3, 1.0f), {1000, 3});
  StatusOr<GraphResource> last = engine->PutGraph(big);
  for (int i = 0; i < 100 && last.ok(); ++i) {
    ASSERT_TRUE(AwaitGraph(*engine, big.name).ok());
    big.name = "big" + std::to_string(i);
    last = engine->PutGraph(big);
  }
  ExpectError(last.status(), StatusCode::kResourceExhausted, "BUDGET_FULL");
  EXPECT_TRUE(Infer(*engine, AllNodes("g", "m")).ok());
}

// 5,000 nodes and 50,000 edges: computing communities takes more than the budget, the graph by itself does not.
TEST(EngineBudget, AutoLeavesOutOrdersThatDoNotFit) {
  EngineOptions options;
  options.memory_budget_bytes = 2'000'000;
  auto engine = MakeEngine(options);
  constexpr int64_t kNodes = 5'000, kEdges = 50'000;
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < 2 * kEdges; ++i) ends.push_back(i * 7'919 % kNodes);
  GraphSource source;
  source.name = "g";
  source.node_count = kNodes;
  source.edge_index = Ints(ends, {2, kEdges});
  GraphSizes sizes;
  sizes.node_count = kNodes;
  sizes.edge_index = {source.edge_index.dtype, static_cast<int64_t>(source.edge_index.bytes.size())};
  EXPECT_TRUE(engine->CheckGraphFits(sizes, false).ok());
  ASSERT_TRUE(engine->PutGraph(source).ok());
  const auto graph = AwaitGraph(*engine, "g");
  ASSERT_TRUE(graph.ok() && graph->serving);
  EXPECT_EQ(graph->serving->requested_order, OrderKind::kAuto);
  EXPECT_EQ(graph->serving->order, OrderKind::kNone);
  // An order that was asked for by name is not left out. The announcement tells as much as the data.
  sizes.order = source.order = OrderKind::kCommunity;
  source.name = "other";
  ExpectError(engine->CheckGraphFits(sizes, false), StatusCode::kFailedPrecondition, "OVER_BUDGET");
  ExpectError(engine->PutGraph(source).status(), StatusCode::kFailedPrecondition, "OVER_BUDGET");
}

TEST(EngineBudget, AnnouncedFeaturesAreRefusedAsTheyWouldBe) {
  EngineOptions options;
  options.memory_budget_bytes = 400'000;
  auto engine = MakeEngine(options);
  PutSmallWorld(*engine);
  FeatureSizes sizes;
  sizes.dense = TensorSize{DataType::kFloat32, 100'000};  // and as much again where they stay
  EXPECT_TRUE(engine->CheckFeaturesFit(sizes, false).ok());
  sizes.dense->bytes = 201'000;
  ExpectError(engine->CheckFeaturesFit(sizes, false), StatusCode::kFailedPrecondition, "OVER_BUDGET");
  // What others hold for a while is no reason to refuse an announcement.
  sizes.dense->bytes = 100'000;
  auto held = engine->memory().Reserve(Account::kRequests, 300'000, "a request");
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(engine->CheckFeaturesFit(sizes, false).ok());
}

TEST(EngineBudget, FeaturesAreAdmittedBeforeTheyAreMade) {
  EngineOptions options;
  options.memory_budget_bytes = 400'000;
  auto engine = MakeEngine(options);
  PutSmallWorld(*engine);
  // For the wrong number of nodes, which only making them would find.
  const HostTensor wide = Floats(std::vector<float>(60'000, 1.0f), {20'000, 3});
  FeatureTensors tensors;
  tensors.dense = wide.view();
  ExpectError(engine->PutFeatures("g", "wide", tensors, false, 0).status(), StatusCode::kFailedPrecondition,
              "OVER_BUDGET");
  const HostTensor fits = Floats(std::vector<float>(600, 1.0f), {200, 3});
  tensors.dense = fits.view();
  ExpectError(engine->PutFeatures("g", "wide", tensors, false, 0).status(), StatusCode::kInvalidArgument,
              "ROW_COUNT_MISMATCH");
  EXPECT_EQ(engine->memory().Snapshot().requests, 0);
}

TEST(EngineBudget, WhatOthersHoldIsNotThereToRunIn) {
  EngineOptions options;
  options.memory_budget_bytes = 100'000;
  auto engine = MakeEngine(options);
  PutSmallWorld(*engine);
  const auto reserve_all = [&] {
    const int64_t free = options.memory_budget_bytes - engine->memory().Snapshot().total();
    return engine->memory().Reserve(Account::kUploads, free, "an upload").value();
  };
  Reservation upload = reserve_all();
  // The plan that was made ahead gives way.
  const int64_t plans = engine->memory().Snapshot().plans;
  Reservation instead = engine->memory().Reserve(Account::kUploads, plans, "another upload").value();
  ExpectError(Infer(*engine, AllNodes("g", "m")).status(), StatusCode::kResourceExhausted, "BUDGET_FULL");
  ExpectError(engine->PutGraph(SmallGraph("other")).status(), StatusCode::kResourceExhausted, "BUDGET_FULL");
  instead.Release();
  // What holds the tensors of a graph becomes the reservation of its preparation.
  ASSERT_TRUE(engine->PutGraph(SmallGraph("made"), std::move(upload)).ok());
  EXPECT_EQ(upload.bytes(), 0);
  ASSERT_TRUE(AwaitGraph(*engine, "made").ok());
  while (engine->memory().Snapshot().preparing > 0) std::this_thread::yield();
  EXPECT_EQ(engine->memory().Snapshot().uploads, 0);
  ASSERT_TRUE(Infer(*engine, AllNodes("g", "m")).ok());
  upload = reserve_all();
  EXPECT_TRUE(Infer(*engine, AllNodes("g", "m")).ok());  // with the plan that is there
}

TEST(EngineBudget, PlansThatAreNotUsedGiveWay) {
  EngineOptions options;
  options.max_cached_plans = 2;
  auto engine = MakeEngine(options);
  PutSmallWorld(*engine);
  const auto held_after = [&](const std::string& output) {
    InferenceRequest request = AllNodes("g", "m");
    request.options.output = output;
    EXPECT_TRUE(Infer(*engine, request).ok());
    return engine->memory().Snapshot().plans;
  };
  const int64_t one = held_after("logits");  // the largest
  EXPECT_GT(one, 0);
  for (const char* output : {"conv1", "act", "conv2", "logits", "conv1"}) EXPECT_LE(held_after(output), 2 * one);
}

TEST(EngineBudget, AProcessorThatIgnoresAPrecisionHasOnePlanForAll) {
  auto engine = MakeEngine();
  PutSmallWorld(*engine);
  InferenceRequest request = AllNodes("g", "m");
  const auto exact = Infer(*engine, request);
  ASSERT_TRUE(exact.ok()) << exact.status();
  const int64_t one = engine->memory().Snapshot().plans;
  for (const ProductPrecision products :
       {ProductPrecision::kTf32, ProductPrecision::kBfloat16, ProductPrecision::kFloat16}) {
    request.options.product_precision = products;
    const auto got = Infer(*engine, request);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->values, exact->values);
    EXPECT_EQ(engine->memory().Snapshot().plans, one);
  }
}

// Options that name a backend which is not there.
EngineOptions On(const std::string& device) {
  EngineOptions options;
  options.num_threads = 1;
  options.device = device;
  options.backend_path = "/nowhere/libvicinal_cuda.so";
  return options;
}

TEST(EngineDevice, TellsWhatItRunsOn) {
  EXPECT_EQ(Engine::Create(On("toaster")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Engine::Create(On("cuda:0")).status().code(), StatusCode::kFailedPrecondition);
  EngineOptions nowhere = On("cuda:0");
  nowhere.backend_path = "/nowhere/backend.so";
  EXPECT_EQ(std::string(Engine::Create(nowhere).status().message()),
            "there is no /nowhere/backend.so (--backend_path)");
  const auto engine = Engine::Create(On("auto"));
  ASSERT_TRUE(engine.ok()) << engine.status();
  ASSERT_EQ((*engine)->Devices().size(), 1u);
  EXPECT_EQ((*engine)->Devices()[0].name, "cpu");
}

TEST(EngineDrain, RefusesNewWork) {
  auto engine = MakeEngine();
  PutSmallWorld(*engine);
  EXPECT_TRUE(engine->Drain(Clock::Real().Now() + std::chrono::hours(1)));
  ExpectError(Infer(*engine, AllNodes("g", "m")).status(), StatusCode::kUnavailable, "DRAINING");
}

}  // namespace
}  // namespace vicinal::testing
