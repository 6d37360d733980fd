// SPDX-License-Identifier: Apache-2.0
// Attention and message reduction with features of edges: every number of features from 1 to 64 and some more, loops as
// sent and replaced, rows without edges, of every length around batches and cuts, and hubs; against the formulas in
// double, in all shapes, and for the rows of a receptive field.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/conformance/attention_operands.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/featured_graph.h"
#include "tests/conformance/messages.h"

namespace vicinal::conformance {
namespace {

// {tile_columns, row_lanes} of fused_rows.
constexpr KernelConfig kShapes[] = {{{32, 8}},   {{32, 32}},  {{64, 8}},   {{64, 16}}, {{64, 32}},
                                    {{128, 16}}, {{128, 32}}, {{256, 32}}, {{64, 128}}};

MatrixLayout LayoutOf(int turn) {
  return turn % 4 == 1 ? MatrixLayout{1, 3} : turn % 4 == 2 ? MatrixLayout{4, 4} : MatrixLayout{};
}

// W^T [A, columns], so that products with features are about 1.
std::vector<float> Weights(int64_t width, int64_t columns) {
  std::vector<float> weights = RandomVector(width * columns, 41);
  for (float& x : weights) x /= std::sqrt(static_cast<float>(width));
  return weights;
}

// Column `col` of features times W^T.
double Term(const float* features, int64_t width, const std::vector<float>& weight, int64_t columns, int64_t col) {
  double sum = 0;
  for (int64_t a = 0; a < width; ++a) sum += static_cast<double>(features[a]) * weight[a * columns + col];
  return sum;
}

HostMatrix Picked(const HostMatrix& all, const std::vector<int32_t>& rows) {
  HostMatrix some{static_cast<int64_t>(rows.size()), all.cols, {}};
  for (const int32_t row : rows) {
    for (int64_t c = 0; c < all.cols; ++c) some.values.push_back(all.at(row, c));
  }
  return some;
}

// Sources as a field numbers them.
HostMatrix Reversed(const HostMatrix& all) {
  std::vector<int32_t> rows;
  for (int64_t row = all.rows - 1; row >= 0; --row) rows.push_back(static_cast<int32_t>(row));
  return Picked(all, rows);
}

struct AttentionCase {
  const FeaturedGraph& graph;
  HostAttention attention;
  std::vector<float> weight;
  MatrixLayout layout;
  HostEpilogue epilogue;
  KernelConfig config = {};

  int64_t all_columns() const { return attention.heads * attention.head_width; }
  int64_t columns() const { return attention.concat ? all_columns() : attention.head_width; }
  int64_t weight_columns() const { return attention.kind == AttentionKind::kGat ? attention.heads : all_columns(); }
  AttentionProblem problem() const {
    return {attention.kind,  graph.adjacency.rows, graph.adjacency.cols, graph.adjacency.edges(),
            attention.heads, attention.head_width, attention.concat,     graph.width};
  }
  std::string Name(std::string_view kernel) const {
    std::string name = std::string(kernel) + ", " + graph.sent.name + ", " + std::string(ToString(attention.kind)) +
                       " " + std::to_string(attention.heads) + " x " + std::to_string(attention.head_width) +
                       (attention.concat ? "" : ", mean of heads") + ", " + std::to_string(graph.width) +
                       " features, loops " + std::to_string(static_cast<int>(graph.loops));
    for (const int32_t value : config.values) name += value > 0 ? ", " + std::to_string(value) : "";
    return name;
  }
};

AttentionCase MakeCase(const FeaturedGraph& graph, AttentionKind kind, int64_t heads, int64_t head_width, int turn) {
  AttentionCase c{graph, {}, {}, LayoutOf(turn), {}};
  HostAttention& a = c.attention;
  a.kind = kind;
  a.heads = heads;
  a.head_width = head_width;
  a.concat = turn % 3 != 0;
  const int64_t nodes = graph.sent.rows;
  a.value = RandomMatrix(nodes, heads * head_width, 21);
  a.score_src = RandomMatrix(nodes, heads, 22);
  a.score_dst = RandomMatrix(nodes, heads, 23);
  a.query = RandomMatrix(nodes, heads * head_width, 24);
  a.key = RandomMatrix(nodes, heads * head_width, 28);
  a.att = RandomVector(heads * head_width, 25);
  a.score_scale = 1.0f / std::sqrt(static_cast<float>(head_width));
  c.weight = Weights(graph.width, c.weight_columns());
  if (turn % 2 == 0) {
    c.epilogue.bias = RandomVector(c.columns(), 26);
    c.epilogue.residual = RandomMatrix(graph.adjacency.rows, c.columns(), 27);
    c.epilogue.activation = {ActivationKind::kElu, 1.0f};
  }
  return c;
}

// Of the edges of one row at a time: products of features are formed once per edge.
class AttentionOracle {
 public:
  explicit AttentionOracle(const AttentionCase& c) : c_(c), a_(c.attention) {}

