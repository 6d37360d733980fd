// SPDX-License-Identifier: Apache-2.0
// Conformance of expressions over edges: every reduction over the zoo and over rows around a tile's length, against a
// formula in double; equal bits for threads and subsets of rows; values that are not finite stay in their rows. The
// operations of programs are compared with the interpreter's oracle by random models (tests/engine/plan).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/kernels/edge_values.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

constexpr EdgeReduce kReduces[] = {EdgeReduce::kSum, EdgeReduce::kMean, EdgeReduce::kMax,    EdgeReduce::kMin,
                                   EdgeReduce::kVar, EdgeReduce::kStd,  EdgeReduce::kSoftmax};

// All reductions of m = (u + v) * w [width], the softmax by dot(m, row) of `heads` parts.
EdgeProgram Program(int64_t width, int64_t heads) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {ValueOf(EdgeOp::kSource, width, -1, -1, 0), ValueOf(EdgeOp::kTarget, width, -1, -1, 0),
                    ValueOf(EdgeOp::kAdd, width, 0, 1),         ValueOf(EdgeOp::kWeight, 1),
                    ValueOf(EdgeOp::kMultiply, width, 2, 3),    ValueOf(EdgeOp::kRow, width, -1, -1, 0),
                    ValueOf(EdgeOp::kDot, heads, 4, 5)};
  for (const EdgeReduce reduce : kReduces)
    program.results.push_back({reduce, 4, reduce == EdgeReduce::kSoftmax ? 6 : -1});
  return program;
}

// Operands of that program on a graph.
struct Operands {
  Operands(const TestGraph& graph, int64_t width_of, int64_t heads_of)
      : width(width_of),
        heads(heads_of),
        csr(ToCsr(graph)),
        src(graph.sources, width_of, 1),
        target(graph.targets, width_of, 2),
        row(RandomVector(width_of, 3)),
        code(CompileEdgeProgram(Program(width_of, heads_of), 1)) {}

  ExpressionArgs Args(MatrixView dst) const {
    ExpressionArgs args;
    args.problem = {code, csr.rows, csr.cols, static_cast<int64_t>(csr.col.size())};
    args.adjacency = csr.View(true);
    args.sources[0] = src.view();
    args.targets[0] = target.view();
    args.parameters = std::make_shared<const std::vector<const void*>>(std::vector<const void*>{row.data()});
    args.dst = dst;
    return args;
  }

  double Message(int64_t edge, int64_t i, int64_t c) const {
    return (static_cast<double>(src.at(csr.col[edge], c)) + target.at(i, c)) * csr.value[edge];
  }
  double Score(int64_t edge, int64_t i, int64_t head) const {
    double score = 0.0;
    for (int64_t c = head * width / heads; c < (head + 1) * width / heads; ++c) score += Message(edge, i, c) * row[c];
    return score;
  }

  // Column `c` of one reduction of row `i`, which has edges.
  double Expected(EdgeReduce reduce, int64_t i, int64_t c) const {
    double sum = 0, most = -HUGE_VAL, least = HUGE_VAL, shares = 0, weighted = 0, squares = 0;
    const int64_t begin = csr.row_ptr[i], end = csr.row_ptr[i + 1];
    for (int64_t e = begin; e < end; ++e) {
      const double m = Message(e, i, c), share = std::exp(Score(e, i, c * heads / width));
      sum += m, shares += share, weighted += share * m;
      most = std::max(most, m), least = std::min(least, m);
    }
    const double count = static_cast<double>(end - begin), mean = sum / count;
    for (int64_t e = begin; e < end; ++e) squares += (Message(e, i, c) - mean) * (Message(e, i, c) - mean);
    const double variance = squares / count;
    const double by_reduce[] = {
        sum, mean, most, least, variance, variance <= 1e-5 ? 0.0 : std::sqrt(variance), weighted / shares};
    return by_reduce[static_cast<int>(reduce)];
  }

  const int64_t width, heads;
  TestCsr csr;
  TestMatrix src, target;
  std::vector<float> row;
  std::shared_ptr<const EdgeCode> code;
};

using TestedKernel = RegisteredKernel<ExpressionKernel>;

