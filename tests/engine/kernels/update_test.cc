// SPDX-License-Identifier: Apache-2.0
// Conformance of the products with weights: dense, sparse, and sparse with aggregation before it.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/engine/kernels/oracle.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

// Bias, residual and activation for a product of `width` columns; every other case is plain.
struct Fused {
  Fused(int64_t rows, int64_t width, int number) : residual(rows, width, 8), bias(width) {
    Random r(9);
    for (float& b : bias) b = r.Float();
    constexpr ActivationKind kKinds[] = {ActivationKind::kNone,      ActivationKind::kRelu,    ActivationKind::kElu,
                                         ActivationKind::kLeakyRelu, ActivationKind::kSigmoid, ActivationKind::kTanh};
    activation = {kKinds[number % 6], 0.3f};
    with_bias = number % 2 == 1;
    with_residual = number % 4 >= 2;
  }
  Epilogue View() const {
    Epilogue epilogue;
    if (with_bias) epilogue.bias = bias.data();
    if (with_residual) epilogue.residual = residual.view();
    epilogue.residual_scale = -0.75f;
    epilogue.activation = activation;
    return epilogue;
  }
  void Apply(Expected* expected) const {
    OracleEpilogue(with_bias ? &bias : nullptr, with_residual ? &residual : nullptr, -0.75f, activation, expected);
  }

  TestMatrix residual;
  std::vector<float> bias;
  Activation activation;
  bool with_bias, with_residual;
};

DenseUpdateArgs DenseArgs(const TestMatrix& src, const Buffer& packed, int64_t out_width, TestMatrix* dst) {
  DenseUpdateArgs args;
  args.problem = {src.rows(), src.cols(), out_width};
  args.src = src.view();
  args.weight = packed.data();
  args.dst = dst->view();
  return args;
}

TEST(DenseUpdateConformance, EveryKernelEveryShape) {
  int number = 0;
  for (const auto& kernel : TheMachine().registry.dense_update.kernels()) {
    for (const int64_t rows : {0, 1, 2, 5, 13, 49, 101}) {
      for (const int64_t in : {0, 1, 3, 16, 255, 256, 257, 700}) {
        for (const int64_t out : {1, 3, 7, 16, 17, 33, 41, 48, 64, 65, 130}) {
          SCOPED_TRACE(::testing::Message() << kernel->kernel().name() << " " << rows << "x" << in << "x" << out);
          const TestMatrix src(rows, in, 1), weight(out, in, 2);
          const Fused fused(rows, out, number++);
          const Buffer packed = Packed(kernel->kernel(), weight.view());
          TestMatrix dst(rows, out, 3);
          DenseUpdateArgs args = DenseArgs(src, packed, out, &dst);
          args.epilogue = fused.View();
          ASSERT_EQ(kernel->kernel().WhyUnsupported(args.problem), "");
          ASSERT_TRUE(Launch(*kernel, args).ok());
          Expected expected = OracleProduct(Exactly(src), weight);
          fused.Apply(&expected);
          ASSERT_EQ(Differs(expected, dst, 0), "");
          ASSERT_TRUE(dst.GapsUntouched());
        }
      }
    }
  }
}

// Sums over 5000 inputs, all positive: the worst case for a chain of float additions.
TEST(DenseUpdateConformance, LongSumsKeepFloatAccuracy) {
  TestMatrix src(9, 5000, 1), weight(20, 5000, 2);
  for (TestMatrix* m : {&src, &weight}) {
    for (int64_t i = 0; i < m->rows(); ++i) {
      for (int64_t c = 0; c < 5000; ++c) m->view().row(i)[c] = std::abs(m->at(i, c));
    }
  }
  Expected expected = OracleProduct(Exactly(src), weight);
  for (const auto& kernel : TheMachine().registry.dense_update.kernels()) {
    const Buffer packed = Packed(kernel->kernel(), weight.view());
    TestMatrix dst(9, 20, 3);
    ASSERT_TRUE(Launch(*kernel, DenseArgs(src, packed, 20, &dst)).ok());
    double errors = 0, norm = 0;
    for (int64_t i = 0; i < 9; ++i) {
      for (int64_t h = 0; h < 20; ++h) {
        errors += (dst.at(i, h) - expected.v(i, h)) * (dst.at(i, h) - expected.v(i, h));
        norm += expected.v(i, h) * expected.v(i, h);
      }
    }
    EXPECT_LT(std::sqrt(errors / norm), 1e-6) << kernel->kernel().name();
  }
}