  std::vector<double> Want() const {
    std::vector<double> result(c_.graph.adjacency.rows * c_.columns(), 0.0);
    for (int64_t row = 0; row < c_.graph.adjacency.rows; ++row) AddRow(row, result.data() + row * c_.columns());
    return WithEpilogue(result, c_.columns(), c_.epilogue);
  }

 private:
  std::vector<double> Terms(int64_t e) const {
    std::vector<double> terms;
    for (int64_t col = 0; col < c_.weight_columns(); ++col) {
      terms.push_back(Term(c_.graph.Of(e), c_.graph.width, c_.weight, c_.weight_columns(), col));
    }
    return terms;
  }
  double Leaky(double x) const { return x < 0 ? a_.negative_slope * x : x; }

  double Score(int64_t row, int64_t source, int64_t head, const std::vector<double>& terms) const {
    if (a_.kind == AttentionKind::kGat) {
      return Leaky(terms[head] + a_.score_src.at(source, head) + a_.score_dst.at(row, head));
    }
    double score = 0;
    for (int64_t col = head * a_.head_width; col < (head + 1) * a_.head_width; ++col) {
      score += a_.kind == AttentionKind::kDot
                   ? a_.score_scale * a_.query.at(row, col) * (a_.key.at(source, col) + terms[col])
                   : a_.att[col] * Leaky(terms[col] + a_.value.at(source, col) + a_.query.at(row, col));
    }
    return score;
  }

  void AddRow(int64_t row, double* out) const {
    const HostGraph& adjacency = c_.graph.adjacency;
    const int64_t begin = adjacency.row_ptr[row], end = adjacency.row_ptr[row + 1];
    std::vector<double> total(a_.heads, 0.0), sums(c_.all_columns(), 0.0);
    for (int64_t e = begin; e < end; ++e) {
      const std::vector<double> terms = Terms(e);
      const int64_t source = adjacency.col[e];
      for (int64_t head = 0; head < a_.heads; ++head) {
        const double share = std::exp(Score(row, source, head, terms));
        total[head] += share;
        for (int64_t col = head * a_.head_width; col < (head + 1) * a_.head_width; ++col) {
          sums[col] += share * (a_.value.at(source, col) + (a_.kind == AttentionKind::kDot ? terms[col] : 0.0));
        }
      }
    }
    for (int64_t col = 0; col < c_.all_columns() && end > begin; ++col) {
      const double x = sums[col] / total[col / a_.head_width];
      out[a_.concat ? col : col % a_.head_width] += a_.concat ? x : x / static_cast<double>(a_.heads);
    }
  }