const std::vector<std::unique_ptr<TestedKernel>>& Kernels() { return TheMachine().registry.expression.kernels(); }
const TestedKernel& Fastest() { return *Kernels().front(); }

void Check(const TestedKernel& kernel, const TestGraph& graph, int64_t width, int64_t heads) {
  SCOPED_TRACE(std::string(kernel.kernel().name()) + " " + graph.name + " " + std::to_string(width) + " in " +
               std::to_string(heads));
  const Operands operands(graph, width, heads);
  TestMatrix dst(graph.targets, operands.code->width, 9);
  ASSERT_TRUE(Launch(kernel, operands.Args(dst.view())).ok());
  EXPECT_TRUE(dst.GapsUntouched());
  for (int64_t i = 0; i < graph.targets; ++i) {
    const int64_t degree = operands.csr.row_ptr[i + 1] - operands.csr.row_ptr[i];
    for (int64_t at = 0; at < operands.code->width; ++at) {
      const EdgeReduce reduce = kReduces[at / width];
      const double expected = degree == 0 ? 0.0 : operands.Expected(reduce, i, at % width);
      // Messages are below 4; a deviation has half of the digits of its variance.
      const double bound =
          (reduce == EdgeReduce::kStd ? 3e-4 : 4e-6) * static_cast<double>(reduce == EdgeReduce::kSum ? degree + 1 : 4);
      ASSERT_NEAR(dst.at(i, at), expected, bound) << "row " << i << " of " << degree << " edges, column " << at;
    }
  }
}

// Rows of about one, two and twenty tiles, and short ones between them.
TestGraph RowsAroundTiles() {
  TestGraph graph{"tiles", 40, 60, {}};
  Random random(4);
  const int64_t degrees[] = {0, 1, 47, 48, 49, 3, 95, 96, 97, 0, 1000, 2, 5, 48, 48, 7};
  for (int32_t i = 0; i < 16; ++i) {
    for (int64_t k = 0; k < degrees[i]; ++k)
      graph.edges.push_back({static_cast<int32_t>(random.Below(60)), i, random.Float()});
  }
  return graph;
}

TEST(ExpressionConformance, ReductionsAndWidthsOverTheZoo) {
  for (const auto& kernel : Kernels()) {
    for (const TestGraph& graph : Zoo()) {
      for (const auto& [width, heads] : {std::pair<int64_t, int64_t>{1, 1}, {3, 3}, {6, 2}, {21, 3}, {64, 4}, {70, 70}})
        Check(*kernel, graph, width, heads);
    }
  }
}

TEST(ExpressionConformance, RowsAroundTilesOfEdges) {
  for (const auto& kernel : Kernels()) {
    for (const auto& [width, heads] : {std::pair<int64_t, int64_t>{2, 1}, {33, 3}, {80, 5}})
      Check(*kernel, RowsAroundTiles(), width, heads);
  }
}

TEST(ExpressionDeterminism, EqualBitsForThreadsAndSubsets) {
  const TestGraph graph = LargeGraph(1500, 30000);
  const Operands operands(graph, 20, 2);
  const int64_t columns = operands.code->width;
  TestMatrix first(1500, columns, 0);
  ASSERT_TRUE(Launch(Fastest(), operands.Args(first.view())).ok());
  for (int threads = 1; threads <= 3; ++threads) {
    TestMatrix again(1500, columns, 5);
    ASSERT_TRUE(Launch(Fastest(), operands.Args(again.view()), threads).ok());
    ASSERT_EQ(first.Values(), again.Values());
  }
  // 700 holds the hub's row, 750.
  for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 1}, {700, 100}, {750, 1}, {749, 3}, {1449, 51}}) {
    TestMatrix part(count, columns, 6);
    ExpressionArgs args = operands.Args(part.view());
    args.adjacency.row_ptr += begin;
    args.adjacency.rows = args.problem.rows = count;
    args.problem.edges = args.adjacency.nnz = args.adjacency.row_ptr[count] - args.adjacency.row_ptr[0];
    args.targets[0].data += begin * args.targets[0].stride;
    ASSERT_TRUE(Launch(Fastest(), args, 2).ok());
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t c = 0; c < columns; ++c) ASSERT_EQ(part.at(i, c), first.at(begin + i, c)) << begin + i;
    }
  }
}

