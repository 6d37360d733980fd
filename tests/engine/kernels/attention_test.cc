// SPDX-License-Identifier: Apache-2.0
// Conformance of attention: all kinds, concatenated and averaged heads, many shapes, against the oracle; hubs longer
// than any chunk; scores that would overflow a naive softmax; equal bits for threads and subsets.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/engine/kernels/oracle.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

struct Shape {
  int64_t heads;
  int64_t width;
};
constexpr AttentionKind kKinds[] = {AttentionKind::kGat, AttentionKind::kGatV2, AttentionKind::kDot};
constexpr Shape kShapes[] = {{1, 1}, {1, 7}, {1, 16}, {1, 41}, {1, 200}, {2, 3},  {3, 5},   {4, 8},
                             {8, 8}, {8, 7}, {8, 16}, {4, 33}, {16, 4},  {19, 3}, {33, 17}, {6, 200}};

// Operands of one problem; `spread` scales the scores.
struct Operands {
  Operands(const TestGraph& graph, Shape s, float spread)
      : csr(ToCsr(graph)),
        value(graph.sources, s.heads * s.width, 1),
        score_src(graph.sources, s.heads, 2),
        score_dst(graph.targets, s.heads, 3),
        query(graph.targets, s.heads * s.width, 4),
        key(graph.sources, s.heads * s.width, 6),
        bias(s.heads * s.width),
        att(s.heads * s.width) {
    Random r(5);
    for (float& b : bias) b = r.Float();
    for (float& a : att) a = spread * r.Float();
    for (int64_t j = 0; j < graph.sources; ++j) {
      for (int64_t k = 0; k < s.heads; ++k) score_src.view().row(j)[k] *= spread;
      for (int64_t c = 0; c < s.heads * s.width; ++c) key.view().row(j)[c] *= spread;
    }
  }

  AttentionArgs Args(const TestGraph& graph, AttentionKind kind, Shape s, bool concat, MatrixView dst) const {
    AttentionArgs args;
    args.problem = {kind,    graph.targets, graph.sources, static_cast<int64_t>(graph.edges.size()),
                    s.heads, s.width,       concat};
    args.adjacency = csr.View(false);
    args.value = value.view();
    if (kind == AttentionKind::kGat) {
      args.score_src = score_src.view();
      args.score_dst = score_dst.view();
    } else if (kind == AttentionKind::kGatV2) {
      args.query = query.view();
      args.att = att.data();
    } else {
      args.query = query.view();
      args.key = key.view();
      args.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.width)));
    }
    args.dst = dst;
    return args;
  }

  TestCsr csr;
  TestMatrix value, score_src, score_dst, query, key;
  std::vector<float> bias, att;
};

void Check(const RegisteredKernel<AttentionKernel>& kernel, const TestGraph& graph, AttentionKind kind, Shape s,
           bool concat, float spread) {
  SCOPED_TRACE(::testing::Message() << kernel.kernel().name() << " " << graph.name << " " << ToString(kind) << " "
                                    << s.heads << " heads of " << s.width << (concat ? " concat" : " mean")
                                    << " spread " << spread);
  const Operands operands(graph, s, spread);
  TestMatrix dst(graph.targets, concat ? s.heads * s.width : s.width, 9);
  const TestMatrix before = dst;
  AttentionArgs args = operands.Args(graph, kind, s, concat, dst.view());
  args.epilogue.bias = operands.bias.data();
  args.epilogue.residual = dst.view();
  args.epilogue.residual_scale = 0.25f;
  args.epilogue.activation = {ActivationKind::kElu, 1.0f};
  ASSERT_EQ(kernel.kernel().WhyUnsupported(args.problem), "");
  ASSERT_TRUE(Launch(kernel, args).ok());
  Expected expected = OracleAttention(graph, args, operands.value, operands.score_src, operands.score_dst,
                                      operands.query, operands.att);
  OracleEpilogue(&operands.bias, &before, 0.25f, args.epilogue.activation, &expected);
  EXPECT_EQ(Differs(expected, dst, static_cast<int64_t>(graph.edges.size())), "");
  EXPECT_TRUE(dst.GapsUntouched());
}

