// SPDX-License-Identifier: Apache-2.0
// Messages of other forms than one activation, with and without features of edges: gated ones, mixtures of a source's
// parts, and sums weighted by a softmax; rows without edges, around blocks, and hubs; against the formulas in double,
// in all shapes, and for the rows of a receptive field.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/featured_graph.h"

namespace vicinal::conformance {
namespace {

MatrixLayout LayoutOf(int turn) {
  return turn % 4 == 1 ? MatrixLayout{1, 3} : turn % 4 == 2 ? MatrixLayout{4, 4} : MatrixLayout{};
}

std::string NameOf(MessageForm form) {
  switch (form) {
    case MessageForm::kPlain:
      return "plain";
    case MessageForm::kGated:
      return "gated";
    case MessageForm::kMixture:
      return "mixture";
    case MessageForm::kOuter:
      return "outer";
  }
  return "";
}

// One layer of a mixture's network, [out, in].
struct Layer {
  HostMatrix weight;
  std::vector<float> bias;
  Activation activation;
};

struct Case {
  const FeaturedGraph& graph;
  MessageReduceProblem problem;
  HostMatrix src, target;  // target: empty for none
  std::vector<float> weight;
  std::vector<Layer> layers;
  HostMatrix mean, scale;  // of Gaussians, [A, K]
  Activation gate, activation;
  float temperature = 1.0f;
  MatrixLayout layout;
  HostEpilogue epilogue;