// Tiles of fewer edges than a piece of a row, of more, and of odd numbers, beyond the limits as well.
TEST(ExpressionDeterminism, EqualBitsForAllSchedules) {
  std::vector<TestGraph> graphs = Zoo();
  graphs.push_back(RowsAroundTiles());
  graphs.push_back(LargeGraph(300, 20000));
  for (const TestGraph& graph : graphs) {
    for (const auto& [width, heads] : {std::pair<int64_t, int64_t>{1, 1}, {4, 2}, {33, 3}, {80, 80}}) {
      SCOPED_TRACE(graph.name + " " + std::to_string(width));
      const Operands operands(graph, width, heads);
      TestMatrix expected(graph.targets, operands.code->width, 0);
      ASSERT_TRUE(Launch(Fastest(), operands.Args(expected.view())).ok());
      std::vector<KernelConfig> configs = Fastest().kernel().Candidates(operands.Args(expected.view()).problem);
      for (const int32_t tile : {1, 7, 13, 24, 47, 50, 100, 145, 5000}) configs.push_back({{tile, 0}});
      configs.push_back({{31, 16}});
      configs.push_back({{0, -1}});
      for (const KernelConfig& config : configs) {
        TestMatrix dst(graph.targets, operands.code->width, 5);
        ExpressionArgs args = operands.Args(dst.view());
        args.config = config;
        ASSERT_TRUE(Launch(Fastest(), args, 2).ok());
        ASSERT_EQ(dst.Values(), expected.Values()) << config.values[0] << ", " << config.values[1];
        ASSERT_EQ(Fastest().kernel().ReductionOrder(args.problem, config), 0);
      }
    }
  }
}

TEST(ExpressionNonFinite, NaNStaysWithTheRowsThatReadIt) {
  TestGraph graph{"ladder", 40, 40, {}};
  for (int32_t i = 1; i < 40; ++i) {
    for (const int32_t source : {i - 1, i, 0}) graph.edges.push_back({source, i, 1.0f});
  }
  Operands operands(graph, 10, 10);
  operands.src.view().row(20)[4] = std::numeric_limits<float>::quiet_NaN();
  for (const auto& kernel : Kernels()) {
    TestMatrix dst(40, operands.code->width, 0);
    ASSERT_TRUE(Launch(*kernel, operands.Args(dst.view())).ok());
    for (int64_t i = 0; i < 40; ++i) {
      for (int64_t at = 0; at < operands.code->width; ++at)
        ASSERT_EQ(std::isnan(dst.at(i, at)), (i == 20 || i == 21) && at % 10 == 4) << i << ", " << at;
    }
  }
}

// Scores of -infinity are how a message masks edges; here more of them than a tile has.
TEST(ExpressionNonFinite, MaskedEdgesCountNothing) {
  TestGraph graph{"masked", 1, 100, {}};
  for (int32_t source = 0; source < 100; ++source) graph.edges.push_back({source, 0, source < 67 ? 0.0f : 1.0f});
  EdgeProgram program;
  program.sources = 1;
  program.values = {ValueOf(EdgeOp::kSource, 3, -1, -1, 0), ValueOf(EdgeOp::kWeight, 1), ValueOf(EdgeOp::kLog, 1, 1)};
  program.results = {{EdgeReduce::kSoftmax, 0, 2}};
  const TestCsr csr = ToCsr(graph);
  const TestMatrix src(100, 3, 1);
  for (const auto& kernel : Kernels()) {
    TestMatrix dst(1, 3, 9);
    ExpressionArgs args;
    args.problem = {CompileEdgeProgram(program, 1), 1, 100, 100};
    args.adjacency = csr.View(true);
    args.sources[0] = src.view();
    args.parameters = std::make_shared<const std::vector<const void*>>();
    args.dst = dst.view();
    ASSERT_TRUE(Launch(*kernel, args).ok());
    for (int64_t c = 0; c < 3; ++c) {
      double mean = 0.0;
      for (int64_t source = 67; source < 100; ++source) mean += src.at(source, c) / 33.0;
      EXPECT_NEAR(dst.at(0, c), mean, 4e-6) << kernel->kernel().name() << ", column " << c;
    }
  }
}

