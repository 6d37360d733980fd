// SPDX-License-Identifier: Apache-2.0
// The properties of a node kind that the rewriter, the builder and receptive fields use. Passes that concern certain
// kinds name these, and leave all other nodes unchanged.
#ifndef VICINAL_ENGINE_PLAN_NODE_KINDS_NODE_TRAITS_H_
#define VICINAL_ENGINE_PLAN_NODE_KINDS_NODE_TRAITS_H_

#include <cstddef>
#include <string_view>

#include "engine/base/status.h"
#include "engine/base/vocabulary.h"
#include "engine/plan/node_kinds/node_kind.h"

namespace vicinal::internal {

struct Node;
class StepBinder;
class StepDescription;

// A constant. The defaults suit a kind that computes each row of its output from the same row of its inputs.
struct NodeTraits {
  NodeKind kind;
  std::string_view name;

  // The rows that a row of the output depends on: the same row of the inputs, also those of in-neighbours, or all.
  // Plans with a node of kGraph have no receptive fields.
  Locality locality = Locality::kNode;
  // The output has one row per graph, whatever the rows of the inputs.
  bool row_per_graph = false;
  // Input 0 may be the model's sparse input. For other kinds it is made dense first.
  bool reads_sparse_input = false;
  // A launch of the kind can apply Node::epilogue. If not, the epilogue stays empty.
  bool fuses_epilogue = false;
  // kNeighbourhood: whether input `index` is read at in-neighbours, and not only at the row that is computed. Null: all
  // inputs are, which is always safe.
  bool (*gathers)(const Node& node, size_t index) = nullptr;

  // Describes a step for Explain: formula, bytes, operations. The epilogue is added afterwards.
  void (*describe)(StepDescription* step) = nullptr;
  // Chooses a kernel and fills in its arguments (all but dst and the epilogue). Null only for kinds that the rewriter
  // removes.
  Status (*bind)(StepBinder* step) = nullptr;
};

// Whether `node` reads rows of its input `index` for in-neighbours.
inline bool Gathers(const Node& node, const NodeTraits& traits, size_t index) {
  return traits.locality == Locality::kNeighbourhood && (traits.gathers == nullptr || traits.gathers(node, index));
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_NODE_KINDS_NODE_TRAITS_H_
