// SPDX-License-Identifier: Apache-2.0
#include "engine/model/expressions/node_values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace vicinal::internal {
namespace {

constexpr size_t kMostMatrices = 8;  // of a step's program, at each end

// Terms of one value and one column read the same weights: they are one, however often an expression repeats them.
void AddTerm(const ProductTerm& term, std::vector<ProductTerm>* terms) {
  const auto same = std::find_if(terms->begin(), terms->end(),
                                 [&term](const ProductTerm& other) { return other.column == term.column; });
  if (same == terms->end()) {
    terms->push_back(term);
  } else {
    same->scale += term.scale;
  }
}

bool IsLeafOfRows(const EdgeValue& value) { return value.op == EdgeOp::kTarget || value.op == EdgeOp::kLinear; }

}  // namespace

int32_t ProgramMatrices::IndexOf(ValueId value) {
  const auto found = std::find(values_.begin(), values_.end(), value);
  if (found != values_.end()) return static_cast<int32_t>(found - values_.begin());
  values_.push_back(value);
  return static_cast<int32_t>(values_.size()) - 1;
}

std::vector<ValueId> ProgramMatrices::Inputs(EdgeOp op, StepList& steps, EdgeProgram* program) {
  int32_t& count = op == EdgeOp::kSource ? program->sources : program->targets;
  count = static_cast<int32_t>(values_.size());
  if (values_.size() <= kMostMatrices) return values_;
  std::vector<int64_t> first;
  int64_t width = 0;
  for (const ValueId value : values_) {
    first.push_back(width);
    width += steps.width(value);
  }
  for (EdgeValue& value : program->values) {
    if (value.op != op) continue;
    value.first += first[value.index];
    value.index = 0;
  }
  count = 1;
  return {steps.Emit(ConcatStep{}, values_, width)};
}

StatusOr<ValueId> NodeValues::Of(int32_t value) {
  VICINAL_ASSIGN_OR_RETURN(const int32_t own, made_.AtTarget(value));
  if (const auto known = known_.find(own); known != known_.end()) return known->second;
  VICINAL_ASSIGN_OR_RETURN(const ValueId made, Make(own));
  known_[own] = made;
  return made;
}

StatusOr<ValueId> NodeValues::Make(int32_t value) {
  const EdgeValue v = made_[value];
  if (v.op == EdgeOp::kTarget) {
    if (v.index == kDegreeMatrix) return Degree(Reduce::kSum);
    if (v.index == kOutDegreeMatrix) return Degree(Reduce::kSum, /*out=*/true);
    if (v.index == kAggregateMatrix) return aggregate_;
    return context_.inputs[v.index];
  }
  if (v.op == EdgeOp::kLinear) {
    std::vector<ProductTerm> terms;
    Split(v.a, /*sums=*/false, 0, 1.0, &terms);
    return Product(ParameterOf(v.index), ParameterOf(v.bias), terms);
  }
  VICINAL_ASSIGN_OR_RETURN(const ValueId made, ByStep(v));
  return made >= 0 ? made : ByRows(value);
}

StatusOr<ValueId> NodeValues::ByStep(const EdgeValue& v) {
  StepList& steps = context_.steps;
  if (v.op == EdgeOp::kConcat) return Joined(v);
  if (v.a < 0 || made_.depends(v.a) == 0) return -1;
  if (v.b >= 0 && made_.depends(v.b) == 0 && made_[v.a].width == v.width) return WithConstant(v);
  const bool both = v.b >= 0 && made_.depends(v.b) != 0 && made_[v.a].width == v.width && made_[v.b].width == v.width;
  StepOp op;
  if (v.op == EdgeOp::kActivation) {
    op = ActivationStep{v.activation};
  } else if (v.op == EdgeOp::kSlice) {
    op = SliceStep{v.first};
  } else if (both && v.op == EdgeOp::kAdd) {
    op = AddStep{};
  } else if (both && v.op == EdgeOp::kSubtract) {
    op = AddStep{1.0, -1.0};
  } else if (both && v.op == EdgeOp::kMultiply) {
    op = MultiplyStep{};
  } else if (both && v.op == EdgeOp::kMax) {
    op = MaxStep{};
  } else {
    return -1;
  }
  VICINAL_ASSIGN_OR_RETURN(const ValueId a, Of(v.a));
  std::vector<ValueId> inputs = {a};
  if (both) {
    VICINAL_ASSIGN_OR_RETURN(const ValueId b, Of(v.b));
    inputs.push_back(b);
  }
  return steps.Emit(std::move(op), std::move(inputs), v.width);
}