TEST(DenseUpdateDeterminism, ARowAloneHasTheBitsOfTheBatch) {
  const int64_t rows = 1500, in = 300;
  for (const int64_t out : {7, 16, 40, 64, 100}) {
    const TestMatrix src(rows, in, 1), weight(out, in, 2);
    for (const auto& kernel : TheMachine().registry.dense_update.kernels()) {
      const Buffer packed = Packed(kernel->kernel(), weight.view());
      TestMatrix one(rows, out, 3), two = one, three = one, row(1, out, 4);
      ASSERT_TRUE(Launch(*kernel, DenseArgs(src, packed, out, &one), 1).ok());
      ASSERT_TRUE(Launch(*kernel, DenseArgs(src, packed, out, &two), 2).ok());
      ASSERT_TRUE(Launch(*kernel, DenseArgs(src, packed, out, &three), 3).ok());
      EXPECT_EQ(one.Values(), two.Values());
      EXPECT_EQ(one.Values(), three.Values());
      for (int64_t i = 0; i < rows; i += 37) {
        DenseUpdateArgs args = DenseArgs(src, packed, out, &row);
        args.problem.rows = args.src.rows = 1;
        args.src.data = src.view().row(i);
        ASSERT_TRUE(Launch(*kernel, args).ok());
        for (int64_t h = 0; h < out; ++h)
          ASSERT_EQ(row.at(0, h), one.at(i, h)) << kernel->kernel().name() << " row " << i;
      }
    }
  }
}

TEST(SparseUpdateConformance, EveryKernelEveryShape) {
  int number = 0;
  for (const auto& kernel : TheMachine().registry.sparse_update.kernels()) {
    for (const int64_t rows : {0, 1, 40}) {
      for (const int64_t in : {1, 60, 1433}) {
        for (const int64_t out : {1, 3, 7, 16, 33, 64, 200, 602}) {
          for (const bool weighted : {false, true}) {
            SCOPED_TRACE(::testing::Message()
                         << kernel->kernel().name() << " " << rows << "x" << in << "x" << out << " " << weighted);
            const TestCsr src = RandomSparse(rows, in, 20, 1);
            const TestMatrix weight(out, in, 2);
            const Fused fused(rows, out, number++);
            const Buffer packed = Packed(kernel->kernel(), weight.view());
            TestMatrix dst(rows, out, 3);
            SparseUpdateArgs args;
            args.problem = {rows, in, out, static_cast<int64_t>(src.col.size())};
            args.src = src.View(weighted);
            args.weight = packed.data();
            args.dst = dst.view();
            args.epilogue = fused.View();
            ASSERT_EQ(kernel->kernel().WhyUnsupported(args.problem), "");
            ASSERT_TRUE(Launch(*kernel, args).ok());
            Expected expected = OracleProduct(OracleDense(src, weighted), weight);
            fused.Apply(&expected);
            ASSERT_EQ(Differs(expected, dst, 60), "");
            ASSERT_TRUE(dst.GapsUntouched());
          }
        }
      }
    }
  }
}

TEST(SparseUpdateDeterminism, EqualBitsForThreads) {
  const TestCsr src = RandomSparse(3000, 500, 40, 1);
  const TestMatrix weight(48, 500, 2);
  for (const auto& kernel : TheMachine().registry.sparse_update.kernels()) {
    const Buffer packed = Packed(kernel->kernel(), weight.view());
    TestMatrix one(3000, 48, 3), two = one;
    int threads = 1;
    for (TestMatrix* dst : {&one, &two}) {
      SparseUpdateArgs args;
      args.problem = {3000, 500, 48, static_cast<int64_t>(src.col.size())};
      args.src = src.View(true);
      args.weight = packed.data();
      args.dst = dst->view();
      ASSERT_TRUE(Launch(*kernel, args, threads++).ok());
    }
    EXPECT_EQ(one.Values(), two.Values());
  }
}

