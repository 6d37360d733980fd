// SPDX-License-Identifier: Apache-2.0
// The operations that plans consist of. Each has a Problem (shapes and kinds, known when planning) and Args (views,
// known when running). Kernels implement them (kernels/kernel.h). Dimension letters: R rows computed (targets), S rows
// read (sources), D aggregated width, F input features, H output width, K heads, C width of a head.
#ifndef VICINAL_ENGINE_KERNELS_OPERATIONS_H_
#define VICINAL_ENGINE_KERNELS_OPERATIONS_H_

#include <array>
#include <cstdint>

#include "engine/api/kernel_config.h"
#include "engine/base/vocabulary.h"
#include "engine/device/views.h"

namespace vicinal {

class AdjacencyLayout;

// Features of the edges of an adjacency, in the device's memory: those of the graph as sent, [E, A] in the order of its
// CSR, and of self-loops that were put in place of its own. Nothing of the size of the edges is derived or copied.
struct EdgeFeaturesView {
  int64_t width = 0;              // A; 0: edges have no features
  const float* values = nullptr;  // [E, A]
  CsrView sent;                   // the graph's edges [N, N]
  // For adjacencies with one loop per node instead of those sent (SelfLoops::kReplace): row `node` of loop_values,
  // whose rows begin loop_stride apart (0: all nodes have the same).
  bool one_loop_each = false;
  const float* loop_values = nullptr;
  int64_t loop_stride = 0;
  const int32_t* nodes = nullptr;  // node of each row of the adjacency [R]; null: row i is node i
};

// Fused into the store of every operation's result:
// dst[i] = activation(scale * row_scale[i] * result[i] + bias + residual_scale * residual[i]).
struct Epilogue {
  float scale = 1.0f;                // with row_scale, (scale * row_scale[i]) is formed first
  const float* row_scale = nullptr;  // [R] or null (1): one side of a rank-1 edge weight, d_i of d_i * d_j
  const float* bias = nullptr;       // [width of dst] or null
  ConstMatrixView residual;          // [R, width of dst] or empty; may be dst itself
  float residual_scale = 1.0f;
  Activation activation;

