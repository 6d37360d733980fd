// SPDX-License-Identifier: Apache-2.0
// How deep the steps of branching programs lie: by hand, and against the longest of all ways, enumerated.
#include "engine/plan/receptive_field/receptive_field_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/plan/rewrite/rewrite.h"
#include "tests/engine/plan/model_maker.h"

namespace vicinal::internal {
namespace {

using testing::ModelMaker;

Program Rewritten(const Model& model) { return RewriteModel(model, model.outputs[0].value, false, {}); }

bool ReadsNeighbours(const Node& node) {
  return node.kind == NodeKind::kPropagate || node.kind == NodeKind::kAttention ||
         node.kind == NodeKind::kMessageReduce || node.kind == NodeKind::kExpression;
}

// The longest way from the output to each node and to the input, one way at a time.
Depths ByAllWays(const Program& program) {
  Depths depths;
  depths.nodes.assign(program.nodes.size(), -1);
  depths.input = -1;
  // The values that share memory with `value`: those it lies in, and those that lie in it.
  const auto lies_in = [&](ValueId inner, ValueId outer) {
    for (; inner >= 0; inner = program.values[inner].parent) {
      if (inner == outer) return true;
    }
    return false;
  };
  std::function<void(ValueId, int)> walk = [&](ValueId value, int depth) {
    if (value == kInputValue) depths.input = std::max(depths.input, depth);
    depths.deepest = std::max(depths.deepest, depth);
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      const Node& node = program.nodes[i];
      if (!lies_in(node.output, value) && !lies_in(value, node.output)) continue;
      depths.nodes[i] = std::max(depths.nodes[i], depth);
      for (size_t in = 0; in < node.inputs.size(); ++in) {
        const bool own_rows =
            node.kind == NodeKind::kAttention && node.attention.kind != AttentionKind::kGat && in == 1;
        walk(node.inputs[in], depth + (ReadsNeighbours(node) && !own_rows ? 1 : 0));
      }
      if (node.epilogue.residual >= 0) walk(node.epilogue.residual, depth);
    }
  };
  walk(program.output, 0);
  return depths;
}

void ExpectDepths(const Model& model, int input) {
  const Program program = Rewritten(model);
  const Depths got = DepthsOf(program), expected = ByAllWays(program);
  EXPECT_EQ(got.nodes, expected.nodes);
  EXPECT_EQ(got.input, expected.input);
  EXPECT_EQ(got.deepest, expected.deepest);
  EXPECT_EQ(got.input, input);
}

TEST(Depths, CountStepsOverNeighbourhoods) {
  ModelMaker maker(8);
  ValueId x =
      maker.Activate(maker.Bias(maker.Propagate(maker.Linear(0, 6, false), Reduce::kSum)), ActivationKind::kElu);
  x = maker.Propagate(maker.Linear(x, 3, false), Reduce::kSum);
  ExpectDepths(*maker.Done(x), 2);
}

TEST(Depths, RowsAloneAreAtTheOutput) {
  ModelMaker maker(8);
  ExpectDepths(*maker.Done(maker.Linear(maker.Activate(maker.Linear(0, 6, true), ActivationKind::kTanh), 3, true)), 0);
}

TEST(Depths, TheLongestBranchCounts) {
  ModelMaker maker(8);
  // A residual over two hops, another over none.
  const ValueId one = maker.Propagate(maker.Linear(0, 8, false), Reduce::kMean);
  const ValueId two = maker.Propagate(maker.Linear(one, 8, false), Reduce::kMax);
  const ValueId sum = maker.Sum(maker.Sum(two, one), 0);
  ExpectDepths(*maker.Done(maker.Linear(sum, 3, true)), 2);
}

TEST(Depths, JumpingKnowledgeKeepsEveryLayer) {
  ModelMaker maker(8);
  std::vector<ValueId> layers;
  ValueId x = 0;
  for (int i = 0; i < 3; ++i) {
    x = maker.Activate(maker.Propagate(maker.Linear(x, 8, true), Reduce::kSum), ActivationKind::kRelu);
    layers.push_back(x);
  }
  ExpectDepths(*maker.Done(maker.Linear(maker.Concat(layers), 3, true)), 3);
  ExpectDepths(*maker.Done(maker.Linear(maker.Max(layers), 3, true)), 3);
  ExpectDepths(*maker.Done(maker.Propagate(maker.Concat({layers[0], layers[2], layers[1], 0}), Reduce::kMax)), 4);
}

TEST(Depths, AttentionReadsNeighboursButItsQueries) {
  ModelMaker maker(8);
  const ValueId h = maker.Attention(maker.Linear(0, 8, false), 2, true);
  const ValueId v2 = maker.AttentionV2(maker.Linear(h, 8, true), maker.Linear(h, 8, true), 2, false);
  ExpectDepths(*maker.Done(v2), 2);
  // Queries from somewhere else are needed at the targets only.
  ModelMaker apart(8);
  const ValueId deep = apart.Propagate(0, Reduce::kMax);
  const ValueId queries = apart.Activate(apart.Propagate(deep, Reduce::kMax), ActivationKind::kTanh);
  const auto model = apart.Done(apart.AttentionV2(apart.Activate(0, ActivationKind::kTanh), queries, 2, true));
  ExpectDepths(*model, 2);
}

}  // namespace
}  // namespace vicinal::internal