  std::string Name(std::string_view kernel) const {
    return std::string(kernel) + ", " + graph.sent.name + ", " + NameOf(problem.form) + ", " +
           (problem.softmax ? "softmax" : std::string(ToString(problem.reduce))) + ", " +
           std::to_string(problem.width) + " columns, " + std::to_string(problem.edge_width) + " features, " +
           std::to_string(layers.size()) + " layers, " + std::to_string(problem.gaussians) + " Gaussians, loops " +
           std::to_string(static_cast<int>(graph.loops));
  }
};

// W [rows, cols] of products that are about 1.
HostMatrix Weights(int64_t rows, int64_t cols, uint32_t seed) {
  HostMatrix weight = RandomMatrix(rows, cols, seed);
  for (float& x : weight.values) x /= std::sqrt(static_cast<float>(cols));
  return weight;
}

struct Form {
  MessageForm form;
  Reduce reduce;
  bool softmax;
  bool featured;
};

void AddMixture(int turn, Case* c) {
  MessageReduceProblem& p = c->problem;
  p.one_more = turn % 2 == 0;
  int64_t in = p.edge_width;
  for (int32_t l = 0; l < turn % 4; ++l) {
    const int64_t out = 1 + (turn * 7 + l * 5) % 20;
    c->layers.push_back({Weights(out, in, 60 + l), {}, {}});
    if (l % 2 == 0) c->layers.back().bias = RandomVector(out, 70 + l);
    if (l + 1 < turn % 4) c->layers.back().activation.kind = ActivationKind::kTanh;
    p.out_widths[l] = in = out;
  }
  p.num_layers = static_cast<int32_t>(c->layers.size());
}

// `count` Gaussians, as wide as the features' distances from their means.
void AddGaussians(int64_t count, Case* c) {
  const int64_t features = c->problem.edge_width;
  c->problem.gaussians = count;
  c->mean = RandomMatrix(features, count, 81);
  c->scale = RandomMatrix(features, count, 82);
  for (float& x : c->scale.values) x = -std::abs(x) / static_cast<float>(features);
}

Case MakeCase(const FeaturedGraph& graph, const Form& form, int64_t width, int turn, int64_t gaussians = 0) {
  Case c{graph, {}, {}, {}, {}, {}, {}, {}, {ActivationKind::kSigmoid}, {ActivationKind::kSoftplus, 20.0f},
         1.0f,  {}, {}};
  MessageReduceProblem& p = c.problem;
  p.form = form.form;
  p.reduce = form.reduce;
  p.softmax = form.softmax;
  p.rows = graph.adjacency.rows;
  p.cols = graph.adjacency.cols;
  p.edges = graph.adjacency.edges();
  p.width = width;
  p.edge_width = form.featured ? graph.width : 0;
  if (gaussians > 0) {
    AddGaussians(gaussians, &c);
    p.one_more = form.form == MessageForm::kMixture && turn % 2 == 0;
  } else if (form.form == MessageForm::kMixture) {
    AddMixture(turn, &c);
  }
  if (form.form == MessageForm::kGated) p.message = Message::kAdd;
  c.src = RandomMatrix(graph.sent.rows, p.source_width(), 51);
  if (form.form == MessageForm::kGated)
    c.target = RandomMatrix(graph.adjacency.rows, turn % 3 == 0 ? width : 2 * width, 52);
  if (form.form == MessageForm::kPlain) c.activation = {ActivationKind::kClamp, 0.01f, 1e30f};
  if (!p.mixes() && form.featured) {
    c.weight = Weights(1, graph.width * p.term_width(), 41).values;
    for (float& x : c.weight) x *= std::sqrt(static_cast<float>(p.term_width()));
  }
  if (form.softmax) c.temperature = turn % 2 == 0 ? 1.5f : -0.7f;
  c.layout = LayoutOf(turn);
  if (turn % 2 == 1) {
    c.epilogue.bias = RandomVector(p.out_width(), 54);
    c.epilogue.residual = RandomMatrix(graph.adjacency.rows, p.out_width(), 55);
  }
  return c;
}

std::vector<double> Shares(const Case& c, int64_t e) {
  const MessageReduceProblem& p = c.problem;
  const float* const features = c.graph.Of(e);
  std::vector<double> share(features, features + p.edge_width);
  if (p.gaussians > 0) {
    share.assign(p.gaussians, 0.0);
    for (int64_t k = 0; k < p.gaussians; ++k) {
      for (int64_t a = 0; a < p.edge_width; ++a)
        share[k] += c.scale.at(a, k) * std::pow(static_cast<double>(features[a]) - c.mean.at(a, k), 2);
      share[k] = std::exp(share[k]);
    }
  }
  for (const Layer& layer : c.layers) {
    std::vector<double> next(layer.weight.rows, 0.0);
    for (int64_t h = 0; h < layer.weight.rows; ++h) {
      double sum = layer.bias.empty() ? 0.0 : layer.bias[h];
      for (size_t k = 0; k < share.size(); ++k) sum += share[k] * layer.weight.at(h, static_cast<int64_t>(k));
      next[h] = layer.activation.kind == ActivationKind::kTanh ? std::tanh(sum) : sum;
    }
    share = std::move(next);
  }
  return share;
}

std::vector<double> Mixed(const Case& c, int64_t e) {
  const MessageReduceProblem& p = c.problem;
  std::vector<double> share = Shares(c, e);
  if (p.form == MessageForm::kOuter) {
    std::vector<double> message;
    for (const double one : share) {
      for (int64_t col = 0; col < p.width; ++col) message.push_back(one * c.src.at(c.graph.adjacency.col[e], col));
    }
    return message;
  }
  share.push_back(1.0);
  std::vector<double> message(p.width, 0.0);
  for (int64_t col = 0; col < c.src.cols; ++col)
    message[col % p.width] += share[col / p.width] * c.src.at(c.graph.adjacency.col[e], col);
  return message;
}

std::vector<double> MessageOf(const Case& c, int64_t row, int64_t e) {
  const MessageReduceProblem& p = c.problem;
  if (p.mixes()) return Mixed(c, e);
  const auto z = [&](int64_t col) {
    double sum = c.src.at(c.graph.adjacency.col[e], col) + (col < c.target.cols ? c.target.at(row, col) : 0.0);
    if (c.weight.empty() && p.edge_width > 0) return sum + c.graph.Of(e)[col];
    for (int64_t a = 0; a < p.edge_width; ++a)
      sum += static_cast<double>(c.graph.Of(e)[a]) * c.weight[a * p.term_width() + col];
    return sum;
  };
  std::vector<double> message(p.width);
  for (int64_t col = 0; col < p.width; ++col) {
    message[col] = p.form == MessageForm::kGated ? std::log1p(std::exp(z(p.width + col))) / (1.0 + std::exp(-z(col)))
                                                 : std::max(0.01, z(col));
  }
  return message;
}

std::vector<double> Want(const Case& c) {
  const HostGraph& adjacency = c.graph.adjacency;
  const int64_t width = c.problem.out_width();
  std::vector<double> result(adjacency.rows * width, 0.0);
  for (int64_t row = 0; row < adjacency.rows; ++row) {
    const int64_t begin = adjacency.row_ptr[row], end = adjacency.row_ptr[row + 1];
    std::vector<double> shares(width, 0.0);
    for (int64_t e = begin; e < end; ++e) {
      const std::vector<double> message = MessageOf(c, row, e);
      for (int64_t col = 0; col < width; ++col) {
        double& out = result[row * width + col];
        if (c.problem.reduce == Reduce::kMax || c.problem.reduce == Reduce::kMin) {
          out = e == begin ? message[col] : Extreme(c.problem.reduce, out, message[col]);
          continue;
        }
        const double share = c.problem.softmax ? std::exp(c.temperature * message[col]) : 1.0;
        shares[col] += share;
        out += share * message[col];
      }
    }
    const bool divided = c.problem.softmax || c.problem.reduce == Reduce::kMean;
    for (int64_t col = 0; divided && end > begin && col < width; ++col) result[row * width + col] /= shares[col];
  }
  return WithEpilogue(result, width, c.epilogue);
}

HostMatrix Run(Machine& machine, Report& report, const RegisteredKernel<MessageReduceKernel>& kernel, const Case& c) {
  const DeviceFeatures features(*machine.device, c.graph);
  const DeviceMatrix src(*machine.device, c.src, c.layout, 1e30f);
  const DeviceMatrix target(*machine.device, c.target.cols > 0 ? c.target : c.src, c.layout, 1e30f);
  const std::vector<float> nothing(1, 0.0f);
  const DeviceArray<float> weight(*machine.device, c.weight.empty() ? nothing : c.weight);
  const DeviceArray<float> mean(*machine.device, c.problem.gaussians > 0 ? c.mean.values : nothing);
  const DeviceArray<float> scale(*machine.device, c.problem.gaussians > 0 ? c.scale.values : nothing);
  MessageReduceArgs args;
  args.problem = c.problem;
  args.adjacency = features.adjacency(false);
  args.src = src.view();
  if (c.target.cols > 0) args.target = target.view();
  args.activation = c.activation;
  args.gate = c.gate;
  args.temperature = c.temperature;
  if (c.problem.edge_width > 0) args.edge = features.view();
  if (!c.weight.empty()) args.edge_weight = weight.data();
  if (c.problem.gaussians > 0) args.gaussian_mean = mean.data(), args.gaussian_scale = scale.data();
  std::vector<DeviceArray<char>> packed;
  std::vector<DeviceArray<float>> biases;
  for (size_t l = 0; l < c.layers.size(); ++l) {
    packed.push_back(Packed(machine, kernel.kernel(), c.layers[l].weight));
    args.layers[l].weight = packed.back().data();
    args.layers[l].activation = c.layers[l].activation;
    if (c.layers[l].bias.empty()) continue;
    biases.emplace_back(*machine.device, c.layers[l].bias);
    args.layers[l].bias = biases.back().data();
  }
  return RunOnce(machine, report, kernel, args, c.epilogue, c.layout, c.graph.adjacency.rows, c.problem.out_width());
}

HostMatrix Picked(const HostMatrix& all, const std::vector<int32_t>& rows) {
  HostMatrix some{static_cast<int64_t>(rows.size()), all.cols, {}};
  for (const int32_t row : rows) {
    for (int64_t c = 0; c < all.cols; ++c) some.values.push_back(all.at(row, c));
  }
  return some;
}

// The same case for some rows, with sources as a field numbers them.
Case InField(const Case& whole, const FeaturedGraph& field) {
  std::vector<int32_t> reversed;
  for (int64_t row = whole.src.rows - 1; row >= 0; --row) reversed.push_back(static_cast<int32_t>(row));
  Case some{field,
            whole.problem,
            Picked(whole.src, reversed),
            {},
            whole.weight,
            whole.layers,
            whole.mean,
            whole.scale,
            whole.gate,
            whole.activation,
            whole.temperature,
            whole.layout,
            whole.epilogue};
  some.problem.rows = field.adjacency.rows;
  some.problem.cols = field.adjacency.cols;
  some.problem.edges = field.adjacency.edges();
  if (whole.target.cols > 0) some.target = Picked(whole.target, field.nodes);
  if (!some.epilogue.residual.values.empty()) some.epilogue.residual = Picked(some.epilogue.residual, field.nodes);
  return some;
}

void RunCase(Machine& machine, Report& report, const Case& c) {
  if (!report.IsMine()) return;
  const std::vector<double> want = Want(c);
  const FeaturedGraph field = FieldOf(c.graph);
  const Case some = InField(c, field);
  for (const auto& kernel : machine.registry.message_reduce.kernels()) {
    const std::string name(kernel->kernel().name());
    if (!kernel->kernel().WhyUnsupported(c.problem).empty()) continue;
    const HostMatrix got = report.CheckTwice(
        "message_reduce of other forms " + name, c.Name(name), [&] { return Run(machine, report, *kernel, c); }, want);
    report.CheckSame("message_reduce of other forms in a field", c.Name(name), Run(machine, report, *kernel, some),
                     Picked(got, field.nodes));
  }
}

constexpr Form kForms[] = {
    {MessageForm::kGated, Reduce::kSum, false, true},   {MessageForm::kGated, Reduce::kMax, false, true},
    {MessageForm::kGated, Reduce::kMean, false, false}, {MessageForm::kGated, Reduce::kSum, true, true},
    {MessageForm::kPlain, Reduce::kSum, true, true},    {MessageForm::kPlain, Reduce::kSum, true, false},
    {MessageForm::kMixture, Reduce::kSum, false, true}, {MessageForm::kMixture, Reduce::kMean, false, true},
    {MessageForm::kMixture, Reduce::kMin, false, true}, {MessageForm::kMixture, Reduce::kSum, true, true}};

// With Gaussians for coefficients.
constexpr Form kGaussianForms[] = {{MessageForm::kOuter, Reduce::kSum, false, true},
                                   {MessageForm::kOuter, Reduce::kMean, false, true},
                                   {MessageForm::kMixture, Reduce::kMean, false, true},
                                   {MessageForm::kMixture, Reduce::kMax, false, true},
                                   {MessageForm::kMixture, Reduce::kSum, true, true}};

// Around blocks of edges and of additions, and empty rows.
const std::vector<int64_t>& Borders() {
  static const auto& degrees =
      *new std::vector<int64_t>{0,  1,   2,   3,   4,   5,   7, 8, 15, 16, 17,  31, 32, 33, 0,  63,  1, 95, 96,
                                97, 191, 192, 255, 256, 257, 0, 1, 0,  2,  600, 3,  5,  1,  18, 513, 2, 0,  0};
  return degrees;
}

void RunGaussianCases(Machine& machine, Report& report) {
  int turn = 0;
  for (const int64_t features : {1, 3, 16, 70}) {
    const FeaturedGraph graph = MakeFeatured("borders", Borders(), features, kAllLoops[turn % 3]);
    for (const int64_t gaussians : {1, 2, 8, 17}) {
      for (const Form& form : kGaussianForms) {
        for (const int64_t width : {1, 7, 64}) {
          if (width == 64 && gaussians > 8) continue;
          RunCase(machine, report, MakeCase(graph, form, width, turn++, gaussians));
        }
      }
    }
    ++turn;
  }
  const FeaturedGraph none = MakeFeatured("no edges", {0, 0, 0}, 4, Loops::kAsSent);
  // Of many pieces, of two, and of one.
  const FeaturedGraph hub = MakeFeatured("hub", {3000, 130, 4, 0, 127, 300, 1}, 8, Loops::kOwn);
  for (const Form& form : kGaussianForms) {
    for (const int64_t gaussians : {2, 11}) {
      RunCase(machine, report, MakeCase(none, form, 16, turn++, gaussians));
      RunCase(machine, report, MakeCase(hub, form, 12, turn++, gaussians));
      RunCase(machine, report, MakeCase(hub, form, 66, turn++, gaussians));
    }
  }
}

}  // namespace

void RunEdgeMessageCases(Machine& machine, Report& report) {
  RunGaussianCases(machine, report);
  int turn = 0;
  for (const int64_t features : {1, 3, 4, 16, 17, 40, 64}) {
    const FeaturedGraph graph = MakeFeatured("borders", Borders(), features, kAllLoops[turn % 3]);
    for (const Form& form : kForms) {
      for (const int64_t width : {1, 7, 16, 20, 64}) {
        if (width == 64 && features > 4) continue;
        RunCase(machine, report, MakeCase(graph, form, width, turn++));
      }
    }
    ++turn;
  }
  const FeaturedGraph none = MakeFeatured("no edges", {0, 0, 0}, 4, Loops::kAsSent);
  std::vector<int64_t> degrees(200, 4);
  degrees[0] = 9000;
  const FeaturedGraph hub = MakeFeatured("hub", degrees, 8, Loops::kAsSent);
  for (const Form& form : kForms) {
    RunCase(machine, report, MakeCase(none, form, 16, turn++));
    RunCase(machine, report, MakeCase(hub, form, 12, turn++));
    // More columns than a block of a kernel may have, and the last block of them shorter.
    RunCase(machine, report, MakeCase(hub, form, 150, turn++));
  }
  // Around the parts in which a warp searches for a block's rows: all of them must be written.
  for (const size_t rows : {16, 17, 33, 34}) {
    const FeaturedGraph few = MakeFeatured("few rows", std::vector<int64_t>(rows, 1), 4, Loops::kAsSent);
    for (const Form& form : kForms) RunCase(machine, report, MakeCase(few, form, 16, turn++));
  }
  // Features that are added as they are.
  for (const Form& form : kForms) {
    if (form.form == MessageForm::kMixture || !form.featured) continue;
    const int64_t width = form.form == MessageForm::kGated ? 10 : 20;
    const FeaturedGraph graph = MakeFeatured("borders", Borders(), 20, kAllLoops[turn % 3]);
    Case c = MakeCase(graph, form, width, turn++);
    c.weight.clear();
    RunCase(machine, report, c);
  }
}

}  // namespace vicinal::conformance
