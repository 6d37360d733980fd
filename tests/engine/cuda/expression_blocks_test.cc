// SPDX-License-Identifier: Apache-2.0
// The device code of expressions, run on the CPU: the interpreter, and a program whose messages are nested as a
// compiled one's. Every setting gives the same bits: tiles, edges per block, parts of the columns, registers in global
// memory, few blocks, any order of blocks and threads. The numbers are those of the formulas in double. Memory that a
// block has not written is no number. What only a GPU shows, such as races between blocks: conformance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/cuda/message/expression/encode_program.h"
#include "engine/cuda/message/expression/expression.h"
#include "tests/engine/cuda/emulated_block.h"
#include "tests/engine/kernels/edge_values.h"
// Device code, after what it finds without a header.
#include "engine/cuda/message/expression/detail/expression_blocks.cuh"

namespace vicinal::cuda {

// The dynamic shared memory of device code.
float4 shared[8192];

namespace {

using testing::ValueOf;

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr float4 kNoNumbers = {kNoNumber, kNoNumber, kNoNumber, kNoNumber};
constexpr int64_t kSources = 40, kWidth = 21, kHeads = 3;

std::vector<float> Random(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  return numbers;
}

// Rows around tiles and folds, without edges, and long ones that are cut in pieces.
struct Graph {
  std::vector<int64_t> row_ptr = {0};
  std::vector<int32_t> col;
  std::vector<float> value, sources, targets;

