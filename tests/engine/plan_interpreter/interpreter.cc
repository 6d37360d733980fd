// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/plan_interpreter/interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "tests/engine/plan_interpreter/edge_program_oracle.h"

namespace vicinal {
namespace {

using Matrix = std::vector<double>;  // [rows, width], row-major

struct Edge {
  int64_t source = 0;
  int64_t target = 0;
  double weight = 1.0;
  std::vector<double> features = {};
};

// Self-loops added or replaced as the spec says. Loops come last, in the order of nodes.
std::vector<Edge> WithSelfLoops(const std::vector<Edge>& edges, int64_t num_nodes, const AdjacencySpec& spec) {
  if (spec.loops == SelfLoops::kAsSent) return edges;
  std::vector<Edge> result;
  std::vector<double> loop(num_nodes, spec.loops == SelfLoops::kAddRemaining ? spec.loop_weight : 1.0);
  for (const Edge& edge : edges) {
    if (edge.source != edge.target) {
      result.push_back(edge);
    } else if (spec.loops == SelfLoops::kAddRemaining) {
      loop[edge.target] = edge.weight;
    }
  }
  for (int64_t node = 0; node < num_nodes; ++node) result.push_back({node, node, loop[node]});
  return result;
}

// The edges a layer propagates over, weighted.
StatusOr<std::vector<Edge>> Derive(const EdgeList& graph, const AdjacencySpec& spec) {
  const bool sent = ReadsEdgeWeights(spec.weighting);
  if (sent && !graph.weighted()) {
    return FailedPrecondition("EDGE_WEIGHT_MISSING",
                              "the model reads edge weights, but the graph has none; upload it with edge_weight");
  }
  std::vector<Edge> edges;
  for (int64_t e = 0; e < graph.num_edges(); ++e) {
    edges.push_back({graph.source[e], graph.target[e], sent ? static_cast<double>(graph.weight[e]) : 1.0});
    if (spec.transposed) std::swap(edges.back().source, edges.back().target);
  }
  edges = WithSelfLoops(edges, graph.num_nodes, spec);
  if (spec.weighting == EdgeWeighting::kNone || spec.weighting == EdgeWeighting::kSent) return edges;
  std::vector<double> degree(graph.num_nodes, 0.0);
  if (spec.weighting == EdgeWeighting::kMeanOnes) {
    for (const Edge& edge : edges) degree[edge.target] += 1.0;
    for (Edge& edge : edges) edge.weight = (edge.source == edge.target ? spec.loop_weight : 1.0) / degree[edge.target];
    return edges;
  }
  if (spec.weighting != EdgeWeighting::kGcnSent && spec.weighting != EdgeWeighting::kGcnOnes) {
    const bool mean =
        spec.weighting == EdgeWeighting::kSourceMeanSent || spec.weighting == EdgeWeighting::kSourceMeanOnes;
    for (Edge& edge : edges) {
      if (edge.source == edge.target) edge.weight = 0.0;
      degree[edge.source] += edge.weight;
    }
    for (Edge& edge : edges) {
      const double from = degree[edge.source], to = mean ? from : degree[edge.target];
      edge.weight = from == 0.0 || to == 0.0 ? 0.0 : edge.weight / std::sqrt(from * to);
    }
    return edges;
  }
  for (const Edge& edge : edges) degree[edge.target] += edge.weight;
  for (double& d : degree) d = d == 0.0 ? 0.0 : 1.0 / std::sqrt(d);
  for (Edge& edge : edges) edge.weight *= degree[edge.source] * degree[edge.target];
  return edges;
}

// Gives `edges`, which Derive made of `graph`, their features, `width` each. `attr` [E, width] are those of the edges
// as sent.
void TakeFeatures(const EdgeList& graph, const std::vector<float>& attr, int64_t width, const AdjacencySpec& spec,
                  const LoopFeatures& added, std::vector<Edge>& edges) {
  VICINAL_CHECK(static_cast<int64_t>(attr.size()) == graph.num_edges() * width);
  const bool replaced = spec.loops == SelfLoops::kReplace;
  std::vector<std::vector<double>> sum(graph.num_nodes, std::vector<double>(width, 0.0));
  std::vector<double> count(graph.num_nodes, 0.0);
  size_t at = 0;
  for (int64_t e = 0; e < graph.num_edges(); ++e) {
    if (replaced && graph.source[e] == graph.target[e]) continue;
    edges[at].features.assign(attr.begin() + e * width, attr.begin() + (e + 1) * width);
    for (int64_t a = 0; a < width; ++a) sum[graph.target[e]][a] += edges[at].features[a];
    count[graph.target[e]] += 1.0;
    ++at;
  }
  for (; at < edges.size(); ++at) {
    const int64_t node = edges[at].target;
    for (int64_t a = 0; a < width; ++a) {
      edges[at].features.push_back(!added.mean ? added.value : count[node] == 0.0 ? 0.0 : sum[node][a] / count[node]);
    }
  }
}

// Row `row` of W [rows, A] times the edge's features.
double Product(const WeightRef& weight, int64_t row, const std::vector<double>& features) {
  double product = 0.0;
  for (size_t a = 0; a < features.size(); ++a) product += weight->values[row * features.size() + a] * features[a];
  return product;
}

double Apply(const Activation& activation, double x) {
  switch (activation.kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kRelu:
      return x > 0.0 ? x : 0.0;
    case ActivationKind::kElu:
      return x > 0.0 ? x : activation.slope * std::expm1(x);
    case ActivationKind::kLeakyRelu:
      return x > 0.0 ? x : activation.slope * x;
    case ActivationKind::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kSilu:
      return x / (1.0 + std::exp(-x));
    case ActivationKind::kGelu:
      return x / 2.0 * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::kGeluTanh:
      return x / 2.0 * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * std::pow(x, 3.0))));
    case ActivationKind::kSoftplus:
      return x > activation.slope ? x : std::log1p(std::exp(x));
    case ActivationKind::kMish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case ActivationKind::kSoftsign:
      return x / (1.0 + std::abs(x));
    case ActivationKind::kClamp:
      return std::max<double>(activation.slope, std::min<double>(activation.limit, x));
    case ActivationKind::kThreshold:
      return x > activation.slope ? x : activation.limit;
    case ActivationKind::kHardSigmoid:
      return std::clamp(x / 6.0 + 0.5, 0.0, 1.0);
    case ActivationKind::kHardSwish:
      return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0);
    case ActivationKind::kHardShrink:
      return std::abs(x) > activation.slope ? x : 0.0;
    case ActivationKind::kExp:
      return std::exp(x);
    case ActivationKind::kRoot:
      return std::sqrt(x + activation.slope);
    case ActivationKind::kInverseRoot:
      return 1.0 / std::sqrt(x + activation.slope);
    case ActivationKind::kSquare:
      return x * x;
  }
  return x;
}

