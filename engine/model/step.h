// SPDX-License-Identifier: Apache-2.0
// The computation of a model as a list of steps over values. Layers are lowered to steps, plans rewrite them, and the
// tests' interpreter executes them. Steps define what is computed, in PyTorch Geometric's order, not how: no kernels,
// no device, no sizes of graphs. A value is a float matrix with one row per node (or, after a readout, per graph).
#ifndef VICINAL_ENGINE_MODEL_STEP_H_
#define VICINAL_ENGINE_MODEL_STEP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/edge_program.h"
#include "engine/base/vocabulary.h"

namespace vicinal {

// A weight: float32, row-major, immutable, shared by model and plans.
struct Weight {
  std::string name;  // in the weights file; derived weights name their origin
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using WeightRef = std::shared_ptr<const Weight>;

// Index of a value. 0 is the model's input x [N, F].
using ValueId = int32_t;
inline constexpr ValueId kInputValue = 0;

// Each kind of step has a name, states what a row of its output depends on, and lists its weights (null if an optional
// weight is absent).

// out = x W^T + b.   inputs: x [n, F]. W [H, F]; b [H] or null.
struct LinearStep {
  WeightRef weight;
  WeightRef bias;

  static constexpr std::string_view kName = "linear";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {weight, bias}; }
};
// out_i = reduce over in-edges (j -> i) of w_ij x_j, plus self_scale * x_i.   inputs: x.
// self_scale is 1 + eps in GINConv (a double: 1 + eps need not be a float). kMax never has self_scale != 0.
struct PropagateStep {
  AdjacencySpec adjacency;
  Reduce reduce = Reduce::kSum;
  double self_scale = 0.0;

  static constexpr std::string_view kName = "propagate";
  static constexpr Locality locality() { return Locality::kNeighbourhood; }
  std::vector<WeightRef> weights() const { return {}; }
};
// kGat: inputs: h [N, K*C]. Scores are leaky_relu(att_src . h_j + att_dst . h_i), per head; att_* [K*C].
// kGatV2: inputs: x_l [N, K*C] (values), x_r [N, K*C]. Scores are att . leaky_relu(x_l_j + x_r_i); att_src holds att,
// att_dst is null.
// kDot: inputs: values, queries, keys, each [N, K*C]. Scores are query_i . key_j / sqrt(C); att_* are null.
// With edge_width A > 0, f_ij = edge_weight e_ij [K*C] of the edge's features e_ij is added: kGat: att_edge . f_ij to
// the score before leaky_relu; kGatV2: f_ij to x_l_j + x_r_i; kDot: f_ij to key_j and to value_j.
// out = softmax-weighted sum over in-edges, [N, K*C], or the mean over heads [N, C] where concat is false.
struct AttentionStep {
  AttentionKind kind = AttentionKind::kGat;
  AdjacencySpec adjacency;
  int64_t heads = 1;
  int64_t head_width = 1;
  double negative_slope = 0.2;
  bool concat = true;
  WeightRef att_src, att_dst;
  int64_t edge_width = 0;      // 0: features of edges are not read
  WeightRef edge_weight;       // [K*C, A]
  WeightRef att_edge;          // kGat: [K*C]
  LoopFeatures loop_features;  // of loops that `adjacency` adds

  static constexpr std::string_view kName = "attention";
  static constexpr Locality locality() { return Locality::kNeighbourhood; }
  std::vector<WeightRef> weights() const { return {att_src, att_dst, edge_weight, att_edge}; }
};
// out = x + b (a convolution's bias after propagating).   inputs: x.
struct BiasStep {
  WeightRef bias;

  static constexpr std::string_view kName = "bias";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {bias}; }
};
// out = activation(x).
struct ActivationStep {
  Activation activation;

  static constexpr std::string_view kName = "activation";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = (x - mean) / sqrt(var + eps) * weight + bias, per column with running statistics: BatchNorm in inference.
// weight, bias may be null.
struct BatchNormStep {
  WeightRef mean, var, weight, bias;
  double eps = 1e-5;

