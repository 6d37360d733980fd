// SPDX-License-Identifier: Apache-2.0
// The order of aggregation and update. A product has the same rows before and after an aggregation, so what differs is
// the width that travels along the edges: E * min(F, H) is the cheaper, whatever the graph; a sparse input is
// multiplied first, as nnz * H is less than making it dense. Maxima and minima never change places.
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/plan/rewrite.h"

namespace vicinal::internal {
namespace {

class ProductOrder {
 public:
  ProductOrder(Program* program, const RewriteSizes& sizes) : program_(*program), sizes_(sizes) {}

  // Swaps one pair, if one is better the other way round. Each swap lowers the sum of aggregated widths or moves a
  // product towards the input, so this ends.
  bool Step() {
    uses_ = CountUses(program_);
    producers_ = FindProducers(program_);
    for (Node& outer : program_.nodes) {
      if (outer.kind != NodeKind::kLinear && outer.kind != NodeKind::kPropagate) continue;
      Node* inner = InnerOf(outer);
      if (inner == nullptr) continue;
      const bool product_outside = outer.kind == NodeKind::kLinear;
      const Node& linear = product_outside ? outer : *inner;
      const bool sparse = program_.sparse_input && inner->inputs[0] == kInputValue;
      const int64_t in_width = linear.weight->cols, out_width = linear.weight->rows;
      if (product_outside ? !(sparse || out_width < in_width) : (sparse || in_width >= out_width)) continue;
      Tell(outer, *inner, product_outside, sparse);
      Swap(&outer, inner, product_outside ? out_width : in_width);
      return true;
    }
    return false;
  }

 private:
  // The node before `outer` that may change places with it: one product and one sum or mean, nothing between them or
  // beside.
  Node* InnerOf(const Node& outer) {
    const ValueId between = outer.inputs[0];
    if (uses_[between] != 1 || producers_[between] < 0) return nullptr;
    Node* inner = &program_.nodes[producers_[between]];
    if (!inner->tail.empty() || inner->kind == outer.kind) return nullptr;
    if (inner->kind != NodeKind::kLinear && inner->kind != NodeKind::kPropagate) return nullptr;
    const Node& propagate = inner->kind == NodeKind::kPropagate ? *inner : outer;
    return IsLinear(propagate.reduce) ? inner : nullptr;
  }

  // outer(inner(x)) becomes inner(outer(x)): what follows (tail, output) stays outside, the value between them gets
  // `width` columns.
  void Swap(Node* outer, Node* inner, int64_t width) {
    const ValueId between = inner->output;
    outer->inputs[0] = inner->inputs[0];
    inner->inputs[0] = between;
    std::swap(outer->output, inner->output);
    std::swap(outer->tail, inner->tail);
    program_.values[between].width = width;
    const int32_t own = outer->layers.front();
    AddLayers(outer->layers, inner);
    outer->layers = {own};
    program_ = Schedule(std::move(program_));
  }

  void Tell(const Node& outer, const Node& inner, bool product_outside, bool sparse) {
    const Node& linear = product_outside ? outer : inner;
    const int64_t in_width = linear.weight->cols, out_width = linear.weight->rows;
    const int64_t product = (sparse ? sizes_.input_nnz : sizes_.nodes * in_width) * out_width;
    const int64_t before = product + sizes_.edges * (product_outside ? in_width : out_width);
    const int64_t after = product + sizes_.edges * (product_outside ? out_width : in_width);
    program_.decisions.push_back(
        absl::StrCat(LayerNames(program_, linear),
                     product_outside ? ": multiplies before it aggregates, so that rows of "
                                     : ": aggregates before it multiplies, so that rows of ",
                     product_outside ? out_width : in_width, " columns travel along the edges instead of ",
                     product_outside ? in_width : out_width, sparse ? " and the sparse input stays sparse" : "", " (",
                     after, " multiply-adds instead of ", before, ")"));
  }

  Program& program_;
  const RewriteSizes& sizes_;
  std::vector<int> uses_, producers_;
};

}  // namespace

Program OrderProducts(Program program, const RewriteSizes& sizes) {
  ProductOrder order(&program, sizes);
  while (order.Step()) {
  }
  return program;
}

}  // namespace vicinal::internal
