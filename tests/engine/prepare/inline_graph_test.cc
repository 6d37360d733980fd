// SPDX-License-Identifier: Apache-2.0
// What comes with a request or a model's reference may claim any size in a few bytes: sizes are compared, and memory is
// admitted, before anything is made of it. Each case has a fault in its edges, too, which only preparing would find.
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/engine/api/small_world.h"

namespace vicinal {
namespace {

using testing::BytesOf;
using testing::Floats;
using testing::InferBatch;
using testing::Ints;
using testing::MakeEngine;
using testing::SafetensorsBuilder;

struct Claim {
  int64_t nodes = 0;
  int64_t rows = 0;  // of features, three columns each
};

std::string ReasonOfInline(const Status& status) {
  const auto detail = DetailOf(status);
  return detail ? detail->reason : std::string(status.message());
}

ModelSource Pooled() {
  ModelSource model;
  model.name = "pooled";
  model.architecture_json = testing::kSmallPooled;
  model.weights_file = testing::SmallPooledWeights();
  return model;
}

// Two graphs of a node and of the others, and an edge between them.
Status AskBatch(const EngineOptions& options, const Claim& claim) {
  const auto engine = MakeEngine(options);
  const auto model = engine->PutModel(Pooled(), {});
  EXPECT_TRUE(model.ok()) << model.status();
  const HostTensor ptr = Ints({0, 1, claim.nodes}, {3}), edges = Ints({0, 1}, {2, 1});
  const HostTensor x = Floats(std::vector<float>(claim.rows * 3, 1.0f), {claim.rows, 3});
  GraphBatchRequest batch;
  batch.model = "pooled";
  batch.ptr = ptr.view();
  batch.edge_index = edges.view();
  batch.features.dense = x.view();
  return InferBatch(*engine, batch).status();
}

Status PutPooledWithReference(const EngineOptions& options, const Claim& claim) {
  const auto engine = MakeEngine(options);
  ModelSource model = Pooled();
  model.reference.emplace();
  model.reference->file = SafetensorsBuilder()
                              .Add("graph_logits", {2, 2}, {0, 0, 0, 0})
                              .AddBytes("ptr", "I64", {3}, BytesOf(std::vector<int64_t>{0, 1, claim.nodes}))
                              .AddBytes("edge_index", "I64", {2, 1}, BytesOf(std::vector<int64_t>{0, 1}))
                              .Add("x", {claim.rows, 3}, std::vector<float>(claim.rows * 3, 1.0f))
                              .Build();
  return engine->PutModel(model, {}).status();
}

// An edge out of range.
Status PutGcnWithReference(const EngineOptions& options, int64_t rows) {
  const auto engine = MakeEngine(options);
  ModelSource model = testing::SmallModel("m");
  model.reference.emplace();
  model.reference->file = SafetensorsBuilder()
                              .Add("logits", {1, 2}, {0, 0})
                              .AddBytes("edge_index", "I64", {2, 1}, BytesOf(std::vector<int64_t>{0, rows}))
                              .Add("x", {rows, 3}, std::vector<float>(rows * 3, 1.0f))
                              .Build();
  return engine->PutModel(model, {}).status();
}

EngineOptions BudgetOf(int64_t bytes) {
  EngineOptions options;
  options.memory_budget_bytes = bytes;
  return options;
}

EngineOptions NodesUpTo(int64_t nodes) {
  EngineOptions options;
  options.max_nodes = nodes;
  return options;
}

TEST(InlineGraph, NodesAreComparedWithRowsOfFeaturesFirst) {
  const Claim claim = {3'000'000, 1};
  EXPECT_EQ(ReasonOfInline(AskBatch({}, claim)), "ROW_COUNT_MISMATCH");
  EXPECT_EQ(ReasonOfInline(PutPooledWithReference({}, claim)), "ROW_COUNT_MISMATCH");
}

TEST(InlineGraph, TheServersLimitOfNodesHolds) {
  const Claim claim = {11, 11};
  EXPECT_EQ(ReasonOfInline(AskBatch(NodesUpTo(10), claim)), "LIMIT_EXCEEDED");
  EXPECT_EQ(ReasonOfInline(PutPooledWithReference(NodesUpTo(10), claim)), "LIMIT_EXCEEDED");
  EXPECT_EQ(ReasonOfInline(PutGcnWithReference(NodesUpTo(10), 11)), "LIMIT_EXCEEDED");
  EXPECT_EQ(ReasonOfInline(AskBatch(NodesUpTo(11), claim)), "EDGE_BETWEEN_GRAPHS");
  EXPECT_EQ(ReasonOfInline(PutGcnWithReference(NodesUpTo(11), 11)), "ID_OUT_OF_RANGE");
}

TEST(InlineGraph, MemoryIsAdmittedBeforeItIsTaken) {
  const Claim claim = {100'000, 100'000};
  const EngineOptions small = BudgetOf(2'000'000), ample = BudgetOf(100'000'000);
  EXPECT_EQ(ReasonOfInline(AskBatch(small, claim)), "OVER_BUDGET");
  EXPECT_EQ(ReasonOfInline(PutPooledWithReference(small, claim)), "OVER_BUDGET");
  EXPECT_EQ(ReasonOfInline(PutGcnWithReference(small, 100'000)), "OVER_BUDGET");
  EXPECT_EQ(ReasonOfInline(AskBatch(ample, claim)), "EDGE_BETWEEN_GRAPHS");
  EXPECT_EQ(ReasonOfInline(PutPooledWithReference(ample, claim)), "EDGE_BETWEEN_GRAPHS");
  EXPECT_EQ(ReasonOfInline(PutGcnWithReference(ample, 100'000)), "ID_OUT_OF_RANGE");
}

}  // namespace
}  // namespace vicinal
