// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/kernels/oracle.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace vicinal::testing {
namespace {

constexpr double kEpsilon = 0x1p-24;

double Leaky(double x, double slope) { return x >= 0 ? x : x * slope; }

double Activated(Activation activation, double x) {
  if (activation.kind == ActivationKind::kRelu) return x > 0 || std::isnan(x) ? x : 0.0;
  if (activation.kind == ActivationKind::kLeakyRelu) return Leaky(x, activation.slope);
  if (activation.kind == ActivationKind::kElu)
    return x > 0 ? x : activation.slope * (std::exp(static_cast<long double>(x)) - 1.0L);
  if (activation.kind == ActivationKind::kSigmoid) return 0.5 + 0.5 * std::tanh(x / 2);
  if (activation.kind == ActivationKind::kTanh) return std::sinh(x) / std::cosh(x);
  if (activation.kind == ActivationKind::kSilu) return x * (0.5 + 0.5 * std::tanh(x / 2));
  if (activation.kind == ActivationKind::kGelu) return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
  return x;
}

}  // namespace

Expected Exactly(const TestMatrix& matrix) {
  Expected result(matrix.rows(), matrix.cols());
  for (int64_t i = 0; i < matrix.rows(); ++i) {
    for (int64_t c = 0; c < matrix.cols(); ++c) {
      result.v(i, c) = matrix.at(i, c);
      result.m(i, c) = std::abs(matrix.at(i, c));
    }
  }
  return result;
}

Expected OracleDense(const TestCsr& sparse, bool weighted) {
  Expected result(sparse.rows, sparse.cols);
  int64_t row = 0;
  for (int64_t e = 0; e < static_cast<int64_t>(sparse.col.size()); ++e) {
    while (sparse.row_ptr[row + 1] <= e) ++row;
    result.v(row, sparse.col[e]) = weighted ? sparse.value[e] : 1.0;
    result.m(row, sparse.col[e]) = std::abs(result.v(row, sparse.col[e]));
  }
  return result;
}

Expected OracleAggregateRows(const TestGraph& graph, bool weighted, Reduce reduce, float self_scale,
                             const Expected& src) {
  Expected result(graph.targets, src.cols);
  std::vector<int64_t> degree(graph.targets, 0);
  // Backwards, so that the order of evaluation is not the kernels'.
  for (auto edge = graph.edges.rbegin(); edge != graph.edges.rend(); ++edge) {
    const bool first = degree[edge->target]++ == 0;
    for (int64_t c = 0; c < src.cols; ++c) {
      const double weight = weighted ? edge->weight : 1.0, message = weight * src.value[edge->source * src.cols + c];
      const double size = std::abs(weight) * src.magnitude[edge->source * src.cols + c];
      double& value = result.v(edge->target, c);
      double& magnitude = result.m(edge->target, c);
      if (reduce == Reduce::kMax || reduce == Reduce::kMin) {
        const bool better = reduce == Reduce::kMax ? message > value : message < value;
        if (first || (better && !std::isnan(value)) || std::isnan(message)) value = message;
        magnitude = std::max(magnitude, size);
      } else {
        value += message;
        magnitude += size;
      }
    }
  }
  for (int64_t i = 0; i < graph.targets; ++i) {
    for (int64_t c = 0; c < src.cols; ++c) {
      if (reduce == Reduce::kMean && degree[i] > 0) {
        result.v(i, c) /= static_cast<double>(degree[i]);
        result.m(i, c) /= static_cast<double>(degree[i]);
      }
      if (self_scale == 0) continue;
      result.v(i, c) += static_cast<double>(self_scale) * src.value[i * src.cols + c];
      result.m(i, c) += std::abs(self_scale) * src.magnitude[i * src.cols + c];
    }
  }
  return result;
}

Expected OracleAggregate(const TestGraph& graph, bool weighted, Reduce reduce, float self_scale,
                         const TestMatrix& src) {
  return OracleAggregateRows(graph, weighted, reduce, self_scale, Exactly(src));
}