// Edge by edge, the weighted sum of a million edges had lost three digits.
TEST(ExpressionSoftmax, AHubKeepsItsDigits) {
  constexpr int64_t kEdges = 1'000'000, kSources = 100, kWidth = 3;
  TestGraph graph{"hub", 1, kSources, {}};
  Random random(5);
  for (int64_t e = 0; e < kEdges; ++e)
    graph.edges.push_back({static_cast<int32_t>(random.Below(kSources)), 0, 0.1f * random.Float()});
  EdgeProgram program;
  program.sources = 1;
  program.values = {ValueOf(EdgeOp::kSource, kWidth, -1, -1, 0), ValueOf(EdgeOp::kNumber, 1),
                    ValueOf(EdgeOp::kAdd, kWidth, 0, 1), ValueOf(EdgeOp::kWeight, 1)};
  program.values[1].number = 1.5f;
  program.results = {{EdgeReduce::kSoftmax, 2, 3}};
  const TestCsr csr = ToCsr(graph);
  const TestMatrix src(kSources, kWidth, 1);
  TestMatrix dst(1, kWidth, 9);
  ExpressionArgs args;
  args.problem = {CompileEdgeProgram(program, 0), 1, kSources, kEdges};
  args.adjacency = csr.View(true);
  args.sources[0] = src.view();
  args.dst = dst.view();
  ASSERT_TRUE(Launch(Fastest(), args).ok());
  for (int64_t c = 0; c < kWidth; ++c) {
    double sum = 0.0, shares = 0.0;
    for (const Edge& edge : graph.edges) {
      const double share = std::exp(static_cast<double>(edge.weight));
      sum += share * (src.at(edge.source, c) + 1.5), shares += share;
    }
    EXPECT_NEAR(dst.at(0, c), sum / shares, 1e-5 * sum / shares) << "column " << c;
  }
}

TEST(Expression, NothingToDo) {
  for (const TestGraph& graph : {TestGraph{"empty", 0, 5, {}}, TestGraph{"no_edges", 3, 5, {}}}) {
    const Operands operands(graph, 4, 1);
    TestMatrix dst(graph.targets, operands.code->width, 1);
    ASSERT_TRUE(Launch(Fastest(), operands.Args(dst.view())).ok());
    for (const float x : dst.Values()) EXPECT_EQ(x, 0.0f);
  }
}

// A chain of values needs two registers of its width, however long it is.
TEST(EdgeCodeTest, RegistersAreReused) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {ValueOf(EdgeOp::kSource, 32, -1, -1, 0), ValueOf(EdgeOp::kTarget, 32, -1, -1, 0)};
  for (int32_t k = 0; k < 20; ++k) program.values.push_back(ValueOf(EdgeOp::kAdd, 32, k == 0 ? 0 : k + 1, 1));
  program.values.push_back(ValueOf(EdgeOp::kSource, 32, -1, -1, 0));  // which nothing reads
  program.results = {{EdgeReduce::kSum, 21, -1}};
  const auto code = CompileEdgeProgram(program, 0);
  EXPECT_EQ(code->register_floats, 64);
  EXPECT_EQ(code->instructions.size(), 20u);
  EXPECT_EQ(code->gathered, 32);
}

// An activation is part of the instruction before it, unless something else reads what that computes.
TEST(EdgeCodeTest, ActivationsJoinWhatTheyAreOf) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  EdgeValue act = ValueOf(EdgeOp::kActivation, 8, 2);
  act.activation = {ActivationKind::kRelu};
  program.values = {ValueOf(EdgeOp::kSource, 8, -1, -1, 0), ValueOf(EdgeOp::kTarget, 8, -1, -1, 0),
                    ValueOf(EdgeOp::kAdd, 8, 0, 1), act};
  program.results = {{EdgeReduce::kSum, 3, -1}};
  const auto joined = CompileEdgeProgram(program, 0);
  ASSERT_EQ(joined->instructions.size(), 1u);
  EXPECT_EQ(joined->instructions[0].activation.kind, ActivationKind::kRelu);
  program.results.push_back({EdgeReduce::kSum, 2, -1});
  EXPECT_EQ(CompileEdgeProgram(program, 0)->instructions.size(), 2u);
}

}  // namespace
}  // namespace vicinal::testing
