// SPDX-License-Identifier: Apache-2.0
// Conformance of edge scores: dot products of heads and element-wise messages over the zoo against the oracle; equal
// bits whatever the order of visits, the number of threads and the rows asked for; columns in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "engine/kernels/cpu/hilbert.h"
#include "tests/engine/kernels/message_oracle.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

// The same graph with its edges in the order of its CSR form, so that row e of a result is edge e of the list.
TestGraph InOrder(TestGraph graph) {
  std::stable_sort(graph.edges.begin(), graph.edges.end(), [](const Edge& a, const Edge& b) {
    return a.target != b.target ? a.target < b.target : a.source < b.source;
  });
  return graph;
}

struct Case {
  bool dot;
  Message message;
  int64_t width;
  int64_t heads;
};

EdgeScoresArgs ArgsOf(const Case& c, const TestCsr& csr, const TestMatrix& src, const TestMatrix& target,
                      MatrixView dst) {
  EdgeScoresArgs args;
  args.problem = {c.dot, c.message, csr.rows, csr.cols, static_cast<int64_t>(csr.col.size()), c.width, c.heads};
  args.adjacency = csr.View(false);
  args.src = src.view();
  if (c.dot || c.message != Message::kSource) args.target = target.view();
  args.dst = dst;
  return args;
}

void Check(const RegisteredKernel<EdgeScoresKernel>& kernel, const TestGraph& graph, const TestCsr& csr,
           const Case& c) {
  SCOPED_TRACE(::testing::Message() << kernel.kernel().name() << " " << graph.name << (c.dot ? " dot " : " message ")
                                    << static_cast<int>(c.message) << " " << c.heads << " heads, width " << c.width);
  const TestMatrix src(graph.sources, c.width, 1), target(graph.targets, c.width, 2);
  TestMatrix dst(static_cast<int64_t>(graph.edges.size()), c.dot ? c.heads : c.width, 3);
  EdgeScoresArgs args = ArgsOf(c, csr, src, target, dst.view());
  ASSERT_EQ(kernel.kernel().WhyUnsupported(args.problem), "");
  const Expected expected =
      c.dot ? OracleDots(graph, c.heads, src, target) : OracleMessages(graph, {c.message, false, {}, {}}, src, target);
  for (const KernelConfig& config : kernel.kernel().Candidates(args.problem)) {
    dst.Fill(-7);
    args.config = config;
    ASSERT_TRUE(Launch(kernel, args, 2).ok());
    EXPECT_EQ(Differs(expected, dst, c.width), "");
    EXPECT_TRUE(dst.GapsUntouched());
  }
}

constexpr Case kCases[] = {
    {true, Message::kMultiply, 1, 1},   {true, Message::kMultiply, 16, 1},   {true, Message::kMultiply, 64, 8},
    {true, Message::kMultiply, 35, 5},  {true, Message::kMultiply, 200, 1},  {true, Message::kMultiply, 57, 19},
    {true, Message::kMultiply, 320, 4}, {true, Message::kMultiply, 600, 1},  {false, Message::kSource, 20, 1},
    {false, Message::kAdd, 1, 1},       {false, Message::kSubtract, 130, 1}, {false, Message::kMultiply, 64, 1},
    {false, Message::kAdd, 300, 1}};

void ForEachKernel(const std::function<void(const RegisteredKernel<EdgeScoresKernel>&)>& f) {
  for (const auto& kernel : TheMachine().registry.edge_scores.kernels()) f(*kernel);
}

// Every cell of the square once, and a step to a neighbour each time.
TEST(Hilbert, VisitsEveryCellByNeighbours) {
  for (int order = 0; order <= 6; ++order) {
    const int64_t side = int64_t{1} << order;
    std::vector<int> visits(side * side, 0);
    internal::HilbertCell last;
    for (int64_t index = 0; index < side * side; ++index) {
      const internal::HilbertCell cell = internal::HilbertCellAt(order, index);
      ASSERT_TRUE(cell.row >= 0 && cell.row < side && cell.col >= 0 && cell.col < side);
      EXPECT_EQ(visits[cell.row * side + cell.col]++, 0);
      if (index > 0) {
        EXPECT_EQ(std::abs(cell.row - last.row) + std::abs(cell.col - last.col), 1);
      }
      last = cell;
    }
  }
}

// Orders of the curve beyond what the candidates of small graphs are, more cells than rows included.
TEST(EdgeScoresConformance, AlongTheCurve) {
  for (const TestGraph& unordered : {LargeGraph(1500, 20000), Zoo().back(), LargeGraph(3, 40)}) {
    const TestGraph graph = InOrder(unordered);
    const TestCsr csr = ToCsr(graph);
    const TestMatrix src(graph.sources, 24, 1), target(graph.targets, 24, 2);
    TestMatrix by_rows(static_cast<int64_t>(graph.edges.size()), 3, 3), dst = by_rows;
    ForEachKernel([&](const auto& kernel) {
      ASSERT_TRUE(Launch(kernel, ArgsOf({true, Message::kMultiply, 24, 3}, csr, src, target, by_rows.view())).ok());
      for (const int32_t order : {1, 2, 3, 5, 30}) {
        EdgeScoresArgs args = ArgsOf({true, Message::kMultiply, 24, 3}, csr, src, target, dst.view());
        args.config.values[0] = order;
        for (int threads = 1; threads <= 3; ++threads) {
          dst.Fill(-7);
          ASSERT_TRUE(Launch(kernel, args, threads).ok());
          ASSERT_EQ(by_rows.Values(), dst.Values());
        }
      }
    });
  }
}

