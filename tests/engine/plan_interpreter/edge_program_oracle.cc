// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/plan_interpreter/edge_program_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vicinal {
namespace {

using Values = std::vector<std::vector<double>>;

double Binary(EdgeOp op, double a, double b) {
  if (op == EdgeOp::kAdd) return a + b;
  if (op == EdgeOp::kSubtract) return a - b;
  if (op == EdgeOp::kMultiply) return a * b;
  if (op == EdgeOp::kDivide) return a / b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return op == EdgeOp::kMin ? std::min(a, b) : std::max(a, b);
}

// Column `c` of a value that may have a single column for all.
double Spread(const std::vector<double>& value, int64_t c) { return value.size() == 1 ? value[0] : value[c]; }

double LinearColumn(const ExpressionStep& step, const EdgeValue& v, const std::vector<double>& a, int64_t c) {
  double sum = v.bias >= 0 ? step.parameters[v.bias]->values[c] : 0.0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * step.parameters[v.index]->values[c * a.size() + k];
  return sum;
}

double PartSum(const EdgeValue& v, const std::vector<double>& a, const std::vector<double>* b, int64_t part) {
  const int64_t width = static_cast<int64_t>(a.size()) / v.width;
  double sum = 0.0;
  for (int64_t c = part * width; c < (part + 1) * width; ++c) sum += a[c] * (b != nullptr ? (*b)[c] : 1.0);
  return sum;
}

// Column `c` of `v`.
double Column(const ExpressionStep& step, const EdgeInputs& edge, const Values& values, const EdgeValue& v, int64_t c,
              const std::function<double(const Activation&, double)>& apply) {
  const std::vector<double> none;
  const std::vector<double>& a = v.a >= 0 ? values[v.a] : none;
  switch (v.op) {
    case EdgeOp::kSource:
      return edge.sources[v.index][v.first + c];
    case EdgeOp::kTarget:
      return edge.targets[v.index][v.first + c];
    case EdgeOp::kFeatures:
      return edge.features[v.first + c];
    case EdgeOp::kWeight:
      return edge.weight;
    case EdgeOp::kNumber:
      return v.number;
    case EdgeOp::kRow:
      return step.parameters[v.index]->values[c];
    case EdgeOp::kActivation:
      return apply(v.activation, a[c]);
    case EdgeOp::kLog:
      return std::log(a[c]);
    case EdgeOp::kAbs:
      return std::abs(a[c]);
    case EdgeOp::kLinear:
      return LinearColumn(step, v, a, c);
    case EdgeOp::kDot:
      return PartSum(v, a, &values[v.b], c);
    case EdgeOp::kSum:
      return PartSum(v, a, nullptr, c);
    case EdgeOp::kRepeat:
      return a[c * static_cast<int64_t>(a.size()) / v.width];
    case EdgeOp::kSlice:
      return a[v.first + c];
    case EdgeOp::kConcat:
      break;
    default:
      return Binary(v.op, Spread(a, c), Spread(values[v.b], c));
  }
  for (const int32_t part : v.parts) {
    const auto width = static_cast<int64_t>(values[part].size());
    if (c < width) return values[part][c];
    c -= width;
  }
  return 0.0;
}

double MeanOf(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double one : x) sum += one;
  return sum / static_cast<double>(x.size());
}

double Variance(const std::vector<double>& x) {
  const double mean = MeanOf(x);
  double sum = 0.0;
  for (const double one : x) sum += (one - mean) * (one - mean);
  return sum / static_cast<double>(x.size());
}

double Weighted(const std::vector<double>& x, const std::vector<double>& scores) {
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0, total = 0.0;
  for (size_t e = 0; e < x.size(); ++e) {
    const double share = std::exp(scores[e] - most);
    sum += share * x[e];
    total += share;
  }
  return sum / total;
}

double Reduced(const EdgeResult& result, const std::vector<double>& x, const std::vector<double>& scores) {
  switch (result.reduce) {
    case EdgeReduce::kSum:
      return MeanOf(x) * static_cast<double>(x.size());
    case EdgeReduce::kMean:
      return MeanOf(x);
    case EdgeReduce::kMax:
      return *std::max_element(x.begin(), x.end());
    case EdgeReduce::kMin:
      return *std::min_element(x.begin(), x.end());
    case EdgeReduce::kVar:
      return Variance(x);
    case EdgeReduce::kStd:
      return Variance(x) <= 1e-5 ? 0.0 : std::sqrt(Variance(x));
    case EdgeReduce::kSoftmax:
      return Weighted(x, scores);
  }
  return 0.0;
}

}  // namespace

Values ValuesOfEdge(const ExpressionStep& step, const EdgeInputs& edge,
                    const std::function<double(const Activation&, double)>& apply) {
  Values values;
  for (const EdgeValue& v : step.program->values) {
    std::vector<double> row(v.width);
    for (int64_t c = 0; c < v.width; ++c) row[c] = Column(step, edge, values, v, c, apply);
    values.push_back(std::move(row));
  }
  return values;
}

std::vector<double> ReduceEdges(const EdgeProgram& program, const EdgeResult& result,
                                const std::vector<Values>& edges) {
  const int64_t width = program.values[result.value].width;
  std::vector<double> row(width, 0.0);
  for (int64_t c = 0; !edges.empty() && c < width; ++c) {
    std::vector<double> x, scores;
    for (const Values& values : edges) {
      x.push_back(values[result.value][c]);
      if (result.score < 0) continue;
      const std::vector<double>& score = values[result.score];
      scores.push_back(score[c * static_cast<int64_t>(score.size()) / width]);
    }
    row[c] = Reduced(result, x, scores);
  }
  return row;
}

}  // namespace vicinal