  const AttentionCase& c_;
  const HostAttention& a_;
};

HostMatrix Run(Machine& machine, Report& report, const RegisteredKernel<AttentionKernel>& kernel,
               const AttentionCase& c) {
  const DeviceFeatures features(*machine.device, c.graph);
  const AttentionOperands operands(*machine.device, c.attention, c.layout, 1e30f);
  const DeviceArray<float> weight(*machine.device, c.weight);
  AttentionArgs args = operands.Args();
  args.problem = c.problem();
  args.config = c.config;
  args.adjacency = features.adjacency(false);
  args.edge = features.view();
  args.edge_weight = weight.data();
  return RunOnce(machine, report, kernel, args, c.epilogue, c.layout, c.graph.adjacency.rows, c.columns());
}

// The reference forms every product anew for each output.
bool IsSlow(const RegisteredKernel<AttentionKernel>& kernel, const AttentionCase& c) {
  const double products = static_cast<double>(c.graph.adjacency.edges()) * static_cast<double>(c.columns()) *
                          static_cast<double>(c.attention.head_width) * static_cast<double>(c.graph.width);
  return IsReference(kernel) && products > 1e8;
}

void CheckField(Machine& machine, Report& report, const RegisteredKernel<AttentionKernel>& kernel,
                const AttentionCase& whole, const HostMatrix& got) {
  const FeaturedGraph field = FieldOf(whole.graph);
  AttentionCase some{field, whole.attention, whole.weight, whole.layout, whole.epilogue};
  HostAttention& a = some.attention;
  for (HostMatrix* matrix : {&a.score_dst, &a.query}) *matrix = Picked(*matrix, field.nodes);
  for (HostMatrix* matrix : {&a.value, &a.score_src, &a.key}) *matrix = Reversed(*matrix);
  if (!some.epilogue.residual.values.empty()) some.epilogue.residual = Picked(some.epilogue.residual, field.nodes);
  report.CheckSame("attention with features in a field", some.Name(kernel.kernel().name()),
                   Run(machine, report, kernel, some), Picked(got, field.nodes));
}

void RunAttention(Machine& machine, Report& report, AttentionCase c, bool all_shapes) {
  if (!report.IsMine()) return;
  const std::vector<double> want = AttentionOracle(c).Want();
  for (const auto& kernel : machine.registry.attention.kernels()) {
    const std::string name(kernel->kernel().name());
    if (!kernel->kernel().WhyUnsupported(c.problem()).empty() || IsSlow(*kernel, c)) continue;
    c.config = {};
    const HostMatrix got = report.CheckTwice(
        "attention with features " + name, c.Name(name), [&] { return Run(machine, report, *kernel, c); }, want);
    CheckField(machine, report, *kernel, c, got);
    if (!all_shapes || report.brief() || kernel->kernel().ParameterNames().empty()) continue;
    for (const KernelConfig& config : kShapes) {
      c.config = config;
      report.CheckSame("attention with features in all shapes", c.Name(name), Run(machine, report, *kernel, c), got);
    }
  }
}

struct MessageCase {
  const FeaturedGraph& graph;
  Message message;
  Reduce reduce;
  bool weighted;
  HostMatrix src, target;
  std::vector<float> weight, bias;  // empty: features as they are, or no bias
  MatrixLayout layout;
  HostEpilogue epilogue;

