// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/sampled_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/cuda/numbers.h"

namespace vicinal::bench {
namespace {

constexpr int kSamples = 16;
constexpr double kNegativeSlope = 0.2;

class Oracle {
 public:
  Oracle(const DeviceGraph& graph, const Operation& operation, int64_t width)
      : graph_(graph), operation_(operation), width_(width) {}

  std::vector<double> Row(int64_t row) const {
    switch (operation_.family) {
      case Family::kAggregate:
        return Aggregate(row);
      case Family::kAttention:
        return Attend(row);
      case Family::kEdgeScores:
        return EdgeProducts(row);
    }
    return {};
  }

 private:
  int64_t begin(int64_t row) const { return graph_.host().row_ptr[row]; }
  int64_t end(int64_t row) const { return graph_.host().row_ptr[row + 1]; }
  int64_t source(int64_t edge) const { return graph_.host().col[edge]; }
  double Element(uint64_t numbers, int64_t row, int64_t d) const { return Number(numbers + row * width_ + d); }

  double Weight(int64_t row, int64_t edge) const {
    if (operation_.weights == Weights::kPerEdge) return Number(kEdgeNumbers + edge);
    if (operation_.weights == Weights::kRankOne) {
      return static_cast<double>(graph_.factors()[row]) * graph_.factors()[source(edge)];
    }
    return 1.0;
  }

  std::vector<double> Aggregate(int64_t row) const {
    std::vector<double> result(width_, 0.0);
    for (int64_t edge = begin(row); edge < end(row); ++edge) {
      const double weight = Weight(row, edge);
      for (int64_t d = 0; d < width_; ++d) {
        const double x = weight * StoredNumber(kSourceNumbers + source(edge) * width_ + d, operation_.storage);
        double& r = result[d];
        const bool first = edge == begin(row);
        if (operation_.reduce == Reduce::kMax) {
          r = first ? x : std::max(r, x);
        } else if (operation_.reduce == Reduce::kMin) {
          r = first ? x : std::min(r, x);
        } else {
          r += x;
        }
      }
    }
    if (operation_.reduce == Reduce::kMean && end(row) > begin(row)) {
      for (double& r : result) r /= static_cast<double>(end(row) - begin(row));
    }
    for (int64_t d = 0; operation_.self_scale != 0.0f && d < width_; ++d) {
      result[d] += operation_.self_scale * Element(kSourceNumbers, row, d);
    }
    return result;
  }

  static double LeakyRelu(double x) { return x > 0 ? x : kNegativeSlope * x; }

  double Score(int64_t row, int64_t edge, int64_t head) const {
    const int64_t from = source(edge), heads = operation_.heads, columns = width_ / heads;
    if (operation_.attention == AttentionKind::kGat) {
      return LeakyRelu(static_cast<double>(Number(kSourceScores + from * heads + head)) +
                       Number(kTargetScores + row * heads + head));
    }
    double score = 0.0;
    for (int64_t d = head * columns; d < (head + 1) * columns; ++d) {
      if (operation_.attention == AttentionKind::kGatV2) {
        score +=
            Number(kScoreVector + d) * LeakyRelu(Element(kSourceNumbers, from, d) + Element(kTargetNumbers, row, d));
      } else {
        score += Element(kTargetNumbers, row, d) * Element(kKeyNumbers, from, d);
      }
    }
    return operation_.attention == AttentionKind::kDot ? score / std::sqrt(static_cast<double>(columns)) : score;
  }

  std::vector<double> Attend(int64_t row) const {
    const int64_t columns = width_ / operation_.heads;
    std::vector<double> result(width_, 0.0), score(end(row) - begin(row));
    for (int64_t head = 0; head < operation_.heads && !score.empty(); ++head) {
      for (size_t i = 0; i < score.size(); ++i) score[i] = Score(row, begin(row) + static_cast<int64_t>(i), head);
      const double most = *std::max_element(score.begin(), score.end());
      double sum = 0.0;
      for (double& s : score) sum += s = std::exp(s - most);
      for (size_t i = 0; i < score.size(); ++i) {
        const int64_t from = source(begin(row) + static_cast<int64_t>(i));
        for (int64_t d = head * columns; d < (head + 1) * columns; ++d) {
          result[d] += score[i] / sum * Element(kSourceNumbers, from, d);
        }
      }
    }
    return result;
  }

  std::vector<double> EdgeProducts(int64_t row) const {
    std::vector<double> result;
    for (int64_t edge = begin(row); edge < end(row); ++edge) {
      double& sum = result.emplace_back(0.0);
      for (int64_t d = 0; d < width_; ++d) {
        sum += Element(kSourceNumbers, source(edge), d) * Element(kTargetNumbers, row, d);
      }
    }
    return result;
  }

  const DeviceGraph& graph_;
  const Operation& operation_;
  const int64_t width_;
};

std::vector<int64_t> RowsToSample(const BinaryGraph& graph) {
  std::vector<int64_t> rows;
  for (int64_t k = 0; k < kSamples && graph.nodes > 0; ++k) rows.push_back(k * 7919 * 104729 % graph.nodes);
  int64_t longest = 0;
  for (int64_t row = 0; row < graph.nodes; ++row) {
    if (graph.row_ptr[row + 1] - graph.row_ptr[row] > graph.row_ptr[longest + 1] - graph.row_ptr[longest])
      longest = row;
  }
  if (graph.nodes > 0) rows.push_back(longest);
  return rows;
}

}  // namespace

SampledRows::SampledRows(const DeviceGraph& graph, const Operation& operation, int64_t width) : width_(width) {
  const Oracle oracle(graph, operation, width);
  for (const int64_t row : RowsToSample(graph.host())) {
    const int64_t begin = operation.family == Family::kEdgeScores ? graph.host().row_ptr[row] : row * width;
    samples_.push_back({begin, oracle.Row(row)});
  }
}

double SampledRows::WorstError(Gpu& gpu, const void* result, Storage storage) const {
  double worst = 0.0;
  for (const Sample& sample : samples_) {
    const auto count = static_cast<int64_t>(sample.want.size());
    std::vector<float> got(count);
    if (storage == Storage::kFloat32) {
      got = gpu.Download(static_cast<const float*>(result) + sample.begin, count);
    } else {
      const std::vector<uint16_t> bits = gpu.Download(static_cast<const uint16_t*>(result) + sample.begin, count);
      std::transform(bits.begin(), bits.end(), got.begin(), [&](uint16_t b) { return FromSixteenBits(b, storage); });
    }
    double error = 0.0, norm = 0.0;
    for (int64_t i = 0; i < count; ++i) {
      error += (got[i] - sample.want[i]) * (got[i] - sample.want[i]);
      norm += sample.want[i] * sample.want[i];
    }
    // Sums of few terms may cancel. Their error is relative to the terms, not to the remaining sum.
    const double relative = std::sqrt(error) / (std::sqrt(norm) + 0.05 * std::sqrt(static_cast<double>(width_)));
    worst = std::isfinite(relative) ? std::max(worst, relative) : std::numeric_limits<double>::infinity();
    if (!std::isfinite(worst)) break;
  }
  return worst;
}

}  // namespace vicinal::bench
