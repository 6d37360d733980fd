// SPDX-License-Identifier: Apache-2.0
// Aggregations that are followed by a product (AggregateProblem::out_width): against the oracle, and bit by bit against
// the two operations one after the other, which is what plans rely on when they choose between them.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"

namespace vicinal::conformance {
namespace {

struct Case {
  const HostGraph& graph;
  Reduce reduce;
  bool weighted;
  HostMatrix src, weight;
  float self_scale;
  HostEpilogue inner, outer;     // of what is multiplied, and of the product
  std::vector<float> src_scale;  // in place of the graph's weights
  MatrixLayout dst_layout;
  KernelConfig config;

  std::string Name() const {
    return graph.name + ", " + std::to_string(src.cols) + " to " + std::to_string(weight.rows) + ", " +
           std::string(ToString(reduce)) +
           (weighted            ? ", weighted"
            : src_scale.empty() ? ""
                                : ", rank-1") +
           (config.values[1] != 0 ? ", scaled first" : "");
  }
};

AggregateProblem ProblemOf(const Case& c) {
  AggregateProblem problem = AggregationOf(c.graph, c.reduce, c.weighted, !c.src_scale.empty(), c.src.cols);
  problem.out_width = c.weight.rows;
  return problem;
}

// Rows that begin at multiples of 16 bytes, as a plan's do.
MatrixLayout InFours(int64_t cols) { return {0, (4 - cols % 4) % 4}; }

using Aggregation = RegisteredKernel<AggregateKernel>;

// The aggregation of `c` with its product, or, with `apart`, what is multiplied. Without `prepared`, as in a receptive
// field: no layout.
HostMatrix Run(Machine& machine, Report& report, const Aggregation& kernel, const Case& c, bool prepared = true,
               bool apart = false) {
  const DeviceGraph graph(*machine.device, c.graph);
  const DeviceMatrix src(*machine.device, c.src, InFours(c.src.cols), 1e30f);
  const DeviceArray<float> src_scale(*machine.device, c.src_scale.empty() ? std::vector<float>(1, 0.0f) : c.src_scale);
  AggregateArgs args;
  args.problem = ProblemOf(c);
  args.config = c.config;
  args.adjacency = graph.view(c.weighted);
  args.src = src.view();
  if (!c.src_scale.empty()) args.src_scale = src_scale.data();
  args.self_scale = c.self_scale;
  AdjacencyLayoutRef layout;
  LayoutSource source(args.adjacency, c.graph.blocks, *machine.device);
  if (prepared) {
    auto made = kernel.kernel().MakeLayout(args.problem, c.config, source);
    MustBeOk(made.status(), "making a layout");
    layout = *std::move(made);
  }
  args.layout = layout.get();
  if (apart) {
    args.problem.out_width = 0;
    return RunOnce(machine, report, kernel, args, c.inner, InFours(c.src.cols), c.graph.rows, c.src.cols);
  }
  const DeviceArray<char> weight = Packed(machine, kernel.kernel(), c.weight);
  const HostMatrix& residual = c.inner.residual;
  const DeviceMatrix rows(*machine.device, residual.values.empty() ? FilledMatrix(1, 1, 0.0f) : residual, {0, 0}, 0.0f);
  const DeviceEpilogue inner(machine, c.inner, rows.view());
  args.weight = weight.data();
  args.row_epilogue = inner.epilogue;
  return RunOnce(machine, report, kernel, args, c.outer, c.dst_layout, c.graph.rows, c.weight.rows);
}

// The product whose bits an aggregation's own product has: on the CPU that of the kernel of the same name.
const RegisteredKernel<DenseUpdateKernel>& ProductOf(const Machine& machine, const Aggregation& kernel) {
  for (const auto& product : machine.registry.dense_update.kernels()) {
    if (machine.is_cpu() && product->kernel().name() == kernel.kernel().name()) return *product;
  }
  return ExactProduct(machine);
}

// As plans have it where they keep the two apart.
HostMatrix RunApart(Machine& machine, Report& report, const Aggregation& kernel, const Case& c) {
  const HostMatrix rows = Run(machine, report, kernel, c, true, /*apart=*/true);
  const RegisteredKernel<DenseUpdateKernel>& product = ProductOf(machine, kernel);
  const DeviceMatrix src(*machine.device, rows, InFours(rows.cols), 1e30f);
  const DeviceArray<char> weight = Packed(machine, product.kernel(), c.weight);
  DenseUpdateArgs args;
  args.problem = {rows.rows, rows.cols, c.weight.rows};
  args.src = src.view();
  args.weight = weight.data();
  return RunOnce(machine, report, product, args, c.outer, c.dst_layout, rows.rows, c.weight.rows);
}

std::vector<double> Wanted(const Case& c) {
  HostMatrix scaled = c.src;  // the factors are powers of two
  for (size_t i = 0; i < scaled.values.size() && !c.src_scale.empty(); ++i) {
    scaled.values[i] *= c.src_scale[i / c.src.cols];
  }
  std::vector<double> sums = Aggregate(c.graph, c.weighted, c.reduce, scaled, 0.0f);
  if (c.self_scale != 0) AddOwnRows(c.src, c.self_scale, &sums);
  const std::vector<double> rows = WithEpilogue(std::move(sums), c.src.cols, c.inner);
  std::vector<double> product(c.graph.rows * c.weight.rows, 0.0);
  for (int64_t i = 0; i < c.graph.rows; ++i) {
    for (int64_t h = 0; h < c.weight.rows; ++h) {
      for (int64_t d = 0; d < c.src.cols; ++d) {
        product[i * c.weight.rows + h] += rows[i * c.src.cols + d] * c.weight.at(h, d);
      }
    }
  }
  return WithEpilogue(std::move(product), c.weight.rows, c.outer);
}

// Every second row alone, in another order, as a receptive field has them; own rows and what is there for each row are
// left out.
void CheckSubset(Machine& machine, Report& report, const Aggregation& kernel, Case c) {
  c.self_scale = 0.0f;
  c.inner.row_scale.clear(), c.outer.row_scale.clear();
  c.inner.residual = c.outer.residual = {};
  std::vector<int64_t> rows;
  for (int64_t row = c.graph.rows - 1; row >= 0; row -= 2) rows.push_back(row);
  const HostGraph part = RowsOf(c.graph, rows);
  const Case some{part,    c.reduce, c.weighted,  c.src,        c.weight, 0.0f,
                  c.inner, c.outer,  c.src_scale, c.dst_layout, c.config};
  const HostMatrix whole = Run(machine, report, kernel, c);
  HostMatrix want = FilledMatrix(part.rows, c.weight.rows, 0.0f);
  for (int64_t i = 0; i < part.rows; ++i) {
    for (int64_t h = 0; h < c.weight.rows; ++h) want.values[i * c.weight.rows + h] = whole.at(rows[i], h);
  }
  report.CheckSame("product in a subset of rows", c.Name(), Run(machine, report, kernel, some, false), want);
}

void Check(Machine& machine, Report& report, const Case& c) {
  for (const auto& kernel : machine.registry.aggregate.kernels()) {
    const AggregateProblem problem = ProblemOf(c);
    if (!kernel->kernel().WhyUnsupported(problem).empty() || !kernel->kernel().WhyProductUnsupported(problem).empty())
      continue;
    const std::string name(kernel->kernel().name());
    const HostMatrix got = report.CheckTwice(
        "product " + name, c.Name(), [&] { return Run(machine, report, *kernel, c); }, Wanted(c));
    report.CheckSame("product as two steps", c.Name(), got, RunApart(machine, report, *kernel, c));
    report.CheckSame("product without a layout", c.Name(), Run(machine, report, *kernel, c, false), got);
    CheckSubset(machine, report, *kernel, c);
  }
}

constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin};
constexpr Activation kActivations[] = {{ActivationKind::kRelu, 0.0f},      {ActivationKind::kNone, 0.0f},
                                       {ActivationKind::kElu, 0.7f},       {ActivationKind::kSigmoid, 0.0f},
                                       {ActivationKind::kLeakyRelu, 0.1f}, {ActivationKind::kTanh, 0.0f}};
constexpr MatrixLayout kLayouts[] = {{0, 0}, {1, 3}, {0, 4}};

// Everything that a sum and its product may come with, in turn.
Case AnyCase(const HostGraph& graph, int64_t width, int64_t out_width, int turn) {
  Case c{graph,
         kReduces[turn % 4],
         turn / 4 % 2 == 1,
         RandomMatrix(graph.cols, width, 21 + width),
         RandomMatrix(out_width, width, 22 + out_width),
         graph.rows == graph.cols && turn % 3 == 1 ? 1.25f : 0.0f,
         {},
         {},
         {},
         kLayouts[turn % 3],
         {}};
  if (turn % 5 != 0) c.inner.bias = RandomVector(width, 91);
  if (turn % 5 < 3) c.inner.row_scale = RandomVector(graph.rows, 92);
  if (turn % 7 == 3) c.inner.residual = RandomMatrix(graph.rows, width, 93);
  c.inner.residual_scale = 0.5f;
  c.inner.activation = kActivations[turn % 6];
  c.outer.scale = turn % 4 == 2 ? 0.75f : 1.0f;
  if (turn % 2 == 0) c.outer.row_scale = RandomVector(graph.rows, 94);
  if (turn % 3 != 0) c.outer.bias = RandomVector(out_width, 95);
  if (turn % 5 == 1) c.outer.residual = RandomMatrix(graph.rows, out_width, 96);
  c.outer.activation = kActivations[turn / 2 % 6];
  return c;
}

// GCN's: unweighted sums, scaled, biased and rectified, and a product that is scaled.
Case GcnCase(const HostGraph& graph, int64_t width, int64_t out_width) {
  Case c{
      graph, Reduce::kSum, false, RandomMatrix(graph.cols, width, 23), RandomMatrix(out_width, width, 24), 0.0f, {}, {},
      {},    {},           {}};
  c.inner.row_scale = c.outer.row_scale = RandomVector(graph.rows, 97);
  c.inner.bias = RandomVector(width, 98);
  c.inner.activation.kind = ActivationKind::kRelu;
  return c;
}

// Bundles of eight rows, of sixteen, and hubs of more parts than one quad has, where there are many edges.
std::vector<HostGraph> LargerGraphs() {
  std::vector<int64_t> bundled(9'000), wide(131'100);
  for (size_t row = 0; row < bundled.size(); ++row) bundled[row] = static_cast<int64_t>(row % 37);
  bundled[100] = 5'000, bundled[101] = 1'025, bundled[8'000] = 300;
  for (size_t row = 0; row < wide.size(); ++row) wide[row] = static_cast<int64_t>(row % 97 == 5 ? row % 50 : row % 4);
  wide[70'000] = 2'000;
  std::vector<HostGraph> graphs;
  graphs.push_back(RandomGraph("bundles", 9'000, bundled, 18));
  graphs.push_back(RandomGraph("wide bundles", 500, wide, 19));
  return graphs;
}

}  // namespace

void RunAggregateProductCases(Machine& machine, Report& report) {
  constexpr std::pair<int64_t, int64_t> kShapes[] = {{3, 2},   {7, 5},  {16, 7},  {16, 1},  {14, 16}, {20, 12},
                                                     {32, 16}, {33, 3}, {48, 11}, {64, 16}, {64, 2}};
  std::vector<HostGraph> graphs = ZooFor(machine, report);
  // They are for kernels that bundle rows, which are a GPU's.
  if (!machine.is_cpu()) {
    for (HostGraph& graph : LargerGraphs()) graphs.push_back(std::move(graph));
  }
  int turn = 0;
  for (const HostGraph& graph : graphs) {
    for (const auto& [width, out_width] : kShapes) {
      ++turn;
      if (report.IsMine()) Check(machine, report, AnyCase(graph, width, out_width, turn));
      if (report.IsMine()) Check(machine, report, GcnCase(graph, width, out_width));
      if (turn % 3 != 0 || !report.IsMine()) continue;
      Case rank_one = GcnCase(graph, width, out_width);
      for (int64_t j = 0; j < graph.cols; ++j) rank_one.src_scale.push_back(j % 3 == 0 ? 0.25f : 2.0f);
      rank_one.config.values = {32, turn % 2};
      Check(machine, report, rank_one);
    }
  }
}

}  // namespace vicinal::conformance