// Element of a weight that may be absent.
double At(const WeightRef& weight, int64_t i, double absent) { return weight == nullptr ? absent : weight->values[i]; }

// One row through one operation that works on rows.
std::vector<double> ApplyToRow(const LinearStep& op, const std::vector<double>& x) {
  const int64_t out_width = op.weight->shape[0], in_width = op.weight->shape[1];
  std::vector<double> out(out_width);
  for (int64_t c = 0; c < out_width; ++c) out[c] = At(op.bias, c, 0.0);
  for (int64_t k = 0; k < in_width; ++k) {
    if (x[k] == 0.0) continue;  // bags of words
    for (int64_t c = 0; c < out_width; ++c) out[c] += x[k] * op.weight->values[c * in_width + k];
  }
  return out;
}
std::vector<double> ApplyToRow(const BatchNormStep& op, std::vector<double> x) {
  for (size_t c = 0; c < x.size(); ++c) {
    x[c] = (x[c] - op.mean->values[c]) / std::sqrt(op.var->values[c] + op.eps) * At(op.weight, c, 1.0) +
           At(op.bias, c, 0.0);
  }
  return x;
}
std::vector<double> ApplyToRow(const ActivationStep& op, std::vector<double> x) {
  for (double& value : x) value = Apply(op.activation, value);
  return x;
}

