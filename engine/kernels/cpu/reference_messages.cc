// SPDX-License-Identifier: Apache-2.0
// Reference message reduction and edge scores: the definitions in operations.h, edge by edge, in double precision. A
// message passes through the edge layers between two rows of doubles in scratch.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "engine/kernels/cpu/edge_features.h"
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/reference.h"

namespace vicinal::internal {
namespace {

double MessageOf(Message message, double u, double v) {
  switch (message) {
    case Message::kSource:
      return u;
    case Message::kAdd:
      return u + v;
    case Message::kSubtract:
      return u - v;
    case Message::kMultiply:
      return u * v;
  }
  return u;
}

class ReferenceMessageReduce final : public ReferenceWeighted<MessageReduceKernel> {
 public:
  // Two rows that a message alternates between, the row's result, and the largest score and the weights of a softmax.
  size_t ScratchBytes(const MessageReduceProblem& problem, const KernelConfig&, int) const override {
    return 5 * static_cast<size_t>(Widest(problem)) * sizeof(double);
  }

  Status Run(DeviceContext&, const MessageReduceArgs& args, void* scratch) const override {
    const CsrView& a = args.adjacency;
    const int64_t widest = Widest(args.problem);
    double* buffer = static_cast<double*>(scratch);
    double* result = buffer + 2 * widest;
    const Reduce reduce = args.problem.reduce;
    for (int64_t i = 0; i < args.dst.rows; ++i) {
      std::fill_n(result, widest, 0.0);
      const int64_t begin = a.row_ptr[i], end = a.row_ptr[i + 1];
      if (args.problem.softmax) {
        SumWeighted(args, i, buffer, result);
        continue;
      }
      for (int64_t e = begin; e < end; ++e) {
        const double* message = EdgeMessage(args, i, e, buffer, buffer + widest);
        for (int64_t c = 0; c < args.dst.cols; ++c) {
          if (reduce == Reduce::kSum || reduce == Reduce::kMean) {
            result[c] += message[c];
          } else {
            result[c] = e == begin ? message[c] : ReferenceExtreme(reduce, result[c], message[c]);
          }
        }
      }
      const double divisor = reduce == Reduce::kMean && end > begin ? static_cast<double>(end - begin) : 1.0;
      for (int64_t c = 0; c < args.dst.cols; ++c)
        args.dst.row(i)[c] = ReferenceEpilogue(args.epilogue, result[c] / divisor, i, c);
    }
    return OkStatus();
  }

 private:
  static int64_t Widest(const MessageReduceProblem& problem) {
    int64_t widest = std::max({problem.width, problem.out_width(), problem.term_width(), problem.edge_width});
    widest = std::max(widest, problem.gaussians);
    for (int32_t l = 0; l < problem.num_layers; ++l) widest = std::max(widest, problem.out_widths[l]);
    return widest;
  }

  // Row i of a sum weighted by a softmax: the largest scores, then weights relative to them.
  static void SumWeighted(const MessageReduceArgs& args, int64_t i, double* buffer, double* result) {
    const int64_t widest = Widest(args.problem), cols = args.dst.cols;
    double *const largest = result + widest, *const weights = largest + widest;
    std::fill_n(largest, cols, -INFINITY);
    std::fill_n(weights, cols, 0.0);
    const int64_t begin = args.adjacency.row_ptr[i], end = args.adjacency.row_ptr[i + 1];
    for (int64_t e = begin; e < end; ++e) {
      const double* message = EdgeMessage(args, i, e, buffer, buffer + widest);
      for (int64_t c = 0; c < cols; ++c)
        largest[c] = ReferenceExtreme(Reduce::kMax, largest[c], args.temperature * message[c]);
    }
    for (int64_t e = begin; e < end; ++e) {
      const double* message = EdgeMessage(args, i, e, buffer, buffer + widest);
      for (int64_t c = 0; c < cols; ++c) {
        const double weight = std::exp(args.temperature * message[c] - largest[c]);
        weights[c] += weight;
        result[c] += weight * message[c];
      }
    }
    for (int64_t c = 0; c < cols; ++c) {
      const double sum = begin == end ? 0.0 : result[c] / weights[c];
      args.dst.row(i)[c] = ReferenceEpilogue(args.epilogue, sum, i, c);
    }
  }

  // What the features of edge e of row i add to column c of its message.
  static double FeatureTerm(const MessageReduceArgs& args, int64_t i, int64_t e, int64_t c) {
    if (args.problem.edge_width == 0) return 0;
    const float* const features = EdgeFeaturesOfRow(args.edge, i).At(e - args.adjacency.row_ptr[i]);
    if (args.edge_weight == nullptr) return features[c];
    double sum = args.edge_bias != nullptr ? args.edge_bias[c] : 0.0;
    for (int64_t k = 0; k < args.problem.edge_width; ++k) {
      sum += static_cast<double>(features[k]) * args.edge_weight[k * args.problem.term_width() + c];
    }
    return sum;
  }

  // Column c of z = u + v + the features' term of edge e into row i; v has no columns beyond its own.
  static double SumOfTerms(const MessageReduceArgs& args, int64_t i, int64_t e, int64_t c) {
    const double v = c < args.target.cols ? args.target.row(i)[c] : 0.0;
    return args.src.row(args.adjacency.col[e])[c] + v + FeatureTerm(args, i, e, c);
  }