  static constexpr std::string_view kName = "batch_norm";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {mean, var, weight, bias}; }
};
// An operation of EdgeConv's message MLP. After folding normalisations and activations into the products before or
// after them, at most kMaxEdgeConvLayers products remain.
using EdgeConvOp = std::variant<LinearStep, BatchNormStep, ActivationStep>;
inline constexpr int kMaxEdgeConvLayers = 5;
// EdgeConv (Wang et al. 2019): out_i = reduce over in-edges (j -> i) of nn([x_i, x_j - x_i]), nn's operations one after
// the other.   inputs: x [N, F]; nn reads 2 F columns and begins with a product.
struct EdgeConvStep {
  AdjacencySpec adjacency;
  Reduce reduce = Reduce::kMax;
  std::vector<EdgeConvOp> nn;

  static constexpr std::string_view kName = "edge_conv";
  static constexpr Locality locality() { return Locality::kNeighbourhood; }
  std::vector<WeightRef> weights() const;
};
// One message m_ij [D] per edge (j -> i), of rows of nodes and the edge's features e_ij [A], and their reduction:
//   out_i = reduce over in-edges of m_ij, or with `softmax` sum_j s_ij m_ij / sum_j s_ij for s_ij = exp(temperature
//   m_ij), column by column.
// The message is a function of z_ij = u_j + v_i + W e_ij + b:
//   kActivation: m = nn(activation(z)), for z [D]; nn is empty or begins with a product.
//   kGated: m = gate(z^1) * activation(z^2), for the halves of z [2 D].
// or, without z, of coefficients p [K] of the edge:
//   kMixture: m = sum_k p_k u_j^k for the parts u^k [D] of u; if u has K + 1 parts, the last one is added.
//   kOuter: m = p_1 u_j, p_2 u_j, .. side by side, [K D] for u [D]; for kSum and kMean, without softmax. p are
//   Gaussians.
// p = nn(e_ij), where nn is empty (p = e_ij) or begins with a product, or with `gaussians` p_k = exp(sum_a scale_ka
// (e_a - mean_ka)^2) instead. W is null where A is the width of z (e_ij itself is added) or 0 (features are not read);
// b may be null.
//   inputs: u [N, width of z], [N, K D], [N, (K + 1) D] or for kOuter [N, D]; v, of the width of z or for kGated of
//   z^1, may be absent.
enum class EdgeFunction { kActivation, kGated, kMixture, kOuter };
struct EdgeGaussians {
  WeightRef mean, scale;  // [K, A]; null: none
};
struct EdgeMessageStep {
  AdjacencySpec adjacency;
  Reduce reduce = Reduce::kSum;
  bool softmax = false;
  double temperature = 1.0;
  EdgeFunction function = EdgeFunction::kActivation;
  int64_t edge_width = 0;  // A
  WeightRef edge_weight;   // W [width of z, A]
  WeightRef edge_bias;
  Activation activation;
  Activation gate;
  std::vector<EdgeConvOp> nn;
  EdgeGaussians gaussians;

  static constexpr std::string_view kName = "edge_message";
  static constexpr Locality locality() { return Locality::kNeighbourhood; }
  std::vector<WeightRef> weights() const;
};
// A message function as an expression (base/edge_program.h), what of it existing steps do not compute: per edge with
// its reductions, or per row.   inputs: the program's sources, then its targets; at least one.
struct ExpressionStep {
  AdjacencySpec adjacency;
  std::shared_ptr<const EdgeProgram> program;
  std::vector<WeightRef> parameters;  // of the program, by index
  int64_t edge_width = 0;             // features of each edge; 0: not read
  LoopFeatures loop_features;         // of loops that `adjacency` adds

  static constexpr std::string_view kName = "expression";
  Locality locality() const { return program->over_edges ? Locality::kNeighbourhood : Locality::kNode; }
  std::vector<WeightRef> weights() const { return parameters; }
};
// LayerNorm. per_node: over each row, / sqrt(var + eps). Otherwise over the whole graph (all nodes and features), /
// (std + eps), in batches of small graphs per graph and / sqrt(var + eps). weight, bias [width] may be null.
struct LayerNormStep {
  bool per_node = false;
  WeightRef weight, bias;
  double eps = 1e-5;