  // Whether it leaves results unchanged.
  bool IsPlain() const {
    return scale == 1.0f && row_scale == nullptr && bias == nullptr && residual.empty() &&
           activation.kind == ActivationKind::kNone;
  }
};

// dst[i] = epilogue(reduce over edges (j -> i) of w_ij * src[j], plus self_scale * src[i]). w_ij is the adjacency's
// value if it has values, otherwise src_scale[j] if set, otherwise 1. With out_width: dst[i] = epilogue(row * W^T) with
// row = row_epilogue(the same), rounded to float32. The bits equal those of dense_update, without storing row.
struct AggregateProblem {
  Reduce reduce = Reduce::kSum;
  bool weighted = false;  // the adjacency has values, or src_scale is set
  int64_t rows = 0;       // R
  int64_t cols = 0;       // S
  int64_t edges = 0;
  int64_t width = 0;                    // D
  Storage storage = Storage::kFloat32;  // of src
  bool source_scaled = false;           // weighted by src_scale: the adjacency has no values
  int64_t out_width = 0;                // H of the fused product; 0: none
};
struct AggregateArgs {
  AggregateProblem problem;
  KernelConfig config;
  CsrView adjacency;  // [R, S]; columns ascend within a row on whole graphs, not in receptive fields
  const AdjacencyLayout* layout = nullptr;  // made from `adjacency` by Kernel::MakeLayout; null: the kernel needs none
  ConstMatrixView src;                      // [S, D]; empty unless storage is kFloat32
  ConstMatrixView16 src16;                  // [S, D]; for the 16-bit storages
  const float* src_scale = nullptr;         // [S] or null: w_ij = src_scale[j]; only if the adjacency has no values
  MatrixView dst;                           // [R, D], with a product [R, H]; never overlaps src
  float self_scale = 0.0f;                  // not 0: needs R == S
  Epilogue epilogue;
  // For a fused product; rows of src then begin at multiples of 16 bytes.
  const void* weight = nullptr;  // W [H, D], packed by the same kernel
  Epilogue row_epilogue;         // of the rows that are multiplied, [R, D]
};

// Softmax-weighted sum over in-edges, K heads of width C. Scores e_ij per edge and head (AttentionKind), then dst[i, k]
// = sum_j softmax_j(e_ij) * value[j, k], concatenated [R, K*C] or the mean over heads [R, C]. Rows without edges: 0.
struct AttentionProblem {
  AttentionKind kind = AttentionKind::kGat;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t edges = 0;
  int64_t heads = 1;       // K
  int64_t head_width = 1;  // C
  bool concat = true;
  // Features of edges; they add to the scores of AttentionKind, with f_ij = e_ij W^T for the features e_ij [A]:
  // kGat: f_ij[k], to the sum before leaky_relu; kGatV2: f_ij, likewise; kDot: f_ij, to key and to value.
  int64_t edge_width = 0;  // A; 0: none
};
struct AttentionArgs {
  AttentionProblem problem;
  KernelConfig config;
  CsrView adjacency;           // [R, S], without values
  ConstMatrixView value;       // [S, K*C]
  ConstMatrixView score_src;   // kGat: [S, K]
  ConstMatrixView score_dst;   // kGat: [R, K]
  ConstMatrixView query;       // kGatV2, kDot: [R, K*C]
  ConstMatrixView key;         // kDot: [S, K*C]
  const float* att = nullptr;  // kGatV2: [K*C]
  float negative_slope = 0.2f;
  float score_scale = 1.0f;  // kDot: 1 / sqrt(C)
  EdgeFeaturesView edge;
  const float* edge_weight = nullptr;  // with edge features: W^T, kGat: [A, K]; otherwise [A, K*C]
  MatrixView dst;                      // [R, K*C] or [R, C]
  Epilogue epilogue;
};

// Generalised aggregation, FeatGraph's SpMM template (Hu et al., SC'20, section III). The message of an edge (j -> i)
// with u = src[j] and v = target[i] is m_ij = activation(message(u, v) * w_ij); with features e_ij of the edge,
// activation((message(u, v) + e_ij W^T + b) * w_ij), without the product if W is null. Message layers, if any, then
// apply an MLP to it: m = activation_l(m W_l^T + b_l) for each layer l. Finally dst[i] = epilogue(reduce over j of
// m_ij). A target without in-edges gets epilogue(0).
//
// Other forms of the message, without weights of edges and with D columns:
//   kGated: z = u + v + e_ij W^T + b has 2 D columns, m = gate(first half of z) * activation(second half of z). v may
//     have D columns: of the first half alone.
//   kMixture: the layers apply to e_ij and give p [K] (without layers p = e_ij): m = sum_k p_k u^k for parts u^k of D
//     columns of u; if u has one part more, that is added.
//   kOuter: m = p_1 u, p_2 u, .. side by side, K D columns, for p of `gaussians`; `reduce` is kSum or kMean.
// With `gaussians`, p_k = exp(sum_a scale_ka (e_a - mean_ka)^2) takes the place of the layers.
// With `softmax`, the sum is weighted per column: sum_j s_j m_ij / sum_j s_j for s_j = exp(temperature * m_ij).
enum class Message {
  kSource,    // u
  kAdd,       // u + v
  kSubtract,  // u - v
  kMultiply,  // u * v, element by element
};
enum class MessageForm { kPlain, kGated, kMixture, kOuter };
inline constexpr int kMaxMessageLayers = 4;
struct MessageReduceProblem {
  Message message = Message::kSource;
  Reduce reduce = Reduce::kSum;
  bool weighted = false;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t edges = 0;
  int64_t width = 0;                                       // D, of u, v and m (kOuter: u)
  int32_t num_layers = 0;                                  // of the MLP
  std::array<int64_t, kMaxMessageLayers> out_widths = {};  // of each; the last is the width of dst. None: dst is [R, D]
  int64_t edge_width = 0;                                  // A, of the edges' features; 0: none
  MessageForm form = MessageForm::kPlain;
  bool softmax = false;   // of `reduce`: kSum
  bool one_more = false;  // kMixture: u has K + 1 parts
  int64_t gaussians = 0;  // kMixture, kOuter: K, if coefficients are Gaussians of features; 0: they are not