  MessageReduceProblem problem() const {
    MessageReduceProblem problem;
    problem.message = message;
    problem.reduce = reduce;
    problem.weighted = weighted;
    problem.rows = graph.adjacency.rows;
    problem.cols = graph.adjacency.cols;
    problem.edges = graph.adjacency.edges();
    problem.width = src.cols;
    problem.edge_width = graph.width;
    return problem;
  }
  std::string Name(std::string_view kernel) const {
    return std::string(kernel) + ", " + graph.sent.name + ", " + NameOf(message) + ", " +
           std::string(ToString(reduce)) + (weighted ? ", weighted, " : ", ") + std::to_string(src.cols) +
           " columns, " + std::to_string(graph.width) + (weight.empty() ? " features as they are" : " features") +
           ", loops " + std::to_string(static_cast<int>(graph.loops));
  }
};

MessageCase MakeMessages(const FeaturedGraph& graph, Reduce reduce, int64_t width, bool product, int turn) {
  MessageCase c{graph,
                turn % 3 == 1 ? Message::kAdd : Message::kSource,
                reduce,
                turn % 4 == 3,
                RandomMatrix(graph.sent.rows, width, 51),
                RandomMatrix(graph.sent.rows, width, 52),
                {},
                {},
                LayoutOf(turn),
                {}};
  if (product) c.weight = Weights(graph.width, width);
  if (product && turn % 2 == 0) c.bias = RandomVector(width, 53);
  if (turn % 2 == 1) {
    c.epilogue.bias = RandomVector(width, 54);
    c.epilogue.residual = RandomMatrix(graph.adjacency.rows, width, 55);
  }
  return c;
}

double OracleMessage(const MessageCase& c, int64_t row, int64_t e, int64_t col) {
  const float* const features = c.graph.Of(e);
  double m = MessageOf(c.message, c.src.at(c.graph.adjacency.col[e], col), c.target.at(row, col));
  m += c.weight.empty() ? features[col] : Term(features, c.graph.width, c.weight, c.src.cols, col);
  if (!c.bias.empty()) m += c.bias[col];
  return std::max(0.0, m * (c.weighted ? c.graph.adjacency.value[e] : 1.0));
}

std::vector<double> Want(const MessageCase& c) {
  const HostGraph& adjacency = c.graph.adjacency;
  const int64_t width = c.src.cols;
  std::vector<double> result(adjacency.rows * width, 0.0);
  for (int64_t row = 0; row < adjacency.rows; ++row) {
    const int64_t begin = adjacency.row_ptr[row], end = adjacency.row_ptr[row + 1];
    for (int64_t e = begin; e < end; ++e) {
      for (int64_t col = 0; col < width; ++col) {
        const double m = OracleMessage(c, row, e, col);
        double& out = result[row * width + col];
        if (c.reduce == Reduce::kMax || c.reduce == Reduce::kMin) {
          out = e == begin ? m : Extreme(c.reduce, out, m);
        } else {
          out += m / (c.reduce == Reduce::kMean ? static_cast<double>(end - begin) : 1.0);
        }
      }
    }
  }
  return WithEpilogue(result, width, c.epilogue);
}

HostMatrix Run(Machine& machine, Report& report, const RegisteredKernel<MessageReduceKernel>& kernel,
               const MessageCase& c) {
  const DeviceFeatures features(*machine.device, c.graph);
  const DeviceMatrix src(*machine.device, c.src, c.layout, 1e30f), target(*machine.device, c.target, c.layout, 1e30f);
  const DeviceArray<float> weight(*machine.device, c.weight), bias(*machine.device, c.bias);
  MessageReduceArgs args;
  args.problem = c.problem();
  args.adjacency = features.adjacency(c.weighted);
  args.src = src.view();
  if (c.message != Message::kSource) args.target = target.view();
  args.activation = {ActivationKind::kRelu, 0.0f};
  args.edge = features.view();
  args.edge_weight = c.weight.empty() ? nullptr : weight.data();
  args.edge_bias = c.bias.empty() ? nullptr : bias.data();
  return RunOnce(machine, report, kernel, args, c.epilogue, c.layout, c.graph.adjacency.rows, c.src.cols);
}

void RunMessages(Machine& machine, Report& report, const MessageCase& c) {
  if (!report.IsMine()) return;
  const std::vector<double> want = Want(c);
  const FeaturedGraph field = FieldOf(c.graph);
  MessageCase some{field,    c.message, c.reduce, c.weighted, Reversed(c.src), Picked(c.target, field.nodes),
                   c.weight, c.bias,    c.layout, c.epilogue};
  if (!some.epilogue.residual.values.empty()) some.epilogue.residual = Picked(some.epilogue.residual, field.nodes);
  for (const auto& kernel : machine.registry.message_reduce.kernels()) {
    const std::string name(kernel->kernel().name());
    if (!kernel->kernel().WhyUnsupported(c.problem()).empty()) continue;
    const HostMatrix got = report.CheckTwice(
        "message_reduce with features " + name, c.Name(name), [&] { return Run(machine, report, *kernel, c); }, want);
    report.CheckSame("message_reduce with features in a field", c.Name(name), Run(machine, report, *kernel, some),
                     Picked(got, field.nodes));
  }
}

constexpr AttentionKind kKinds[] = {AttentionKind::kGat, AttentionKind::kGatV2, AttentionKind::kDot};
constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin};

// Around the batches that scores are made in, the lengths at which rows are cut and the parts that a search for a loop
// makes, and empty rows.
const std::vector<int64_t>& Borders() {
  static const auto& degrees = *new std::vector<int64_t>{
      0,   1, 2, 3, 4, 5,   7,   8, 9, 15, 16, 17, 31, 32, 33, 0, 63, 64, 65, 97, 127, 128, 129, 255, 256,
      257, 0, 1, 0, 2, 600, 385, 1, 0, 0,  18, 6,  34, 5,  66, 4, 99, 1,  80, 2,  153, 3,   288, 1,   561};
  return degrees;
}

// Every number of features, with 1 to 8 heads.
void CountCases(Machine& machine, Report& report) {
  constexpr int64_t kWidths[] = {8, 7, 16, 4, 20};
  for (int64_t width = 1; width <= 64; ++width) {
    const FeaturedGraph graph = MakeFeatured("borders", Borders(), width, kAllLoops[width % 3]);
    const int turn = static_cast<int>(width);
    for (const AttentionKind kind : kKinds) {
      RunAttention(machine, report, MakeCase(graph, kind, 1 + width % 8, kWidths[width % 5], turn), width % 4 == 0);
    }
    RunMessages(machine, report, MakeMessages(graph, kReduces[width % 4], 1 + width * 5 % 70, true, turn));
    RunMessages(machine, report, MakeMessages(graph, kReduces[width % 4], width, false, turn));
  }
}

// {heads, columns of a head, features}: one column, wide heads, more heads than a tile, and more features than shared
// memory holds.
constexpr int64_t kSizes[][3] = {{1, 1, 1},  {1, 64, 8},  {8, 8, 16},   {8, 32, 16}, {1, 200, 4}, {1, 300, 2},
                                 {40, 2, 6}, {3, 41, 12}, {2, 3, 2000}, {4, 64, 64}, {8, 8, 300}};

void SizeCases(Machine& machine, Report& report) {
  int turn = 0;
  for (const Loops loops : kAllLoops) {
    for (const auto& size : kSizes) {
      const FeaturedGraph graph = MakeFeatured("borders", Borders(), size[2], loops);
      for (const AttentionKind kind : kKinds) {
        RunAttention(machine, report, MakeCase(graph, kind, size[0], size[1], turn++), true);
      }
      for (const int64_t width : {1, 32, 64, 130, 256}) {
        RunMessages(machine, report, MakeMessages(graph, kReduces[turn % 4], width, true, turn));
        ++turn;
      }
    }
    // No edges but the loops that are added.
    const FeaturedGraph none = MakeFeatured("no edges", {0, 0, 0}, 4, loops);
    for (const AttentionKind kind : kKinds) RunAttention(machine, report, MakeCase(none, kind, 2, 8, turn++), true);
    RunMessages(machine, report, MakeMessages(none, Reduce::kSum, 16, true, turn));
  }
}

// A hub, whose row is cut, and so many short rows that a group of lanes takes several.
void LargeCases(Machine& machine, Report& report) {
  const bool small = report.brief() || machine.is_cpu();
  std::vector<int64_t> hub(300, 6), rows(small ? 3000 : 150'000);
  hub[0] = small ? 12'000 : 100'000;
  hub[299] = 5000;
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i % 5);
  int turn = 0;
  for (const Loops loops : kAllLoops) {
    const FeaturedGraph cut = MakeFeatured("hub", hub, 16, loops), wide = MakeFeatured("hub", hub, 33, loops);
    const FeaturedGraph many = MakeFeatured("short rows", rows, 8, loops);
    for (const AttentionKind kind : kKinds) {
      RunAttention(machine, report, MakeCase(cut, kind, 8, 8, turn++), true);
      RunAttention(machine, report, MakeCase(wide, kind, 3, 5, turn++), true);
      RunAttention(machine, report, MakeCase(many, kind, 4, 8, turn++), true);
    }
    for (const Reduce reduce : kReduces) {
      RunMessages(machine, report, MakeMessages(cut, reduce, 64, true, turn++));
      RunMessages(machine, report, MakeMessages(many, reduce, 8, false, turn++));
    }
  }
}

}  // namespace

void RunEdgeFeatureCases(Machine& machine, Report& report) {
  CountCases(machine, report);
  SizeCases(machine, report);
  LargeCases(machine, report);
}

}  // namespace vicinal::conformance
