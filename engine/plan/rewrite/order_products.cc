// SPDX-License-Identifier: Apache-2.0
// The order of aggregation and update. A product costs the same before and after an aggregation; what differs is the
// width of the rows that are gathered. E * min(F, H) is cheaper for every graph. A sparse input is multiplied first,
// because nnz * H is less than making it dense. Maxima and minima are never swapped.
//
// One walk over the nodes: after a swap only the first of the two, in its new place, has to be looked at again. Nodes
// stay in place; the order is a linked list.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/plan/rewrite/rewrite.h"

namespace vicinal::internal {
namespace {

class ProductOrder {
 public:
  ProductOrder(Program* program, const RewriteSizes& sizes)
      : program_(*program), sizes_(sizes), uses_(CountUses(*program)), producers_(FindProducers(*program)) {
    const int count = static_cast<int>(program_.nodes.size());
    for (int node = -1; node < count; ++node) after_.push_back(node + 1);
    for (int node = 0; node <= count; ++node) before_.push_back(node - 1);
  }

  // Swaps pairs until none is better the other way round. Each swap lowers the sum of aggregated widths or moves a
  // product towards the input, so this ends. `stop`, which may be empty, is called periodically.
  void Run(const std::function<bool()>& stop) {
    constexpr int64_t kSwapsPerStop = 1024;
    const int count = static_cast<int>(program_.nodes.size());
    int64_t swaps = 0;
    for (int node = After(-1); node < count;) {
      if (!TrySwap(node)) {
        node = After(node);
      } else if (stop && ++swaps % kSwapsPerStop == 0 && stop()) {
        return;
      }
    }
    std::vector<Node> ordered;
    for (int node = After(-1); node < count; node = After(node)) ordered.push_back(std::move(program_.nodes[node]));
    program_.nodes = std::move(ordered);
  }

 private:
  // The links of the list. Index -1 is before the first node; the number of nodes is after the last.
  int& After(int node) { return after_[node + 1]; }

  void MoveBehind(int moved, int node) {
    After(before_[moved]) = After(moved);
    before_[After(moved)] = before_[moved];
    before_[moved] = node;
    After(moved) = After(node);
    before_[After(node)] = moved;
    After(node) = moved;
  }

  bool TrySwap(int at) {
    Node& outer = program_.nodes[at];
    if (outer.kind != NodeKind::kLinear && outer.kind != NodeKind::kPropagate) return false;
    Node* inner = InnerOf(outer);
    if (inner == nullptr) return false;
    const bool product_outside = outer.kind == NodeKind::kLinear;
    const Node& linear = product_outside ? outer : *inner;
    const bool sparse = program_.sparse_input && inner->inputs[0] == kInputValue;
    const int64_t in_width = linear.weight->cols, out_width = linear.weight->rows;
    if (product_outside ? !(sparse || out_width < in_width) : (sparse || in_width >= out_width)) return false;
    Tell(outer, *inner, product_outside, sparse);
    Swap(&outer, inner, product_outside ? out_width : in_width);
    return true;
  }

  // The node before `outer` that may be swapped with it: one is a product and one a sum or mean, with nothing between
  // them and no other reader.
  Node* InnerOf(const Node& outer) {
    const ValueId between = outer.inputs[0];
    if (uses_[between] != 1 || producers_[between] < 0) return nullptr;
    Node* inner = &program_.nodes[producers_[between]];
    if (!inner->epilogue.empty() || inner->kind == outer.kind) return nullptr;
    if (inner->kind != NodeKind::kLinear && inner->kind != NodeKind::kPropagate) return nullptr;
    const Node& propagate = inner->kind == NodeKind::kPropagate ? *inner : outer;
    return IsLinear(propagate.reduce) ? inner : nullptr;
  }

  // Turns outer(inner(x)) into inner(outer(x)). Epilogue and output stay on the outside, and the value between them
  // gets `width` columns.
  void Swap(Node* outer, Node* inner, int64_t width) {
    const ValueId between = inner->output;
    outer->inputs[0] = inner->inputs[0];
    inner->inputs[0] = between;
    std::swap(outer->output, inner->output);
    std::swap(outer->epilogue, inner->epilogue);
    program_.values[between].width = width;
    const int32_t own = outer->layers.front();
    AddLayers(outer->layers, inner);
    outer->layers = {own};
    const int first = static_cast<int>(outer - program_.nodes.data()),
              second = static_cast<int>(inner - program_.nodes.data());
    producers_[between] = first;
    producers_[inner->output] = second;
    MoveBehind(second, first);
  }

  void Tell(const Node& outer, const Node& inner, bool product_outside, bool sparse) {
    const Node& linear = product_outside ? outer : inner;
    const int64_t in_width = linear.weight->cols, out_width = linear.weight->rows;
    const int64_t product = (sparse ? sizes_.input_nnz : sizes_.nodes * in_width) * out_width;
    const int64_t before = product + sizes_.edges * (product_outside ? in_width : out_width);
    const int64_t after = product + sizes_.edges * (product_outside ? out_width : in_width);
    program_.Tell(
        absl::StrCat(LayerNames(program_, linear),
                     product_outside ? ": multiplies before it aggregates, so that rows of "
                                     : ": aggregates before it multiplies, so that rows of ",
                     product_outside ? out_width : in_width, " columns are gathered along the edges instead of ",
                     product_outside ? in_width : out_width, sparse ? " and the sparse input stays sparse" : "", " (",
                     after, " multiply-adds instead of ", before, ")"));
  }

  Program& program_;
  const RewriteSizes& sizes_;
  const std::vector<int> uses_;
  std::vector<int> producers_, after_, before_;
};

}  // namespace

Program OrderProducts(Program program, const RewriteSizes& sizes, const std::function<bool()>& stop) {
  ProductOrder(&program, sizes).Run(stop);
  return program;
}

}  // namespace vicinal::internal
