// SPDX-License-Identifier: Apache-2.0
// Folds row-wise nodes into the node before them, each of which saves a pass over memory. Scales (BatchNorm) go into
// weights, in double; bias, residual and activation go into the epilogue. Folding only fills epilogues, so a row that
// cannot be folded now cannot be folded later, unless it has itself absorbed another row. One walk over the nodes is
// therefore enough. The numbers of uses do not change; producers are updated on the way.
#include <utility>
#include <vector>

#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/rewrite/rewrite.h"

namespace vicinal::internal {
namespace {

// a + b, either of which may be null.
ParametersRef Sum(const ParametersRef& a, const ParametersRef& b) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  auto sum = std::make_shared<Parameters>(*a);
  for (size_t i = 0; i < sum->values.size(); ++i) sum->values[i] += b->values[i];
  return sum;
}

// a * factor; null for null.
ParametersRef Times(const ParametersRef& a, double factor) {
  if (a == nullptr || factor == 1.0) return a;
  auto product = std::make_shared<Parameters>(*a);
  for (double& value : product->values) value *= factor;
  return product;
}

// Each number of a vector times that of `scale`; null for null.
ParametersRef Scaled(const ParametersRef& a, const Parameters& scale) {
  if (a == nullptr) return nullptr;
  auto scaled = std::make_shared<Parameters>(*a);
  for (size_t i = 0; i < scaled->values.size(); ++i) scaled->values[i] *= scale.values[i];
  return scaled;
}

// Whether Scaled is as exact as `a`; null is.
bool ScalesWell(const ParametersRef& a, const Parameters& scale) {
  for (size_t i = 0; a != nullptr && i < a->values.size(); ++i) {
    if (!StaysNormal(a->values[i], scale.values[i])) return false;
  }
  return true;
}

class Absorber {
 public:
  Absorber(Program* program, bool residuals)
      : program_(*program), residuals_(residuals), uses_(CountUses(*program)), producers_(FindProducers(*program)) {}

  void Run() {
    gone_.assign(program_.nodes.size(), 0);
    for (int i = 0; i < static_cast<int>(gone_.size()); ++i) {
      // A row that absorbed another may be foldable now.
      for (int row = i; row >= 0;) row = TryAbsorb(row);
    }
    std::vector<Node> kept;
    for (size_t i = 0; i < gone_.size(); ++i) {
      if (!gone_[i]) kept.push_back(std::move(program_.nodes[i]));
    }
    program_.nodes = std::move(kept);
  }

 private:
  // Returns the node that absorbed it; -1: none.
  int TryAbsorb(int at) {
    Node& row = program_.nodes[at];
    if (row.kind != NodeKind::kRow || (row.epilogue.residual >= 0 && !residuals_)) return -1;
    Node* into = Target(&row);
    if (into == nullptr) return -1;
    const int taker = static_cast<int>(into - program_.nodes.data());
    producers_[into->output] = -1;
    producers_[row.output] = taker;
    Absorb(row, into);
    gone_[at] = 1;
    return taker;
  }

  // The node that `row` can go into, with `row`'s input and residual swapped if the residual's producer is the better
  // one; null if none.
  Node* Target(Node* row) {
    Node* first = Producer(row->inputs[0]);
    if (first != nullptr && !CanTake(*first, *row)) first = nullptr;
    const bool sum = row->epilogue.residual >= 0 && row->scale == nullptr && row->shift == nullptr;
    Node* second = sum ? Producer(row->epilogue.residual) : nullptr;
    if (second != nullptr && !CanTake(*second, *row)) second = nullptr;
    if (second == nullptr || (first != nullptr && Aggregates(*first))) return first;
    if (first != nullptr && !Aggregates(*second)) return first;
    std::swap(row->inputs[0], row->epilogue.residual);
    std::swap(row->epilogue.scale, row->epilogue.residual_scale);
    return second;
  }

  // The node that computes `value`, if it has only one reader; otherwise null.
  Node* Producer(ValueId value) {
    if (uses_[value] != 1 || producers_[value] < 0) return nullptr;
    Node* node = &program_.nodes[producers_[value]];
    return node->output == value ? node : nullptr;
  }