TEST(AttentionConformance, EveryKernelOverTheZoo) {
  for (const auto& kernel : TheMachine().registry.attention.kernels()) {
    for (const TestGraph& graph : Zoo()) {
      for (const Shape shape : kShapes) {
        for (const AttentionKind kind : kKinds) {
          // The reference computes wide scores anew for every column: minutes under a sanitizer.
          const bool wide = kind != AttentionKind::kGat && shape.heads * shape.width > 200;
          if (wide && kernel->kernel().name() == "reference") continue;
          for (const bool concat : {true, false}) Check(*kernel, graph, kind, shape, concat, 1.0f);
        }
      }
    }
  }
}

// Scores of several hundred: exp of them is not a float32.
TEST(AttentionConformance, LargeScores) {
  for (const auto& kernel : TheMachine().registry.attention.kernels()) {
    for (const TestGraph& graph : Zoo()) {
      for (const AttentionKind kind : kKinds) Check(*kernel, graph, kind, {8, 8}, true, 300.0f);
    }
  }
}

TEST(AttentionConformance, LargeGraph) {
  const TestGraph graph = LargeGraph(1000, 12000);
  for (const auto& kernel : TheMachine().registry.attention.kernels()) {
    Check(*kernel, graph, AttentionKind::kGat, {2, 5}, true, 3.0f);
    Check(*kernel, graph, AttentionKind::kGatV2, {2, 5}, false, 3.0f);
    Check(*kernel, graph, AttentionKind::kDot, {2, 5}, false, 3.0f);
  }
}

TEST(AttentionDeterminism, EqualBitsForThreadsRepeatsAndSubsets) {
  const TestGraph graph = LargeGraph(3000, 60000);
  const Shape shape{4, 8};
  const Operands operands(graph, shape, 2.0f);
  for (const auto& kernel : TheMachine().registry.attention.kernels()) {
    for (const AttentionKind kind : kKinds) {
      if (kernel->kernel().name() == "reference" && kind != AttentionKind::kGat) continue;  // one thread, and slow
      TestMatrix one(graph.targets, 32, 0), two = one, three = one, part(100, 32, 0);
      int threads = 1;
      for (TestMatrix* dst : {&one, &two, &three}) {
        ASSERT_TRUE(Launch(*kernel, operands.Args(graph, kind, shape, true, dst->view()), threads++).ok());
      }
      EXPECT_EQ(one.Values(), two.Values());
      EXPECT_EQ(one.Values(), three.Values());
      AttentionArgs args = operands.Args(graph, kind, shape, true, part.view());
      args.adjacency.row_ptr += 1450;
      args.adjacency.rows = args.problem.rows = 100;
      (kind == AttentionKind::kGat ? args.score_dst.data : args.query.data) +=
          1450 * (kind == AttentionKind::kGat ? args.score_dst.stride : args.query.stride);
      ASSERT_TRUE(Launch(*kernel, args, 2).ok());
      for (int64_t i = 0; i < 100; ++i) {
        for (int64_t c = 0; c < 32; ++c) ASSERT_EQ(part.at(i, c), one.at(1450 + i, c));
      }
    }
  }
}

// Scores of -inf: the first 200 of 300 edges into node 0 have one in head 0, and so have all edges into node 1. The
// former have a share of 0, as if they were not there; the latter have no softmax, in PyTorch Geometric neither.
class MinusInfinity : public ::testing::TestWithParam<AttentionKind> {
 protected:
  static constexpr int32_t kSources = 300, kWithout = 200;
  static constexpr Shape kShape = {2, 5};

  static TestGraph Into(int32_t target, int32_t first, int32_t last) {
    TestGraph graph{"hub", 2, kSources, {}};
    for (int32_t j = first; j < last; ++j) graph.edges.push_back({j, target, 1.0f});
    return graph;
  }

