// SPDX-License-Identifier: Apache-2.0
#include "engine/model/expressions/expressions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/tensor.h"

namespace vicinal::internal {
namespace {

Status Misfit(const std::string& why) { return absl::InvalidArgumentError(why); }

std::string Columns(int64_t width) { return absl::StrCat(width, width == 1 ? " column" : " columns"); }

// A value's fields as text: equal for equal values.
std::string KeyOf(const EdgeValue& value) {
  std::string key = absl::StrCat(static_cast<int>(value.op), " ", value.width, " ", value.a, " ", value.b, " ",
                                 value.index, " ", value.bias, " ", value.first);
  absl::StrAppend(&key, " ", absl::Hex(std::bit_cast<uint32_t>(value.number)), " ",
                  static_cast<int>(value.activation.kind), " ",
                  absl::Hex(std::bit_cast<uint32_t>(value.activation.slope)), " ",
                  absl::Hex(std::bit_cast<uint32_t>(value.activation.limit)));
  for (const int32_t part : value.parts) absl::StrAppend(&key, ",", part);
  return key;
}

double Fold(EdgeOp op, double a, double b) {
  switch (op) {
    case EdgeOp::kAdd:
      return a + b;
    case EdgeOp::kSubtract:
      return a - b;
    case EdgeOp::kMultiply:
      return a * b;
    case EdgeOp::kDivide:
      return a / b;
    case EdgeOp::kMin:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

// max(x, bound) or min(x, bound).
Activation ClampOf(EdgeOp op, float bound) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (op == EdgeOp::kMin) return {ActivationKind::kClamp, -kInfinity, bound};
  return bound == 0.0f ? Activation{ActivationKind::kRelu} : Activation{ActivationKind::kClamp, bound, kInfinity};
}

// Rows of parameters up to this width are computed with at once.
constexpr int64_t kMaxFoldedWidth = 4096;

}  // namespace

StatusOr<int32_t> Expressions::Add(EdgeValue value) {
  if (value.width > kMaxExpressionWidth) {
    return Misfit(absl::StrCat("it has ", Columns(value.width), "; a value may have at most ", kMaxExpressionWidth));
  }
  int32_t& known = known_.try_emplace(KeyOf(value), -1).first->second;
  if (known >= 0) return known;
  if (values_.size() == kMaxExpressionValues) {
    return Misfit(
        absl::StrCat("the layer has more than ", kMaxExpressionValues,
                     " operations; shorten its expressions, or move what does not depend on edges into layers "
                     "of their own"));
  }
  uint8_t depends = value.op == EdgeOp::kSource                                    ? kOfSource
                    : value.op == EdgeOp::kTarget                                  ? kOfTarget
                    : value.op == EdgeOp::kFeatures || value.op == EdgeOp::kWeight ? kOfEdge
                                                                                   : 0;
  if (value.a >= 0) depends |= depends_[value.a];
  if (value.b >= 0) depends |= depends_[value.b];
  for (const int32_t part : value.parts) depends |= depends_[part];
  known = static_cast<int32_t>(values_.size());
  values_.push_back(std::move(value));
  depends_.push_back(depends);
  return known;
}

int32_t Expressions::ParameterOf(const WeightRef& weight) {
  const auto found = std::find(parameters_.begin(), parameters_.end(), weight);
  if (found != parameters_.end()) return static_cast<int32_t>(found - parameters_.begin());
  parameters_.push_back(weight);
  return static_cast<int32_t>(parameters_.size()) - 1;
}

StatusOr<int32_t> Expressions::Leaf(EdgeOp op, int32_t index, int64_t width) {
  EdgeValue value;
  value.op = op;
  value.index = index;
  value.width = width;
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::Number(double number) {
  if (!(std::abs(number) <= std::numeric_limits<float>::max())) return Misfit("the number is not finite as a float32");
  EdgeValue value;
  value.op = EdgeOp::kNumber;
  value.number = static_cast<float>(number);
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::Row(const WeightRef& parameter) {
  return Leaf(EdgeOp::kRow, ParameterOf(parameter), static_cast<int64_t>(parameter->values.size()));
}

StatusOr<int32_t> Expressions::Binary(EdgeOp op, int32_t a, int32_t b) {
  const int64_t left = values_[a].width, right = values_[b].width;
  if (left != right && left != 1 && right != 1) {
    return Misfit(absl::StrCat("the left side has ", Columns(left), ", the right side ", Columns(right),
                               "; they need equally many, or one of them a single column (repeat(x, n) repeats each "
                               "column, x[a:b] takes some)"));
  }
  if (IsNumber(a) && IsNumber(b)) return Number(Fold(op, values_[a].number, values_[b].number));
  // Numbers stand on the right where that is the same, so that 2 * x and x * 2 are one value.
  if (IsNumber(a) && op != EdgeOp::kSubtract && op != EdgeOp::kDivide) std::swap(a, b);
  if (IsNumber(b) && op == EdgeOp::kSubtract) {
    VICINAL_ASSIGN_OR_RETURN(b, Number(-values_[b].number));
    op = EdgeOp::kAdd;
  }
  if (IsConstant(a) && IsConstant(b) && std::max(left, right) <= kMaxFoldedWidth) return FoldRows(op, a, b);
  if (IsNumber(b) && (op == EdgeOp::kMax || op == EdgeOp::kMin)) return Activate(a, ClampOf(op, values_[b].number));
  EdgeValue value;
  value.op = op;
  value.a = a;
  value.b = b;
  value.width = std::max(left, right);
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::FoldRows(EdgeOp op, int32_t a, int32_t b) {
  const auto at = [&](int32_t value, int64_t c) -> double {
    if (IsNumber(value)) return values_[value].number;
    return parameters_[values_[value].index]->values[values_[value].width == 1 ? 0 : c];
  };
  const int64_t width = std::max(values_[a].width, values_[b].width);
  auto folded = std::make_shared<Weight>();
  folded->name = "constant";
  folded->shape = {width};
  for (int64_t c = 0; c < width; ++c) {
    const double x = Fold(op, at(a, c), at(b, c));
    if (!(std::abs(x) <= std::numeric_limits<float>::max()))
      return Misfit(absl::StrCat("column ", c, " of the result is not finite as a float32"));
    folded->values.push_back(static_cast<float>(x));
  }
  return Row(std::move(folded));
}

StatusOr<int32_t> Expressions::Activate(int32_t a, Activation activation) {
  EdgeValue value;
  value.op = EdgeOp::kActivation;
  value.a = a;
  value.width = values_[a].width;
  value.activation = activation;
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::Unary(EdgeOp op, int32_t a) {
  EdgeValue value;
  value.op = op;
  value.a = a;
  value.width = values_[a].width;
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::Linear(int32_t a, const WeightRef& weight, const WeightRef& bias) {
  if (weight->shape.size() != 2 || weight->shape[0] < 1 || weight->shape[1] != values_[a].width) {
    return Misfit(absl::StrCat("linear multiplies a value of ", Columns(values_[a].width), " by '", weight->name, "' ",
                               ShapeToString(weight->shape), "; a weight has the shape [out, ", values_[a].width,
                               "], with out at least 1"));
  }
  if (bias != nullptr && static_cast<int64_t>(bias->values.size()) != weight->shape[0]) {
    return Misfit(absl::StrCat("linear adds the bias '", bias->name, "' ", ShapeToString(bias->shape), " to ",
                               Columns(weight->shape[0])));
  }
  EdgeValue value;
  value.op = EdgeOp::kLinear;
  value.a = a;
  value.index = ParameterOf(weight);
  value.bias = bias != nullptr ? ParameterOf(bias) : -1;
  value.width = weight->shape[0];
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::Dot(int32_t a, int32_t b, int64_t parts) {
  if (values_[a].width != values_[b].width) {
    return Misfit(absl::StrCat("dot takes values of equally many columns; these have ", values_[a].width, " and ",
                               values_[b].width));
  }
  VICINAL_ASSIGN_OR_RETURN(const int32_t sum, Sum(a, parts));  // checks `parts`
  EdgeValue value = values_[sum];
  value.op = EdgeOp::kDot;
  value.b = b;
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::Sum(int32_t a, int64_t parts) {
  if (parts < 1 || values_[a].width % parts != 0) {
    return Misfit(absl::StrCat(Columns(values_[a].width), " cannot be summed in ", parts,
                               " equal parts; the number of parts must divide them"));
  }
  EdgeValue value;
  value.op = EdgeOp::kSum;
  value.a = a;
  value.width = parts;
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::Repeat(int32_t a, int64_t times) {
  if (times < 1 || times > kMaxExpressionWidth)
    return Misfit(absl::StrCat("repeat takes a whole number from 1 to ", kMaxExpressionWidth));
  if (times == 1) return a;
  EdgeValue value;
  value.op = EdgeOp::kRepeat;
  value.a = a;
  value.width = values_[a].width * times;
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::Slice(int32_t a, int64_t first, int64_t end) {
  const int64_t width = values_[a].width;
  if (first < 0 || end > width || first >= end) {
    return Misfit(absl::StrCat("columns [", first, ":", end, "] are taken of a value of ", Columns(width),
                               "; the first must be smaller than the second, which may be at most ", width));
  }
  if (first == 0 && end == width) return a;
  if (values_[a].op == EdgeOp::kSlice) return Slice(values_[a].a, values_[a].first + first, values_[a].first + end);
  if (values_[a].op == EdgeOp::kConcat) {
    int64_t begin = 0;
    for (const int32_t part : values_[a].parts) {
      const int64_t part_end = begin + values_[part].width;
      if (first >= begin && end <= part_end) return Slice(part, first - begin, end - begin);
      begin = part_end;
    }
  }
  EdgeValue value;
  value.op = EdgeOp::kSlice;
  value.a = a;
  value.first = first;
  value.width = end - first;
  return Add(std::move(value));
}

StatusOr<int32_t> Expressions::Concat(std::vector<int32_t> parts) {
  if (parts.size() == 1) return parts[0];
  EdgeValue value;
  value.op = EdgeOp::kConcat;
  value.width = 0;
  for (const int32_t part : parts) value.width += values_[part].width;
  value.parts = std::move(parts);
  return Add(std::move(value));
}

bool Expressions::Reads(int32_t value, EdgeOp op, int32_t index) const {
  std::vector<bool> reached(value + 1, false);
  reached[value] = true;
  // What a value reads comes before it.
  for (int32_t v = value; v >= 0; --v) {
    if (!reached[v]) continue;
    if (values_[v].op == op && values_[v].index == index) return true;
    if (values_[v].a >= 0) reached[values_[v].a] = true;
    if (values_[v].b >= 0) reached[values_[v].b] = true;
    for (const int32_t part : values_[v].parts) reached[part] = true;
  }
  return false;
}

StatusOr<int32_t> Expressions::AtTarget(int32_t value) {
  if ((depends_[value] & kOfSource) == 0) return value;
  if (const auto known = at_target_.find(value); known != at_target_.end()) return known->second;
  EdgeValue moved = values_[value];
  if (moved.op == EdgeOp::kSource) moved.op = EdgeOp::kTarget;
  if (moved.a >= 0) {
    VICINAL_ASSIGN_OR_RETURN(moved.a, AtTarget(moved.a));
  }
  if (moved.b >= 0) {
    VICINAL_ASSIGN_OR_RETURN(moved.b, AtTarget(moved.b));
  }
  for (int32_t& part : moved.parts) {
    VICINAL_ASSIGN_OR_RETURN(part, AtTarget(part));
  }
  VICINAL_ASSIGN_OR_RETURN(const int32_t made, Add(std::move(moved)));
  at_target_[value] = made;
  return made;
}

}  // namespace vicinal::internal