TEST(EdgeScores, RefusesHeadsThatDoNotDivideTheWidth) {
  EdgeScoresProblem problem;
  problem.width = 10;
  problem.heads = 3;
  EXPECT_NE(TheMachine().registry.edge_scores.kernels().front()->kernel().WhyUnsupported(problem), "");
}

TEST(EdgeScoresConformance, EveryKernelOverTheZoo) {
  for (const TestGraph& unordered : Zoo()) {
    const TestGraph graph = InOrder(unordered);
    const TestCsr csr = ToCsr(graph);
    ForEachKernel([&](const auto& kernel) {
      for (const Case& c : kCases) Check(kernel, graph, csr, c);
    });
  }
}

TEST(EdgeScoresConformance, LargeGraph) {
  const TestGraph graph = InOrder(LargeGraph(2000, 30000));
  const TestCsr csr = ToCsr(graph);
  ForEachKernel([&](const auto& kernel) {
    Check(kernel, graph, csr, {true, Message::kMultiply, 48, 3});
    Check(kernel, graph, csr, {false, Message::kSubtract, 20, 1});
  });
}

// Receptive fields: columns do not ascend within a row.
TEST(EdgeScoresConformance, ColumnsInAnyOrder) {
  TestGraph graph = InOrder(LargeGraph(500, 9000));
  TestCsr csr = ToCsr(graph);
  for (int64_t i = 0; i < csr.rows; ++i) {
    std::reverse(csr.col.begin() + csr.row_ptr[i], csr.col.begin() + csr.row_ptr[i + 1]);
    std::reverse(graph.edges.begin() + csr.row_ptr[i], graph.edges.begin() + csr.row_ptr[i + 1]);
  }
  ForEachKernel([&](const auto& kernel) {
    Check(kernel, graph, csr, {true, Message::kMultiply, 48, 3});
    Check(kernel, graph, csr, {false, Message::kAdd, 20, 1});
  });
}

TEST(EdgeScoresDeterminism, EqualBitsForThreadsConfigurationsAndSubsets) {
  const TestCsr csr = ToCsr(LargeGraph(2000, 40000));
  const int64_t edges = static_cast<int64_t>(csr.col.size());
  ForEachKernel([&](const auto& kernel) {
    for (const Case& c : {Case{true, Message::kMultiply, 60, 5}, Case{false, Message::kAdd, 21, 1}}) {
      const TestMatrix src(csr.cols, c.width, 1), target(csr.rows, c.width, 2);
      TestMatrix first(edges, c.dot ? c.heads : c.width, 3);
      const EdgeScoresArgs whole = ArgsOf(c, csr, src, target, first.view());
      ASSERT_TRUE(Launch(kernel, whole).ok());
      for (const KernelConfig& config : kernel.kernel().Candidates(whole.problem)) {
        for (int threads = 1; threads <= 3; ++threads) {
          TestMatrix again(edges, first.cols(), 4);
          EdgeScoresArgs args = whole;
          args.config = config;
          args.dst = again.view();
          ASSERT_TRUE(Launch(kernel, args, threads).ok());
          ASSERT_EQ(first.Values(), again.Values());
        }
        EdgeScoresArgs args = whole;
        args.config = config;
        args.adjacency.row_ptr += 950;
        args.adjacency.rows = args.problem.rows = 100;
        args.target.data += 950 * args.target.stride;
        args.problem.edges = args.adjacency.nnz = csr.row_ptr[1050] - csr.row_ptr[950];
        TestMatrix part(args.problem.edges, first.cols(), 5);
        args.dst = part.view();
        ASSERT_TRUE(Launch(kernel, args, 2).ok());
        for (int64_t e = 0; e < part.rows(); ++e) {
          for (int64_t k = 0; k < part.cols(); ++k) ASSERT_EQ(part.at(e, k), first.at(csr.row_ptr[950] + e, k));
        }
      }
    }
  });
}

TEST(EdgeScoresNonFinite, StaysWithTheEdgesThatMadeIt) {
  const TestCsr csr = ToCsr(LargeGraph(100, 1000));
  ForEachKernel([&](const auto& kernel) {
    TestMatrix src(100, 10, 1), dst(1000, 2, 3);
    const TestMatrix target(100, 10, 2);
    src.view().row(33)[4] = HUGE_VALF;
    ASSERT_TRUE(Launch(kernel, ArgsOf({true, Message::kMultiply, 10, 2}, csr, src, target, dst.view())).ok());
    for (int64_t e = 0; e < 1000; ++e) {
      EXPECT_EQ(std::isfinite(dst.at(e, 0)), csr.col[e] != 33);
      EXPECT_TRUE(std::isfinite(dst.at(e, 1)));
    }
  });
}

}  // namespace
}  // namespace vicinal::testing