// The larger or smaller of two, NaN where either is one.
double Extreme(Reduce reduce, double a, double b) {
  const bool first = std::isnan(a) || (reduce == Reduce::kMax ? a > b : a < b);
  return first ? a : b;
}

// Takes a message into a target's row; the first replaces what stands there.
void Reduced(Reduce reduce, bool first, double message, double* target) {
  if (first) {
    *target = message;
  } else if (reduce == Reduce::kMax || reduce == Reduce::kMin) {
    *target = Extreme(reduce, *target, message);
  } else {
    *target += message;
  }
}

// Carries out steps, one operator() each: takes the inputs, gives the output.
class StepRunner {
 public:
  StepRunner(const InterpreterInput& input, const std::vector<int64_t>& widths, std::vector<Matrix>& values)
      : graph_(*input.edges), edge_attr_(input.edge_attr), segments_(input.segments), widths_(widths), values_(values) {
    if (segments_.empty()) segments_ = {0, graph_.num_nodes};
    one_graph_ = input.segments.empty();
  }

  StatusOr<Matrix> Run(const Step& step) {
    step_ = &step;
    return std::visit(*this, step.op);
  }

  StatusOr<Matrix> operator()(const LinearStep& op) { return PerRow(op); }

  StatusOr<Matrix> operator()(const PropagateStep& op) {
    VICINAL_ASSIGN_OR_RETURN(const std::vector<Edge> edges, Derive(graph_, op.adjacency));
    const Matrix& x = in(0);
    const int64_t w = width(0);
    Matrix out(x.size(), 0.0);
    std::vector<int64_t> count(graph_.num_nodes, 0);
    for (const Edge& edge : edges) {
      const double* source = &x[edge.source * w];
      double* target = &out[edge.target * w];
      const bool first = count[edge.target]++ == 0;
      for (int64_t c = 0; c < w; ++c) Reduced(op.reduce, first, edge.weight * source[c], &target[c]);
    }
    if (op.reduce == Reduce::kMean) Divide(count, w, out);
    for (size_t i = 0; op.self_scale != 0.0 && i < out.size(); ++i) out[i] += op.self_scale * x[i];
    return out;
  }

  StatusOr<Matrix> operator()(const AttentionStep& op) {
    VICINAL_ASSIGN_OR_RETURN(std::vector<Edge> edges, Derive(graph_, op.adjacency));
    if (op.edge_width > 0) TakeFeatures(graph_, edge_attr_, op.edge_width, op.adjacency, op.loop_features, edges);
    const int64_t w = op.heads * op.head_width;
    Matrix joined(graph_.num_nodes * w, 0.0);
    for (int64_t head = 0; head < op.heads; ++head) AttendOneHead(op, edges, head, joined);
    if (op.concat) return joined;
    Matrix mean(graph_.num_nodes * op.head_width, 0.0);
    for (int64_t i = 0; i < graph_.num_nodes; ++i) {
      for (int64_t c = 0; c < w; ++c)
        mean[i * op.head_width + c % op.head_width] += joined[i * w + c] / static_cast<double>(op.heads);
    }
    return mean;
  }

  StatusOr<Matrix> operator()(const BiasStep& op) {
    Matrix out = in(0);
    for (size_t i = 0; i < out.size(); ++i) out[i] += op.bias->values[i % width(0)];
    return out;
  }
  StatusOr<Matrix> operator()(const ActivationStep& op) { return PerRow(op); }
  StatusOr<Matrix> operator()(const BatchNormStep& op) { return PerRow(op); }

