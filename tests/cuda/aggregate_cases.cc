// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "tests/cuda/cases.h"
#include "tests/cuda/graph_zoo.h"

namespace vicinal::cuda_test {
namespace {

struct Case {
  const HostGraph& graph;
  Reduce reduce;
  bool weighted;
  HostMatrix src;
  MatrixLayout src_layout;
  MatrixLayout dst_layout;
  float self_scale = 0.0f;
  HostEpilogue epilogue;
  std::vector<float> src_scale;  // in place of the graph's weights

  std::string Name(std::string_view kernel) const {
    return std::string(kernel) + ", " + graph.name + ", width " + std::to_string(src.cols) + ", " +
           std::string(ToString(reduce)) +
           (weighted            ? ", weighted"
            : src_scale.empty() ? ""
                                : ", rank-1") +
           ", src +" + std::to_string(src_layout.offset) + "/" + std::to_string(src_layout.padding);
  }
};

HostMatrix Run(Gpu& gpu, Report& report, const RegisteredKernel<AggregateKernel>& kernel, const Case& c) {
  const DeviceGraph graph(*gpu.device, c.graph);
  const DeviceMatrix src(*gpu.device, c.src, c.src_layout, 1e30f);
  AggregateArgs args;
  const DeviceArray<float> src_scale(*gpu.device, c.src_scale.empty() ? std::vector<float>(1, 0.0f) : c.src_scale);
  args.problem.reduce = c.reduce;
  args.problem.weighted = c.weighted || !c.src_scale.empty();
  args.problem.rows = c.graph.rows;
  args.problem.cols = c.graph.cols;
  args.problem.edges = c.graph.edges();
  args.problem.width = c.src.cols;
  if (!c.src_scale.empty()) args.src_scale = src_scale.data();
  args.adjacency = graph.view(c.weighted);
  args.src = src.view();
  args.self_scale = c.self_scale;
  return RunOnce(gpu, report, kernel, args, c.epilogue, c.dst_layout, c.graph.rows, c.src.cols);
}

// Row j times scale[j]; the factors are powers of two here, so that nothing is rounded.
HostMatrix ScaledRows(HostMatrix src, const std::vector<float>& scale) {
  for (size_t i = 0; i < src.values.size() && !scale.empty(); ++i) src.values[i] *= scale[i / src.cols];
  return src;
}

// All kernels on one case; those that promise equal bits among themselves are held to it.
void RunAll(Gpu& gpu, Report& report, const Case& c) {
  const std::vector<double> want = WithEpilogue(
      Aggregate(c.graph, c.weighted, c.reduce, ScaledRows(c.src, c.src_scale), c.self_scale), c.src.cols, c.epilogue);
  HostMatrix balanced;
  for (const auto& kernel : gpu.registry.aggregate.kernels()) {
    const std::string name(kernel->kernel().name());
    const HostMatrix got = Run(gpu, report, *kernel, c);
    report.Check("aggregate " + name, c.Name(name), got, Run(gpu, report, *kernel, c), want);
    if (name == "balanced_rows") balanced = got;
    if (name.rfind("balanced_rows_", 0) == 0) report.CheckSame("aggregate equal bits", c.Name(name), got, balanced);
  }
}

constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kMean, Reduce::kMax};

void PlainCases(Gpu& gpu, Report& report, const std::vector<HostGraph>& zoo) {
  for (const HostGraph& graph : zoo) {
    for (int64_t width : {1, 3, 16, 32, 33, 64, 200, 602}) {
      const HostMatrix src = RandomMatrix(graph.cols, width, 11 + width);
      for (Reduce reduce : kReduces) {
        for (bool weighted : {false, true}) RunAll(gpu, report, {graph, reduce, weighted, src, {}, {}, 0.0f, {}, {}});
      }
    }
  }
}

// Slices of columns, paddings, self terms, biases, addends in place and all activations.
void FusedCases(Gpu& gpu, Report& report, const std::vector<HostGraph>& zoo) {
  const MatrixLayout layouts[] = {{0, 0}, {1, 3}, {2, 2}, {4, 4}, {4, 1}};
  const Activation activations[] = {{ActivationKind::kRelu, 0.0f},
                                    {ActivationKind::kElu, 0.7f},
                                    {ActivationKind::kLeakyRelu, 0.1f},
                                    {ActivationKind::kSigmoid, 0.0f},
                                    {ActivationKind::kTanh, 0.0f}};
  int turn = 0;
  for (const HostGraph& graph : zoo) {
    for (int64_t width : {7, 12, 36, 64, 130}) {
      const Reduce reduce = kReduces[turn % 3];
      Case c{graph,
             reduce,
             turn % 2 == 0,
             RandomMatrix(graph.cols, width, 5 + width),
             layouts[turn % 5],
             layouts[turn / 5 % 5],
             graph.rows == graph.cols ? 1.25f : 0.0f,
             {},
             {}};
      c.epilogue.bias = RandomVector(width, 91);
      if (turn % 2 == 0) c.epilogue.addend = RandomMatrix(graph.rows, width, 92);
      c.epilogue.addend_scale = 0.5f;
      c.epilogue.activation = activations[turn % 5];
      RunAll(gpu, report, c);
      ++turn;
    }
  }
}

// GCN's normalisation as two factors per node: one read with the source, the other at the store.
void RankOneCases(Gpu& gpu, Report& report, const std::vector<HostGraph>& zoo) {
  for (const HostGraph& graph : zoo) {
    for (int64_t width : {1, 16, 33, 64, 130}) {
      Case c{graph, Reduce::kSum, false, RandomMatrix(graph.cols, width, 6 + width), {}, {}, 0.0f, {}, {}};
      for (int64_t j = 0; j < graph.cols; ++j) c.src_scale.push_back(j % 3 == 0 ? 0.25f : 2.0f);
      c.epilogue.scale = 0.75f;
      c.epilogue.row_scale = RandomVector(graph.rows, 7);
      c.epilogue.bias = RandomVector(width, 91);
      RunAll(gpu, report, c);
    }
  }
}

// A row gives the same bits in another graph: what a receptive field relies on.
void SubsetCases(Gpu& gpu, Report& report, const std::vector<HostGraph>& zoo) {
  for (const HostGraph& graph : zoo) {
    std::vector<int64_t> rows;
    for (int64_t row = graph.rows - 1; row >= 0; row -= 2) rows.push_back(row);
    const HostGraph part = RowsOf(graph, rows);
    for (int64_t width : {16, 33, 128}) {
      const HostMatrix src = RandomMatrix(graph.cols, width, 4);
      for (const auto& kernel : gpu.registry.aggregate.kernels()) {
        const HostMatrix whole = Run(gpu, report, *kernel, {graph, Reduce::kMean, true, src, {}, {}, 0.0f, {}, {}});
        const HostMatrix some = Run(gpu, report, *kernel, {part, Reduce::kMean, true, src, {}, {}, 0.0f, {}, {}});
        HostMatrix want = FilledMatrix(part.rows, width, 0.0f);
        for (int64_t i = 0; i < part.rows; ++i) {
          for (int64_t c = 0; c < width; ++c) want.values[i * width + c] = whole.at(rows[i], c);
        }
        report.CheckSame("aggregate in a subset of rows", std::string(kernel->kernel().name()) + ", " + graph.name,
                         some, want);
      }
    }
  }
}

}  // namespace

void RunAggregateCases(Gpu& gpu, Report& report) {
  const std::vector<HostGraph> zoo = GraphZoo();
  PlainCases(gpu, report, zoo);
  FusedCases(gpu, report, zoo);
  RankOneCases(gpu, report, zoo);
  SubsetCases(gpu, report, zoo);
}

}  // namespace vicinal::cuda_test
