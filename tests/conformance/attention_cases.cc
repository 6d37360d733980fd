// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/conformance/attention_operands.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"

namespace vicinal::conformance {
namespace {

constexpr AttentionKind kKinds[] = {AttentionKind::kGat, AttentionKind::kGatV2, AttentionKind::kDot};
// {tile_columns, row_lanes} of fused_rows: all its shapes.
constexpr KernelConfig kShapes[] = {{{32, 8}},   {{32, 32}},  {{64, 8}},   {{64, 16}},  {{64, 32}},  {{128, 16}},
                                    {{128, 32}}, {{256, 32}}, {{32, 128}}, {{64, 128}}, {{128, 128}}};

struct Case {
  const HostGraph& graph;
  HostAttention attention;
  MatrixLayout layout;
  HostEpilogue epilogue;
  KernelConfig config = {};

  int64_t columns() const { return attention.concat ? attention.heads * attention.head_width : attention.head_width; }
  AttentionProblem problem() const {
    return {attention.kind,  graph.rows,           graph.cols,      graph.edges(),
            attention.heads, attention.head_width, attention.concat};
  }
  std::string Name(std::string_view kernel) const {
    std::string name = std::string(kernel) + ", " + graph.name + ", " + std::string(ToString(attention.kind)) + " " +
                       std::to_string(attention.heads) + " x " + std::to_string(attention.head_width) +
                       (attention.concat ? "" : ", mean of heads");
    for (const int32_t value : config.values) name += value > 0 ? ", " + std::to_string(value) : "";
    return name;
  }
};

HostAttention MakeAttention(const HostGraph& graph, AttentionKind kind, int64_t heads, int64_t head_width, bool concat,
                            float scale) {
  HostAttention a;
  a.kind = kind;
  a.heads = heads;
  a.head_width = head_width;
  a.concat = concat;
  a.value = RandomMatrix(graph.cols, heads * head_width, 21);
  if (kind == AttentionKind::kGat) {
    a.score_src = RandomMatrix(graph.cols, heads, 22);
    a.score_dst = RandomMatrix(graph.rows, heads, 23);
    for (float& x : a.score_src.values) x *= scale;
    return a;
  }
  a.query = RandomMatrix(graph.rows, heads * head_width, 24);
  if (kind == AttentionKind::kGatV2) {
    a.att = RandomVector(heads * head_width, 25);
  } else {
    a.key = RandomMatrix(graph.cols, heads * head_width, 28);
    a.score_scale = 1.0f / std::sqrt(static_cast<float>(head_width));
  }
  return a;
}

HostMatrix Run(Machine& machine, Report& report, const RegisteredKernel<AttentionKernel>& kernel, const Case& c) {
  const DeviceGraph graph(*machine.device, c.graph);
  const AttentionOperands operands(*machine.device, c.attention, c.layout, std::numeric_limits<float>::quiet_NaN());
  AttentionArgs args = operands.Args();
  args.problem = c.problem();
  args.config = c.config;
  args.adjacency = graph.view(false);
  return RunOnce(machine, report, kernel, args, c.epilogue, c.layout, c.graph.rows, c.columns());
}

// Against the oracle, and, where asked for, the same bits in all shapes.
void RunAll(Machine& machine, Report& report, Case c, bool all_shapes) {
  if (!report.IsMine()) return;
  const HostAttention& a = c.attention;
  const std::vector<double> want = WithEpilogue(Attend(c.graph, c.attention), c.columns(), c.epilogue);
  for (const auto& kernel : machine.registry.attention.kernels()) {
    if (!kernel->kernel().WhyUnsupported(c.problem()).empty()) continue;
    // The reference computes wide scores anew for every column, which takes minutes.
    const bool wide = a.kind != AttentionKind::kGat && a.heads * a.head_width > 64;
    if (machine.is_cpu() && IsReference(*kernel) && wide) continue;
    const std::string name(kernel->kernel().name());
    c.config = {};
    const auto run = [&] { return Run(machine, report, *kernel, c); };
    const HostMatrix got = report.CheckTwice("attention " + name, c.Name(name), run, want);
    if (!all_shapes || kernel->kernel().ParameterNames().empty()) continue;
    for (const KernelConfig& config : kShapes) {
      c.config = config;
      report.CheckSame("attention in all shapes", c.Name(name), Run(machine, report, *kernel, c), got);
    }
  }
}

HostMatrix RowsOf(const HostMatrix& matrix, const std::vector<int64_t>& rows) {
  HostMatrix picked{static_cast<int64_t>(rows.size()), matrix.cols, {}};
  for (int64_t row : rows) {
    for (int64_t c = 0; c < matrix.cols; ++c) picked.values.push_back(matrix.at(row, c));
  }
  return picked;
}

// Some rows as a receptive field has them: a graph of their own, in another order, its sources renumbered, so that
// columns do not ascend.
void SubsetCases(Machine& machine, Report& report, const HostGraph& graph, AttentionKind kind, int64_t heads,
                 int64_t width) {
  if (!report.IsMine()) return;
  std::vector<int64_t> rows, sources;
  for (int64_t row = graph.rows - 1; row >= 0; row -= 3) rows.push_back(row);
  for (int64_t source = graph.cols - 1; source >= 0; --source) sources.push_back(source);
  HostGraph part = RowsOf(graph, rows);
  for (int32_t& col : part.col) col = static_cast<int32_t>(graph.cols - 1 - col);
  const HostAttention whole = MakeAttention(graph, kind, heads, width, true, 30.0f);
  HostAttention some = whole;
  for (HostMatrix HostAttention::*matrix : {&HostAttention::score_dst, &HostAttention::query}) {
    if (!(whole.*matrix).values.empty()) some.*matrix = RowsOf(whole.*matrix, rows);
  }
  for (HostMatrix HostAttention::*matrix : {&HostAttention::value, &HostAttention::score_src, &HostAttention::key}) {
    if (!(whole.*matrix).values.empty()) some.*matrix = RowsOf(whole.*matrix, sources);
  }
  for (const auto& kernel : machine.registry.attention.kernels()) {
    const HostMatrix want = RowsOf(Run(machine, report, *kernel, {graph, whole, {}, {}}), rows);
    for (const KernelConfig& config :
         {KernelConfig(), KernelConfig{{0, 8}}, KernelConfig{{64, 32}}, KernelConfig{{64, 128}}}) {
      const Case c{part, some, {}, {}, config};
      report.CheckSame("attention in a subset of rows", c.Name(kernel->kernel().name()),
                       Run(machine, report, *kernel, c), want);
    }
  }
}

// Scores far apart, far below zero, far above: the largest decide, and nothing overflows.
void SpreadCases(Machine& machine, Report& report, const HostGraph& graph) {
  const bool all_shapes = !report.brief();
  for (const auto& [heads, width] : {std::pair<int64_t, int64_t>{1, 64}, {8, 8}, {3, 5}, {1, 7}}) {
    HostAttention a = MakeAttention(graph, AttentionKind::kGat, heads, width, true, 80.0f);
    RunAll(machine, report, {graph, a, {}, {}}, all_shapes);
    for (float size : {-1e30f, -3e4f, 1e30f}) {
      a.score_src = FilledMatrix(graph.cols, heads, size);
      for (size_t i = 0; i < a.score_src.values.size(); i += 3) a.score_src.values[i] *= 1.25f;
      RunAll(machine, report, {graph, a, {}, {}}, all_shapes);
    }
  }
  // Quarters, so that sums of products are exact and only the softmax is asked.
  HostAttention dot = MakeAttention(graph, AttentionKind::kDot, 2, 64, true, 1.0f);
  for (HostMatrix* matrix : {&dot.query, &dot.key}) {
    for (float& x : matrix->values) x = std::round(12.0f * x) / 4.0f;
  }
  RunAll(machine, report, {graph, dot, {}, {}}, all_shapes);
}

constexpr int64_t kSizes[][2] = {{1, 1},  {1, 7},   {8, 8},  {1, 16},  {3, 5},   {2, 41}, {4, 64},
                                 {1, 41}, {1, 128}, {3, 12}, {1, 200}, {1, 300}, {40, 2}, {5, 16}};

void SizeCases(Machine& machine, Report& report, const HostGraph& graph, int* turn) {
  // The plain kernel walks a hub edge by edge: few sizes for the large one, which the fused kernel cuts all the same.
  const bool large = HasHub(graph);
  for (const auto& size : kSizes) {
    if (large && (size[0] * size[1] > 64 || size[1] == 1)) continue;
    for (AttentionKind kind : kKinds) {
      for (bool concat : {true, false}) {
        const float scale = *turn % 3 == 0 ? 30.0f : 1.0f;
        // As it comes, at odd addresses, with gaps, and with rows of whole cache lines as in plans.
        const MatrixLayout layout = *turn % 4 == 1   ? MatrixLayout{1, 3}
                                    : *turn % 4 == 2 ? MatrixLayout{4, 4}
                                                     : MatrixLayout{};
        Case c{graph, MakeAttention(graph, kind, size[0], size[1], concat, scale), layout, {}};
        if (*turn % 2 == 0) {
          c.epilogue.bias = RandomVector(c.columns(), 26);
          c.epilogue.residual = RandomMatrix(graph.rows, c.columns(), 27);
          c.epilogue.activation = {ActivationKind::kElu, 1.0f};
        }
        RunAll(machine, report, c, *turn % 5 == 0);
        ++*turn;
      }
    }
  }
}

}  // namespace

void RunAttentionCases(Machine& machine, Report& report) {
  int turn = 0;
  std::vector<HostGraph> graphs = ZooFor(machine, report);
  // Around the batches that scores are made in, and the lengths at which rows are cut.
  graphs.push_back(RandomGraph("batch borders", 500,
                               {0,  1,  2,  3,  4,  5,  7,   8,   9,   15,  16,  17,  31,  32,  33, 0,
                                63, 64, 65, 96, 97, 99, 127, 128, 129, 255, 256, 257, 384, 385, 1,  600},
                               8));
  for (const HostGraph& graph : graphs) {
    SizeCases(machine, report, graph, &turn);
    if (HasHub(graph)) continue;
    for (AttentionKind kind : kKinds) {
      SubsetCases(machine, report, graph, kind, 8, 8);
      SubsetCases(machine, report, graph, kind, 1, 64);
    }
    SpreadCases(machine, report, graph);
  }
}

}  // namespace vicinal::conformance