  // Sources whose score in head 0 is below what a float32 holds, of both targets.
  static void Sink(Operands* operands) {
    for (int64_t j = 0; j < kWithout; ++j) {
      operands->score_src.view().row(j)[0] = -HUGE_VALF;
      for (int64_t c = 0; c < kShape.width; ++c) {
        operands->key.view().row(j)[c] = operands->query.at(0, c) > 0 ? -HUGE_VALF : HUGE_VALF;
        if (GetParam() == AttentionKind::kGatV2) {
          operands->value.view().row(j)[c] = operands->att[c] > 0 ? -3e38f : 3e38f;
        }
      }
    }
  }
};

TEST_P(MinusInfinity, IsAShareOfZeroUnlessThereIsNoOther) {
  const TestGraph all = Into(0, 0, kSources), rest = Into(0, kWithout, kSources), none = Into(1, 0, kWithout);
  for (const auto& kernel : TheMachine().registry.attention.kernels()) {
    SCOPED_TRACE(std::string(kernel->kernel().name()));
    Operands operands(all, kShape, 100.0f);
    // So that a product with any of them leaves the range.
    for (float& a : operands.att) a = a > 0 ? 50.0f : -50.0f;
    Sink(&operands);
    for (int64_t c = 0; c < kShape.width; ++c) operands.query.view().row(1)[c] = operands.query.at(0, c);
    TestMatrix got(2, kShape.heads * kShape.width, 0);
    ASSERT_TRUE(Launch(*kernel, operands.Args(all, GetParam(), kShape, true, got.view())).ok());

    const auto expect_head = [&](const TestGraph& graph, int64_t head) {
      const AttentionArgs args = operands.Args(graph, GetParam(), kShape, true, got.view());
      const Expected expected = OracleAttention(graph, args, operands.value, operands.score_src, operands.score_dst,
                                                operands.query, operands.att);
      for (int64_t c = head * kShape.width; c < (head + 1) * kShape.width; ++c) {
        EXPECT_NEAR(got.at(0, c), expected.value[c], 1e-5 * expected.magnitude[c]) << "head " << head;
      }
    };
    expect_head(rest, 0);
    expect_head(all, 1);

    // GATv2's values are in range, and so are its scores in double precision.
    if (GetParam() == AttentionKind::kGatV2) continue;
    const TestCsr csr = ToCsr(none);
    AttentionArgs args = operands.Args(none, GetParam(), kShape, true, got.view());
    args.adjacency = csr.View(false);
    ASSERT_TRUE(Launch(*kernel, args).ok());
    for (int64_t c = 0; c < kShape.width; ++c) EXPECT_TRUE(std::isnan(got.at(1, c)));
    for (int64_t c = kShape.width; c < 2 * kShape.width; ++c) EXPECT_TRUE(std::isfinite(got.at(1, c)));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MinusInfinity, ::testing::ValuesIn(kKinds));

TEST(AttentionNonFinite, StaysWithTheRowsThatMadeIt) {
  TestGraph graph{"path", 20, 20, {}};
  for (int32_t i = 1; i < 20; ++i) graph.edges.push_back({i - 1, i, 1.0f});
  for (const auto& kernel : TheMachine().registry.attention.kernels()) {
    for (const AttentionKind kind : kKinds) {
      Operands operands(graph, {3, 5}, 1.0f);
      operands.value.view().row(7)[14] = HUGE_VALF;
      TestMatrix dst(20, 15, 0);
      ASSERT_TRUE(Launch(*kernel, operands.Args(graph, kind, {3, 5}, true, dst.view())).ok());
      EXPECT_FALSE(std::isfinite(dst.at(8, 14)));
      for (int64_t i = 0; i < 20; ++i) {
        for (int64_t c = 0; c < 15; ++c) {
          if (i != 8) {
            EXPECT_TRUE(std::isfinite(dst.at(i, c)));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace vicinal::testing