  static constexpr std::string_view kName = "layer_norm";
  Locality locality() const { return per_node ? Locality::kNode : Locality::kGraph; }
  std::vector<WeightRef> weights() const { return {weight, bias}; }
};
// out = a_scale * a + b_scale * b: residuals, SAGEConv's root, APPNP's teleport.   inputs: a, b.
struct AddStep {
  double a_scale = 1.0;
  double b_scale = 1.0;

  static constexpr std::string_view kName = "add";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = a * b, element by element.   inputs: a, b of one width.
struct MultiplyStep {
  static constexpr std::string_view kName = "multiply";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = factor * x * weight; weight [width] may be null.
struct ScaleStep {
  double factor = 1.0;
  WeightRef weight;

  static constexpr std::string_view kName = "scale";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {weight}; }
};
// out = columns [first, first + width of out) of x.
struct SliceStep {
  int64_t first = 0;

  static constexpr std::string_view kName = "slice";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = softmax of each row of x, or its logarithm.
struct SoftmaxStep {
  bool logarithm = false;

  static constexpr std::string_view kName = "softmax";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = the inputs side by side (JumpingKnowledge cat).   inputs: two or more.
struct ConcatStep {
  static constexpr std::string_view kName = "concat";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = element-wise maximum of the inputs (JumpingKnowledge max).
struct MaxStep {
  static constexpr std::string_view kName = "max";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = x / max(|x|_2, 1e-12), per row (SAGEConv(normalize=True)).
struct NormalizeStep {
  static constexpr std::string_view kName = "normalize";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = one row per graph: reduce over its nodes.   inputs: x.
struct ReadoutStep {
  Reduce reduce = Reduce::kSum;

  static constexpr std::string_view kName = "readout";
  static constexpr Locality locality() { return Locality::kGraph; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = one row per graph: for each column the lower median over its nodes, of n numbers the one with (n - 1) / 2
// before it; 0 without nodes.   inputs: x.
struct MedianStep {
  static constexpr std::string_view kName = "median";
  static constexpr Locality locality() { return Locality::kGraph; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = one row per graph, [width of out / F] rows of x [n, F] side by side: those of its nodes in descending order of
// their last columns (equal ones: of the columns before, ...), and 0 where there are fewer.   inputs: x.
struct SortStep {
  static constexpr std::string_view kName = "sort";
  static constexpr Locality locality() { return Locality::kGraph; }
  std::vector<WeightRef> weights() const { return {}; }
};
// out = the row of its graph, for each node.   inputs: x [graphs, F].
struct ExpandStep {
  static constexpr std::string_view kName = "expand";
  static constexpr Locality locality() { return Locality::kGraph; }
  std::vector<WeightRef> weights() const { return {}; }
};

// TransformerConv's gated skip connection (beta=True): b = sigmoid(w . [out, skip, out - skip]) per row, then
// b * skip + (1 - b) * out.   inputs: out, skip [N, H]. w [1, 3 H].
struct GateStep {
  WeightRef weight;

  static constexpr std::string_view kName = "gate";
  static constexpr Locality locality() { return Locality::kNode; }
  std::vector<WeightRef> weights() const { return {weight}; }
};

using StepOp =
    std::variant<LinearStep, PropagateStep, AttentionStep, EdgeConvStep, EdgeMessageStep, ExpressionStep, BiasStep,
                 ActivationStep, BatchNormStep, LayerNormStep, AddStep, MultiplyStep, ScaleStep, SliceStep, SoftmaxStep,
                 GateStep, ConcatStep, MaxStep, NormalizeStep, ReadoutStep, MedianStep, SortStep, ExpandStep>;

struct Step {
  StepOp op;
  std::vector<ValueId> inputs;
  ValueId output = 0;
  int64_t width = 0;  // of the output
  int32_t layer = 0;  // index into Model::layers: which layer it belongs to
};

// The rows that a row of the step's output depends on.
Locality LocalityOf(const StepOp& op);
// Features that it reads of each edge; 0: none.
int64_t EdgeWidthOf(const StepOp& op);
// "linear", "propagate", ...
std::string StepName(const StepOp& op);
// Null if an optional weight is absent.
std::vector<WeightRef> WeightsOf(const StepOp& op);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_MODEL_STEP_H_