  Graph() {
    for (const int64_t degree : {0, 1, 3, 17, 0, 64, 65, 300, 2, 0, 16, 550, 1, 0}) {
      row_ptr.push_back(row_ptr.back() + degree);
    }
    std::mt19937 random(1);
    for (int64_t e = 0; e < row_ptr.back(); ++e) col.push_back(static_cast<int32_t>(random() % kSources));
    value = Random(row_ptr.back(), 2);
    sources = Random(kSources * kWidth, 3);
    targets = Random(rows() * kWidth, 4);
  }
  int64_t rows() const { return static_cast<int64_t>(row_ptr.size()) - 1; }
  int64_t edges() const { return row_ptr.back(); }
};

// How a program is carried out. 64 columns and more per block are all of them.
struct Case {
  ExpressionSettings settings;
  bool registers_in_shared = true;
  bool few_blocks = false;
  bool reversed = false;  // the last block and thread first
};
const Case kCases[] = {{{64, 0, 0}},          {{16, 512, 0}, true, false, true}, {{32, 48, 0}, false},
                       {{64, 512, 8}},        {{16, 48, 8}, true, true},         {{32, 0, 16}, true, false, true},
                       {{16, 64, 16}, false}, {{32, 512, 48}, true, true}};

std::string NameOf(const Case& run) {
  return "tile " + std::to_string(run.settings.tile) + ", " + std::to_string(run.settings.keys) + " edges, " +
         std::to_string(run.settings.columns) + " columns per block";
}

// The result of `run` blocks one after the other. `body(params, tile)`: a thread's part.
template <class Body>
std::vector<float> ResultOf(const Graph& graph, ExpressionParams params, const Case& run, const Body& body) {
  GpuLimits limits;
  if (!run.registers_in_shared) limits.block_shared_bytes = 2 << 10, limits.multiprocessors = 3;
  const ExpressionPlan plan = PlanExpression(params.shape, graph.rows(), graph.edges(), run.settings, limits);
  EXPECT_EQ(plan.block_floats == 0, run.registers_in_shared);
  EXPECT_LE(plan.shared_bytes, static_cast<int64_t>(sizeof shared));
  std::vector<int> tickets(4096, 0);
  LaunchTarget target;
  target.tickets = tickets.data();
  std::vector<float4> scratch(plan.scratch_bytes() / sizeof(float4) + 1, kNoNumbers);
  std::vector<float> result(graph.rows() * params.shape.width, kNoNumber);
  params.adjacency = {graph.rows(),         kSources,         graph.edges(),
                      graph.row_ptr.data(), graph.col.data(), graph.value.data()};
  params.sources[0] = {graph.sources.data(), kWidth};
  params.targets[0] = {graph.targets.data(), kWidth};
  params.dst = {result.data(), graph.rows(), params.shape.width, params.shape.width};
  EXPECT_EQ(PlaceExpression(plan, target, scratch.data(), &params), cudaSuccess);
  gridDim.x = static_cast<unsigned>(run.few_blocks ? std::min<int64_t>(plan.items, 5) : ExpressionGrid(plan));
  for (unsigned b = 0; b < gridDim.x; ++b) {
    blockIdx.x = run.reversed ? gridDim.x - 1 - b : b;
    std::fill(std::begin(shared), std::end(shared), kNoNumbers);
    emulated::block.Run([&] { body(params, plan.tile); }, run.reversed);
  }
  EXPECT_EQ(std::count(tickets.begin(), tickets.end(), 0), 4096) << "tickets are zero between launches";
  return result;
}

void ExpectSameBits(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
}

// m = (u + v) w; its sum, maximum and deviation, a softmax by the dots of m and a row, one per head, and the least
// dots.
TileProgram SeveralResults(const float* row) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {ValueOf(EdgeOp::kSource, kWidth, -1, -1, 0), ValueOf(EdgeOp::kTarget, kWidth, -1, -1, 0),
                    ValueOf(EdgeOp::kAdd, kWidth, 0, 1),         ValueOf(EdgeOp::kWeight, 1),
                    ValueOf(EdgeOp::kMultiply, kWidth, 2, 3),    ValueOf(EdgeOp::kRow, kWidth, -1, -1, 0),
                    ValueOf(EdgeOp::kDot, kHeads, 4, 5)};
  program.results = {{EdgeReduce::kSum, 4, -1},
                     {EdgeReduce::kMax, 4, -1},
                     {EdgeReduce::kStd, 4, -1},
                     {EdgeReduce::kSoftmax, 4, 6},
                     {EdgeReduce::kMin, 6, -1}};
  return EncodeProgram(*CompileEdgeProgram(program, 1), {row});
}

// The same in double, edge by edge.
std::vector<double> SeveralResultsInDouble(const Graph& graph, const std::vector<float>& row) {
  std::vector<double> want;
  for (int64_t r = 0; r < graph.rows(); ++r) {
    const int64_t begin = graph.row_ptr[r], end = graph.row_ptr[r + 1];
    const auto message = [&](int64_t e, int64_t c) {
      return (double{graph.sources[graph.col[e] * kWidth + c]} + graph.targets[r * kWidth + c]) * graph.value[e];
    };
    const auto score = [&](int64_t e, int64_t head) {
      double sum = 0.0;
      for (int64_t c = head * kWidth / kHeads; c < (head + 1) * kWidth / kHeads; ++c) sum += message(e, c) * row[c];
      return sum;
    };
    const auto reduce = [&](int64_t columns, const auto& of_column) {
      for (int64_t c = 0; c < columns; ++c) want.push_back(begin == end ? 0.0 : of_column(c));
    };
    const auto sum = [&](const auto& term) {
      double total = 0.0;
      for (int64_t e = begin; e < end; ++e) total += term(e);
      return total;
    };
    const auto edges = static_cast<double>(end - begin);
    reduce(kWidth, [&](int64_t c) { return sum([&](int64_t e) { return message(e, c); }); });
    reduce(kWidth, [&](int64_t c) {
      double most = message(begin, c);
      for (int64_t e = begin; e < end; ++e) most = std::max(most, message(e, c));
      return most;
    });
    reduce(kWidth, [&](int64_t c) {
      const double mean = sum([&](int64_t e) { return message(e, c); }) / edges;
      const double variance = sum([&](int64_t e) { return std::pow(message(e, c) - mean, 2.0); }) / edges;
      return variance <= 1e-5 ? 0.0 : std::sqrt(variance);
    });
    reduce(kWidth, [&](int64_t c) {
      const auto weight = [&](int64_t e) { return std::exp(score(e, c / (kWidth / kHeads))); };
      return sum([&](int64_t e) { return weight(e) * message(e, c); }) / sum(weight);
    });
    reduce(kHeads, [&](int64_t head) {
      double least = score(begin, head);
      for (int64_t e = begin; e < end; ++e) least = std::min(least, score(e, head));
      return least;
    });
  }
  return want;
}

TEST(ExpressionBlocksTest, AnInterpretedProgramHasTheSameBitsInAllSettings) {
  const Graph graph;
  const std::vector<float> row = Random(kWidth, 5);
  const TileProgram program = SeveralResults(row.data());
  ExpressionParams params;
  params.shape = program.shape;
  params.instructions = program.instructions.data();
  params.results = program.results.data();
  const auto interpret = [](const ExpressionParams& of, int tile) {
    if (tile == 64) return RunOverEdges<InterpretedProgram, 64>(of);
    return tile == 32 ? RunOverEdges<InterpretedProgram, 32>(of) : RunOverEdges<InterpretedProgram, 16>(of);
  };
  const std::vector<double> want = SeveralResultsInDouble(graph, row);
  std::vector<float> first;
  for (const Case& run : kCases) {
    SCOPED_TRACE(NameOf(run));
    const std::vector<float> got = ResultOf(graph, params, run, interpret);
    if (first.empty()) first = got;
    ExpectSameBits(got, first);
  }
  ASSERT_EQ(first.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(first[i], want[i], 1e-4) << i;
}

// The sum of the first columns of sources, read where they stand, kTogether of them by a thread, as compiled programs
// do.
constexpr int kSummed = 20;
template <int kColumns, int kTogether>
struct SumOfSources {
  static constexpr bool kRegistersInShared = true;
  static constexpr int kPartColumns = kColumns;

  template <int kTile>
  struct Message {
    const ExpressionParams& params;
    ProgramTile<kTile> tile;

    auto OfColumns(int c, ColumnCount<kTogether>) const {
      return [this, c](int edge) {
        Pack<kTogether> columns;
        for (int i = 0; i < kTogether; ++i) {
          read[c + i] += 1;
          columns.v[i] = params.sources[0].data[tile.source[edge] * params.sources[0].stride + c + i];
        }
        return columns;
      };
    }
  };
  template <int kTile>
  static void Run(const ExpressionParams&, const ProgramTile<kTile>&) {}
  template <int kTile, class Use>
  static void ForEachResult(const ExpressionParams& params, const ProgramTile<kTile>& tile, const Use& use) {
    TileResult result;
    result.width = kSummed;
    use(result, Message<kTile>{params, tile}, ColumnCount<kTogether>());
  }

  static inline int64_t read[kSummed];  // by column
};

template <int kColumns, int kTogether>
std::vector<float> SumBy(const Graph& graph, const Case& run) {
  ExpressionParams params;
  params.shape.results = 1;
  params.shape.width = params.shape.widest = params.shape.total_floats = kSummed;
  auto& read = SumOfSources<kColumns, kTogether>::read;
  std::fill(std::begin(read), std::end(read), 0);
  std::vector<float> sums = ResultOf(graph, params, run, [](const ExpressionParams& of, int tile) {
    ASSERT_EQ(tile, 32);
    RunOverEdges<SumOfSources<kColumns, kTogether>, 32>(of);
  });
  // No part reads another's column.
  EXPECT_GE(read[0], graph.edges());
  EXPECT_EQ(std::count(std::begin(read), std::end(read), read[0]), kSummed);
  return sums;
}

TEST(ExpressionBlocksTest, PartsOfACompiledProgramReadTheirOwnColumns) {
  const Graph graph;
  const std::vector<float> whole = SumBy<kWholeResults, 1>(graph, {{32, 0, 0}});
  for (int64_t r = 0; r < graph.rows(); ++r) {
    for (int64_t c = 0; c < kSummed; ++c) {
      double sum = 0.0;
      for (int64_t e = graph.row_ptr[r]; e < graph.row_ptr[r + 1]; ++e) sum += graph.sources[graph.col[e] * kWidth + c];
      ASSERT_NEAR(whole[r * kSummed + c], sum, 1e-4) << r << ", " << c;
    }
  }
  ExpectSameBits(SumBy<8, 1>(graph, {{32, 0, 8}}), whole);
  ExpectSameBits(SumBy<16, 1>(graph, {{32, 512, 16}, true, true, true}), whole);
  ExpectSameBits(SumBy<kWholeResults, 4>(graph, {{32, 48, 0}, true, false, true}), whole);
  ExpectSameBits(SumBy<8, 4>(graph, {{32, 512, 8}, true, true}), whole);
  ExpectSameBits(SumBy<16, 2>(graph, {{32, 0, 16}, true, false, true}), whole);
}

}  // namespace
}  // namespace vicinal::cuda
