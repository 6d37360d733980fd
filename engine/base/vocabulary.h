// SPDX-License-Identifier: Apache-2.0
// Types that models and kernels share, so that neither includes the other: how messages are reduced, which adjacency a
// layer uses, which activation follows, how gathered rows are stored.
#ifndef VICINAL_ENGINE_BASE_VOCABULARY_H_
#define VICINAL_ENGINE_BASE_VOCABULARY_H_

#include <string_view>

namespace vicinal {

// The reduction of the messages of a target's in-edges. A target without in-edges always gets 0.
enum class Reduce {
  kSum,
  kMean,  // divided by the number of in-edges (duplicates count), not by their weights
  kMax,
  kMin,
};

// The attention score of an edge (j -> i); softmax over a target's in-edges follows.
enum class AttentionKind {
  kGat,    // e_ij = leaky_relu(score_src[j, k] + score_dst[i, k])                      (Velickovic et al. 2018)
  kGatV2,  // e_ij = sum_c att[k, c] * leaky_relu(value[j, k, c] + query[i, k, c])      (Brody et al. 2022)
  kDot,  // e_ij = score_scale * sum_c query[i, k, c] * key[j, k, c]                  (TransformerConv: Shi et al. 2021)
};

enum class ActivationKind {
  kNone,
  kRelu,
  kElu,
  kLeakyRelu,
  kSigmoid,
  kTanh,
  kSilu,         // x sigmoid(x)
  kGelu,         // x P(a standard normal variable < x)
  kGeluTanh,     // x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))
  kSoftplus,     // log(1 + e^x); x above `slope`
  kMish,         // x tanh(log(1 + e^x))
  kSoftsign,     // x / (1 + |x|)
  kClamp,        // max(slope, min(x, limit))
  kThreshold,    // x above `slope`, otherwise `limit`
  kHardSigmoid,  // x / 6 + 1 / 2 between 0 and 1
  kHardSwish,    // x times that
  kHardShrink,   // 0 from -slope to slope, otherwise x
  kExp,          // e^x
  kRoot,         // (x + slope)^1/2
  kInverseRoot,  // (x + slope)^-1/2
  kSquare,       // x^2
};

struct Activation {
  ActivationKind kind = ActivationKind::kNone;
  float slope = 0.0f;  // kLeakyRelu: slope below 0. kElu: alpha. Others: see there.
  float limit = 0.0f;  // kClamp, kThreshold

  friend bool operator==(const Activation&, const Activation&) = default;
};

// Storage of the rows that are gathered along edges; sums are always float32.
enum class Storage { kFloat32, kBfloat16, kFloat16 };

// Precision to which factors of products with weights may be rounded; sums are always float32. A device may use a
// higher precision.
enum class ProductPrecision { kFloat32, kTf32, kBfloat16, kFloat16 };

// The treatment of self-loops before propagating.
enum class SelfLoops {
  kAsSent,        // unchanged
  kAddRemaining,  // nodes without a loop get one of weight `loop_weight`; others keep one, with the last one's weight
                  // (GCNConv)
  kReplace,       // all loops are removed, then each node gets one (GATConv, GATv2Conv)
};

// The edge weights of the adjacency.
enum class EdgeWeighting {
  kNone,      // every edge counts 1
  kSent,      // the graph's edge weights (planning fails for an unweighted graph)
  kGcnSent,   // D^-1/2 A D^-1/2 over the graph's edge weights, degrees weighted and taken after SelfLoops; degree 0
              // gives 0
  kGcnOnes,   // the same over weights of 1
  kMeanOnes,  // 1 / d_i, of loops loop_weight / d_i, for the number d_i of in-edges after SelfLoops
  kSourceSymSent,   // D^-1/2 A D^-1/2 over the graph's edge weights, loops 0, for the weights D of each source's
                    // out-edges but loops; degree 0 gives 0
  kSourceSymOnes,   // the same over weights of 1
  kSourceMeanSent,  // A D^-1 for that D: each source shares itself out among its targets
  kSourceMeanOnes,  // the same over weights of 1
};

// Whether the weights come from the graph's edge weights.
constexpr bool ReadsEdgeWeights(EdgeWeighting weighting) {
  return weighting == EdgeWeighting::kSent || weighting == EdgeWeighting::kGcnSent ||
         weighting == EdgeWeighting::kSourceSymSent || weighting == EdgeWeighting::kSourceMeanSent;
}

// The adjacency a layer works on, derived from the graph as sent.
struct AdjacencySpec {
  SelfLoops loops = SelfLoops::kAsSent;
  float loop_weight = 1.0f;  // of added loops: 2 for GCNConv(improved=True), 1 + lambda for ClusterGCNConv
  EdgeWeighting weighting = EdgeWeighting::kNone;
  bool transposed = false;  // of the graph with all edges turned round: rows gather from the targets of their out-edges

  friend bool operator==(const AdjacencySpec&, const AdjacencySpec&) = default;
};

// The features of the self-loops that SelfLoops::kReplace adds.
struct LoopFeatures {
  bool mean = true;    // the mean of the node's in-edges from other nodes; 0 without any
  float value = 0.0f;  // without `mean`: every feature

  friend bool operator==(const LoopFeatures&, const LoopFeatures&) = default;
};

// The rows that a row of a step's output depends on.
enum class Locality {
  kNode,           // the same row of the inputs
  kNeighbourhood,  // also the rows of the in-neighbours
  kGraph,          // all rows of the graph
};

std::string_view ToString(Reduce reduce);               // "sum", "mean", "max", "min"
std::string_view ToString(AttentionKind kind);          // "gat", "gatv2", "dot"
std::string_view ToString(ActivationKind kind);         // "none", "relu", ...
std::string_view ToString(Storage storage);             // "float32", "bfloat16", "float16"
std::string_view ToString(ProductPrecision precision);  // "float32", "tf32", ...
std::string_view ToString(Locality locality);           // "node", "neighbourhood", "graph"
std::string_view ToString(SelfLoops loops);             // "as_sent", "add_remaining", "replace"
std::string_view ToString(EdgeWeighting weighting);     // "none", "sent", "gcn_sent", ...

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_VOCABULARY_H_
