// SPDX-License-Identifier: Apache-2.0
// All that the rewriter, the builder and receptive fields ask of a kind of node. Passes that are about certain kinds
// name them, and leave nodes of any other kind as they are.
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

// A constant. The defaults are right for a kind that computes each row of its output from the same row of its inputs.
struct NodeTraits {
  NodeKind kind;
  std::string_view name;

  // What a row of the output depends on: a row of the inputs, the rows of its in-neighbours, or all rows. Plans with a
  // node of kGraph have no receptive fields.
  Locality locality = Locality::kNode;
  // The output has one row per graph, whatever the inputs have.
  bool row_per_graph = false;
  // Input 0 may be the model's sparse input as it is. For the other kinds it is made dense first.
  bool reads_sparse_input = false;
  // A launch of the kind can apply Node::epilogue. If not, the epilogue stays empty.
  bool fuses_epilogue = false;
  // kNeighbourhood: whether input `index` is read at in-neighbours, and not only at the row that is computed. Null: all
  // inputs are, which is always safe.
  bool (*gathers)(const Node& node, size_t index) = nullptr;

  // States what a step computes, what it moves and what it costs, for Explain. The epilogue is added afterwards.
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
