// SPDX-License-Identifier: Apache-2.0
// The rewriter's representation of a model: values, and nodes that each become one kernel launch. It is between a
// model's steps (what) and a plan's launches (how). Nodes include what a launch can fuse (bias, residual, activation);
// values may be column slices of others.
#ifndef VICINAL_ENGINE_PLAN_REWRITE_PROGRAM_H_
#define VICINAL_ENGINE_PLAN_REWRITE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/vocabulary.h"
#include "engine/model/step.h"
#include "engine/plan/node_kinds/node_kind.h"
#include "engine/plan/rewrite/product_weight.h"

namespace vicinal::internal {

// A matrix with one row per node, or per graph after a readout. Value 0 is the model's input.
struct Value {
  int64_t width = 0;
  bool per_graph = false;
  Storage storage = Storage::kFloat32;
  ValueId parent = -1;  // >= 0: a view of columns [offset, offset + width) of that value
  int64_t offset = 0;
};

// out = activation(scale * d_i * result + bias + residual_scale * residual), fused into the store of the node's result.
struct EpilogueSpec {
  double scale = 1.0;
  double residual_scale = 1.0;
  std::optional<SelfLoops> degree_scale;  // d_i: inverse root degrees (PreparedGraph::DegreeScale); absent: 1
  ParametersRef bias;
  ValueId residual = -1;
  Activation activation;

  bool empty() const {
    return scale == 1.0 && !degree_scale && bias == nullptr && residual < 0 && activation.kind == ActivationKind::kNone;
  }
};

// One layer of the MLP that a kMessageReduce applies to each message, or for a mixture to the features of each edge:
// activation(x W^T + b).
struct MessageLayer {
  ProductWeightRef weight;  // [H, F]
  ParametersRef bias;       // [H] or null
  Activation activation;
};

// What a kMessageReduce adds to the message of an edge with the features e [width]: W e + b.
struct EdgeTerm {
  int64_t width = 0;  // 0: nothing
  WeightRef weight;   // [D, width]; null: e itself
  WeightRef bias;     // [D] or null
};

struct Node {
  NodeKind kind = NodeKind::kRow;
  std::vector<ValueId> inputs;
  ValueId output = 0;
  EpilogueSpec epilogue;
  std::vector<int32_t> layers;  // layers of the model that it computes; the original one is first

  ProductWeightRef weight;                // kLinear, kPropagateLinear: [H, F]; kPropagate: of the product, or null
  EpilogueSpec inner;                     // kPropagate with a weight: of the rows that are multiplied
  ParametersRef scale, shift;             // kRow, kLayerNorm, kGraphNorm: [width] or null; kGate: scale [3 * width]
  double eps = 0.0;                       // kLayerNorm, kGraphNorm
  int64_t first_column = 0;               // kSlice
  AdjacencySpec adjacency;                // kPropagate, kPropagateLinear, kAttention, kMessageReduce, kExpression
  Reduce reduce = Reduce::kSum;           // kPropagate, kPropagateLinear, kMessageReduce, kReadout
  double self_scale = 0.0;                // kPropagate, kPropagateLinear
  std::optional<SelfLoops> source_scale;  // kPropagate: w_ij = d_j (PreparedGraph::DegreeScale); absent: as the
                                          // adjacency says
  // kMessageReduce:
  EdgeFunction edge_function = EdgeFunction::kActivation;
  Activation message_activation;             // of u + v, or of its second half
  Activation message_gate;                   // kGated: of the first half
  std::vector<MessageLayer> message_layers;  // after that; kMixture: of the features of edges
  std::optional<double>
      softmax_temperature;            // the sum is weighted by a softmax of that temperature; absent: as `reduce`
  EdgeTerm edge_term;                 // kMessageReduce: added to u + v
  EdgeGaussians edge_gaussians;       // kMixture, kOuter: coefficients, instead of message_layers
  AttentionStep attention;            // kAttention
  ExpressionStep expression;          // kExpression, kRowExpression
  bool in_place_of_messages = false;  // kExpression: it was a kMessageReduce (ExpressMessages)
};

struct Program {
  std::vector<Value> values;
  std::vector<Node> nodes;  // in execution order
  ValueId output = 0;
  bool sparse_input = false;
  std::vector<std::string> layer_names;  // of the model's layers
  std::vector<std::string> decisions;    // sentences for users; see Tell
  int64_t untold = 0;                    // number of omitted decisions

  // Adds a decision. Those after the first kMaxDecisions are only counted, because a model may have tens of thousands
  // of steps.
  static constexpr size_t kMaxDecisions = 1000;
  void Tell(std::string decision);
};

// The value whose memory contains `value`, and the column where it begins there.
struct Place {
  ValueId root = 0;
  int64_t offset = 0;
};
Place PlaceOf(const Program& program, ValueId value);

// Calls f(value) for each value that `node` reads.
template <class F>
void ForEachRead(const Node& node, F&& f) {
  for (ValueId input : node.inputs) f(input);
  for (const ValueId residual : {node.inner.residual, node.epilogue.residual}) {
    if (residual >= 0) f(residual);
  }
}
// How often each value is read: by nodes, and once more if it is the program's output.
std::vector<int> CountUses(const Program& program);
// Index of the node that writes each value (for a slice: its parent's); -1 for the input and for values that no node
// writes.
std::vector<int> FindProducers(const Program& program);
// Removes the nodes for which `gone` is not 0.
void RemoveNodes(const std::vector<char>& gone, Program* program);
// Drops nodes that the output does not need. Orders the rest so that inputs come first, and otherwise keeps their
// order.
Program Schedule(Program program);

// Appends `layers` to those of `node`, each once.
void AddLayers(const std::vector<int32_t>& layers, Node* node);
// Whether the reduction of W x is W times the reduction of x, so that aggregation and product may be swapped.
bool IsLinear(Reduce reduce);
// "conv1 + act1"; truncated with "... + 12 more".
std::string LayerNames(const Program& program, const Node& node);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_REWRITE_PROGRAM_H_