  // Applies the layers to `in_width` numbers in `in`; returns the row where the result is.
  static double* ApplyLayers(const MessageReduceArgs& args, int64_t in_width, double* in, double* out) {
    const MessageReduceProblem& p = args.problem;
    for (int32_t l = 0; l < p.num_layers; ++l) {
      const MessageLayerArgs& layer = args.layers[l];
      for (int64_t h = 0; h < p.out_widths[l]; ++h) {
        const float* row = static_cast<const float*>(layer.weight) + h * in_width;
        double sum = layer.bias != nullptr ? layer.bias[h] : 0.0;
        for (int64_t c = 0; c < in_width; ++c) sum += in[c] * row[c];
        out[h] = ReferenceActivate(layer.activation, sum);
      }
      in_width = p.out_widths[l];
      std::swap(in, out);
    }
    return in;
  }

  // The coefficients of features in `in`; returns the row where they are.
  static double* Coefficients(const MessageReduceArgs& args, double* in, double* out) {
    const MessageReduceProblem& p = args.problem;
    if (p.gaussians == 0) return ApplyLayers(args, p.edge_width, in, out);
    for (int64_t k = 0; k < p.gaussians; ++k) {
      double sum = 0.0;
      for (int64_t a = 0; a < p.edge_width; ++a) {
        const double difference = in[a] - args.gaussian_mean[a * p.gaussians + k];
        sum += args.gaussian_scale[a * p.gaussians + k] * difference * difference;
      }
      out[k] = std::exp(sum);
    }
    return out;
  }

  // The mixture of the source's parts for edge e into row i, or its products with each coefficient, in one of the two
  // rows.
  static const double* Mixture(const MessageReduceArgs& args, int64_t i, int64_t e, double* in, double* out) {
    const MessageReduceProblem& p = args.problem;
    const float* const features = EdgeFeaturesOfRow(args.edge, i).At(e - args.adjacency.row_ptr[i]);
    std::copy_n(features, p.edge_width, in);
    const double* const share = Coefficients(args, in, out);
    double* const result = share == in ? out : in;
    const float* const u = args.src.row(args.adjacency.col[e]);
    if (p.form == MessageForm::kOuter) {
      for (int64_t c = 0; c < p.out_width(); ++c) result[c] = share[c / p.width] * u[c % p.width];
      return result;
    }
    for (int64_t c = 0; c < p.width; ++c) {
      double sum = p.one_more ? u[p.coefficients() * p.width + c] : 0.0;
      for (int64_t k = 0; k < p.coefficients(); ++k) sum += share[k] * u[k * p.width + c];
      result[c] = sum;
    }
    return result;
  }

  // The message of edge e into row i, after its layers, in one of the two rows.
  static const double* EdgeMessage(const MessageReduceArgs& args, int64_t i, int64_t e, double* in, double* out) {
    const MessageReduceProblem& p = args.problem;
    const CsrView& a = args.adjacency;
    if (p.mixes()) return Mixture(args, i, e, in, out);
    const double weight = a.value != nullptr ? a.value[e] : 1.0;
    for (int64_t c = 0; c < p.width; ++c) {
      if (p.form == MessageForm::kGated) {
        in[c] = ReferenceActivate(args.gate, SumOfTerms(args, i, e, c)) *
                ReferenceActivate(args.activation, SumOfTerms(args, i, e, p.width + c));
        continue;
      }
      const double v = p.message == Message::kSource ? 0.0 : args.target.row(i)[c];
      const double message = MessageOf(p.message, args.src.row(a.col[e])[c], v) + FeatureTerm(args, i, e, c);
      in[c] = ReferenceActivate(args.activation, message * weight);
    }
    return ApplyLayers(args, p.width, in, out);
  }
};

class ReferenceEdgeScores final : public ReferenceKernel<EdgeScoresKernel> {
 public:
  Status Run(DeviceContext&, const EdgeScoresArgs& args, void*) const override {
    const CsrView& a = args.adjacency;
    for (int64_t i = 0; i < args.problem.rows; ++i) {
      for (int64_t e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
        const float* u = args.src.row(a.col[e]);
        const float* v = args.problem.dot || args.problem.message != Message::kSource ? args.target.row(i) : u;
        float* dst = args.dst.row(e - a.row_ptr[0]);
        args.problem.dot ? Dots(args.problem, u, v, dst) : Messages(args.problem, u, v, dst);
      }
    }
    return OkStatus();
  }

 private:
  static void Dots(const EdgeScoresProblem& p, const float* u, const float* v, float* dst) {
    const int64_t head_width = p.width / p.heads;
    for (int64_t k = 0; k < p.heads; ++k) {
      double sum = 0;
      for (int64_t c = k * head_width; c < (k + 1) * head_width; ++c) sum += static_cast<double>(u[c]) * v[c];
      dst[k] = static_cast<float>(sum);
    }
  }

  static void Messages(const EdgeScoresProblem& p, const float* u, const float* v, float* dst) {
    for (int64_t c = 0; c < p.width; ++c) dst[c] = static_cast<float>(MessageOf(p.message, u[c], v[c]));
  }
};

}  // namespace

std::unique_ptr<const MessageReduceKernel> MakeReferenceMessageReduce() {
  return std::make_unique<ReferenceMessageReduce>();
}
std::unique_ptr<const EdgeScoresKernel> MakeReferenceEdgeScores() { return std::make_unique<ReferenceEdgeScores>(); }

}  // namespace vicinal::internal