void CheckAggregateUpdate(const RegisteredKernel<SparseAggregateUpdateKernel>& kernel, const TestGraph& graph,
                          Reduce reduce, bool weighted, float self_scale, int64_t out, int number) {
  SCOPED_TRACE(::testing::Message() << kernel.kernel().name() << " " << graph.name << " " << ToString(reduce) << " "
                                    << weighted << " self " << self_scale << " out " << out);
  const int64_t in = 50;
  const TestCsr csr = ToCsr(graph), src = RandomSparse(graph.sources, in, 10, 1);
  const TestMatrix weight(out, in, 2);
  const Fused fused(graph.targets, out, number);
  const Buffer packed = Packed(kernel.kernel(), weight.view());
  TestMatrix dst(graph.targets, out, 3);
  SparseAggregateUpdateArgs args;
  args.problem = {reduce,
                  weighted,
                  graph.targets,
                  static_cast<int64_t>(graph.edges.size()),
                  in,
                  out,
                  static_cast<int64_t>(src.col.size())};
  args.adjacency = csr.View(weighted);
  args.src = src.View(true);
  args.self_scale = self_scale;
  args.weight = packed.data();
  args.dst = dst.view();
  args.epilogue = fused.View();
  if (!kernel.kernel().WhyUnsupported(args.problem).empty()) {
    EXPECT_EQ(reduce, Reduce::kMin) << "only minima may be refused";
    return;
  }
  ASSERT_TRUE(Launch(kernel, args).ok());
  Expected expected =
      OracleProduct(OracleAggregateRows(graph, weighted, reduce, self_scale, OracleDense(src, true)), weight);
  fused.Apply(&expected);
  ASSERT_EQ(Differs(expected, dst, static_cast<int64_t>(graph.edges.size())), "");
  ASSERT_TRUE(dst.GapsUntouched());
}

TEST(SparseAggregateUpdateConformance, EveryKernelOverTheZoo) {
  int number = 0;
  for (const auto& kernel : TheMachine().registry.sparse_aggregate_update.kernels()) {
    for (const TestGraph& graph : Zoo()) {
      for (const Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin}) {
        for (const bool weighted : {false, true}) {
          for (const int64_t out : {1, 7, 33, 64}) {
            CheckAggregateUpdate(*kernel, graph, reduce, weighted, 0.0f, out, number++);
            if (graph.targets == graph.sources)
              CheckAggregateUpdate(*kernel, graph, reduce, weighted, 1.25f, out, number++);
          }
        }
      }
    }
  }
}

// Feature 1 of source 0 is NaN; of the two targets that read it one has more neighbours that have it, too.
TEST(SparseAggregateUpdateNonFinite, NanIsNotLostToAMaximum) {
  const TestGraph graph{"three", 3, 3, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {0, 1, 1}, {1, 2, 1}, {2, 2, 1}}};
  const TestCsr csr = ToCsr(graph);
  TestCsr src;
  src.rows = 3, src.cols = 2;
  src.row_ptr = {0, 2, 4, 5};
  src.col = {0, 1, 0, 1, 1};
  src.value = {1, std::nanf(""), 2, 3, 4};
  TestMatrix weight(1, 2, 2), dst(3, 1, 3);
  for (const auto& kernel : TheMachine().registry.sparse_aggregate_update.kernels()) {
    const Buffer packed = Packed(kernel->kernel(), weight.view());
    SparseAggregateUpdateArgs args;
    args.problem = {Reduce::kMax, false, 3, 6, 2, 1, 5};
    args.adjacency = csr.View(false);
    args.src = src.View(true);
    args.weight = packed.data();
    args.dst = dst.view();
    ASSERT_TRUE(Launch(*kernel, args).ok());
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(std::isnan(dst.at(i, 0)), i < 2) << kernel->kernel().name() << " " << i;
  }
}

TEST(SparseAggregateUpdateDeterminism, EqualBitsForThreads) {
  const TestGraph graph = LargeGraph(2000, 20000);
  const TestCsr csr = ToCsr(graph), src = RandomSparse(2000, 100, 8, 1);
  const TestMatrix weight(16, 100, 2);
  const RegisteredKernel<SparseAggregateUpdateKernel>& kernel =
      *TheMachine().registry.sparse_aggregate_update.kernels()[0];
  const Buffer packed = Packed(kernel.kernel(), weight.view());
  for (const Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax}) {
    TestMatrix one(2000, 16, 3), two = one, three = one;
    int threads = 1;
    for (TestMatrix* dst : {&one, &two, &three}) {
      SparseAggregateUpdateArgs args;
      args.problem = {reduce, true, 2000, 20000, 100, 16, static_cast<int64_t>(src.col.size())};
      args.adjacency = csr.View(true);
      args.src = src.View(true);
      args.weight = packed.data();
      args.dst = dst->view();
      ASSERT_TRUE(Launch(kernel, args, threads++).ok());
    }
    EXPECT_EQ(one.Values(), two.Values());
    EXPECT_EQ(one.Values(), three.Values());
  }
}

}  // namespace
}  // namespace vicinal::testing
