// SPDX-License-Identifier: Apache-2.0
#include "engine/model/expressions/expression_functions.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace vicinal::internal {
namespace {

// An activation of one value, and the numbers that it takes.
struct ActivationFunction {
  std::string_view name;
  Activation activation;
  int numbers = 0;   // arguments after the value that replace slope, then limit
  int required = 0;  // of these
};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr ActivationFunction kActivations[] = {
    {"relu", {ActivationKind::kRelu}},
    {"leaky_relu", {ActivationKind::kLeakyRelu, 0.01f}, 1},
    {"elu", {ActivationKind::kElu, 1.0f}, 1},
    {"sigmoid", {ActivationKind::kSigmoid}},
    {"tanh", {ActivationKind::kTanh}},
    {"silu", {ActivationKind::kSilu}},
    {"gelu", {ActivationKind::kGelu}},
    {"gelu_tanh", {ActivationKind::kGeluTanh}},
    {"softplus", {ActivationKind::kSoftplus, 20.0f}},
    {"mish", {ActivationKind::kMish}},
    {"softsign", {ActivationKind::kSoftsign}},
    {"relu6", {ActivationKind::kClamp, 0.0f, 6.0f}},
    {"hardtanh", {ActivationKind::kClamp, -1.0f, 1.0f}, 2},
    {"clamp", {ActivationKind::kClamp, -kInfinity, kInfinity}, 2, 1},
    {"threshold", {ActivationKind::kThreshold, 0.0f, 0.0f}, 2, 2},
    {"hardsigmoid", {ActivationKind::kHardSigmoid}},
    {"hardswish", {ActivationKind::kHardSwish}},
    {"hardshrink", {ActivationKind::kHardShrink, 0.5f}, 1},
    {"exp", {ActivationKind::kExp}},
    {"sqrt", {ActivationKind::kRoot, 0.0f}},
    {"rsqrt", {ActivationKind::kInverseRoot, 0.0f}},
    {"square", {ActivationKind::kSquare}},
};
constexpr std::string_view kOthers[] = {"abs", "batch_norm", "cat",        "celu", "dot",  "linear", "log",
                                        "max", "mean",       "logsigmoid", "min",  "selu", "repeat", "sum"};

const ActivationFunction* FindActivation(std::string_view name) {
  for (const ActivationFunction& function : kActivations) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

class Caller {
 public:
  explicit Caller(Expressions* made) : made_(*made) {}

  StatusOr<int32_t> Call(std::string_view name, const std::vector<int32_t>& a) {
    if (const ActivationFunction* const function = FindActivation(name)) return Activate(*function, a);
    if (name == "cat") return made_.Concat(a);
    if (name == "min" || name == "max") {
      if (a.size() < 2) return Needs(name, "two or more values; reductions over edges are the argument aggr");
      int32_t value = a[0];
      for (size_t i = 1; i < a.size(); ++i) {
        VICINAL_ASSIGN_OR_RETURN(value, made_.Binary(name == "min" ? EdgeOp::kMin : EdgeOp::kMax, value, a[i]));
      }
      return value;
    }
    if (name == "dot") {
      if (a.size() < 2 || a.size() > 3) return Needs(name, "two values and optionally the number of heads");
      int64_t parts = 1;
      if (a.size() == 3) {
        VICINAL_ASSIGN_OR_RETURN(parts, WholeNumber(name, a[2]));
      }
      return made_.Dot(a[0], a[1], parts);
    }
    if (name == "sum" || name == "mean") return SumOf(name, a);
    if (name == "repeat") {
      if (a.size() != 2) return Needs(name, "a value, and how often each of its columns is repeated");
      VICINAL_ASSIGN_OR_RETURN(const int64_t times, WholeNumber(name, a[1]));
      return made_.Repeat(a[0], times);
    }
    return OneValue(name, a);
  }

 private:
  Status Needs(std::string_view name, std::string_view arguments) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(name), " takes ", std::string(arguments)));
  }

  StatusOr<int64_t> WholeNumber(std::string_view name, int32_t value) {
    const double number = made_.IsNumber(value) ? made_[value].number : -1.0;
    constexpr double kMost = 1 << 24;  // above, floats have gaps
    const auto whole = static_cast<int64_t>(std::clamp(number, 0.0, kMost));
    if (number < 0.0 && made_.IsNumber(value))
      return Needs(name, "a whole number as its last argument, and no dimension: it goes over columns");
    if (whole < 1 || static_cast<double>(whole) != number)
      return Needs(name, absl::StrCat("a whole number as its last argument, 1 to ", kMaxExpressionWidth));
    return whole;
  }

  StatusOr<int32_t> SumOf(std::string_view name, const std::vector<int32_t>& a) {
    if (a.size() > 2) return Needs(name, "a value and optionally the number of heads");
    int64_t parts = 1;
    if (a.size() == 2) {
      VICINAL_ASSIGN_OR_RETURN(parts, WholeNumber(name, a[1]));
    }
    VICINAL_ASSIGN_OR_RETURN(const int32_t sum, made_.Sum(a[0], parts));
    if (name == "sum") return sum;
    const int64_t columns = made_[a[0]].width / parts;
    VICINAL_ASSIGN_OR_RETURN(const int32_t count, made_.Number(static_cast<double>(columns)));
    return made_.Binary(EdgeOp::kDivide, sum, count);
  }

  static std::string NumbersOf(const ActivationFunction& function) {
    if (function.numbers == 0) return "one value";
    if (function.required == function.numbers) return absl::StrCat("a value and ", function.numbers, " numbers");
    return absl::StrCat("a value and ", function.required > 0 ? absl::StrCat(function.required, " or ") : "up to ",
                        function.numbers, " numbers");
  }

  StatusOr<int32_t> Activate(const ActivationFunction& function, const std::vector<int32_t>& a) {
    Activation activation = function.activation;
    const size_t numbers = a.size() - 1;
    if (numbers < static_cast<size_t>(function.required) || numbers > static_cast<size_t>(function.numbers)) {
      return Needs(function.name, NumbersOf(function));
    }
    for (size_t i = 1; i < a.size(); ++i) {
      if (!made_.IsNumber(a[i])) return Needs(function.name, "numbers after its first argument");
      (i == 1 ? activation.slope : activation.limit) = made_[a[i]].number;
    }
    if (activation.kind == ActivationKind::kClamp && activation.slope >= activation.limit) {
      return Needs(function.name, absl::StrCat("a lowest number below the highest; these are ", activation.slope,
                                               " and ", activation.limit));
    }
    return made_.Activate(a[0], activation);
  }

  StatusOr<int32_t> Scaled(int32_t value, double factor) {
    VICINAL_ASSIGN_OR_RETURN(const int32_t number, made_.Number(factor));
    return made_.Binary(EdgeOp::kMultiply, value, number);
  }

  // Functions of one value that are made of others; `celu` also takes its alpha.
  StatusOr<int32_t> OneValue(std::string_view name, const std::vector<int32_t>& a) {
    if (name == "celu" && a.size() == 2 && made_.IsNumber(a[1])) {
      VICINAL_ASSIGN_OR_RETURN(const int32_t scaled, made_.Binary(EdgeOp::kDivide, a[0], a[1]));
      VICINAL_ASSIGN_OR_RETURN(const int32_t elu, made_.Activate(scaled, {ActivationKind::kElu, 1.0f}));
      return made_.Binary(EdgeOp::kMultiply, elu, a[1]);
    }
    if (a.size() != 1) return Needs(name, "one value");
    if (name == "log") return made_.Unary(EdgeOp::kLog, a[0]);
    if (name == "abs") return made_.Unary(EdgeOp::kAbs, a[0]);
    if (name == "celu") return made_.Activate(a[0], {ActivationKind::kElu, 1.0f});
    if (name == "selu") {
      VICINAL_ASSIGN_OR_RETURN(const int32_t elu, made_.Activate(a[0], {ActivationKind::kElu, 1.6732632423543773f}));
      return Scaled(elu, 1.0507009873554804934193349852946);
    }
    // logsigmoid(x) = -softplus(-x)
    VICINAL_ASSIGN_OR_RETURN(const int32_t negated, Scaled(a[0], -1.0));
    VICINAL_ASSIGN_OR_RETURN(const int32_t positive, made_.Activate(negated, {ActivationKind::kSoftplus, kInfinity}));
    return Scaled(positive, -1.0);
  }

  Expressions& made_;
};

}  // namespace

bool IsFunction(std::string_view name) {
  if (FindActivation(name) != nullptr) return true;
  for (const std::string_view known : kOthers) {
    if (known == name) return true;
  }
  return false;
}

std::vector<std::string> FunctionList() {
  std::vector<std::string> names;
  for (const ActivationFunction& function : kActivations) names.emplace_back(function.name);
  for (const std::string_view name : kOthers) names.emplace_back(name);
  return names;
}

StatusOr<int32_t> CallFunction(std::string_view name, const std::vector<int32_t>& arguments, Expressions* made) {
  return Caller(made).Call(name, arguments);
}

}  // namespace vicinal::internal