  StatusOr<Matrix> operator()(const LayerNormStep& op) {
    const Matrix& x = in(0);
    const int64_t w = width(0), rows = rows_of(0);
    Matrix out = x;
    if (op.per_node) {
      for (int64_t r = 0; r < rows; ++r) Standardize(&out[r * w], w, op.eps, true);
    } else {
      for (size_t g = 0; g + 1 < segments_.size(); ++g) {
        if (segments_[g] == segments_[g + 1]) continue;
        Standardize(&out[segments_[g] * w], (segments_[g + 1] - segments_[g]) * w, op.eps, !one_graph_);
      }
    }
    for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] * At(op.weight, i % w, 1.0) + At(op.bias, i % w, 0.0);
    return out;
  }

  StatusOr<Matrix> operator()(const EdgeConvStep& op) {
    VICINAL_ASSIGN_OR_RETURN(const std::vector<Edge> edges, Derive(graph_, op.adjacency));
    const int64_t w = step_->width;
    Matrix out(graph_.num_nodes * w, 0.0);
    std::vector<int64_t> count(graph_.num_nodes, 0);
    for (const Edge& edge : edges) {
      const std::vector<double> message = EdgeMessage(op, edge);
      const bool first = count[edge.target]++ == 0;
      for (int64_t c = 0; c < w; ++c) Reduced(op.reduce, first, message[c], &out[edge.target * w + c]);
    }
    if (op.reduce == Reduce::kMean) Divide(count, w, out);
    return out;
  }
  StatusOr<Matrix> operator()(const EdgeMessageStep& op) {
    VICINAL_ASSIGN_OR_RETURN(std::vector<Edge> edges, Derive(graph_, op.adjacency));
    if (op.edge_width > 0) TakeFeatures(graph_, edge_attr_, op.edge_width, op.adjacency, {}, edges);
    const int64_t w = step_->width;
    Matrix out(graph_.num_nodes * w, 0.0), total(out.size(), 0.0);
    std::vector<int64_t> count(graph_.num_nodes, 0);
    for (const Edge& edge : edges) {
      const std::vector<double> message = EdgeMessage(op, edge);
      const bool first = count[edge.target]++ == 0;
      for (int64_t c = 0; c < w; ++c) {
        const int64_t at = edge.target * w + c;
        const double share = op.softmax ? std::exp(op.temperature * message[c]) : 1.0;
        total[at] += share;
        Reduced(op.reduce, first, share * message[c], &out[at]);
      }
    }
    for (size_t i = 0; op.softmax && i < out.size(); ++i) out[i] /= total[i] == 0.0 ? 1.0 : total[i];
    if (op.reduce == Reduce::kMean) Divide(count, w, out);
    return out;
  }
  StatusOr<Matrix> operator()(const ExpressionStep& op) {
    const EdgeProgram& program = *op.program;
    if (!program.over_edges) {
      Matrix out;
      for (int64_t r = 0; r < rows_of(0); ++r) {
        const auto values = ValuesOfEdge(op, InputsAt(program, r, r), Apply);
        const std::vector<double>& row = values[program.results[0].value];
        out.insert(out.end(), row.begin(), row.end());
      }
      return out;
    }
    VICINAL_ASSIGN_OR_RETURN(std::vector<Edge> edges, Derive(graph_, op.adjacency));
    if (op.edge_width > 0) TakeFeatures(graph_, edge_attr_, op.edge_width, op.adjacency, op.loop_features, edges);
    std::vector<std::vector<std::vector<std::vector<double>>>> of_target(graph_.num_nodes);
    for (const Edge& edge : edges) {
      EdgeInputs inputs = InputsAt(program, edge.source, edge.target);
      inputs.features = edge.features;
      inputs.weight = edge.weight;
      of_target[edge.target].push_back(ValuesOfEdge(op, inputs, Apply));
    }
    Matrix out;
    for (const auto& values : of_target) {
      for (const EdgeResult& result : program.results) {
        const std::vector<double> row = ReduceEdges(program, result, values);
        out.insert(out.end(), row.begin(), row.end());
      }
    }
    return out;
  }
  StatusOr<Matrix> operator()(const GateStep& op) {
    const Matrix &a = in(0), &skip = in(1);
    const int64_t w = width(0);
    Matrix out(a.size());
    for (int64_t r = 0; r < rows_of(0); ++r) {
      double score = 0.0;
      for (int64_t c = 0; c < w; ++c) {
        const double x = a[r * w + c], y = skip[r * w + c];
        score += op.weight->values[c] * x + op.weight->values[w + c] * y + op.weight->values[2 * w + c] * (x - y);
      }
      const double gate = 1.0 / (1.0 + std::exp(-score));
      for (int64_t c = 0; c < w; ++c) out[r * w + c] = gate * skip[r * w + c] + (1.0 - gate) * a[r * w + c];
    }
    return out;
  }
  StatusOr<Matrix> operator()(const AddStep& op) {
    Matrix out = in(0);
    for (size_t i = 0; i < out.size(); ++i) out[i] = op.a_scale * out[i] + op.b_scale * in(1)[i];
    return out;
  }
  StatusOr<Matrix> operator()(const ExpandStep&) {
    const int64_t w = width(0);
    Matrix out;
    for (size_t g = 0; g + 1 < segments_.size(); ++g) {
      for (int64_t i = segments_[g]; i < segments_[g + 1]; ++i)
        out.insert(out.end(), in(0).begin() + g * w, in(0).begin() + (g + 1) * w);
    }
    return out;
  }
  StatusOr<Matrix> operator()(const MultiplyStep&) {
    Matrix out = in(0);
    for (size_t i = 0; i < out.size(); ++i) out[i] *= in(1)[i];
    return out;
  }
  StatusOr<Matrix> operator()(const ScaleStep& op) {
    Matrix out = in(0);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] *= op.factor * At(op.weight, static_cast<int64_t>(i) % width(0), 1.0);
    return out;
  }
  StatusOr<Matrix> operator()(const SliceStep& op) {
    Matrix out;
    for (int64_t r = 0; r < rows_of(0); ++r) {
      const auto row = in(0).begin() + r * width(0) + op.first;
      out.insert(out.end(), row, row + step_->width);
    }
    return out;
  }
  StatusOr<Matrix> operator()(const SoftmaxStep& op) {
    const int64_t w = width(0);
    Matrix out = in(0);
    for (int64_t r = 0; r < rows_of(0); ++r) {
      double* const row = &out[r * w];
      const double most = *std::max_element(row, row + w);
      double sum = 0.0;
      for (int64_t c = 0; c < w; ++c) sum += std::exp(row[c] - most);
      for (int64_t c = 0; c < w; ++c) {
        const double logarithm = row[c] - most - std::log(sum);
        row[c] = op.logarithm ? logarithm : std::exp(logarithm);
      }
    }
    return out;
  }
  StatusOr<Matrix> operator()(const MaxStep&) {
    Matrix out = in(0);
    for (size_t k = 1; k < step_->inputs.size(); ++k) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = Extreme(Reduce::kMax, out[i], in(k)[i]);
    }
    return out;
  }
  StatusOr<Matrix> operator()(const ConcatStep&) {
    Matrix out;
    out.reserve(rows_of(0) * step_->width);
    for (int64_t r = 0; r < rows_of(0); ++r) {
      for (size_t k = 0; k < step_->inputs.size(); ++k)
        out.insert(out.end(), in(k).begin() + r * width(k), in(k).begin() + (r + 1) * width(k));
    }
    return out;
  }

  StatusOr<Matrix> operator()(const NormalizeStep&) {
    const int64_t w = width(0);
    Matrix out = in(0);
    for (int64_t r = 0; r < rows_of(0); ++r) {
      double squares = 0.0;
      for (int64_t c = 0; c < w; ++c) squares += out[r * w + c] * out[r * w + c];
      for (int64_t c = 0; c < w; ++c) out[r * w + c] /= std::max(std::sqrt(squares), 1e-12);
    }
    return out;
  }

  StatusOr<Matrix> operator()(const ReadoutStep& op) {
    const Matrix& x = in(0);
    const int64_t w = width(0), graphs = static_cast<int64_t>(segments_.size()) - 1;
    Matrix out(graphs * w, 0.0);
    for (int64_t g = 0; g < graphs; ++g) {
      const int64_t begin = segments_[g], end = segments_[g + 1];
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t c = 0; c < w; ++c) Reduced(op.reduce, i == begin, x[i * w + c], &out[g * w + c]);
      }
      for (int64_t c = 0; op.reduce == Reduce::kMean && end > begin && c < w; ++c)
        out[g * w + c] /= static_cast<double>(end - begin);
    }
    return out;
  }

  StatusOr<Matrix> operator()(const MedianStep&) {
    const int64_t w = width(0), graphs = static_cast<int64_t>(segments_.size()) - 1;
    Matrix out(graphs * w, 0.0);
    for (int64_t g = 0; g < graphs; ++g) {
      for (int64_t c = 0; c < w && segments_[g] < segments_[g + 1]; ++c) {
        std::vector<double> column;
        for (int64_t i = segments_[g]; i < segments_[g + 1]; ++i) column.push_back(in(0)[i * w + c]);
        std::sort(column.begin(), column.end());
        out[g * w + c] = column[(column.size() - 1) / 2];
      }
    }
    return out;
  }

  StatusOr<Matrix> operator()(const SortStep&) {
    const int64_t w = width(0), graphs = static_cast<int64_t>(segments_.size()) - 1;
    Matrix out(graphs * step_->width, 0.0);
    for (int64_t g = 0; g < graphs; ++g) {
      std::vector<std::vector<double>> rows;  // from the last column to the first
      for (int64_t i = segments_[g]; i < segments_[g + 1]; ++i) {
        rows.emplace_back();
        for (int64_t c = w; c-- > 0;) rows.back().push_back(in(0)[i * w + c]);
      }
      std::sort(rows.begin(), rows.end(), std::greater<>());
      for (int64_t c = 0; c < step_->width && c / w < static_cast<int64_t>(rows.size()); ++c)
        out[g * step_->width + c] = rows[c / w][w - 1 - c % w];
    }
    return out;
  }

 private:
  const Matrix& in(size_t k) const { return values_[step_->inputs[k]]; }
  int64_t width(size_t k) const { return widths_[step_->inputs[k]]; }
  int64_t rows_of(size_t k) const { return static_cast<int64_t>(in(k).size()) / width(k); }

  // The rows of the step's inputs, its sources first, that an edge reads.
  EdgeInputs InputsAt(const EdgeProgram& program, int64_t source, int64_t target) const {
    EdgeInputs inputs;
    for (int32_t k = 0; k < program.sources; ++k) inputs.sources.push_back(&in(k)[source * width(k)]);
    for (int32_t k = program.sources; k < program.sources + program.targets; ++k)
      inputs.targets.push_back(&in(k)[target * width(k)]);
    return inputs;
  }

  template <class Op>
  Matrix PerRow(const Op& op) const {
    Matrix out;
    out.reserve(rows_of(0) * step_->width);
    for (int64_t r = 0; r < rows_of(0); ++r) {
      const auto row = in(0).begin() + r * width(0);
      const std::vector<double> result = ApplyToRow(op, std::vector<double>(row, row + width(0)));
      out.insert(out.end(), result.begin(), result.end());
    }
    return out;
  }

  // nn([x_i, x_j - x_i]).
  std::vector<double> EdgeMessage(const EdgeConvStep& op, const Edge& edge) const {
    const double *source = &in(0)[edge.source * width(0)], *target = &in(0)[edge.target * width(0)];
    std::vector<double> message(target, target + width(0));
    for (int64_t c = 0; c < width(0); ++c) message.push_back(source[c] - target[c]);
    for (const EdgeConvOp& inner : op.nn)
      message = std::visit([&](const auto& step) { return ApplyToRow(step, std::move(message)); }, inner);
    return message;
  }

  // The same of an EdgeMessageStep, [width of the output].
  std::vector<double> EdgeMessage(const EdgeMessageStep& op, const Edge& edge) const {
    const int64_t w = step_->width, columns = width(0);
    const double* const u = &in(0)[edge.source * columns];
    std::vector<double> message(w, 0.0);
    if (op.function == EdgeFunction::kMixture || op.function == EdgeFunction::kOuter) {
      std::vector<double> share = op.gaussians.mean != nullptr ? Gaussians(op.gaussians, edge) : edge.features;
      for (const EdgeConvOp& inner : op.nn)
        share = std::visit([&](const auto& step) { return ApplyToRow(step, std::move(share)); }, inner);
      if (op.function == EdgeFunction::kOuter) {
        for (int64_t c = 0; c < w; ++c) message[c] = share[c / columns] * u[c % columns];
        return message;
      }
      share.push_back(1.0);  // of a part beyond the coefficients
      for (int64_t c = 0; c < columns; ++c) message[c % w] += share[c / w] * u[c];
      return message;
    }
    const auto z = [&](int64_t c) {
      double sum = u[c] + At(op.edge_bias, c, 0.0);
      if (step_->inputs.size() > 1 && c < width(1)) sum += in(1)[edge.target * width(1) + c];
      if (op.edge_weight != nullptr) return sum + Product(op.edge_weight, c, edge.features);
      return op.edge_width > 0 ? sum + edge.features[c] : sum;
    };
    if (op.function == EdgeFunction::kGated) {
      for (int64_t c = 0; c < w; ++c) message[c] = Apply(op.gate, z(c)) * Apply(op.activation, z(w + c));
      return message;
    }
    message.resize(columns);
    for (int64_t c = 0; c < columns; ++c) message[c] = Apply(op.activation, z(c));
    for (const EdgeConvOp& inner : op.nn)
      message = std::visit([&](const auto& step) { return ApplyToRow(step, std::move(message)); }, inner);
    return message;
  }

  // Gaussians of an edge's features.
  static std::vector<double> Gaussians(const EdgeGaussians& gaussians, const Edge& edge) {
    const int64_t count = gaussians.mean->shape[0], features = gaussians.mean->shape[1];
    std::vector<double> result;
    for (int64_t k = 0; k < count; ++k) {
      double exponent = 0.0;
      for (int64_t a = 0; a < features; ++a) {
        const double difference = edge.features[a] - gaussians.mean->values[k * features + a];
        exponent += gaussians.scale->values[k * features + a] * difference * difference;
      }
      result.push_back(std::exp(exponent));
    }
    return result;
  }

  // Sums of `count` messages into their means.
  static void Divide(const std::vector<int64_t>& count, int64_t width, Matrix& sums) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] /= static_cast<double>(std::max<int64_t>(count[i / width], 1));
  }

  // (x - mean) / sqrt(var + eps), or / (deviation + eps), over `count` numbers.
  static void Standardize(double* x, int64_t count, double eps, bool eps_under_root) {
    double mean = 0.0, var = 0.0;
    for (int64_t i = 0; i < count; ++i) mean += x[i];
    mean /= static_cast<double>(count);
    for (int64_t i = 0; i < count; ++i) var += (x[i] - mean) * (x[i] - mean);
    var /= static_cast<double>(count);
    const double divisor = eps_under_root ? std::sqrt(var + eps) : std::sqrt(var) + eps;
    for (int64_t i = 0; i < count; ++i) x[i] = (x[i] - mean) / divisor;
  }

  // Column `c` of W times the features of an edge.
  static double FeatureTerm(const AttentionStep& op, const Edge& edge, int64_t c) {
    return op.edge_width == 0 ? 0.0 : Product(op.edge_weight, c, edge.features);
  }

  // Of an edge in the head whose columns begin at `first`.
  double Score(const AttentionStep& op, const Edge& edge, int64_t first) const {
    const int64_t w = op.heads * op.head_width;
    const auto leaky = [&](double s) { return s > 0.0 ? s : op.negative_slope * s; };
    const auto at = [&](size_t k, int64_t node, int64_t c) { return in(k)[node * w + first + c]; };
    double score = 0.0;
    for (int64_t c = 0; c < op.head_width; ++c) {
      const double term = FeatureTerm(op, edge, first + c);
      if (op.kind == AttentionKind::kDot) {
        score += at(1, edge.target, c) * (at(2, edge.source, c) + term);
      } else if (op.kind == AttentionKind::kGatV2) {
        score += op.att_src->values[first + c] * leaky(at(0, edge.source, c) + at(1, edge.target, c) + term);
      } else {
        score += op.att_src->values[first + c] * at(0, edge.source, c) +
                 op.att_dst->values[first + c] * at(0, edge.target, c) + At(op.att_edge, first + c, 0.0) * term;
      }
    }
    if (op.kind == AttentionKind::kDot) return score / std::sqrt(static_cast<double>(op.head_width));
    return op.kind == AttentionKind::kGatV2 ? score : leaky(score);
  }

  void AttendOneHead(const AttentionStep& op, const std::vector<Edge>& edges, int64_t head, Matrix& out) const {
    const Matrix& values = in(0);
    const int64_t w = op.heads * op.head_width, first = head * op.head_width;
    std::vector<double> score(edges.size());
    std::vector<double> largest(graph_.num_nodes, -INFINITY), total(graph_.num_nodes, 0.0);
    for (size_t e = 0; e < edges.size(); ++e) {
      const Edge& edge = edges[e];
      score[e] = Score(op, edge, first);
      largest[edge.target] = std::max(largest[edge.target], score[e]);
    }
    for (size_t e = 0; e < edges.size(); ++e) {
      score[e] = std::exp(score[e] - largest[edges[e].target]);
      total[edges[e].target] += score[e];
    }
    for (size_t e = 0; e < edges.size(); ++e) {
      const Edge& edge = edges[e];
      for (int64_t c = 0; c < op.head_width; ++c) {
        const double term = op.kind == AttentionKind::kDot ? FeatureTerm(op, edge, first + c) : 0.0;
        out[edge.target * w + first + c] +=
            score[e] / total[edge.target] * (values[edge.source * w + first + c] + term);
      }
    }
  }

  const EdgeList& graph_;
  const std::vector<float>& edge_attr_;
  std::vector<int64_t> segments_;
  bool one_graph_ = true;
  const std::vector<int64_t>& widths_;
  std::vector<Matrix>& values_;
  const Step* step_ = nullptr;
};

