// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/oracle.h"

#include <algorithm>
#include <cmath>

namespace vicinal::conformance {
namespace {

double Leaky(double x, double slope) { return std::max(x, 0.0) + slope * std::min(x, 0.0); }

double Score(const HostAttention& a, int64_t target, int64_t source, int64_t head) {
  if (a.kind == AttentionKind::kGat) {
    return Leaky(static_cast<double>(a.score_src.at(source, head)) + a.score_dst.at(target, head), a.negative_slope);
  }
  double score = 0;
  for (int64_t c = 0; c < a.head_width; ++c) {
    const int64_t col = head * a.head_width + c;
    if (a.kind == AttentionKind::kDot) {
      score += static_cast<double>(a.score_scale) * a.query.at(target, col) * a.key.at(source, col);
      continue;
    }
    score +=
        a.att[col] * Leaky(static_cast<double>(a.value.at(source, col)) + a.query.at(target, col), a.negative_slope);
  }
  return score;
}

}  // namespace

double Extreme(Reduce reduce, double a, double b) {
  return std::isnan(a) || (reduce == Reduce::kMax ? a > b : a < b) ? a : b;
}

double Activated(const Activation& activation, double x) {
  switch (activation.kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kRelu:
      return std::max(x, 0.0);
    case ActivationKind::kElu:
      return x > 0 ? x : activation.slope * (std::exp(x) - 1);
    case ActivationKind::kLeakyRelu:
      return x > 0 ? x : activation.slope * x;
    case ActivationKind::kSigmoid:
      return 0.5 * (1 + std::tanh(x / 2));
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kSilu:
      return 0.5 * x * (1 + std::tanh(x / 2));
    case ActivationKind::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::kGeluTanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kSoftplus:
      return x > activation.slope ? x : std::log1p(std::exp(x));
    case ActivationKind::kMish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case ActivationKind::kSoftsign:
      return x > 0 ? x / (1 + x) : x / (1 - x);
    case ActivationKind::kClamp:
      return x < activation.slope ? activation.slope : x > activation.limit ? activation.limit : x;
    case ActivationKind::kThreshold:
      return x > activation.slope ? x : activation.limit;
    case ActivationKind::kHardSigmoid:
      return std::clamp((x + 3) / 6, 0.0, 1.0);
    case ActivationKind::kHardSwish:
      return x * std::clamp((x + 3) / 6, 0.0, 1.0);
    case ActivationKind::kHardShrink:
      return x > activation.slope || x < -activation.slope ? x : 0;
    case ActivationKind::kExp:
      return std::exp(x);
    case ActivationKind::kRoot:
      return std::pow(x + activation.slope, 0.5);
    case ActivationKind::kInverseRoot:
      return std::pow(x + activation.slope, -0.5);
    case ActivationKind::kSquare:
      return x * x;
  }
  return x;
}

std::vector<double> WithEpilogue(std::vector<double> result, int64_t cols, const HostEpilogue& epilogue) {
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] *=
        static_cast<double>(epilogue.scale) * (epilogue.row_scale.empty() ? 1.0f : epilogue.row_scale[i / cols]);
    if (!epilogue.bias.empty()) result[i] += epilogue.bias[i % cols];
    if (!epilogue.residual.values.empty())
      result[i] += static_cast<double>(epilogue.residual_scale) * epilogue.residual.values[i];
    result[i] = Activated(epilogue.activation, result[i]);
  }
  return result;
}

// Edge by edge, in double precision.
std::vector<double> Aggregate(const HostGraph& graph, bool weighted, Reduce reduce, const HostMatrix& src,
                              float self_scale) {
  const int64_t width = src.cols;
  std::vector<double> result(graph.rows * width, 0.0);
  for (int64_t row = 0; row < graph.rows; ++row) {
    double* out = result.data() + row * width;
    const int64_t begin = graph.row_ptr[row], end = graph.row_ptr[row + 1];
    for (int64_t e = begin; e < end; ++e) {
      const double weight = weighted ? graph.value[e] : 1.0;
      const float* x = src.values.data() + graph.col[e] * width;
      for (int64_t d = 0; d < width; ++d) {
        if (reduce == Reduce::kMax || reduce == Reduce::kMin) {
          out[d] = e == begin ? weight * x[d] : Extreme(reduce, out[d], weight * x[d]);
        } else {
          out[d] += weight * x[d] / (reduce == Reduce::kMean ? static_cast<double>(end - begin) : 1.0);
        }
      }
    }
  }
  if (self_scale != 0) AddOwnRows(src, self_scale, &result);
  return result;
}

void AddOwnRows(const HostMatrix& src, float self_scale, std::vector<double>* sums) {
  for (size_t i = 0; i < sums->size(); ++i) (*sums)[i] += static_cast<double>(self_scale) * src.values[i];
}

std::vector<double> Attend(const HostGraph& graph, const HostAttention& a) {
  const int64_t cols = a.concat ? a.heads * a.head_width : a.head_width;
  std::vector<double> result(graph.rows * cols, 0.0);
  for (int64_t row = 0; row < graph.rows; ++row) {
    const int64_t begin = graph.row_ptr[row], end = graph.row_ptr[row + 1];
    for (int64_t head = 0; head < a.heads && end > begin; ++head) {
      std::vector<double> share;
      for (int64_t e = begin; e < end; ++e) share.push_back(Score(a, row, graph.col[e], head));
      const double top = *std::max_element(share.begin(), share.end());
      double sum = 0;
      for (double& x : share) sum += x = std::exp(x - top);
      for (int64_t e = begin; e < end; ++e) {
        for (int64_t c = 0; c < a.head_width; ++c) {
          const double x = share[e - begin] / sum * a.value.at(graph.col[e], head * a.head_width + c);
          result[row * cols + (a.concat ? head * a.head_width + c : c)] +=
              a.concat ? x : x / static_cast<double>(a.heads);
        }
      }
    }
  }
  return result;
}

std::vector<double> Product(const HostMatrix& src, const HostMatrix& weight) {
  std::vector<double> result(src.rows * weight.rows, 0.0);
  for (int64_t i = 0; i < src.rows; ++i) {
    for (int64_t h = 0; h < weight.rows; ++h) {
      double sum = 0;
      for (int64_t f = 0; f < src.cols; ++f) sum += static_cast<double>(src.at(i, f)) * weight.at(h, f);
      result[i * weight.rows + h] = sum;
    }
  }
  return result;
}

HostMatrix Dense(const HostGraph& sparse, bool weighted) {
  HostMatrix dense = FilledMatrix(sparse.rows, sparse.cols, 0.0f);
  for (int64_t row = 0; row < sparse.rows; ++row) {
    for (int64_t e = sparse.row_ptr[row]; e < sparse.row_ptr[row + 1]; ++e) {
      dense.values[row * sparse.cols + sparse.col[e]] = weighted ? sparse.value[e] : 1.0f;
    }
  }
  return dense;
}

}  // namespace vicinal::conformance
