// SPDX-License-Identifier: Apache-2.0
// Rank-1 edge weights without a value array: the symmetric normalisation of GCN (Kipf and Welling 2017, eq. 2) as a
// scaling before and after an unweighted aggregation. Saves 4 bytes per edge and turns multiply-adds into adds.
#include <utility>
#include <vector>

#include "engine/plan/rewrite/rewrite.h"

namespace vicinal::internal {
namespace {

// (Degree scales are those of in-edges, so an adjacency turned round keeps its weights.)
bool HasRankOneWeights(const Node& node) {
  const EdgeWeighting weighting = node.adjacency.weighting;
  return node.kind == NodeKind::kPropagate && node.reduce == Reduce::kSum && node.self_scale == 0.0 &&
         (weighting == EdgeWeighting::kGcnOnes || weighting == EdgeWeighting::kGcnSent) && !node.adjacency.transposed &&
         !node.epilogue.degree_scale;
}

// Whether `node` may store d_j * row in place of row. A bias or a residual would have to be scaled, too.
bool CanScaleStore(const Node& node) { return node.kind == NodeKind::kLinear && node.epilogue.empty(); }

}  // namespace

Program FactorWeights(Program program) {
  const std::vector<int> uses = CountUses(program), producers = FindProducers(program);
  bool factored = false;
  for (Node& node : program.nodes) {
    if (!HasRankOneWeights(node)) continue;
    const SelfLoops loops = node.adjacency.loops;
    const ValueId input = node.inputs[0];
    const int producer = producers[input];
    const bool alone = producer >= 0 && uses[input] == 1 && program.values[input].parent < 0 &&
                       program.nodes[producer].output == input;
    if (alone && CanScaleStore(program.nodes[producer])) {
      program.nodes[producer].epilogue.degree_scale = loops;
    } else {
      node.source_scale = loops;
    }
    node.epilogue.degree_scale = loops;
    node.adjacency.weighting = EdgeWeighting::kNone;
    node.adjacency.loop_weight = 1.0f;
    factored = true;
  }
  if (factored) {
    program.Tell("the normalised edge weights are products of one number per node: no weights per edge are read");
  }
  return program;
}

}  // namespace vicinal::internal