// The steps that `output` needs, in order.
std::vector<const Step*> NeededSteps(const Model& model, ValueId output) {
  std::vector<bool> needed(model.num_values, false);
  needed[output] = true;
  std::vector<const Step*> steps;
  for (auto step = model.steps.rbegin(); step != model.steps.rend(); ++step) {
    if (!needed[step->output]) continue;
    for (ValueId input : step->inputs) needed[input] = true;
    steps.push_back(&*step);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

}  // namespace

StatusOr<std::vector<double>> Interpret(const Model& model, const InterpreterInput& input, ValueId output) {
  VICINAL_CHECK(output >= 0 && output < model.num_values);
  if (static_cast<int64_t>(input.x->size()) != input.edges->num_nodes * model.feature_count) {
    return InvalidArgument("FEATURE_SHAPE", "x",
                           "x has " + std::to_string(input.x->size()) + " values; the model needs " +
                               std::to_string(input.edges->num_nodes) + " rows of " +
                               std::to_string(model.feature_count));
  }
  std::vector<int64_t> widths(model.num_values, model.feature_count);
  for (const Step& step : model.steps) widths[step.output] = step.width;
  const std::vector<const Step*> steps = NeededSteps(model, output);
  std::vector<size_t> last_use(model.num_values, 0);
  for (size_t s = 0; s < steps.size(); ++s) {
    for (ValueId value : steps[s]->inputs) last_use[value] = s;
  }
  std::vector<Matrix> values(model.num_values);
  values[kInputValue] = *input.x;
  StepRunner runner(input, widths, values);
  for (size_t s = 0; s < steps.size(); ++s) {
    VICINAL_ASSIGN_OR_RETURN(values[steps[s]->output], runner.Run(*steps[s]));
    for (ValueId value : steps[s]->inputs) {
      if (last_use[value] == s && value != output) values[value] = Matrix();
    }
  }
  return std::move(values[output]);
}

}  // namespace vicinal
