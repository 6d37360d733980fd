// SPDX-License-Identifier: Apache-2.0
// From the values of a MessagePassing layer to steps. What depends on the rows of one end of an edge is computed per
// node, by the steps that every layer uses. Products are split: W [x_i, x_j, e] = W1 x_i + W2 x_j + W3 e, and only the
// last is one of edges. A sum of products is the product of a sum. What is left per edge becomes a PropagateStep, an
// EdgeMessageStep or an AttentionStep where one of these computes it, and an ExpressionStep otherwise.
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_LOWER_MESSAGE_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_LOWER_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/expressions/expressions.h"
#include "engine/model/layer_type.h"

namespace vicinal::internal {

struct MessageDeclaration {
  AdjacencySpec adjacency;  // with weights if the message reads them
  int64_t edge_width = 0;   // features read of each edge
  LoopFeatures loop_features;
  std::vector<EdgeResult> results;  // of values per edge
  int32_t update = -1;              // of values per node; -1: the results side by side
  std::string field;                // of the message in the document; empty: the layer's
};

// The layer's output. BAD_ARCHITECTURE at the message: too much is computed per edge.
StatusOr<ValueId> LowerMessage(const LayerContext& context, const MessageDeclaration& declaration,
                               Expressions* expressions);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_LOWER_MESSAGE_H_