  int64_t out_width() const {
    if (form == MessageForm::kOuter) return coefficients() * width;
    return num_layers == 0 || form == MessageForm::kMixture ? width : out_widths[num_layers - 1];
  }
  // K of kMixture and kOuter.
  int64_t coefficients() const {
    if (gaussians > 0) return gaussians;
    return num_layers == 0 ? edge_width : out_widths[num_layers - 1];
  }
  // Columns of u.
  int64_t source_width() const {
    if (form == MessageForm::kGated) return 2 * width;
    return form == MessageForm::kMixture ? (coefficients() + (one_more ? 1 : 0)) * width : width;
  }
  // Columns of W^T: of z, or 0.
  int64_t term_width() const { return mixes() ? 0 : source_width(); }
  bool mixes() const { return form == MessageForm::kMixture || form == MessageForm::kOuter; }
};
struct MessageLayerArgs {
  const void* weight = nullptr;  // [out, in], packed by the same kernel
  const float* bias = nullptr;   // [out] or null
  Activation activation;
};
struct MessageReduceArgs {
  MessageReduceProblem problem;
  KernelConfig config;
  CsrView adjacency;       // [R, S]
  ConstMatrixView src;     // [S, source_width()]
  ConstMatrixView target;  // [R, D]; kGated: [R, 2 D] or [R, D]; empty for kSource
  EdgeFeaturesView edge;
  const float* edge_weight = nullptr;     // with edge features: W^T [A, term_width()]; null: e_ij itself is added
  const float* edge_bias = nullptr;       // b [term_width()] or null; only with edge features
  Activation activation;                  // of the message, before the MLP; kGated: of the second half
  Activation gate;                        // kGated: of the first half
  const float* gaussian_mean = nullptr;   // with `gaussians`: [A, K]
  const float* gaussian_scale = nullptr;  // likewise
  float temperature = 1.0f;               // with `softmax`
  std::array<MessageLayerArgs, kMaxMessageLayers> layers;
  MatrixView dst;  // [R, out_width]
  Epilogue epilogue;
};

// Generalised sampled product, FeatGraph's SDDMM template (section III): one row per edge, in the adjacency's order.
// dst[e] = message(u, v) [E, D] or, with `dot`, the dot product of u and v per head, dst[e, k] = sum_c u[k, c] v[k, c]
// [E, K].
struct EdgeScoresProblem {
  bool dot = true;
  Message message = Message::kMultiply;  // without `dot`
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t edges = 0;
  int64_t width = 0;  // D
  int64_t heads = 1;  // K, divides D; with `dot`
};
struct EdgeScoresArgs {
  EdgeScoresProblem problem;
  KernelConfig config;
  CsrView adjacency;       // [R, S]
  ConstMatrixView src;     // [S, D]: u
  ConstMatrixView target;  // [R, D]: v
  MatrixView dst;          // [E, K] or [E, D]
};

// dst = epilogue(src * W^T). Each row's result depends on that row alone, with the same reduction order for any number
// of rows.
struct DenseUpdateProblem {
  int64_t rows = 0;
  int64_t in_width = 0;   // F
  int64_t out_width = 0;  // H
  ProductPrecision precision = ProductPrecision::kFloat32;
};
struct DenseUpdateArgs {
  DenseUpdateProblem problem;
  KernelConfig config;
  ConstMatrixView src;           // [R, F]
  const void* weight = nullptr;  // W [H, F], packed by the same kernel
  MatrixView dst;                // [R, H]; never overlaps src
  Epilogue epilogue;
};

// The same for src in CSR form, for sparse features.
struct SparseUpdateProblem {
  int64_t rows = 0;
  int64_t in_width = 0;
  int64_t out_width = 0;
  int64_t nnz = 0;
};
struct SparseUpdateArgs {
  SparseUpdateProblem problem;
  KernelConfig config;
  CsrView src;                   // [R, F]
  const void* weight = nullptr;  // W [H, F], packed by the same kernel
  MatrixView dst;                // [R, H]
  Epilogue epilogue;
};

// dst[i] = epilogue((reduce over edges (j -> i) of w_ij * src[j], plus self_scale * src[i]) * W^T) for src in CSR form,
// without a dense [R, F] in between: for reductions that do not commute with the product (max over bag-of-words
// features).
struct SparseAggregateUpdateProblem {
  Reduce reduce = Reduce::kMax;
  bool weighted = false;
  int64_t rows = 0;
  int64_t edges = 0;
  int64_t in_width = 0;
  int64_t out_width = 0;
  int64_t nnz = 0;
};
struct SparseAggregateUpdateArgs {
  SparseAggregateUpdateProblem problem;
  KernelConfig config;
  CsrView adjacency;  // [R, S]
  CsrView src;        // [S, F]
  float self_scale = 0.0f;
  const void* weight = nullptr;  // W [H, F], packed by the same kernel
  MatrixView dst;                // [R, H]
  Epilogue epilogue;
};

// All other work on rows, bound by memory bandwidth.
enum class RowwiseKind {
  // dst = epilogue(a * scale + shift): copies, affine maps (BatchNorm), activations, and sums through the residual.
  kAdd,
  // dst = epilogue(max(a, b)), elementwise.
  kMax,
  // dst = epilogue(a * b), elementwise.
  kMultiply,
  // dst = a / max(|a|_2, 1e-12), per row.
  kNormalize,
  // dst = epilogue((a - mean) / sqrt(variance + eps) * scale + shift), over each row.
  kLayerNorm,
  // dst = epilogue((a - mean) / (deviation + eps) * scale + shift), over all rows and columns of each segment. With
  // `batched`, divides by sqrt(variance + eps), as PyTorch Geometric's LayerNorm(mode="graph") does for a batch.
  kGraphNorm,
  // dst[i] = a[index[i]].
  kGatherRows,
  // dst = the dense form of `sparse`.
  kSparseToDense,
  // dst[g] = epilogue(reduce over the rows of segment g); a segment without rows gives 0.
  kReadout,
  // dst[i] = epilogue(a[g]) for the rows i of segment g.
  kExpand,
  // dst = g * b + (1 - g) * a with g = sigmoid(scale . [a, b, a - b]) per row; scale [3 * width]: TransformerConv's
  // beta.
  kGate,
  // dst16 = a, rounded to nearest even in the 16-bit storage of the problem; no epilogue.
  kNarrow,
  // dst = e^(a - m) / s for the largest m of a row of a and the sum s of its e^(a - m).
  kSoftmax,
  // dst = a - m - log(s).
  kLogSoftmax,
  // dst[g] = epilogue(the lower median of each column over the rows of segment g); a segment without rows gives 0.
  kMedian,
  // dst[g] = epilogue(the first rows of segment g side by side), as many as dst has room for, in descending order of
  // their last columns (equal ones: of the columns before, ...); 0 where the segment has fewer.
  kSortRows,
};
struct RowwiseProblem {
  RowwiseKind kind = RowwiseKind::kAdd;
  Reduce reduce = Reduce::kSum;  // kReadout
  int64_t rows = 0;              // of dst
  int64_t width = 0;
  Storage storage = Storage::kFloat32;  // kNarrow: of dst16
};
struct RowwiseArgs {
  RowwiseProblem problem;
  KernelConfig config;
  ConstMatrixView a;
  ConstMatrixView b;             // kMax, kMultiply, kGate
  CsrView sparse;                // kSparseToDense
  MatrixView dst;                // may be `a`, except for kGatherRows, kReadout, kExpand, kMedian and kSortRows
  MatrixView16 dst16;            // kNarrow
  const float* scale = nullptr;  // [width] or null (1); kGate: [3 * width]
  const float* shift = nullptr;  // [width] or null (0)
  float eps = 1e-5f;
  bool batched = false;
  const int64_t* segments = nullptr;  // of kinds over segments: [num_segments + 1] row offsets
  int64_t num_segments = 0;
  const int64_t* index = nullptr;  // kGatherRows: [rows of dst]
  Epilogue epilogue;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_OPERATIONS_H_
