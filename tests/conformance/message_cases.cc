// SPDX-License-Identifier: Apache-2.0
// Generalised aggregation: messages, weights, activations, networks on the edges, and reduces.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"
#include "tests/conformance/messages.h"

namespace vicinal::conformance {
namespace {

struct EdgeLayer {
  HostMatrix weight;  // [out, in]
  std::vector<float> bias;
  Activation activation;
};

struct Case {
  const HostGraph& graph;
  Message message;
  Reduce reduce;
  bool weighted;
  Activation activation;
  HostMatrix src, target;
  std::vector<EdgeLayer> layers;
  MatrixLayout layout;
  HostEpilogue epilogue;

  int64_t out_width() const { return layers.empty() ? src.cols : layers.back().weight.rows; }
  MessageReduceProblem problem() const {
    MessageReduceProblem problem;
    problem.message = message;
    problem.reduce = reduce;
    problem.weighted = weighted;
    problem.rows = graph.rows;
    problem.cols = graph.cols;
    problem.edges = graph.edges();
    problem.width = src.cols;
    problem.num_layers = static_cast<int32_t>(layers.size());
    for (size_t l = 0; l < layers.size(); ++l) problem.out_widths[l] = layers[l].weight.rows;
    return problem;
  }
  std::string Name(std::string_view kernel) const {
    std::string name = std::string(kernel) + ", " + graph.name + ", " + NameOf(message) + ", " +
                       std::string(ToString(reduce)) + (weighted ? ", weighted" : "") + ", " + std::to_string(src.cols);
    for (const EdgeLayer& layer : layers) name += " -> " + std::to_string(layer.weight.rows);
    return name;
  }
};

std::vector<double> EdgeMessage(const Case& c, int64_t row, int64_t e) {
  std::vector<double> m;
  for (int64_t d = 0; d < c.src.cols; ++d) {
    const double v = c.message == Message::kSource ? 0.0 : c.target.at(row, d);
    m.push_back(Activated(
        c.activation, MessageOf(c.message, c.src.at(c.graph.col[e], d), v) * (c.weighted ? c.graph.value[e] : 1.0)));
  }
  for (const EdgeLayer& layer : c.layers) {
    std::vector<double> out;
    for (int64_t h = 0; h < layer.weight.rows; ++h) {
      double sum = layer.bias.empty() ? 0.0 : layer.bias[h];
      for (int64_t d = 0; d < layer.weight.cols; ++d) sum += m[d] * layer.weight.at(h, d);
      out.push_back(Activated(layer.activation, sum));
    }
    m = out;
  }
  return m;
}

std::vector<double> Want(const Case& c) {
  const int64_t width = c.out_width();
  std::vector<double> result(c.graph.rows * width, 0.0);
  for (int64_t row = 0; row < c.graph.rows; ++row) {
    const int64_t begin = c.graph.row_ptr[row], end = c.graph.row_ptr[row + 1];
    for (int64_t e = begin; e < end; ++e) {
      const std::vector<double> m = EdgeMessage(c, row, e);
      for (int64_t h = 0; h < width; ++h) {
        double& out = result[row * width + h];
        if (c.reduce == Reduce::kMax || c.reduce == Reduce::kMin) {
          out = e == begin ? m[h] : Extreme(c.reduce, out, m[h]);
        } else {
          out += m[h] / (c.reduce == Reduce::kMean ? static_cast<double>(end - begin) : 1.0);
        }
      }
    }
  }
  return WithEpilogue(result, width, c.epilogue);
}

HostMatrix Run(Machine& machine, Report& report, const RegisteredKernel<MessageReduceKernel>& kernel, const Case& c) {
  const DeviceGraph graph(*machine.device, c.graph);
  const DeviceMatrix src(*machine.device, c.src, c.layout, 1e30f), target(*machine.device, c.target, c.layout, 1e30f);
  MessageReduceArgs args;
  args.problem = c.problem();
  args.adjacency = graph.view(c.weighted);
  args.src = src.view();
  if (c.message != Message::kSource) args.target = target.view();
  args.activation = c.activation;
  std::vector<DeviceArray<float>> kept;
  for (size_t l = 0; l < c.layers.size(); ++l) {
    const HostMatrix& weight = c.layers[l].weight;
    std::vector<float> packed((kernel.kernel().PackedBytes(weight.rows, weight.cols) + 3) / 4);
    kernel.kernel().Pack({weight.values.data(), weight.rows, weight.cols, weight.cols}, packed.data());
    kept.emplace_back(*machine.device, packed);
    args.layers[l].weight = kept.back().data();
    if (!c.layers[l].bias.empty()) {
      kept.emplace_back(*machine.device, c.layers[l].bias);
      args.layers[l].bias = kept.back().data();
    }
    args.layers[l].activation = c.layers[l].activation;
  }
  return RunOnce(machine, report, kernel, args, c.epilogue, c.layout, c.graph.rows, c.out_width());
}

void RunAll(Machine& machine, Report& report, const Case& c) {
  if (!report.IsMine()) return;
  const std::vector<double> want = Want(c);
  for (const auto& kernel : machine.registry.message_reduce.kernels()) {
    const std::string name(kernel->kernel().name());
    if (!kernel->kernel().WhyUnsupported(c.problem()).empty()) continue;
    report.CheckTwice(
        "message_reduce " + name, c.Name(name), [&] { return Run(machine, report, *kernel, c); }, want);
  }
}

std::vector<EdgeLayer> Layers(int64_t in, const std::vector<int64_t>& widths) {
  std::vector<EdgeLayer> layers;
  for (const int64_t out : widths) {
    EdgeLayer layer{RandomMatrix(out, in, 70 + in), {}, {}};
    for (float& x : layer.weight.values) x /= std::sqrt(static_cast<float>(in));
    if (out % 3 != 0) layer.bias = RandomVector(out, 71);
    if (layers.size() + 1 < widths.size()) layer.activation = {ActivationKind::kRelu, 0.0f};
    layers.push_back(layer);
    in = out;
  }
  return layers;
}

Case MakeCase(const HostGraph& graph, Message message, Reduce reduce, int64_t width, const std::vector<int64_t>& widths,
              int turn) {
  Case c{graph,
         message,
         reduce,
         turn % 3 == 0,
         {turn % 2 == 0 ? ActivationKind::kNone : ActivationKind::kElu, 0.7f},
         RandomMatrix(graph.cols, width, 81),
         RandomMatrix(graph.rows, width, 82),
         Layers(width, widths),
         turn % 4 == 1   ? MatrixLayout{1, 3}
         : turn % 4 == 2 ? MatrixLayout{4, 4}
                         : MatrixLayout{},
         {}};
  if (turn % 2 == 0) {
    c.epilogue.bias = RandomVector(c.out_width(), 83);
    c.epilogue.residual = RandomMatrix(graph.rows, c.out_width(), 84);
    c.epilogue.activation = {ActivationKind::kRelu, 0.0f};
  }
  return c;
}

// NaN in rows that are read: an extreme of messages with one is NaN, whatever comes after it.
void NanCase(Machine& machine, Report& report, const HostGraph& graph, Reduce reduce,
             const std::vector<int64_t>& widths, int turn) {
  Case c = MakeCase(graph, Message::kAdd, reduce, 24, widths, turn);
  PutNans(&c.src);
  RunAll(machine, report, c);
}

// Some rows as a graph of their own: the same bits.
void SubsetCase(Machine& machine, Report& report, const HostGraph& graph, const std::vector<int64_t>& widths) {
  if (!report.IsMine()) return;
  std::vector<int64_t> rows;
  for (int64_t row = graph.rows - 1; row >= 0; row -= 3) rows.push_back(row);
  const HostGraph part = RowsOf(graph, rows);
  const auto pick = [&rows](const HostMatrix& all) {
    HostMatrix some{static_cast<int64_t>(rows.size()), all.cols, {}};
    for (int64_t row : rows) {
      for (int64_t c = 0; c < all.cols; ++c) some.values.push_back(all.at(row, c));
    }
    return some;
  };
  const Case whole = MakeCase(graph, Message::kAdd, Reduce::kSum, 24, widths, 3);
  Case some = MakeCase(part, Message::kAdd, Reduce::kSum, 24, widths, 3);
  some.target = pick(whole.target);
  for (const auto& kernel : machine.registry.message_reduce.kernels()) {
    report.CheckSame("message_reduce in a subset of rows", some.Name(kernel->kernel().name()),
                     Run(machine, report, *kernel, some), pick(Run(machine, report, *kernel, whole)));
  }
}

}  // namespace

void RunMessageCases(Machine& machine, Report& report) {
  int turn = 0;
  for (const HostGraph& graph : ZooFor(machine, report)) {
    const bool large = HasHub(graph);
    for (Message message : kMessages) {
      for (Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin}) {
        for (int64_t width : {1, 7, 32, 64, 130, 256}) {
          if (large && width != 32) continue;
          RunAll(machine, report, MakeCase(graph, message, reduce, width, {}, turn++));
        }
        RunAll(machine, report, MakeCase(graph, message, reduce, 12, {20}, turn++));
      }
    }
    for (Reduce reduce : {Reduce::kMax, Reduce::kMin}) {
      for (int i = 0; i < 2; ++i) NanCase(machine, report, graph, reduce, {}, turn++);
      if (!large) NanCase(machine, report, graph, reduce, {10}, turn++);
    }
    if (large) continue;
    for (Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin}) {
      RunAll(machine, report, MakeCase(graph, Message::kAdd, reduce, 64, {64}, turn++));
      RunAll(machine, report, MakeCase(graph, Message::kSubtract, reduce, 3, {5, 17, 1, 9}, turn++));
    }
    RunAll(machine, report, MakeCase(graph, Message::kAdd, Reduce::kMax, 100, {70, 33}, turn++));
    SubsetCase(machine, report, graph, {});
    SubsetCase(machine, report, graph, {40, 10});
  }
  // Too wide for large tiles of edges.
  const HostGraph some = RandomGraph("wide networks", 40, {3, 0, 17, 300, 1, 16, 5}, 9);
  RunAll(machine, report, MakeCase(some, Message::kAdd, Reduce::kSum, 300, {400, 290}, 1));
  RunAll(machine, report, MakeCase(some, Message::kAdd, Reduce::kMax, 500, {1000, 7}, 1));
  // Around the parts in which a warp searches for a block's rows: all of them must be written.
  for (const size_t rows : {16, 17, 32, 33, 34, 66}) {
    const HostGraph few = RandomGraph(std::to_string(rows) + " rows", 40, std::vector<int64_t>(rows, 1), 12);
    RunAll(machine, report, MakeCase(few, Message::kAdd, Reduce::kSum, 20, {24, 7}, 1));
  }
}

}  // namespace vicinal::conformance