Expected OracleAttention(const TestGraph& graph, const AttentionArgs& args, const TestMatrix& value,
                         const TestMatrix& score_src, const TestMatrix& score_dst, const TestMatrix& query,
                         const std::vector<float>& att) {
  const int64_t heads = args.problem.heads, width = args.problem.head_width,
                out_cols = args.problem.concat ? heads * width : width;
  Expected result(graph.targets, out_cols);
  for (int64_t k = 0; k < heads; ++k) {
    std::vector<long double> score(graph.edges.size()), denominator(graph.targets, 0), largest(graph.targets, -1e300L),
        size(graph.targets, 0);
    for (size_t e = 0; e < graph.edges.size(); ++e) {
      const int64_t j = graph.edges[e].source, i = graph.edges[e].target;
      long double magnitude = 1;
      if (args.problem.kind == AttentionKind::kGat) {
        score[e] = Leaky(static_cast<double>(score_src.at(j, k)) + score_dst.at(i, k), args.negative_slope);
        magnitude += std::abs(score_src.at(j, k)) + std::abs(score_dst.at(i, k));
      } else if (args.problem.kind == AttentionKind::kDot) {
        for (int64_t c = k * width; c < (k + 1) * width; ++c) {
          const double product = static_cast<double>(args.key.row(j)[c]) * query.at(i, c) * args.score_scale;
          score[e] += product;
          magnitude += std::abs(product);
        }
      } else {
        for (int64_t c = k * width; c < (k + 1) * width; ++c) {
          const double x = static_cast<double>(value.at(j, c)) + query.at(i, c);
          score[e] += att[c] * Leaky(x, args.negative_slope);
          magnitude += std::abs(att[c]) * (std::abs(value.at(j, c)) + std::abs(query.at(i, c)));
        }
      }
      largest[i] = std::max(largest[i], score[e]);
      size[i] = std::max(size[i], magnitude);
    }
    for (size_t e = 0; e < graph.edges.size(); ++e)
      denominator[graph.edges[e].target] += std::exp(score[e] - largest[graph.edges[e].target]);
    for (size_t e = 0; e < graph.edges.size(); ++e) {
      const int64_t j = graph.edges[e].source, i = graph.edges[e].target;
      const double share =
          static_cast<double>(std::exp(score[e] - largest[i]) / denominator[i]) / (args.problem.concat ? 1 : heads);
      for (int64_t c = 0; c < width; ++c) {
        const int64_t col = args.problem.concat ? k * width + c : c;
        result.v(i, col) += share * value.at(j, k * width + c);
        result.m(i, col) += share * std::abs(value.at(j, k * width + c)) * static_cast<double>(1 + size[i]);
      }
    }
  }
  return result;
}

Expected OracleProduct(const Expected& x, const TestMatrix& w) {
  Expected result(x.rows, w.rows());
  // Column of x by column of x: outer products.
  for (int64_t f = 0; f < x.cols; ++f) {
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t h = 0; h < w.rows(); ++h) {
        result.v(i, h) += x.value[i * x.cols + f] * w.at(h, f);
        result.m(i, h) += x.magnitude[i * x.cols + f] * std::abs(w.at(h, f));
      }
    }
  }
  return result;
}

void OracleEpilogue(const std::vector<float>* bias, const TestMatrix* residual, float residual_scale,
                    Activation activation, Expected* result) {
  for (int64_t i = 0; i < result->rows; ++i) {
    for (int64_t c = 0; c < result->cols; ++c) {
      double value = result->v(i, c), magnitude = result->m(i, c);
      if (bias != nullptr) {
        value += (*bias)[c];
        magnitude += std::abs((*bias)[c]);
      }
      if (residual != nullptr) {
        value += static_cast<double>(residual_scale) * residual->at(i, c);
        magnitude += std::abs(residual_scale * residual->at(i, c));
      }
      result->v(i, c) = Activated(activation, value);
      // No activation here is steeper than 1; its own error is some epsilons of its result.
      result->m(i, c) = activation.kind == ActivationKind::kNone ? magnitude : magnitude + std::abs(result->v(i, c));
    }
  }
}

std::string Differs(const Expected& expected, const TestMatrix& got, int64_t terms) {
  const double factor = (4 + std::sqrt(static_cast<double>(terms))) * kEpsilon;
  double worst = 0;
  std::ostringstream message;
  for (int64_t i = 0; i < expected.rows; ++i) {
    for (int64_t c = 0; c < expected.cols; ++c) {
      const double want = expected.value[i * expected.cols + c],
                   tolerance = factor * expected.magnitude[i * expected.cols + c];
      if (std::isnan(want) ? std::isnan(got.at(i, c)) : want == got.at(i, c)) continue;
      const double error = std::abs(got.at(i, c) - want);
      if (error <= tolerance) continue;
      const double excess = std::isnan(error) ? HUGE_VAL : error - tolerance;
      if (excess <= worst) continue;
      worst = excess;
      message.str("");
      message << "[" << i << ", " << c << "] is " << got.at(i, c) << ", not " << want << " within " << tolerance;
    }
  }
  return message.str();
}

}  // namespace vicinal::testing
