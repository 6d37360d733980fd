// SPDX-License-Identifier: Apache-2.0
// Fuses Linear(Propagate(x)) into one node, with the aggregation's epilogue in between.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/plan/rewrite/rewrite.h"

namespace vicinal::internal {
namespace {

// From this width on, rows of values begin at multiples of four floats (RowStrideFor), as kernels that multiply
// require. The model's input is as it was uploaded.
constexpr int64_t kMinWidth = 3;

bool LiesInFours(const Program& program, ValueId value) {
  const Place place = PlaceOf(program, value);
  return place.root != kInputValue && place.offset % 4 == 0 && program.values[place.root].width >= kMinWidth;
}

// The aggregation whose result only `linear` reads; -1: none.
int InnerOf(const Program& program, const Node& linear, const std::vector<int>& uses,
            const std::vector<int>& producers) {
  const ValueId between = linear.inputs[0];
  const int producer = producers[between];
  if (producer < 0 || uses[between] != 1 || program.values[between].parent >= 0) return -1;
  const Node& inner = program.nodes[producer];
  const bool plain = inner.kind == NodeKind::kPropagate && inner.output == between && inner.weight == nullptr;
  return plain && LiesInFours(program, inner.inputs[0]) ? producer : -1;
}

}  // namespace

Program FuseProducts(Program program, const ProductRefusal& why_unsupported) {
  const std::vector<int> uses = CountUses(program), producers = FindProducers(program);
  std::vector<char> gone(program.nodes.size(), 0);
  for (Node& linear : program.nodes) {
    if (linear.kind != NodeKind::kLinear) continue;
    const int inner = InnerOf(program, linear, uses, producers);
    if (inner < 0) continue;
    const Node& propagate = program.nodes[inner];
    const std::string product = LayerNames(program, linear);
    const std::string refusal = why_unsupported(propagate, linear.weight->rows);
    if (!refusal.empty()) {
      program.Tell(absl::StrCat(product, ": multiplied in a separate step: ", refusal));
      continue;
    }
    program.Tell(absl::StrCat(product, ": fused into the aggregation of ", LayerNames(program, propagate),
                              ", whose rows are never stored"));
    Node both = propagate;
    both.inner = std::exchange(both.epilogue, linear.epilogue);
    both.weight = linear.weight;
    both.output = linear.output;
    AddLayers(linear.layers, &both);
    linear = std::move(both);
    gone[inner] = 1;
  }
  RemoveNodes(gone, &program);
  return program;
}

}  // namespace vicinal::internal
