// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "tests/cuda/cases.h"
#include "tests/cuda/graph_zoo.h"

namespace vicinal::cuda_test {
namespace {

struct Case {
  const HostGraph& graph;
  HostAttention attention;
  MatrixLayout layout;
  HostEpilogue epilogue;

  std::string Name(std::string_view kernel) const {
    const HostAttention& a = attention;
    return std::string(kernel) + ", " + graph.name + (a.kind == AttentionKind::kGat ? ", GAT " : ", GATv2 ") +
           std::to_string(a.heads) + " x " + std::to_string(a.head_width) + (a.concat ? "" : ", mean of heads");
  }
};

HostAttention MakeAttention(const HostGraph& graph, AttentionKind kind, int64_t heads, int64_t head_width, bool concat,
                            float scale) {
  HostAttention a{kind, heads, head_width, concat, RandomMatrix(graph.cols, heads * head_width, 21),
                  {},   {},    {},         {},     0.2f};
  if (kind == AttentionKind::kGat) {
    a.score_src = RandomMatrix(graph.cols, heads, 22);
    a.score_dst = RandomMatrix(graph.rows, heads, 23);
    for (float& x : a.score_src.values) x *= scale;
  } else {
    a.query = RandomMatrix(graph.rows, heads * head_width, 24);
    a.att = RandomVector(heads * head_width, 25);
  }
  return a;
}

HostMatrix Run(Gpu& gpu, Report& report, const RegisteredKernel<AttentionKernel>& kernel, const Case& c) {
  const HostAttention& a = c.attention;
  const DeviceGraph graph(*gpu.device, c.graph);
  const DeviceMatrix value(*gpu.device, a.value, c.layout, 1e30f);
  const DeviceMatrix score_src(*gpu.device, a.score_src, c.layout, 1e30f);
  const DeviceMatrix score_dst(*gpu.device, a.score_dst, {}, 1e30f);
  const DeviceMatrix query(*gpu.device, a.query, c.layout, 1e30f);
  const DeviceArray<float> att(*gpu.device, a.att);
  AttentionArgs args;
  args.problem = {a.kind, c.graph.rows, c.graph.cols, c.graph.edges(), a.heads, a.head_width, a.concat};
  args.adjacency = graph.view(false);
  args.value = value.view();
  args.score_src = score_src.view();
  args.score_dst = score_dst.view();
  args.query = query.view();
  args.att = att.data();
  args.negative_slope = a.negative_slope;
  return RunOnce(gpu, report, kernel, args, c.epilogue, c.layout, c.graph.rows,
                 a.concat ? a.heads * a.head_width : a.head_width);
}

void RunAll(Gpu& gpu, Report& report, const Case& c) {
  const int64_t cols = c.attention.concat ? c.attention.heads * c.attention.head_width : c.attention.head_width;
  const std::vector<double> want = WithEpilogue(Attend(c.graph, c.attention), cols, c.epilogue);
  const AttentionProblem problem{c.attention.kind,  c.graph.rows,           c.graph.cols,      c.graph.edges(),
                                 c.attention.heads, c.attention.head_width, c.attention.concat};
  for (const auto& kernel : gpu.registry.attention.kernels()) {
    if (!kernel->kernel().Refuses(problem).empty()) continue;
    const std::string name(kernel->kernel().name());
    report.Check("attention " + name, c.Name(name), Run(gpu, report, *kernel, c), Run(gpu, report, *kernel, c), want);
  }
}

constexpr int64_t kShapes[][2] = {{1, 1},  {1, 7},  {8, 8},   {1, 16}, {3, 5},
                                  {2, 41}, {4, 64}, {1, 128}, {3, 12}, {1, 200}};

void SubsetCases(Gpu& gpu, Report& report, const HostGraph& graph) {
  std::vector<int64_t> rows;
  for (int64_t row = graph.rows - 1; row >= 0; row -= 3) rows.push_back(row);
  const HostGraph part = RowsOf(graph, rows);
  for (AttentionKind kind : {AttentionKind::kGat, AttentionKind::kGatV2}) {
    const HostAttention whole = MakeAttention(graph, kind, 8, 8, true, 1.0f);
    HostAttention some = whole;
    for (HostMatrix HostAttention::*matrix : {&HostAttention::score_dst, &HostAttention::query}) {
      HostMatrix picked{part.rows, (whole.*matrix).cols, {}};
      if ((whole.*matrix).values.empty()) continue;
      for (int64_t row : rows) {
        for (int64_t c = 0; c < picked.cols; ++c) picked.values.push_back((whole.*matrix).at(row, c));
      }
      some.*matrix = picked;
    }
    for (const auto& kernel : gpu.registry.attention.kernels()) {
      const HostMatrix all = Run(gpu, report, *kernel, {graph, whole, {}, {}});
      const HostMatrix got = Run(gpu, report, *kernel, {part, some, {}, {}});
      HostMatrix want{part.rows, all.cols, {}};
      for (int64_t row : rows) {
        for (int64_t c = 0; c < all.cols; ++c) want.values.push_back(all.at(row, c));
      }
      report.CheckSame("attention in a subset of rows", std::string(kernel->kernel().name()) + ", " + graph.name, got,
                       want);
    }
  }
}

}  // namespace

void RunAttentionCases(Gpu& gpu, Report& report) {
  int turn = 0;
  for (const HostGraph& graph : GraphZoo()) {
    // The plain kernel walks a hub edge by edge: one shape for the large one, which the fused kernel cuts all the same.
    const bool large = graph.edges() > 50'000;
    for (const auto& shape : kShapes) {
      if (large && (shape[0] * shape[1] > 64 || shape[1] == 1)) continue;
      for (AttentionKind kind : {AttentionKind::kGat, AttentionKind::kGatV2}) {
        for (bool concat : {true, false}) {
          const float scale = turn % 3 == 0 ? 30.0f : 1.0f;
          const MatrixLayout layout = turn % 4 == 1   ? MatrixLayout{1, 3}
                                      : turn % 4 == 2 ? MatrixLayout{4, 4}
                                                      : MatrixLayout{};
          Case c{graph, MakeAttention(graph, kind, shape[0], shape[1], concat, scale), layout, {}};
          if (turn % 2 == 0) {
            const int64_t cols = concat ? shape[0] * shape[1] : shape[1];
            c.epilogue.bias = RandomVector(cols, 26);
            c.epilogue.addend = RandomMatrix(graph.rows, cols, 27);
            c.epilogue.activation = {ActivationKind::kElu, 1.0f};
          }
          RunAll(gpu, report, c);
          ++turn;
        }
      }
    }
    if (!large) SubsetCases(gpu, report, graph);
  }
}

}  // namespace vicinal::cuda_test
