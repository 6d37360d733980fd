// SPDX-License-Identifier: Apache-2.0
// The words that models and kernels share, so that neither needs to see the other: how messages are reduced, which
// adjacency a layer propagates over, which activation follows, how gathered rows are stored.
#ifndef VICINAL_ENGINE_BASE_VOCABULARY_H_
#define VICINAL_ENGINE_BASE_VOCABULARY_H_

#include <string_view>

namespace vicinal {

// How the messages of a target's in-edges become one row. A target without in-edges gets 0 in every case.
enum class Reduce {
  kSum,
  kMean,  // divided by the number of in-edges (duplicates count), not by their weights
  kMax,
  kMin,
};

// What attention scores of an edge (j -> i) are made of; softmax over a target's in-edges follows.
enum class AttentionKind {
  kGat,    // e_ij = leaky_relu(score_src[j, k] + score_dst[i, k])                      (Velickovic et al. 2018)
  kGatV2,  // e_ij = sum_c att[k, c] * leaky_relu(value[j, k, c] + query[i, k, c])      (Brody et al. 2022)
  kDot,  // e_ij = score_scale * sum_c query[i, k, c] * key[j, k, c]                  (TransformerConv: Shi et al. 2021)
};

enum class ActivationKind { kNone, kRelu, kElu, kLeakyRelu, kSigmoid, kTanh };

struct Activation {
  ActivationKind kind = ActivationKind::kNone;
  float slope = 0.0f;  // kLeakyRelu: slope below 0. kElu: alpha.

  friend bool operator==(const Activation&, const Activation&) = default;
};

// How the rows that are gathered along edges are stored; sums are float32 always.
enum class Storage { kFloat32, kBfloat16, kFloat16 };

// To what the factors of products with weights may be rounded before they are multiplied; sums are float32 always. A
// device may do better than that.
enum class ProductPrecision { kFloat32, kTf32, kBfloat16, kFloat16 };

// What is done about edges from a node to itself before propagating.
enum class SelfLoops {
  kAsSent,        // nothing
  kAddRemaining,  // nodes without a loop get one of weight `loop_weight`; those with loops keep the last one's weight,
                  // once (GCNConv)
  kReplace,       // all loops are removed, then each node gets one (GATConv, GATv2Conv)
};

// Weight of each edge of the adjacency that is propagated over.
enum class EdgeWeighting {
  kNone,     // every edge counts 1
  kSent,     // the graph's edge weights (an unweighted graph is refused when planning)
  kGcnSent,  // D^-1/2 A D^-1/2 over the graph's edge weights, degrees weighted and taken after SelfLoops; degree 0
             // gives 0
  kGcnOnes,  // the same over weights of 1
};

// The adjacency a layer works on, derived from the graph as sent.
struct AdjacencySpec {
  SelfLoops loops = SelfLoops::kAsSent;
  float loop_weight = 1.0f;  // of loops that are added: 2 for GCNConv(improved=True)
  EdgeWeighting weighting = EdgeWeighting::kNone;

  friend bool operator==(const AdjacencySpec&, const AdjacencySpec&) = default;
};

// What a row of a step's output depends on.
enum class Locality {
  kNode,           // the same row of the inputs
  kNeighbourhood,  // rows of the in-neighbours too
  kGraph,          // all rows of the graph
};

std::string_view ToString(Reduce reduce);               // "sum", "mean", "max", "min"
std::string_view ToString(AttentionKind kind);          // "gat", "gatv2", "dot"
std::string_view ToString(ActivationKind kind);         // "none", "relu", ...
std::string_view ToString(Storage storage);             // "float32", "bfloat16", "float16"
std::string_view ToString(ProductPrecision precision);  // "float32", "tf32", ...
std::string_view ToString(Locality locality);           // "node", "neighbourhood", "graph"
std::string_view ToString(SelfLoops loops);             // "as_sent", "add_remaining", "replace"
std::string_view ToString(EdgeWeighting weighting);     // "none", "sent", "gcn_sent", "gcn_ones"

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_VOCABULARY_H_
