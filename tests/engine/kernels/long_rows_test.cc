// SPDX-License-Identifier: Apache-2.0
// A loop that is stopped while a row of very many edges is computed: kernels leave the rest of the row out. Between
// rows and tasks loops are asked all the same, so each test has one long row, the first, and looks at its last number:
// until that is written, every question but the first few came from within the row.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/kernels/edge_values.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

constexpr float kUnwritten = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kSources = 1000, kTargets = 20;
constexpr int kAttempts = 50;

// The first target has `edges` edges, each other one has five.
TestCsr Hub(int64_t edges) {
  TestGraph graph = {"hub", kTargets, kSources, {}};
  Random random(1);
  const auto add = [&](int32_t target) {
    graph.edges.push_back({static_cast<int32_t>(random.Below(kSources)), target, random.Float()});
  };
  for (int64_t e = 0; e < edges; ++e) add(0);
  for (int32_t target = 1; target < kTargets; ++target) {
    for (int e = 0; e < 5; ++e) add(target);
  }
  return ToCsr(graph);
}

class LongRows : public ::testing::TestWithParam<int> {
 protected:
  // Launches `kernel` with a loop that is stopped the `last + 1`st time that it asks; how often it asked before the
  // number at `written` was there.
  template <class K>
  int QuestionsUntil(const float* written, const RegisteredKernel<K>& kernel, const typename K::Args& args, int last) {
    int asked = 0, before = 0;
    const std::function<bool()> stop = [&] {
      before += std::isnan(*written) ? 1 : 0;
      return ++asked > last;
    };
    ThreadPool::StopScope scope(TheMachine().contexts[GetParam() - 1]->thread_pool(), stop);
    EXPECT_TRUE(Launch(kernel, args, GetParam()).ok());
    return before;
  }

  // `at` is the last number of the long row's result, in `dst`.
  template <class K>
  void ExpectStopsWithinTheRow(const RegisteredKernel<K>& kernel, const typename K::Args& args, TestMatrix* dst,
                               int64_t row = 0) {
    SCOPED_TRACE(kernel.kernel().name());
    constexpr int kNever = 1'000'000, kOutside = 3, kWithin = 4;
    const float* const at = dst->view().row(row) + dst->cols() - 1;
    // Only the calling thread asks; where a worker takes the long row from it, again.
    const auto questions = [&](int last, int wanted) {
      int asked = 0;
      for (int attempt = 0; attempt < kAttempts && asked < wanted; ++attempt) {
        dst->Fill(kUnwritten);
        asked = QuestionsUntil(at, kernel, args, last);
      }
      return asked;
    };
    EXPECT_GE(questions(kNever, kOutside + kWithin), kOutside + kWithin);
    const float complete = *at;
    ASSERT_FALSE(std::isnan(complete));
    EXPECT_EQ(questions(kOutside + 1, kOutside + 2), kOutside + 2) << "nobody asks again";
    EXPECT_NE(*at, complete) << "not only part of the row was computed";
  }

  template <class Kernels, class Args>
  void ExpectAllStop(const Kernels& kernels, const Args& args, TestMatrix* dst, int64_t row = 0) {
    for (const auto& kernel : kernels) {
      if (kernel->kernel().name() != "reference") ExpectStopsWithinTheRow(*kernel, args, dst, row);
    }
  }

  AggregateArgs Sums(const TestCsr& hub, const TestMatrix& src, TestMatrix* dst) const {
    AggregateArgs args;
    const auto edges = static_cast<int64_t>(hub.col.size());
    args.problem = {Reduce::kSum, true, kTargets, kSources, edges, src.cols()};
    args.adjacency = hub.View(true);
    args.src = src.view();
    args.dst = dst->view();
    return args;
  }

  MessageReduceArgs Messages(const TestCsr& hub, const TestMatrix& src, TestMatrix* dst) const {
    MessageReduceArgs args;
    const auto edges = static_cast<int64_t>(hub.col.size());
    args.problem = {Message::kSource, Reduce::kSum, true, kTargets, kSources, edges, src.cols()};
    args.adjacency = hub.View(true);
    args.src = src.view();
    args.dst = dst->view();
    return args;
  }
};

