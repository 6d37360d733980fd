// SPDX-License-Identifier: Apache-2.0
// Generalised sampled products: a row per edge.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"
#include "tests/conformance/messages.h"

namespace vicinal::conformance {
namespace {

struct Case {
  const HostGraph& graph;
  EdgeScoresProblem problem;
  HostMatrix src, target;
  MatrixLayout layout;

  int64_t columns() const { return problem.dot ? problem.heads : problem.width; }
  std::string Name(std::string_view kernel) const {
    return std::string(kernel) + ", " + graph.name + ", " +
           (problem.dot ? std::to_string(problem.heads) + " heads of " : NameOf(problem.message) + " of ") +
           std::to_string(problem.width / problem.heads);
  }
};

std::vector<double> Want(const Case& c) {
  const EdgeScoresProblem& p = c.problem;
  std::vector<double> result(c.graph.edges() * c.columns(), 0.0);
  for (int64_t row = 0; row < c.graph.rows; ++row) {
    for (int64_t e = c.graph.row_ptr[row]; e < c.graph.row_ptr[row + 1]; ++e) {
      for (int64_t d = 0; d < p.width; ++d) {
        const double u = c.src.at(c.graph.col[e], d);
        const double v = !p.dot && p.message == Message::kSource ? 0.0 : c.target.at(row, d);
        if (p.dot) {
          result[e * p.heads + d / (p.width / p.heads)] += u * v;
        } else {
          result[e * p.width + d] = MessageOf(p.message, u, v);
        }
      }
    }
  }
  return result;
}

HostMatrix Run(Machine& machine, Report& report, const RegisteredKernel<EdgeScoresKernel>& kernel, const Case& c,
               const KernelConfig& config) {
  const DeviceGraph graph(*machine.device, c.graph);
  const DeviceMatrix src(*machine.device, c.src, c.layout, 1e30f), target(*machine.device, c.target, c.layout, 1e30f);
  const HostMatrix poison = FilledMatrix(c.graph.edges(), c.columns(), std::numeric_limits<float>::quiet_NaN());
  const DeviceMatrix dst(*machine.device, poison, c.layout, 12345.0f);
  EdgeScoresArgs args;
  args.problem = c.problem;
  args.config = config;
  args.adjacency = graph.view(false);
  args.src = src.view();
  if (c.problem.dot || c.problem.message != Message::kSource) args.target = target.view();
  args.dst = dst.view();
  LaunchAndWait(machine, report, kernel, args);
  const std::string name(kernel.kernel().name());
  if (c.layout.padding > 0)
    report.CheckTrue(name, "floats around dst are untouched", dst.OutsideUntouched(*machine.device));
  return dst.Download(*machine.device);
}

}  // namespace

void RunEdgeScoreCases(Machine& machine, Report& report) {
  int turn = 0;
  for (const HostGraph& graph : ZooFor(machine, report)) {
    const auto run = [&](bool dot, Message message, int64_t heads, int64_t head_width) {
      const int64_t width = heads * head_width;
      const MatrixLayout layout = turn % 4 == 1   ? MatrixLayout{1, 3}
                                  : turn % 4 == 2 ? MatrixLayout{4, 4}
                                                  : MatrixLayout{};
      ++turn;
      const Case c{graph,
                   {dot, message, graph.rows, graph.cols, graph.edges(), width, heads},
                   RandomMatrix(graph.cols, width, 91),
                   RandomMatrix(graph.rows, width, 92),
                   layout};
      const std::vector<double> want = Want(c);
      for (const auto& kernel : machine.registry.edge_scores.kernels()) {
        const std::string name(kernel->kernel().name());
        for (const KernelConfig& config : {KernelConfig(), KernelConfig{{1}}}) {
          if (config != KernelConfig() && (kernel->kernel().ParameterNames().empty() || !dot)) continue;
          report.CheckTwice(
              "edge_scores " + name, c.Name(name) + (config == KernelConfig() ? "" : ", 1"),
              [&] { return Run(machine, report, *kernel, c, config); }, want);
        }
      }
    };
    for (const auto& size : {std::pair<int64_t, int64_t>{1, 1},
                             {1, 7},
                             {8, 8},
                             {3, 5},
                             {1, 64},
                             {2, 41},
                             {4, 64},
                             {1, 200},
                             {1, 600},
                             {40, 3}}) {
      if (HasHub(graph) && size.first * size.second > 64) continue;
      // On the CPU wide messages of many edges take longest and tell nothing new.
      if (machine.is_cpu() && graph.edges() > 20'000 && size.first * size.second > 100) continue;
      run(true, Message::kMultiply, size.first, size.second);
      for (Message message : kMessages) run(false, message, 1, size.first * size.second);
    }
  }
}

}  // namespace vicinal::conformance
