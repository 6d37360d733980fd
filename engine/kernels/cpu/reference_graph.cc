// SPDX-License-Identifier: Apache-2.0
// Reference aggregation and attention: one output element at a time, every edge in order, double accumulators. Slow, as
// it reads a source row once per edge and column with a stride. Deterministic, as nothing is shared.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "engine/kernels/cpu/edge_features.h"
#include "engine/kernels/cpu/gather_cost.h"
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/reference.h"

namespace vicinal::internal {
namespace {

class ReferenceAggregate final : public ReferenceWeighted<AggregateKernel> {
 public:
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return kScalarFactor * GatherSeconds(GatherCostOf(problem), shape);
  }
  Refusal WhyProductUnsupported(const AggregateProblem&) const override { return {}; }
  // One row, the input of the fused product.
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig&, int) const override {
    return problem.out_width > 0 ? static_cast<size_t>(problem.width) * sizeof(float) : 0;
  }

  Status Run(DeviceContext&, const AggregateArgs& args, void* scratch) const override {
    for (int64_t i = 0; i < args.dst.rows; ++i) {
      if (args.problem.out_width == 0) {
        MakeRow(args, args.epilogue, i, args.dst.cols, args.dst.row(i));
        continue;
      }
      float* const row = static_cast<float*>(scratch);
      MakeRow(args, args.row_epilogue, i, args.problem.width, row);
      for (int64_t h = 0; h < args.dst.cols; ++h) {
        const float* weight = static_cast<const float*>(args.weight) + h * args.problem.width;
        double sum = 0;
        for (int64_t d = 0; d < args.problem.width; ++d) sum += static_cast<double>(row[d]) * weight[d];
        args.dst.row(i)[h] = ReferenceEpilogue(args.epilogue, sum, i, h);
      }
    }
    return OkStatus();
  }

 private:
  static void MakeRow(const AggregateArgs& args, const Epilogue& epilogue, int64_t i, int64_t width, float* row) {
    for (int64_t d = 0; d < width; ++d) {
      double result = Reduced(args, i, d);
      if (args.self_scale != 0) result += static_cast<double>(args.self_scale) * Source(args, i, d);
      row[d] = ReferenceEpilogue(epilogue, result, i, d);
    }
  }

  static double Source(const AggregateArgs& args, int64_t j, int64_t d) {
    switch (args.problem.storage) {
      case Storage::kFloat32:
        return args.src.row(j)[d];
      case Storage::kBfloat16:
        return FromBfloat16(args.src16.row(j)[d]);
      case Storage::kFloat16:
        return FromFloat16(args.src16.row(j)[d]);
    }
    return 0;
  }

  static double Weight(const AggregateArgs& args, int64_t edge) {
    if (args.adjacency.value != nullptr) return args.adjacency.value[edge];
    return args.src_scale != nullptr ? args.src_scale[args.adjacency.col[edge]] : 1;
  }

  static double Reduced(const AggregateArgs& args, int64_t i, int64_t d) {
    const CsrView& a = args.adjacency;
    const int64_t begin = a.row_ptr[i], end = a.row_ptr[i + 1];
    if (begin == end) return 0;
    const Reduce reduce = args.problem.reduce;
    double result = Weight(args, begin) * Source(args, a.col[begin], d);
    for (int64_t e = begin + 1; e < end; ++e) {
      result = ReferenceJoin(reduce, result, Weight(args, e) * Source(args, a.col[e], d));
    }
    return reduce == Reduce::kMean ? result / static_cast<double>(end - begin) : result;
  }
};

// Scores are recomputed in each of three passes (maximum, sum, weighted sum), because a row's degree is unbounded, so
// they cannot be stored.
class ReferenceAttention final : public ReferenceKernel<AttentionKernel> {
 public:
  std::optional<double> PredictSeconds(const AttentionProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return kScalarFactor * GatherSeconds(GatherCostOf(problem), shape);
  }
  Status Run(DeviceContext&, const AttentionArgs& args, void*) const override {
    const AttentionProblem& p = args.problem;
    for (int64_t i = 0; i < args.dst.rows; ++i) {
      for (int64_t c = 0; c < args.dst.cols; ++c) {
        double result = 0;
        if (p.concat) {
          result = Attended(args, i, c / p.head_width, c % p.head_width);
        } else {
          for (int64_t k = 0; k < p.heads; ++k) result += Attended(args, i, k, c);
          result /= static_cast<double>(p.heads);
        }
        args.dst.row(i)[c] = ReferenceEpilogue(args.epilogue, result, i, c);
      }
    }
    return OkStatus();
  }

 private:
  static double Leaky(double x, double slope) { return x < 0 ? slope * x : x; }

  // Column c of an edge's features times W^T; `features` may be null: 0.
  static double FeatureTerm(const AttentionArgs& args, const float* features, int64_t c) {
    if (features == nullptr) return 0;
    const int64_t columns =
        args.problem.heads * (args.problem.kind == AttentionKind::kGat ? 1 : args.problem.head_width);
    double sum = 0;
    for (int64_t a = 0; a < args.problem.edge_width; ++a) {
      sum += static_cast<double>(features[a]) * args.edge_weight[a * columns + c];
    }
    return sum;
  }

  // The features of edge e, of row i; null: edges have none.
  static const float* FeaturesOf(const AttentionArgs& args, int64_t i, int64_t e) {
    if (args.problem.edge_width == 0) return nullptr;
    return EdgeFeaturesOfRow(args.edge, i).At(e - args.adjacency.row_ptr[i]);
  }

  static double Score(const AttentionArgs& args, int64_t i, int64_t e, int64_t k) {
    const int64_t j = args.adjacency.col[e];
    const float* const features = FeaturesOf(args, i, e);
    if (args.problem.kind == AttentionKind::kGat) {
      const double sum = static_cast<double>(args.score_src.row(j)[k]) + args.score_dst.row(i)[k];
      return Leaky(sum + FeatureTerm(args, features, k), args.negative_slope);
    }
    const bool dot = args.problem.kind == AttentionKind::kDot;
    double score = 0;
    for (int64_t c = k * args.problem.head_width; c < (k + 1) * args.problem.head_width; ++c) {
      const double query = args.query.row(i)[c], term = FeatureTerm(args, features, c);
      score += dot ? query * (args.key.row(j)[c] + term)
                   : args.att[c] * Leaky(query + args.value.row(j)[c] + term, args.negative_slope);
    }
    return dot ? args.score_scale * score : score;
  }

  static double Attended(const AttentionArgs& args, int64_t i, int64_t k, int64_t c) {
    const CsrView& a = args.adjacency;
    const int64_t begin = a.row_ptr[i], end = a.row_ptr[i + 1];
    if (begin == end) return 0;
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t e = begin; e < end; ++e) max = std::max(max, Score(args, i, e, k));
    double sum = 0, weighted = 0;
    for (int64_t e = begin; e < end; ++e) {
      const double share = std::exp(Score(args, i, e, k) - max);
      const int64_t column = k * args.problem.head_width + c;
      const bool dot = args.problem.kind == AttentionKind::kDot;
      sum += share;
      weighted +=
          share * (args.value.row(a.col[e])[column] + (dot ? FeatureTerm(args, FeaturesOf(args, i, e), column) : 0.0));
    }
    return weighted / sum;
  }
};

}  // namespace

std::unique_ptr<const AggregateKernel> MakeReferenceAggregate() { return std::make_unique<ReferenceAggregate>(); }
std::unique_ptr<const AttentionKernel> MakeReferenceAttention() { return std::make_unique<ReferenceAttention>(); }

}  // namespace vicinal::internal