StatusOr<ValueId> NodeValues::WithConstant(const EdgeValue& v) {
  const EdgeValue& constant = made_[v.b];
  const bool number = constant.op == EdgeOp::kNumber;
  if (!number && constant.op != EdgeOp::kRow) return -1;
  const WeightRef row = number ? nullptr : ParameterOf(constant.index);
  const bool one = number || constant.width == 1;
  const double factor = number ? constant.number : one ? row->values[0] : 1.0;
  StepOp op;
  if (v.op == EdgeOp::kMultiply) {
    op = ScaleStep{factor, one ? nullptr : row};
  } else if (v.op == EdgeOp::kDivide && one && factor != 0.0) {
    op = ScaleStep{1.0 / factor, nullptr};
  } else if (v.op == EdgeOp::kAdd && one) {
    op = BiasStep{context_.tensors.Make(absl::StrCat("all ", factor), {v.width}, [&](std::vector<float>& values) {
      std::fill(values.begin(), values.end(), static_cast<float>(factor));
    })};
  } else if (v.op == EdgeOp::kAdd) {
    op = BiasStep{row};
  } else {
    return -1;
  }
  VICINAL_ASSIGN_OR_RETURN(const ValueId a, Of(v.a));
  return context_.steps.Emit(std::move(op), {a}, v.width);
}

StatusOr<ValueId> NodeValues::Joined(const EdgeValue& v) {
  std::vector<ValueId> inputs;
  for (const int32_t part : v.parts) {
    if (made_.depends(part) == 0) return -1;
    VICINAL_ASSIGN_OR_RETURN(const ValueId input, Of(part));
    inputs.push_back(input);
  }
  return context_.steps.Emit(ConcatStep{}, std::move(inputs), v.width);
}

StatusOr<ValueId> NodeValues::ByRows(int32_t value) {
  EdgeProgram program;
  program.over_edges = false;
  ExpressionStep step;
  ProgramMatrices matrices;
  std::map<int32_t, int32_t> put;
  VICINAL_ASSIGN_OR_RETURN(const int32_t result, Put(value, true, &step, &program, &matrices, &put));
  program.results = {{EdgeReduce::kSum, result, -1}};
  std::vector<ValueId> inputs = matrices.Inputs(EdgeOp::kTarget, context_.steps, &program);
  if (inputs.empty()) {
    // The rows of a constant are as many as the layer's.
    inputs = {context_.input()};
    program.targets = 1;
  }
  const int64_t width = made_[value].width;
  step.program = std::make_shared<const EdgeProgram>(std::move(program));
  return context_.steps.Emit(std::move(step), std::move(inputs), width);
}

StatusOr<int32_t> NodeValues::Put(int32_t value, bool root, ExpressionStep* step, EdgeProgram* program,
                                  ProgramMatrices* matrices, std::map<int32_t, int32_t>* put) {
  if (const auto known = put->find(value); known != put->end()) return known->second;
  EdgeValue v = made_[value];
  if (IsLeafOfRows(v) || (!root && known_.contains(value))) {
    VICINAL_ASSIGN_OR_RETURN(const ValueId matrix, Of(value));
    v = EdgeValue();
    v.op = EdgeOp::kTarget;
    v.width = made_[value].width;
    v.index = matrices->IndexOf(matrix);
  } else {
    const auto put_one = [&](int32_t* read) -> Status {
      if (*read < 0) return OkStatus();
      VICINAL_ASSIGN_OR_RETURN(*read, Put(*read, false, step, program, matrices, put));
      return OkStatus();
    };
    VICINAL_RETURN_IF_ERROR(put_one(&v.a));
    VICINAL_RETURN_IF_ERROR(put_one(&v.b));
    for (int32_t& part : v.parts) {
      VICINAL_RETURN_IF_ERROR(put_one(&part));
    }
    if (v.op == EdgeOp::kRow) {
      step->parameters.push_back(made_.parameters()[v.index]);
      v.index = static_cast<int32_t>(step->parameters.size()) - 1;
    }
  }
  program->values.push_back(std::move(v));
  return (*put)[value] = static_cast<int32_t>(program->values.size()) - 1;
}

