// SPDX-License-Identifier: Apache-2.0
// Message functions as expressions: every reduction, several side by side, over the zoo; every operation and activation
// of an expression with features, loops as sent and replaced, rows around tiles, folds and cuts, and hubs; programs of
// more values than fit near a processor; programs over rows. Against the program in double, edge by edge; the same bits
// in all configurations and for some rows, as a receptive field has them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/kernels/expression_form.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/featured_graph.h"
#include "tests/engine/plan_interpreter/edge_program_oracle.h"

namespace vicinal::conformance {
namespace {

constexpr EdgeReduce kReduces[] = {EdgeReduce::kSum, EdgeReduce::kMean, EdgeReduce::kMax,    EdgeReduce::kMin,
                                   EdgeReduce::kVar, EdgeReduce::kStd,  EdgeReduce::kSoftmax};

// A program and its parameters, value by value.
class ProgramMaker {
 public:
  int32_t Add(EdgeOp op, int64_t width, int32_t a = -1, int32_t b = -1) {
    EdgeValue value;
    value.op = op;
    value.width = width;
    value.a = a;
    value.b = b;
    return Add(std::move(value));
  }
  int32_t Add(EdgeValue value) {
    program_.values.push_back(std::move(value));
    return static_cast<int32_t>(program_.values.size()) - 1;
  }
  int32_t Columns(EdgeOp op, int32_t index, int64_t first, int64_t width) {
    EdgeValue value;
    value.op = op;
    value.width = width;
    value.index = index;
    value.first = first;
    return Add(std::move(value));
  }
  int32_t Slice(int32_t of, int64_t first, int64_t width) {
    EdgeValue value;
    value.op = EdgeOp::kSlice;
    value.width = width;
    value.a = of;
    value.first = first;
    return Add(std::move(value));
  }
  int32_t Concat(std::vector<int32_t> parts) {
    EdgeValue value;
    value.op = EdgeOp::kConcat;
    value.width = 0;
    for (const int32_t part : parts) value.width += WidthOf(part);
    value.parts = std::move(parts);
    return Add(std::move(value));
  }
  int32_t Number(float number) {
    EdgeValue value;
    value.number = number;
    return Add(std::move(value));
  }
  int32_t Activate(ActivationKind kind, int32_t of, float slope = 0.0f, float limit = 0.0f) {
    EdgeValue value;
    value.op = EdgeOp::kActivation;
    value.width = WidthOf(of);
    value.a = of;
    value.activation = {kind, slope, limit};
    return Add(std::move(value));
  }
  int32_t Row(int64_t width) {
    const int32_t row = Columns(EdgeOp::kRow, Parameter({width}, 1.0f), 0, width);
    return row;
  }
  // About as large as its argument.
  int32_t Linear(int32_t of, int64_t width, bool bias) {
    EdgeValue value;
    value.op = EdgeOp::kLinear;
    value.width = width;
    value.a = of;
    value.index = Parameter({width, WidthOf(of)}, 1.0f / std::sqrt(static_cast<float>(WidthOf(of))));
    if (bias) value.bias = Parameter({width}, 0.5f);
    return Add(std::move(value));
  }
  void Result(EdgeReduce reduce, int32_t value, int32_t score = -1) {
    program_.results.push_back({reduce, value, score});
  }
  ExpressionStep Step(bool over_edges, int32_t sources, int32_t targets, int64_t edge_width) {
    program_.over_edges = over_edges;
    program_.sources = sources;
    program_.targets = targets;
    program_.edge_width = edge_width;
    ExpressionStep step;
    step.program = std::make_shared<const EdgeProgram>(program_);
    step.parameters = parameters_;
    step.edge_width = edge_width;
    return step;
  }

 private:
  int64_t WidthOf(int32_t value) const { return program_.values[value].width; }

  int32_t Parameter(std::vector<int64_t> shape, float scale) {
    int64_t size = 1;
    for (const int64_t n : shape) size *= n;
    std::vector<float> values = RandomVector(size, 90 + parameters_.size());
    for (float& x : values) x *= scale;
    parameters_.push_back(std::make_shared<const Weight>(Weight{"parameter", std::move(shape), std::move(values)}));
    return static_cast<int32_t>(parameters_.size()) - 1;
  }