  // A product keeps an empty epilogue if it can, so that its siblings can join it.
  static bool Aggregates(const Node& node) { return TraitsOf(node.kind).locality == Locality::kNeighbourhood; }

  bool CanTake(const Node& node, const Node& row) {
    if (!TraitsOf(node.kind).fuses_epilogue || node.epilogue.activation.kind != ActivationKind::kNone) return false;
    if (row.epilogue.residual >= 0 && node.epilogue.residual >= 0) return false;
    if (row.epilogue.scale != 1.0 && !TakesFactor(node, row.epilogue.scale)) return false;
    if (row.scale == nullptr) return true;
    return node.epilogue.residual < 0 && TakesScale(node, *row.scale);
  }

  // Folded values must not leave float32's range if the separate steps would not.
  bool TakesFactor(const Node& node, double factor) {
    if (!Multiplies(node)) return StaysNormal(node.epilogue.scale, factor);
    return ranges_.StaysNormal(*node.weight, std::vector<double>(node.weight->rows, factor));
  }

  bool TakesScale(const Node& node, const Parameters& scale) {
    if (!ScalesWell(node.epilogue.bias, scale)) return false;
    switch (node.kind) {
      case NodeKind::kLinear:
      case NodeKind::kPropagateLinear:
        return ranges_.StaysNormal(*node.weight, scale.values);
      case NodeKind::kRow:
      case NodeKind::kLayerNorm:
      case NodeKind::kGraphNorm:
        return ScalesWell(node.scale, scale) && ScalesWell(node.shift, scale);
      case NodeKind::kPropagate: {
        const Node* inner = InnerProduct(node);
        return inner != nullptr && ranges_.StaysNormal(*inner->weight, scale.values);
      }
      default:
        return false;
    }
  }

  static bool Multiplies(const Node& node) {
    return node.kind == NodeKind::kLinear || node.kind == NodeKind::kPropagateLinear;
  }

  // The product without epilogue that a sum or mean over neighbours reads alone: scaling its rows scales the sums.
  Node* InnerProduct(const Node& propagate) {
    if (!IsLinear(propagate.reduce)) return nullptr;
    Node* inner = Producer(propagate.inputs[0]);
    return inner != nullptr && inner->kind == NodeKind::kLinear && inner->epilogue.empty() ? inner : nullptr;
  }

  void Scale(const Parameters& scale, Node* node) {
    node->epilogue.bias = Scaled(node->epilogue.bias, scale);
    if (Multiplies(*node)) {
      node->weight = ScaledRows(*node->weight, scale.values);
    } else if (node->kind == NodeKind::kPropagate) {
      Node* inner = InnerProduct(*node);
      inner->weight = ScaledRows(*inner->weight, scale.values);
    } else {
      node->shift = Scaled(node->shift, scale);
      auto ones = std::make_shared<Parameters>(scale);
      node->scale = node->scale != nullptr ? Scaled(node->scale, scale) : std::move(ones);
    }
  }

  void Absorb(const Node& row, Node* into) {
    if (row.scale != nullptr) {
      Scale(*row.scale, into);
      program_.Tell("the normalisation of " + LayerNames(program_, row) + " is folded into the weights of " +
                    LayerNames(program_, *into));
    }
    const double scale = row.epilogue.scale;
    into->epilogue.bias = Sum(Times(Sum(into->epilogue.bias, row.shift), scale), row.epilogue.bias);
    if (Multiplies(*into)) {
      if (scale != 1.0) into->weight = ScaledRows(*into->weight, std::vector<double>(into->weight->rows, scale));
    } else {
      into->epilogue.scale *= scale;
    }
    into->epilogue.residual_scale *= scale;
    if (row.epilogue.residual >= 0) {
      into->epilogue.residual = row.epilogue.residual;
      into->epilogue.residual_scale = row.epilogue.residual_scale;
    }
    into->epilogue.activation = row.epilogue.activation;
    into->output = row.output;
    AddLayers(row.layers, into);
  }

  Program& program_;
  const bool residuals_;
  const std::vector<int> uses_;
  std::vector<int> producers_;
  std::vector<char> gone_;
  WeightRanges ranges_;
};

}  // namespace

Program AbsorbRows(Program program, bool residuals) {
  Absorber(&program, residuals).Run();
  return Schedule(std::move(program));
}

}  // namespace vicinal::internal