TEST_P(LongRows, Aggregate) {
  const TestCsr hub = Hub(100'000);
  const TestMatrix src(kSources, 16, 1);
  TestMatrix dst(kTargets, 16, 2);
  ExpectAllStop(TheMachine().registry.aggregate.kernels(), Sums(hub, src, &dst), &dst);
}

TEST_P(LongRows, AggregatePartsOfTheSources) {
  const TestCsr hub = Hub(200'000);
  const TestMatrix src(kSources, 16, 1);
  TestMatrix dst(kTargets, 16, 2);
  AggregateArgs args = Sums(hub, src, &dst);
  args.config = {{300, 16, 0}};
  for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
    if (kernel->kernel().name() == "tiled_rows") ExpectStopsWithinTheRow(*kernel, args, &dst);
  }
}

TEST_P(LongRows, Attention) {
  const TestCsr hub = Hub(1'000'000);
  const TestMatrix src(kSources, 320, 1), scores(kSources, 5, 2);
  TestMatrix dst(kTargets, 320, 3);
  AttentionArgs args;
  args.problem = {AttentionKind::kGat, kTargets, kSources, static_cast<int64_t>(hub.col.size()), 5, 64, true};
  args.adjacency = hub.View(false);
  args.value = src.view();
  args.score_src = args.score_dst = scores.view();
  args.dst = dst.view();
  ExpectAllStop(TheMachine().registry.attention.kernels(), args, &dst);
}

TEST_P(LongRows, Messages) {
  const TestCsr hub = Hub(1'000'000);
  const TestMatrix src(kSources, 320, 1);
  TestMatrix dst(kTargets, 320, 2);
  ExpectAllStop(TheMachine().registry.message_reduce.kernels(), Messages(hub, src, &dst), &dst);
}

TEST_P(LongRows, MessagesThroughLayers) {
  const TestCsr hub = Hub(100'000);
  const TestMatrix src(kSources, 40, 1), weight(40, 40, 2);
  TestMatrix dst(kTargets, 40, 3);
  for (const auto& kernel : TheMachine().registry.message_reduce.kernels()) {
    if (kernel->kernel().name() == "reference") continue;
    const Buffer packed = Packed(kernel->kernel(), weight.view());
    MessageReduceArgs args = Messages(hub, src, &dst);
    args.problem.num_layers = 2;
    args.problem.out_widths = {40, 40};
    for (MessageLayerArgs& layer : args.layers) layer.weight = packed.data();
    ExpectStopsWithinTheRow(*kernel, args, &dst);
  }
}

TEST_P(LongRows, ProductsOfCoefficientsAndRows) {
  constexpr int64_t kGaussians = 64;
  const TestCsr hub = Hub(100'000);
  const TestMatrix src(kSources, 40, 1);
  TestMatrix dst(kTargets, kGaussians * 40, 2);
  const std::vector<float> features = RandomVector(static_cast<int64_t>(hub.col.size()), 3);
  const std::vector<float> mean(kGaussians, 0.1f), scale(kGaussians, -1.0f);
  MessageReduceArgs args = Messages(hub, src, &dst);
  args.problem.form = MessageForm::kOuter;
  args.problem.weighted = false;
  args.adjacency = hub.View(false);
  args.problem.edge_width = args.edge.width = 1;
  args.edge.values = features.data();
  args.edge.sent = hub.View(false);
  args.problem.gaussians = kGaussians;
  args.gaussian_mean = mean.data();
  args.gaussian_scale = scale.data();
  ExpectAllStop(TheMachine().registry.message_reduce.kernels(), args, &dst);
}

TEST_P(LongRows, Expression) {
  constexpr int64_t kWidth = 64;
  const TestCsr hub = Hub(300'000);
  const TestMatrix src(kSources, kWidth, 1);
  TestMatrix dst(kTargets, kWidth, 2);
  EdgeProgram program;
  program.sources = 1;
  program.values = {ValueOf(EdgeOp::kSource, kWidth, -1, -1, 0)};
  for (int32_t a = 0; a < 8; ++a) program.values.push_back(ValueOf(EdgeOp::kAdd, kWidth, a, 0));
  program.results = {{EdgeReduce::kSum, 8, -1}};
  ExpressionArgs args;
  args.problem = {CompileEdgeProgram(program, 0), kTargets, kSources, static_cast<int64_t>(hub.col.size())};
  args.adjacency = hub.View(true);
  args.sources[0] = src.view();
  args.dst = dst.view();
  ExpectAllStop(TheMachine().registry.expression.kernels(), args, &dst);
}

TEST_P(LongRows, EdgeScores) {
  const TestCsr hub = Hub(1'000'000);
  const auto edges = static_cast<int64_t>(hub.col.size());
  const TestMatrix src(kSources, 40, 1), target(kTargets, 40, 2);
  TestMatrix dst(edges, 5, 3);
  EdgeScoresArgs args;
  args.problem = {true, Message::kMultiply, kTargets, kSources, edges, 40, 5};
  args.adjacency = hub.View(false);
  args.src = src.view();
  args.target = target.view();
  args.dst = dst.view();
  ExpectAllStop(TheMachine().registry.edge_scores.kernels(), args, &dst, hub.row_ptr[1] - 1);
}

TEST_P(LongRows, SparseUpdate) {
  constexpr int64_t kInputs = 60'000, kWidth = 8;
  const TestMatrix weight(kWidth, kInputs, 1);
  TestCsr sparse;
  sparse.rows = 2, sparse.cols = kInputs;
  for (int32_t c = 0; c < kInputs; ++c) sparse.col.push_back(c);
  sparse.value = RandomVector(kInputs, 2);
  sparse.row_ptr = {0, kInputs, kInputs};
  TestMatrix dst(2, kWidth, 3);
  for (const auto& kernel : TheMachine().registry.sparse_update.kernels()) {
    if (kernel->kernel().name() == "reference") continue;
    const Buffer packed = Packed(kernel->kernel(), weight.view());
    SparseUpdateArgs args;
    args.problem = {2, kInputs, kWidth, kInputs};
    args.src = sparse.View(true);
    args.weight = packed.data();
    args.dst = dst.view();
    ExpectStopsWithinTheRow(*kernel, args, &dst);
  }
}

TEST_P(LongRows, SparseAggregateUpdate) {
  constexpr int64_t kWidth = 40;
  const TestCsr hub = Hub(600'000), sparse = RandomSparse(kSources, kWidth, 8, 1);
  const TestMatrix weight(kWidth, kWidth, 2);
  TestMatrix dst(kTargets, kWidth, 3);
  for (const auto& kernel : TheMachine().registry.sparse_aggregate_update.kernels()) {
    if (kernel->kernel().name() == "reference") continue;
    const Buffer packed = Packed(kernel->kernel(), weight.view());
    SparseAggregateUpdateArgs args;
    args.problem = {Reduce::kSum,
                    true,
                    kTargets,
                    static_cast<int64_t>(hub.col.size()),
                    kWidth,
                    kWidth,
                    static_cast<int64_t>(sparse.col.size())};
    args.adjacency = hub.View(true);
    args.src = sparse.View(true);
    args.weight = packed.data();
    args.dst = dst.view();
    ExpectStopsWithinTheRow(*kernel, args, &dst);
  }
}

// A segment is a row of its readout.
TEST_P(LongRows, Readouts) {
  constexpr int64_t kRows = 100'000, kWidth = 320, kPlaces = 200;
  const TestMatrix rows(kRows, kWidth, 1);
  TestMatrix of_columns(2, kWidth, 2), sorted(2, kPlaces * kWidth, 3);
  for (const RowwiseKind kind : {RowwiseKind::kReadout, RowwiseKind::kMedian, RowwiseKind::kSortRows}) {
    // Medians and sorting pass over the rows again and again.
    const int64_t count = kind == RowwiseKind::kReadout ? kRows : 8000;
    const std::vector<int64_t> segments = {0, count, count};
    TestMatrix& dst = kind == RowwiseKind::kSortRows ? sorted : of_columns;
    RowwiseArgs args;
    args.problem = {kind, Reduce::kSum, count, kWidth, Storage::kFloat32};
    args.a = rows.view();
    args.a.rows = count;
    args.dst = dst.view();
    args.segments = segments.data();
    args.num_segments = 2;
    ExpectAllStop(TheMachine().registry.rowwise.kernels(), args, &dst);
  }
}

// All columns are searched together, in one pass over the rows per bit.
TEST_P(LongRows, MedianOfFewColumns) {
  constexpr int64_t kRows = 900'000, kWidth = 8;
  const TestMatrix rows(kRows, kWidth, 1);
  TestMatrix dst(2, kWidth, 2);
  const std::vector<int64_t> segments = {0, kRows, kRows};
  RowwiseArgs args;
  args.problem = {RowwiseKind::kMedian, Reduce::kSum, kRows, kWidth, Storage::kFloat32};
  args.a = rows.view();
  args.dst = dst.view();
  args.segments = segments.data();
  args.num_segments = 2;
  ExpectAllStop(TheMachine().registry.rowwise.kernels(), args, &dst);
}

INSTANTIATE_TEST_SUITE_P(Threads, LongRows, ::testing::Values(1, 2));

}  // namespace
}  // namespace vicinal::testing
