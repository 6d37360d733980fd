// SPDX-License-Identifier: Apache-2.0
// The links of a request after resolution: every name is a handle, every id is checked.
#ifndef VICINAL_ENGINE_EXECUTE_LINKS_LINK_QUERY_H_
#define VICINAL_ENGINE_EXECUTE_LINKS_LINK_QUERY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/api/links.h"
#include "engine/api/requests.h"
#include "engine/base/status.h"
#include "engine/model/model.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

struct LinkQuery {
  enum class Kind { kPairs, kEdges, kPartners, kAttention };

  Kind kind = Kind::kPairs;
  const Decoder* decoder = nullptr;  // of the request's model, or a constant; null for kAttention alone
  int32_t relation = 0;              // of all pairs where `relations` is empty
  // kPairs: places of their ends in the request's node ids.
  std::vector<int32_t> sources, targets, relations;
  // kPartners. Where some are named, the request's node ids begin with them, distinct and ascending.
  std::vector<int64_t> nodes;   // the client's ids
  std::vector<int32_t> places;  // where partners are named: of `nodes` in the request's node ids
  bool all_partners = false;
  int64_t num_partners = 0;
  int64_t k = 0;
  bool nodes_are_targets = false, exclude_links = false, include_self = false;

  // kAttention: of which layer of the request's model. `nodes` are the targets, none where all nodes are; the request's
  // node ids are the ends of their in-edges, distinct and ascending.
  const AttentionSource* attention = nullptr;

  int64_t rows = 0;  // of the scores: pairs, edges or nodes

  // Scores that are computed.
  int64_t num_pairs() const { return kind == Kind::kPartners ? rows * num_partners : rows; }
  // Columns of the scores.
  int64_t width() const {
    if (kind == Kind::kAttention) return attention->step.heads;
    return kind == Kind::kPartners ? k : 1;
  }
};

// Resolves `wanted`; sets the nodes whose rows are needed, and the output where `output` is empty. INVALID_ARGUMENT:
// BAD_LINKS, BAD_SELECTION, NODE_OUT_OF_RANGE, RELATION_OUT_OF_RANGE, BAD_TOP_K, OUTPUT_NOT_DECODED.
// ATTENTION_UNKNOWN, BAD_ATTENTION. FAILED_PRECONDITION: NO_DECODER. What `check` says of the answer's shape (it may be
// empty), before work of the answer's size. `model` must outlive the result.
StatusOr<std::shared_ptr<const LinkQuery>> ResolveLinks(const WantedLinks& wanted, const Model& model,
                                                        const PreparedGraph& graph, const AnswerCheck& check,
                                                        std::string* output, NodeSelection* nodes);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_LINKS_LINK_QUERY_H_