void NodeValues::Split(int32_t argument, bool sums, int64_t column, double scale,
                       std::vector<ProductTerm>* terms) const {
  const EdgeValue& v = made_[argument];
  const auto one_end = [&](int32_t value) {
    return made_.depends(value) == kOfSource || made_.depends(value) == kOfTarget;
  };
  if (v.op == EdgeOp::kConcat) {
    for (const int32_t part : v.parts) {
      Split(part, sums, column, scale, terms);
      column += made_[part].width;
    }
    return;
  }
  const bool add = v.op == EdgeOp::kAdd || v.op == EdgeOp::kSubtract;
  // A sum of which no part is of one end alone stays a sum: one product is less than two.
  if (sums && add && !one_end(argument) && made_[v.a].width == v.width && made_[v.b].width == v.width &&
      (one_end(v.a) || one_end(v.b))) {
    Split(v.a, sums, column, scale, terms);
    return Split(v.b, sums, column, v.op == EdgeOp::kAdd ? scale : -scale, terms);
  }
  if (sums && v.op == EdgeOp::kMultiply && made_.IsNumber(v.b))
    return Split(v.a, sums, column, scale * made_[v.b].number, terms);
  terms->push_back({argument, column, scale});
}

WeightRef NodeValues::Columns(const WeightRef& weight, const std::vector<ProductTerm>& terms) const {
  const int64_t rows = weight->shape[0], stride = weight->shape[1], width = made_[terms[0].value].width;
  if (terms.size() == 1 && width == stride && terms[0].scale == 1.0) return weight;
  std::string key = "columns of " + weight->name;
  for (const ProductTerm& term : terms) absl::StrAppend(&key, " ", term.column, "*", term.scale);
  return context_.tensors.Make(key, {rows, width}, [&](std::vector<float>& values) {
    std::vector<double> sums(static_cast<size_t>(width));
    for (int64_t r = 0; r < rows; ++r) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (const ProductTerm& term : terms) {
        const float* const row = weight->values.data() + r * stride + term.column;
        for (int64_t c = 0; c < width; ++c) sums[static_cast<size_t>(c)] += term.scale * row[c];
      }
      std::copy(sums.begin(), sums.end(), values.begin() + r * width);
    }
  });
}

StatusOr<ValueId> NodeValues::Product(const WeightRef& weight, const WeightRef& bias,
                                      const std::vector<ProductTerm>& terms) {
  std::map<ValueId, std::vector<ProductTerm>> of_value;
  std::vector<ValueId> order;
  for (const ProductTerm& term : terms) {
    VICINAL_ASSIGN_OR_RETURN(const ValueId value, Of(term.value));
    if (of_value[value].empty()) order.push_back(value);
    AddTerm(term, &of_value[value]);
  }
  ValueId sum = -1;
  for (const ValueId value : order) {
    const LinearStep step{Columns(weight, of_value[value]), sum < 0 ? bias : nullptr};
    const ValueId product = context_.steps.Emit(step, {value}, weight->shape[0]);
    sum = sum < 0 ? product : Add(sum, product);
  }
  return sum;
}

ValueId NodeValues::Degree(Reduce reduce, bool out) {
  if (const auto known = degrees_.find({reduce, out}); known != degrees_.end()) return known->second;
  EdgeProgram one;
  one.over_edges = false;
  one.values.resize(1);
  one.values[0].number = 1.0f;
  one.results = {{EdgeReduce::kSum, 0, -1}};
  one.targets = 1;
  ExpressionStep step;
  step.program = std::make_shared<const EdgeProgram>(std::move(one));
  const ValueId ones = context_.steps.Emit(std::move(step), {context_.input()}, 1);
  PropagateStep count;
  count.adjacency = adjacency_;
  count.adjacency.transposed = out;
  count.reduce = reduce;
  return degrees_[{reduce, out}] = context_.steps.Emit(count, {ones}, 1);
}

}  // namespace vicinal::internal