  EdgeProgram program_;
  std::vector<WeightRef> parameters_;
};

// All reductions of m = (u + v) w, the softmax by the dots of m and a row, one per head.
ExpressionStep Reductions(int64_t width, int64_t heads) {
  ProgramMaker make;
  const int32_t sum = make.Add(EdgeOp::kAdd, width, make.Columns(EdgeOp::kSource, 0, 0, width),
                               make.Columns(EdgeOp::kTarget, 0, 0, width));
  const int32_t message = make.Add(EdgeOp::kMultiply, width, sum, make.Add(EdgeOp::kWeight, 1));
  const int32_t score = make.Add(EdgeOp::kDot, heads, message, make.Row(width));
  for (const EdgeReduce reduce : kReduces) make.Result(reduce, message, reduce == EdgeReduce::kSoftmax ? score : -1);
  return make.Step(true, 1, 1, 0);
}

constexpr Activation kActivations[] = {{ActivationKind::kRelu},
                                       {ActivationKind::kElu, 1.2f},
                                       {ActivationKind::kLeakyRelu, 0.2f},
                                       {ActivationKind::kSigmoid},
                                       {ActivationKind::kTanh},
                                       {ActivationKind::kSilu},
                                       {ActivationKind::kGelu},
                                       {ActivationKind::kGeluTanh},
                                       {ActivationKind::kSoftplus, 20.0f},
                                       {ActivationKind::kMish},
                                       {ActivationKind::kSoftsign},
                                       {ActivationKind::kClamp, -0.5f, 0.7f},
                                       {ActivationKind::kThreshold, 0.1f, 0.1f},
                                       {ActivationKind::kHardSigmoid},
                                       {ActivationKind::kHardSwish},
                                       {ActivationKind::kExp},
                                       {ActivationKind::kRoot, 3.0f},
                                       {ActivationKind::kInverseRoot, 3.0f},
                                       {ActivationKind::kSquare}};

// Every operation, on values of `width` columns and on narrow ones, with `features` features of edges. `turn` chooses
// activations and reductions.
ExpressionStep Operations(int64_t width, int64_t features, int turn) {
  ProgramMaker make;
  const int32_t u = make.Columns(EdgeOp::kSource, 0, 0, width), v = make.Columns(EdgeOp::kTarget, 0, 0, width);
  const int32_t second = make.Columns(EdgeOp::kSource, 1, 1, 2);
  const int32_t edge = make.Columns(EdgeOp::kFeatures, 0, 0, features);
  const int32_t products = make.Linear(make.Concat({u, edge, second}), width, turn % 2 == 0);
  const Activation& kind = kActivations[turn % std::size(kActivations)];
  const int32_t active = make.Activate(kind.kind, products, kind.slope, kind.limit);
  const int32_t other = make.Add(EdgeOp::kSubtract, width, active, make.Add(EdgeOp::kMax, width, v, make.Number(0.1f)));
  const int32_t narrow = make.Linear(other, 3, true);
  const int32_t positive = make.Add(EdgeOp::kAdd, 3, make.Activate(ActivationKind::kSquare, narrow), make.Number(0.5f));
  const int32_t ratio = make.Add(EdgeOp::kDivide, 3, make.Add(EdgeOp::kLog, 3, positive), positive);
  const int32_t size = make.Add(EdgeOp::kSum, 1, make.Add(EdgeOp::kAbs, width, other));
  const int32_t repeated = make.Add(EdgeOp::kRepeat, 3 * 5, ratio);
  const int32_t least = make.Add(EdgeOp::kMin, 15, repeated, make.Add(EdgeOp::kWeight, 1));
  const int32_t tail = make.Slice(other, width / 3, width - width / 3);
  const int32_t scaled = make.Add(EdgeOp::kMultiply, width - width / 3, tail, make.Slice(ratio, 1, 1));
  const int32_t score = make.Add(EdgeOp::kDot, 5, least, make.Row(15));
  const int32_t near = make.Add(EdgeOp::kDivide, 1, size, make.Number(static_cast<float>(width)));
  make.Result(kReduces[turn % 6], scaled);
  make.Result(EdgeReduce::kSoftmax, least, score);
  make.Result(kReduces[(turn + 1) % 6], make.Concat({near, narrow}));
  make.Result(EdgeReduce::kMean, u);
  return make.Step(true, 2, 1, features);
}

// Values whose registers take `width` columns several times over.
ExpressionStep Wide(int64_t width) {
  ProgramMaker make;
  const int32_t u = make.Columns(EdgeOp::kSource, 0, 0, width), v = make.Columns(EdgeOp::kTarget, 0, 0, width);
  const int32_t both = make.Concat({make.Add(EdgeOp::kAdd, width, u, v), make.Add(EdgeOp::kMultiply, width, u, v)});
  make.Result(EdgeReduce::kSum, make.Linear(both, 5, true));
  make.Result(EdgeReduce::kMax, make.Slice(both, width - 3, 7));
  make.Result(EdgeReduce::kSoftmax, make.Slice(both, 0, width), make.Add(EdgeOp::kSum, 1, v));
  return make.Step(true, 1, 1, 0);
}

ExpressionStep OverRows(int64_t width) {
  ProgramMaker make;
  const int32_t v = make.Columns(EdgeOp::kTarget, 0, 0, width), other = make.Columns(EdgeOp::kTarget, 1, 0, 1);
  const int32_t gated = make.Add(EdgeOp::kMultiply, width, v, make.Activate(ActivationKind::kSigmoid, other));
  make.Result(EdgeReduce::kSum, make.Add(EdgeOp::kAdd, width, gated, make.Row(width)));
  return make.Step(false, 0, 2, 0);
}

struct Case {
  std::string name;
  const FeaturedGraph& graph;
  ExpressionStep step;
  std::vector<HostMatrix> sources, targets;
  MatrixLayout layout;
  HostEpilogue epilogue;

