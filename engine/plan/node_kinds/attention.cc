// SPDX-License-Identifier: Apache-2.0
// A sum over in-edges, weighted by a softmax of scores: operation attention.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/plan/build/step_binder.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/node_kinds/step_description.h"

namespace vicinal::internal {
namespace {

// The second input of kGatV2 and kDot are queries, which are the target's own.
bool GathersAttention(const Node& node, size_t index) {
  return index != 1 || node.attention.kind == AttentionKind::kGat;
}

void BindInputs(const Node& node, StepBinder* step, AttentionArgs* args) {
  step->Input(node.inputs[0], &args->value);
  if (node.attention.kind == AttentionKind::kGat) {
    const int64_t heads = node.attention.heads;
    step->InputColumns(node.inputs[1], 0, heads, &args->score_src);
    step->InputColumns(node.inputs[1], heads, heads, &args->score_dst);
    return;
  }
  step->Input(node.inputs[1], &args->query);
  if (node.attention.kind == AttentionKind::kDot) step->Input(node.inputs[2], &args->key);
}

// GAT's scores of features as one product: row a of W^T a_e [A, K] is the share of feature a in the score of each head.
std::vector<float> FeatureScores(const AttentionStep& attention) {
  const int64_t width = attention.edge_width, heads = attention.heads;
  std::vector<float> scores(static_cast<size_t>(width * heads));
  for (int64_t a = 0; a < width; ++a) {
    for (int64_t k = 0; k < heads; ++k) {
      double score = 0.0;
      for (int64_t c = k * attention.head_width; c < (k + 1) * attention.head_width; ++c) {
        score += static_cast<double>(attention.att_edge->values[c]) * attention.edge_weight->values[c * width + a];
      }
      scores[a * heads + k] = static_cast<float>(score);
    }
  }
  return scores;
}

Status BindEdgeFeatures(const AttentionStep& attention, StepBinder* step, AttentionArgs* args) {
  if (attention.edge_width == 0) return OkStatus();
  VICINAL_RETURN_IF_ERROR(step->EdgeFeatures(attention.edge_width, attention.loop_features, &args->edge));
  const auto weight = attention.kind == AttentionKind::kGat ? step->Copy(FeatureScores(attention))
                                                            : step->CopyTransposed(*attention.edge_weight);
  VICINAL_ASSIGN_OR_RETURN(args->edge_weight, weight);
  return OkStatus();
}

Status BindAttention(StepBinder* step) {
  const Node& node = step->node();
  const AttentionStep& attention = node.attention;
  const AdjacencyShape shape = step->ShapeOfAdjacency();
  VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, step->Adjacency());
  const AttentionProblem problem = {attention.kind,  shape.rows,           shape.cols,       shape.edges,
                                    attention.heads, attention.head_width, attention.concat, attention.edge_width};
  // Features of edges are no part of the key: a kernel's settings act on rows and columns of values.
  const TuningWork work = {KeyOf(problem, EdgeWeights::kNone), node.adjacency};
  VICINAL_ASSIGN_OR_RETURN(auto* bound, step->Choose(step->registry().attention, problem, &work));
  AttentionArgs& args = bound->args;
  args.adjacency = adjacency;
  args.negative_slope = static_cast<float>(attention.negative_slope);
  args.score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_width)));
  if (attention.kind == AttentionKind::kGatV2) {
    VICINAL_ASSIGN_OR_RETURN(args.att, step->Copy(attention.att_src->values));
  }
  BindInputs(node, step, &args);
  return BindEdgeFeatures(attention, step, &args);
}

void DescribeAttention(StepDescription* step) {
  const AttentionStep& attention = step->node().attention;
  const int64_t edges = step->sizes().edges, heads = attention.heads, width = heads * attention.head_width;
  const int64_t features = attention.edge_width;
  const bool gat = attention.kind == AttentionKind::kGat;
  *step->formula() = absl::StrCat(std::string(ToString(attention.kind)), " attention over ", step->AdjacencyShape(),
                                  " of ", heads, heads == 1 ? " head of " : " heads of ", attention.head_width,
                                  attention.concat ? "" : ", their mean");
  if (features > 0) absl::StrAppend(step->formula(), ", with features of edges [", edges, ", ", features, "]");
  // Products with features: per column in GATv2's scores, otherwise per head.
  const int64_t products = 2 * features * (attention.kind == AttentionKind::kGatV2 ? width : heads);
  step->SetCost(step->AdjacencyBytes() + edges * (width + (gat ? heads : 0) + features) * StepDescription::kFloatBytes +
                    step->Elements(step->node().inputs[1]) * StepDescription::kFloatBytes,
                edges * width * (gat ? 2 : 6) + edges * heads * 4 + edges * products);
}

}  // namespace

constinit const NodeTraits kAttentionTraits = {
    .kind = NodeKind::kAttention,
    .name = "attention",
    .locality = Locality::kNeighbourhood,
    .fuses_epilogue = true,
    .gathers = GathersAttention,
    .describe = DescribeAttention,
    .bind = BindAttention,
};

}  // namespace vicinal::internal
