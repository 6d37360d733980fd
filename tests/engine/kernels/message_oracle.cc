// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/kernels/message_oracle.h"

#include <algorithm>
#include <cmath>

namespace vicinal::testing {
namespace {

double Combine(Message message, double u, double v) {
  if (message == Message::kAdd) return v + u;
  if (message == Message::kSubtract) return -(v - u);
  if (message == Message::kMultiply) return v * u;
  return u;
}

double CombinedMagnitude(Message message, double u, double v) {
  if (message == Message::kSource) return std::abs(u);
  return message == Message::kMultiply ? std::abs(u * v) : std::abs(u) + std::abs(v);
}

}  // namespace

Expected OracleMessages(const TestGraph& graph, const OracleMessage& what, const TestMatrix& src,
                        const TestMatrix& target) {
  const int64_t edges = static_cast<int64_t>(graph.edges.size());
  Expected result(edges, src.cols());
  for (int64_t e = 0; e < edges; ++e) {
    const Edge& edge = graph.edges[e];
    const double weight = what.weighted ? edge.weight : 1.0;
    for (int64_t c = 0; c < src.cols(); ++c) {
      const double u = src.at(edge.source, c), v = what.message == Message::kSource ? 0.0 : target.at(edge.target, c);
      result.v(e, c) = weight * Combine(what.message, u, v);
      result.m(e, c) = std::abs(weight) * CombinedMagnitude(what.message, u, v);
    }
  }
  OracleEpilogue(nullptr, nullptr, 0, what.activation, &result);
  for (const OracleLayer& layer : what.layers) {
    result = OracleProduct(result, *layer.weight);
    OracleEpilogue(layer.bias, nullptr, 0, layer.activation, &result);
  }
  return result;
}

Expected OracleReduce(const TestGraph& graph, Reduce reduce, const Expected& messages) {
  Expected result(graph.targets, messages.cols);
  for (int64_t c = 0; c < messages.cols; ++c) {
    std::vector<std::vector<int64_t>> edges_of(graph.targets);
    for (size_t e = graph.edges.size(); e-- > 0;) edges_of[graph.edges[e].target].push_back(static_cast<int64_t>(e));
    for (int64_t i = 0; i < graph.targets; ++i) {
      std::vector<double> values, magnitudes;
      for (const int64_t e : edges_of[i]) {
        values.push_back(messages.value[e * messages.cols + c]);
        magnitudes.push_back(messages.magnitude[e * messages.cols + c]);
      }
      if (values.empty()) continue;
      const double largest = *std::max_element(magnitudes.begin(), magnitudes.end());
      double sum = 0, sizes = 0;
      for (size_t k = 0; k < values.size(); ++k) sum += values[k], sizes += magnitudes[k];
      const double degree = static_cast<double>(values.size());
      // A number less than NaN is none, so it is asked for by itself.
      const bool lost = std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
      if (reduce == Reduce::kMax) result.v(i, c) = *std::max_element(values.begin(), values.end());
      if (reduce == Reduce::kMin) result.v(i, c) = *std::min_element(values.begin(), values.end());
      if (lost) result.v(i, c) = std::nan("");
      if (reduce == Reduce::kSum) result.v(i, c) = sum;
      if (reduce == Reduce::kMean) result.v(i, c) = sum / degree;
      result.m(i, c) = reduce == Reduce::kSum ? sizes : reduce == Reduce::kMean ? sizes / degree : largest;
    }
  }
  return result;
}

Expected OracleDots(const TestGraph& graph, int64_t heads, const TestMatrix& src, const TestMatrix& target) {
  Expected result(static_cast<int64_t>(graph.edges.size()), heads);
  for (int64_t c = 0; c < src.cols(); ++c) {
    const int64_t k = c / (src.cols() / heads);
    for (int64_t e = 0; e < result.rows; ++e) {
      const double product =
          static_cast<double>(src.at(graph.edges[e].source, c)) * target.at(graph.edges[e].target, c);
      result.v(e, k) += product;
      result.m(e, k) += std::abs(product);
    }
  }
  return result;
}

}  // namespace vicinal::testing
