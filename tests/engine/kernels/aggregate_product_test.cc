// SPDX-License-Identifier: Apache-2.0
// Aggregations that are followed by a product (AggregateProblem::out_width): every kernel that takes them, against the
// oracle and against the same two operations one after the other.
#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/kernels/oracle.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

struct ProductCase {
  const TestGraph& graph;
  Reduce reduce;
  bool weighted;
  int64_t width, out_width;
};

// What a case works on. The sums get a bias and an activation, the product another.
struct ProductOperands {
  explicit ProductOperands(const ProductCase& c)
      : csr(ToCsr(c.graph)),
        src(c.graph.sources, c.width, 1),
        weight(c.out_width, c.width, 2),
        row_bias(RandomVector(c.width, 3)),
        bias(RandomVector(c.out_width, 4)) {
    args.problem.reduce = c.reduce;
    args.problem.weighted = c.weighted;
    args.problem.rows = c.graph.targets;
    args.problem.cols = c.graph.sources;
    args.problem.edges = static_cast<int64_t>(c.graph.edges.size());
    args.problem.width = c.width;
    args.problem.out_width = c.out_width;
    args.adjacency = csr.View(c.weighted);
    args.src = src.view();
    args.row_epilogue.bias = row_bias.data();
    args.row_epilogue.activation.kind = ActivationKind::kRelu;
    args.epilogue.bias = bias.data();
    args.epilogue.activation = {ActivationKind::kLeakyRelu, 0.1f};
  }

  Expected Expect(const ProductCase& c) const {
    Expected rows = OracleAggregate(c.graph, c.weighted, c.reduce, 0.0f, src);
    OracleEpilogue(&row_bias, nullptr, 0.0f, args.row_epilogue.activation, &rows);
    Expected product = OracleProduct(rows, weight);
    OracleEpilogue(&bias, nullptr, 0.0f, args.epilogue.activation, &product);
    return product;
  }

  TestCsr csr;
  TestMatrix src, weight;
  std::vector<float> row_bias, bias;
  AggregateArgs args;
};

template <class K>
std::vector<float> Packed(const K& kernel, const TestMatrix& weight) {
  std::vector<float> packed(kernel.PackedBytes(weight.rows(), weight.cols()) / sizeof(float));
  kernel.Pack(weight.view(), packed.data());
  return packed;
}

// The reference's sums, stored, and then the reference's product.
TestMatrix InTwoSteps(const ProductCase& c, const RegisteredKernel<AggregateKernel>& kernel,
                      const ProductOperands& operands) {
  TestMatrix rows(c.graph.targets, c.width, 5), dst(c.graph.targets, c.out_width, 6);
  AggregateArgs sums = operands.args;
  sums.problem.out_width = 0;
  sums.epilogue = sums.row_epilogue;
  sums.dst = rows.view();
  EXPECT_TRUE(Launch(kernel, sums).ok());
  const auto choice = TheMachine().registry.dense_update.Choose({}, DeviceKind::kCpu, kernel.kernel().name());
  const std::vector<float> packed = Packed(choice->kernel->kernel(), operands.weight);
  DenseUpdateArgs product;
  product.problem = {c.graph.targets, c.width, c.out_width};
  product.src = rows.view();
  product.weight = packed.data();
  product.dst = dst.view();
  product.epilogue = operands.args.epilogue;
  EXPECT_TRUE(Launch(*choice->kernel, product).ok());
  return dst;
}

TEST(AggregateProduct, EqualsTheOracleAndTheTwoStepsThatItStandsFor) {
  int multiplied = 0;
  for (const TestGraph& graph : Zoo()) {
    for (const Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin}) {
      for (const bool weighted : {false, true}) {
        const ProductCase c = {graph, reduce, weighted, 13, 7};
        ProductOperands operands(c);
        for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
          if (!kernel->kernel().WhyProductUnsupported(operands.args.problem).empty()) continue;
          TestMatrix dst(graph.targets, c.out_width, 7);
          const std::vector<float> packed = Packed(kernel->kernel(), operands.weight);
          operands.args.weight = packed.data();
          operands.args.dst = dst.view();
          ASSERT_TRUE(Launch(*kernel, operands.args).ok());
          ++multiplied;
          EXPECT_EQ(Differs(operands.Expect(c), dst, operands.args.problem.edges + c.width), "") << graph.name;
          EXPECT_TRUE(dst.GapsUntouched());
          const TestMatrix apart = InTwoSteps(c, *kernel, operands);
          for (int64_t i = 0; i < graph.targets; ++i) {
            for (int64_t h = 0; h < c.out_width; ++h) EXPECT_EQ(dst.at(i, h), apart.at(i, h)) << graph.name;
          }
        }
      }
    }
  }
  EXPECT_GT(multiplied, 0) << "the reference does";
}

TEST(AggregateProduct, WhoDoesNotMultiplySaysSo) {
  AggregateProblem problem;
  problem.width = problem.out_width = 4;
  for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
    if (kernel->kernel().name() == "reference") continue;
    EXPECT_EQ(kernel->kernel().WhyProductUnsupported(problem), "it does not multiply what it sums up");
    EXPECT_EQ(kernel->kernel().PackedBytes(4, 4), 0u);
  }
}

}  // namespace
}  // namespace vicinal::testing
