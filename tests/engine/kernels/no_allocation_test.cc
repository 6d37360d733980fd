// SPDX-License-Identifier: Apache-2.0
// Kernels do not allocate when they run: operator new is counted while each vectorised kernel works with two threads.
#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/counting_new.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

// Allocations while `kernel` runs once more, after a first run that may warm things.
template <class K>
int64_t AllocationsOf(const RegisteredKernel<K>& kernel, const typename K::Args& args) {
  Buffer scratch = RubbishScratch(kernel.kernel().ScratchBytes(args.problem, args.config, 2));
  EXPECT_TRUE(kernel.Launch(*TheMachine().contexts[1], args, scratch.data()).ok());
  const int64_t before = allocations.load();
  EXPECT_TRUE(kernel.Launch(*TheMachine().contexts[1], args, scratch.data()).ok());
  return allocations.load() - before;
}

class NoAllocation : public ::testing::Test {
 protected:
  static constexpr int64_t kNodes = 2000, kWidth = 40;
  const TestGraph graph_ = LargeGraph(kNodes, 20000);
  const TestCsr csr_ = ToCsr(graph_), sparse_ = RandomSparse(kNodes, kWidth, 8, 1);
  const TestMatrix src_{kNodes, kWidth, 1}, weight_{kWidth, kWidth, 2};
  TestMatrix dst_{kNodes, kWidth, 3};
};

TEST_F(NoAllocation, CountsWhatAllocates) {
  const int64_t before = allocations.load();
  std::vector<int>* v = new std::vector<int>(100);
  EXPECT_GE(allocations.load() - before, 2);
  delete v;
}

TEST_F(NoAllocation, Aggregate) {
  AggregateArgs args;
  args.adjacency = csr_.View(true);
  args.src = src_.view();
  args.dst = dst_.view();
  for (const Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin}) {
    args.problem = {reduce, true, kNodes, kNodes, 20000, kWidth};
    for (const auto& kernel : TheMachine().registry.aggregate.kernels()) EXPECT_EQ(AllocationsOf(*kernel, args), 0);
  }
}

TEST_F(NoAllocation, Attention) {
  const TestMatrix scores(kNodes, 5, 4);
  AttentionArgs args;
  args.problem = {AttentionKind::kGat, kNodes, kNodes, 20000, 5, 8, true};
  args.adjacency = csr_.View(false);
  args.value = src_.view();
  args.score_src = args.score_dst = scores.view();
  args.dst = dst_.view();
  for (const auto& kernel : TheMachine().registry.attention.kernels()) EXPECT_EQ(AllocationsOf(*kernel, args), 0);
}

TEST_F(NoAllocation, DotAttention) {
  AttentionArgs args;
  args.problem = {AttentionKind::kDot, kNodes, kNodes, 20000, 5, 8, true};
  args.adjacency = csr_.View(false);
  args.value = args.query = args.key = src_.view();
  args.dst = dst_.view();
  for (const auto& kernel : TheMachine().registry.attention.kernels()) EXPECT_EQ(AllocationsOf(*kernel, args), 0);
}

TEST_F(NoAllocation, MessageReduce) {
  for (const auto& kernel : TheMachine().registry.message_reduce.kernels()) {
    const Buffer packed = Packed(kernel->kernel(), weight_.view());
    for (const int32_t layers : {0, 2}) {
      MessageReduceArgs args;
      args.problem = {Message::kAdd, Reduce::kMax, true, kNodes, kNodes, 20000, kWidth, layers, {kWidth, kWidth}};
      args.adjacency = csr_.View(true);
      args.src = args.target = src_.view();
      for (MessageLayerArgs& layer : args.layers) layer.weight = packed.data();
      args.dst = dst_.view();
      EXPECT_EQ(AllocationsOf(*kernel, args), 0);
    }
  }
}

TEST_F(NoAllocation, Expression) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values.resize(3);
  program.values[0].op = EdgeOp::kSource;
  program.values[1].op = EdgeOp::kTarget;
  program.values[2].op = EdgeOp::kAdd;
  program.values[0].index = program.values[1].index = 0;
  program.values[2].a = 0, program.values[2].b = 1;
  for (EdgeValue& value : program.values) value.width = kWidth;
  program.results = {{EdgeReduce::kStd, 2, -1}};
  ExpressionArgs args;
  args.problem = {CompileEdgeProgram(program, 0), kNodes, kNodes, 20000};
  args.adjacency = csr_.View(true);
  args.sources[0] = args.targets[0] = src_.view();
  args.dst = dst_.view();
  for (const auto& kernel : TheMachine().registry.expression.kernels()) EXPECT_EQ(AllocationsOf(*kernel, args), 0);
}