  int64_t rows() const { return graph.adjacency.rows; }
  int64_t width() const { return step.program->width(); }
};

Case MakeCase(const std::string& name, const FeaturedGraph& graph, const ExpressionStep& step, int64_t width,
              int turn) {
  const MatrixLayout layout = turn % 3 == 1 ? MatrixLayout{1, 3} : MatrixLayout{};
  Case c{name + ", " + graph.adjacency.name + ", turn " + std::to_string(turn), graph, step, {}, {}, layout, {}};
  for (int32_t i = 0; i < step.program->sources; ++i)
    c.sources.push_back(RandomMatrix(graph.adjacency.cols, i == 0 ? width : 3, 11 + i));
  for (int32_t i = 0; i < step.program->targets; ++i)
    c.targets.push_back(RandomMatrix(graph.adjacency.rows, i == 0 ? width : 1, 21 + i));
  if (turn % 2 == 1) {
    c.epilogue.bias = RandomVector(c.width(), 31);
    c.epilogue.residual = RandomMatrix(c.rows(), c.width(), 32);
    c.epilogue.activation = {ActivationKind::kLeakyRelu, 0.3f};
  }
  return c;
}

std::vector<std::vector<double>> InDouble(const HostMatrix& matrix) {
  std::vector<std::vector<double>> rows;
  for (int64_t r = 0; r < matrix.rows; ++r)
    rows.emplace_back(matrix.values.begin() + r * matrix.cols, matrix.values.begin() + (r + 1) * matrix.cols);
  return rows;
}

std::vector<double> Want(const Case& c) {
  const EdgeProgram& program = *c.step.program;
  const HostGraph& graph = c.graph.adjacency;
  std::vector<std::vector<std::vector<double>>> sources, targets;
  for (const HostMatrix& matrix : c.sources) sources.push_back(InDouble(matrix));
  for (const HostMatrix& matrix : c.targets) targets.push_back(InDouble(matrix));
  std::vector<double> want;
  for (int64_t row = 0; row < c.rows(); ++row) {
    std::vector<std::vector<std::vector<double>>> edges;
    const int64_t begin = program.over_edges ? graph.row_ptr[row] : 0;
    const int64_t end = program.over_edges ? graph.row_ptr[row + 1] : 1;
    for (int64_t e = begin; e < end; ++e) {
      EdgeInputs inputs;
      for (const auto& matrix : sources) inputs.sources.push_back(matrix[graph.col[e]].data());
      for (const auto& matrix : targets) inputs.targets.push_back(matrix[row].data());
      if (program.edge_width > 0) inputs.features.assign(c.graph.Of(e), c.graph.Of(e) + program.edge_width);
      if (program.over_edges) inputs.weight = graph.value[e];
      edges.push_back(ValuesOfEdge(c.step, inputs, Activated));
    }
    for (const EdgeResult& result : program.results) {
      const std::vector<double> reduced =
          program.over_edges ? ReduceEdges(program, result, edges) : edges[0][result.value];
      want.insert(want.end(), reduced.begin(), reduced.end());
    }
  }
  return WithEpilogue(want, c.width(), c.epilogue);
}

ExpressionProblem ProblemOf(const Case& c) {
  ExpressionProblem problem;
  problem.code = CompileEdgeProgram(*c.step.program, c.step.parameters.size());
  problem.rows = c.rows();
  problem.cols = c.graph.adjacency.cols;
  problem.edges = c.step.program->over_edges ? c.graph.adjacency.edges() : 0;
  return problem;
}

// `made`: becomes what the kernel made of the program; may be null.
HostMatrix Run(Machine& machine, Report& report, const RegisteredKernel<ExpressionKernel>& kernel, const Case& c,
               const KernelConfig& config, std::shared_ptr<const ExpressionForm>* made = nullptr) {
  const DeviceFeatures features(*machine.device, c.graph);
  ExpressionArgs args;
  args.problem = ProblemOf(c);
  args.config = config;
  if (c.step.program->over_edges) args.adjacency = features.adjacency(true);
  if (c.step.program->edge_width > 0) args.edge = features.view();
  std::vector<DeviceMatrix> matrices;
  for (size_t i = 0; i < c.sources.size(); ++i) {
    matrices.emplace_back(*machine.device, c.sources[i], c.layout, 1e30f);
    args.sources[i] = matrices.back().view();
  }
  for (size_t i = 0; i < c.targets.size(); ++i) {
    matrices.emplace_back(*machine.device, c.targets[i], c.layout, 1e30f);
    args.targets[i] = matrices.back().view();
  }
  std::vector<DeviceArray<char>> packed;
  std::vector<DeviceArray<float>> rows;
  std::vector<const void*> parameters;
  for (size_t p = 0; p < c.step.parameters.size(); ++p) {
    const Weight& weight = *c.step.parameters[p];
    if (args.problem.code->is_matrix[p]) {
      packed.push_back(Packed(machine, kernel.kernel(), {weight.shape[0], weight.shape[1], weight.values}));
      parameters.push_back(packed.back().data());
    } else {
      rows.emplace_back(*machine.device, weight.values);
      parameters.push_back(rows.back().data());
    }
  }
  DeviceArray<float> form;
  const auto copy = [&](const std::vector<float>& bytes) -> StatusOr<const void*> {
    form = DeviceArray<float>(*machine.device, bytes);
    return form.data();
  };
  MustBeOk(SetExpressionParameters(kernel.kernel(), std::move(parameters), copy, &args), c.name);
  if (made != nullptr) *made = static_cast<const FormedParameters&>(*args.parameters).form;
  return RunOnce(machine, report, kernel, args, c.epilogue, c.layout, c.rows(), c.width());
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
  Case some{whole.name, field, whole.step, {}, {}, whole.layout, whole.epilogue};
  for (const HostMatrix& matrix : whole.sources) {
    std::vector<int32_t> reversed;
    for (int64_t row = matrix.rows - 1; row >= 0; --row) reversed.push_back(static_cast<int32_t>(row));
    some.sources.push_back(Picked(matrix, reversed));
  }
  for (const HostMatrix& matrix : whole.targets) some.targets.push_back(Picked(matrix, field.nodes));
  if (!some.epilogue.residual.values.empty()) some.epilogue.residual = Picked(some.epilogue.residual, field.nodes);
  return some;
}

// The configuration that compiles nothing.
KernelConfig Interpreted(const ExpressionKernel& kernel) {
  const std::vector<std::string_view> names = kernel.ParameterNames();
  KernelConfig config;
  for (size_t i = 0; i < names.size(); ++i) config.values[i] = names[i] == "compile" ? -1 : 0;
  return config;
}

// Columns of a block's part, for kernels that have a parameter of that name: heads of a softmax are cut or not, and the
// last part is narrower or not, as the widths of the cases have it.
constexpr int32_t kPartColumns[] = {16, 48};

// Where `name` stands in a configuration; -1: the kernel has no such parameter.
int ParameterOf(const ExpressionKernel& kernel, std::string_view name) {
  const std::vector<std::string_view> names = kernel.ParameterNames();
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? -1 : static_cast<int>(at - names.begin());
}

// Code that is compiled for the program gives the interpreter's bits, also if blocks reduce parts of the columns. Says
// nothing where there is no compiler.
void CheckCompiled(Machine& machine, Report& report, const RegisteredKernel<ExpressionKernel>& kernel, const Case& c,
                   const HostMatrix& want) {
  const int compile = ParameterOf(kernel.kernel(), "compile"),
            columns = ParameterOf(kernel.kernel(), "columns_per_block");
  if (compile < 0 || report.brief()) return;
  // Compiling takes seconds: of the many programs of operations every fourth.
  static int operations = 0;
  if (c.name.starts_with("operations") && operations++ % 4 != 0) return;
  std::vector<KernelConfig> configurations(1);
  if (columns >= 0 && c.step.program->over_edges && c.width() > kPartColumns[0]) {
    configurations.emplace_back().values[columns] = kPartColumns[0];
  }
  for (KernelConfig& config : configurations) {
    config.values[compile] = 1;
    std::shared_ptr<const ExpressionForm> form;
    const HostMatrix got = Run(machine, report, kernel, c, config, &form);
    static bool told = false;
    if (!form->compiled() && !std::exchange(told, true)) std::printf("not compiled: %s\n", form->Describe().c_str());
    const bool parts = columns >= 0 && config.values[columns] != 0;
    if (form->compiled()) report.CheckSame("expression compiled", c.name + (parts ? ", in parts" : ""), got, want);
  }
}

// What tuning tries, and, where a kernel has `edges_per_block`, each of these with 512 of them. Where it has
// `columns_per_block`, also few columns per block, with large and small tiles and blocks.
std::vector<KernelConfig> Configurations(const ExpressionKernel& kernel, const ExpressionProblem& problem) {
  std::vector<KernelConfig> configurations = kernel.Candidates(problem);
  const int tile = ParameterOf(kernel, "edge_tile"), edges = ParameterOf(kernel, "edges_per_block"),
            columns = ParameterOf(kernel, "columns_per_block");
  if (!problem.code->over_edges) return configurations;
  const auto add = [&configurations](const KernelConfig& config) {
    if (std::count(configurations.begin(), configurations.end(), config) == 0) configurations.push_back(config);
  };
  for (size_t i = 0, count = configurations.size(); i < count && edges >= 0; ++i) {
    KernelConfig more = configurations[i];
    more.values[edges] = 512;
    add(more);
  }
  if (columns < 0) return configurations;
  for (const int32_t part : kPartColumns) {
    KernelConfig parts;
    parts.values[columns] = part;
    add(parts);
    parts.values[edges] = 48;
    parts.values[tile] = 16;
    add(parts);
  }
  return configurations;
}

void RunCase(Machine& machine, Report& report, const Case& c) {
  if (!report.IsMine()) return;
  const std::vector<double> want = Want(c);
  const FeaturedGraph field = FieldOf(c.graph);
  const Case some = InField(c, field);
  const ExpressionProblem problem = ProblemOf(c);
  for (const auto& kernel : machine.registry.expression.kernels()) {
    if (!kernel->kernel().WhyUnsupported(problem).empty()) continue;
    const std::string operation = "expression " + std::string(kernel->kernel().name());
    const KernelConfig plain = Interpreted(kernel->kernel());
    const HostMatrix got = report.CheckTwice(
        operation, c.name, [&] { return Run(machine, report, *kernel, c, plain); }, want);
    report.CheckSame(operation + " in a field", c.name, Run(machine, report, *kernel, some, plain),
                     Picked(got, field.nodes));
    CheckCompiled(machine, report, *kernel, c, got);
    for (KernelConfig config : Configurations(kernel->kernel(), problem)) {
      if (config == KernelConfig() || report.brief()) continue;
      for (size_t i = 0; i < config.values.size(); ++i) config.values[i] += plain.values[i];
      std::string name = c.name;
      for (const int32_t value : config.values) name += ", " + std::to_string(value);
      report.CheckSame(operation + " configured", name, Run(machine, report, *kernel, c, config), got);
      const int columns = ParameterOf(kernel->kernel(), "columns_per_block");
      if (columns < 0 || config.values[columns] == 0) continue;
      report.CheckSame(operation + " configured in a field", name, Run(machine, report, *kernel, some, config),
                       Picked(got, field.nodes));
    }
  }
}

// The zoo's graphs, whose edges have no features; their fields are graphs of their own.
FeaturedGraph WithoutFeatures(const HostGraph& graph) {
  FeaturedGraph featured;
  featured.sent = featured.adjacency = graph;
  featured.rows_of.resize(graph.edges());
  return featured;
}

// Around tiles, folds and pieces of rows, and empty rows.
const std::vector<int64_t>& Borders() {
  static const auto& degrees = *new std::vector<int64_t>{
      0,   1,   2,   3,   4, 5, 15, 16, 17,  31, 32, 33, 0,  47,  48, 49, 63, 64, 65, 1, 95, 96, 97, 0, 127, 128,
      129, 255, 256, 257, 0, 1, 0,  2,  600, 3,  5,  1,  18, 513, 2,  0,  1,  1,  1,  0, 7,  2,  30, 8, 1};
  return degrees;
}

void RunFeatured(Machine& machine, Report& report) {
  int turn = 0;
  for (const int64_t features : {1, 3, 16, 19}) {
    const FeaturedGraph graph = MakeFeatured("borders", Borders(), features, kAllLoops[turn % 3]);
    for (const int64_t width : {6, 16, 33, 64, 130})
      RunCase(machine, report, MakeCase("operations", graph, Operations(width, features, turn), width, turn)), ++turn;
    ++turn;
  }
  std::vector<int64_t> degrees(200, 4);
  degrees[0] = report.brief() || machine.is_cpu() ? 3000 : 30'000;
  const FeaturedGraph hub = MakeFeatured("hub", degrees, 8, Loops::kAsSent);
  for (int i = 0; i < 6; ++i, ++turn)
    RunCase(machine, report, MakeCase("operations", hub, Operations(20, 8, turn), 20, turn));
  const FeaturedGraph none = MakeFeatured("no edges", {0, 0, 0}, 4, Loops::kAsSent);
  RunCase(machine, report, MakeCase("operations", none, Operations(16, 4, turn), 16, turn));
}

}  // namespace

void RunExpressionCases(Machine& machine, Report& report) {
  int turn = 0;
  for (const HostGraph& graph : ZooFor(machine, report)) {
    const FeaturedGraph featured = WithoutFeatures(graph);
    for (const auto& [width, heads] : {std::pair<int64_t, int64_t>{1, 1}, {6, 2}, {21, 3}, {64, 4}, {70, 70}}) {
      if (HasHub(graph) && width > 21) continue;
      RunCase(machine, report, MakeCase("reductions", featured, Reductions(width, heads), width, turn++));
    }
  }
  RunFeatured(machine, report);
  const FeaturedGraph borders = MakeFeatured("borders", Borders(), 1, Loops::kAsSent);
  for (const int64_t width : {200, 700, 2000})
    RunCase(machine, report, MakeCase("wide", borders, Wide(width), width, turn++));
  for (const int64_t width : {1, 3, 20, 64})
    RunCase(machine, report, MakeCase("rows", borders, OverRows(width), width, turn++));
}

}  // namespace vicinal::conformance
