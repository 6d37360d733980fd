// SPDX-License-Identifier: Apache-2.0
// Scores of links, as a request asks for them: of pairs of nodes, of all edges of the graph, or the best partners of
// nodes. A score is made of two rows of one output of a model, the source's and the target's. Weights of attention come
// the same way: they belong to edges and are made of rows of both ends.
#ifndef VICINAL_ENGINE_API_LINKS_H_
#define VICINAL_ENGINE_API_LINKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/api/requests.h"

namespace vicinal {

// How two rows u (source) and v (target) become a score.
enum class LinkDecoder {
  kDefault,  // the model's own where it has one, otherwise kDot
  kModel,    // the model's own
  kDot,      // sum_c u_c v_c
  kCosine,   // the same of u / max(|u|, 1e-12) and v / max(|v|, 1e-12)
};

// Pairs of nodes, by the client's ids; any order, may repeat.
struct LinkPairs {
  std::vector<int64_t> sources, targets;  // of equal lengths
  // Of a model's decoder that has several: one per pair. Empty: WantedLinks::relation for all.
  std::vector<int32_t> relations;
};

// The best partners of nodes.
struct WantedPartners {
  NodeSelection nodes;             // may repeat
  NodeSelection partners;          // among which; may repeat, each counts once
  int64_t k = 0;                   // per node; at most as many as there are partners; 0: 10, or as many as there are
  bool nodes_are_targets = false;  // the partner is the source of the link, the node its target
  bool exclude_links = false;      // no partner to which the graph has the link already, in that direction
  bool include_self = false;       // the node may be its own partner
};

// The weights that a layer with attention gives the in-edges of nodes; per edge one for each of its heads.
struct WantedAttention {
  std::string layer;
  NodeSelection nodes;  // the targets; may repeat
};

// One of `pairs`, `all_edges`, `partners` and `attention`.
struct WantedLinks {
  LinkDecoder decoder = LinkDecoder::kDefault;
  int32_t relation = 0;  // of all pairs
  std::optional<LinkPairs> pairs;
  bool all_edges = false;
  std::optional<WantedPartners> partners;
  std::optional<WantedAttention> attention;  // takes no decoder, and ExecutionOptions::output is empty
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_LINKS_H_