TEST_F(NoAllocation, EdgeScores) {
  TestMatrix scores(20000, 5, 4);
  for (const int32_t hilbert_order : {0, 4}) {
    EdgeScoresArgs args;
    args.problem = {true, Message::kMultiply, kNodes, kNodes, 20000, kWidth, 5};
    args.config.values[0] = hilbert_order;
    args.adjacency = csr_.View(false);
    args.src = args.target = src_.view();
    args.dst = scores.view();
    for (const auto& kernel : TheMachine().registry.edge_scores.kernels()) EXPECT_EQ(AllocationsOf(*kernel, args), 0);
  }
}

TEST_F(NoAllocation, Updates) {
  for (const auto& kernel : TheMachine().registry.dense_update.kernels()) {
    const Buffer packed = Packed(kernel->kernel(), weight_.view());
    DenseUpdateArgs args;
    args.problem = {kNodes, kWidth, kWidth};
    args.src = src_.view();
    args.weight = packed.data();
    args.dst = dst_.view();
    EXPECT_EQ(AllocationsOf(*kernel, args), 0);
  }
  for (const auto& kernel : TheMachine().registry.sparse_update.kernels()) {
    const Buffer packed = Packed(kernel->kernel(), weight_.view());
    SparseUpdateArgs args;
    args.problem = {kNodes, kWidth, kWidth, static_cast<int64_t>(sparse_.col.size())};
    args.src = sparse_.View(true);
    args.weight = packed.data();
    args.dst = dst_.view();
    EXPECT_EQ(AllocationsOf(*kernel, args), 0);
  }
  for (const auto& kernel : TheMachine().registry.sparse_aggregate_update.kernels()) {
    const Buffer packed = Packed(kernel->kernel(), weight_.view());
    SparseAggregateUpdateArgs args;
    args.problem = {Reduce::kMax, true, kNodes, 20000, kWidth, kWidth, static_cast<int64_t>(sparse_.col.size())};
    args.adjacency = csr_.View(true);
    args.src = sparse_.View(true);
    args.weight = packed.data();
    args.dst = dst_.view();
    EXPECT_EQ(AllocationsOf(*kernel, args), 0);
  }
}

TEST_F(NoAllocation, Rowwise) {
  const std::vector<int64_t> segments = {0, kNodes};
  std::vector<int64_t> index(kNodes, 3);
  std::vector<float> scale(3 * kWidth, 0.5f);
  std::vector<uint16_t> narrow(kNodes * kWidth);
  for (const RowwiseKind kind :
       {RowwiseKind::kAdd, RowwiseKind::kMax, RowwiseKind::kNormalize, RowwiseKind::kLayerNorm, RowwiseKind::kGraphNorm,
        RowwiseKind::kGatherRows, RowwiseKind::kSparseToDense, RowwiseKind::kReadout, RowwiseKind::kGate,
        RowwiseKind::kNarrow, RowwiseKind::kMultiply, RowwiseKind::kSoftmax, RowwiseKind::kLogSoftmax,
        RowwiseKind::kExpand, RowwiseKind::kMedian, RowwiseKind::kSortRows}) {
    RowwiseArgs args;
    args.problem = {kind, Reduce::kMean, kNodes, kWidth, Storage::kBfloat16};
    args.a = args.b = src_.view();
    args.sparse = sparse_.View(true);
    args.dst = dst_.view();
    args.segments = segments.data();
    args.num_segments = 1;
    args.index = index.data();
    args.scale = scale.data();
    args.dst16 = {narrow.data(), kNodes, kWidth, kWidth};
    // The reference sorts copies: what it is compared with sorts nothing.
    const bool sorts = kind == RowwiseKind::kMedian || kind == RowwiseKind::kSortRows;
    for (const auto& kernel : TheMachine().registry.rowwise.kernels()) {
      if (sorts && kernel->kernel().name() == "reference") continue;
      EXPECT_EQ(AllocationsOf(*kernel, args), 0) << kernel->kernel().name();
    }
  }
}

}  // namespace
}  // namespace vicinal::testing
