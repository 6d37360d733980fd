// SPDX-License-Identifier: Apache-2.0
// 16-bit storage of gathered rows: a rounding step before each aggregation. Attention keeps float32, as the softmax
// would amplify rounding errors of its scores.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/rewrite/rewrite.h"

namespace vicinal::internal {

Program NarrowGathers(Program program, Storage storage) {
  std::map<ValueId, ValueId> narrowed;
  std::vector<Node> nodes;
  for (Node& node : program.nodes) {
    if (node.kind == NodeKind::kPropagate) {
      const auto [entry, is_new] = narrowed.try_emplace(node.inputs[0], static_cast<ValueId>(program.values.size()));
      if (is_new) {
        Value value;
        value.width = program.values[node.inputs[0]].width;
        value.per_graph = program.values[node.inputs[0]].per_graph;
        value.storage = storage;
        program.values.push_back(value);
        Node rounding;
        rounding.kind = NodeKind::kNarrow;
        rounding.inputs = {node.inputs[0]};
        rounding.output = entry->second;
        rounding.layers = node.layers;
        nodes.push_back(std::move(rounding));
      }
      node.inputs[0] = entry->second;
    }
    nodes.push_back(std::move(node));
  }
  program.nodes = std::move(nodes);
  const std::string name(ToString(storage));
  program.Tell(narrowed.empty() ? "nothing is rounded to " + name +
                                      " despite the request: attention and networks on edges keep float32"
                                : "gathered rows are rounded to " + name + ", as requested");
  return program;
}

}  // namespace vicinal::internal
