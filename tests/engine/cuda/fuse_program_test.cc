// SPDX-License-Identifier: Apache-2.0
// Which values a compiled kernel nests, and that nesting changes no number: random programs, carried out by one edge as
// they stand and as they were fused. Bits on a GPU: conformance.
#include "engine/cuda/compile/fuse_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "tests/engine/kernels/edge_values.h"

namespace vicinal::cuda {
namespace {

using testing::ValueOf;

FusedProgram Fused(const EdgeProgram& program, size_t parameters) {
  return FuseProgram(EncodeProgram(*CompileEdgeProgram(program, parameters), std::vector<const void*>(parameters)));
}

size_t Stored(const FusedProgram& fused) {
  size_t count = 0;
  for (const FusedInstruction& i : fused.instructions) count += !i.nested;
  return count;
}

// relu(x_j + W e) of 64 columns.
EdgeProgram Gine(int64_t features) {
  EdgeProgram program;
  program.sources = 1;
  program.edge_width = features;
  program.values = {ValueOf(EdgeOp::kSource, 64, -1, -1, 0), ValueOf(EdgeOp::kFeatures, features),
                    ValueOf(EdgeOp::kLinear, 64, 1, -1, 0), ValueOf(EdgeOp::kAdd, 64, 0, 2),
                    ValueOf(EdgeOp::kActivation, 64, 3)};
  program.values[4].activation = {ActivationKind::kRelu};
  program.results = {{EdgeReduce::kSum, 4, -1}};
  return program;
}

TEST(FuseProgramTest, NarrowProductsNeedNoRegister) {
  const FusedProgram fused = Fused(Gine(3), 1);
  EXPECT_EQ(Stored(fused), 0u);
  EXPECT_EQ(fused.program.shape.registers, 0);
  EXPECT_GE(fused.messages[0], 0);
}

// A product of many inputs is computed in blocks from registers, and so are its inputs stored.
TEST(FuseProgramTest, WideProductsReadAndWriteRegisters) {
  const FusedProgram fused = Fused(Gine(kNarrowInputs + 1), 1);
  EXPECT_EQ(Stored(fused), 2u);
  EXPECT_EQ(fused.program.shape.registers, kNarrowInputs + 1 + 64);
}

// The scores of GATv2, (|z| + z) . att of z = x_i + x_j, in four heads, and a softmax of x_j.
EdgeProgram Attention(int64_t width) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {ValueOf(EdgeOp::kSource, width, -1, -1, 0),
                    ValueOf(EdgeOp::kTarget, width, -1, -1, 0),
                    ValueOf(EdgeOp::kAdd, width, 0, 1),
                    ValueOf(EdgeOp::kAbs, width, 2),
                    ValueOf(EdgeOp::kAdd, width, 2, 3),
                    ValueOf(EdgeOp::kRow, width, -1, -1, 0),
                    ValueOf(EdgeOp::kDot, 4, 4, 5)};
  program.results = {{EdgeReduce::kSoftmax, 0, 6}};
  return program;
}

// Scores are read by all columns of their head, so they are stored; sources are read by scores and messages, so they
// are kept; the rest is not.
TEST(FuseProgramTest, AttentionStoresScoresAndKeepsSources) {
  const FusedProgram fused = Fused(Attention(64), 1);
  EXPECT_EQ(Stored(fused), 1u);
  ASSERT_EQ(fused.kept.size(), 1u);
  EXPECT_EQ(fused.kept[0].matrix, 0);
  EXPECT_EQ(fused.kept[0].first, 0);
  EXPECT_EQ(fused.kept[0].width, 64);
  EXPECT_EQ(fused.program.instructions[fused.kept[0].keeper].op, TileOp::kDot);
  EXPECT_EQ(fused.kept[0].to, 3 * 4);  // after scores, the largest up to each edge, shares
  EXPECT_EQ(fused.program.shape.registers, 3 * 4 + 64 + 4);
  EXPECT_GE(fused.messages[0], 0);
}

TEST(FuseProgramTest, NarrowAndVeryWideSourcesAreGatheredAgain) {
  EXPECT_EQ(Fused(Attention(16), 1).kept.size(), 1u);
  EXPECT_EQ(Fused(Attention(12), 1).kept.size(), 0u);
  EXPECT_EQ(Fused(Attention(kMostKeptColumns), 1).kept.size(), 1u);
  EXPECT_EQ(Fused(Attention(kMostKeptColumns + 4), 1).kept.size(), 0u);
}

// The sum would read the columns of a source once, but what it adds up reads each for all of its columns.
TEST(FuseProgramTest, SourcesThatAreFirstReadManyTimesAreNotKept) {
  EdgeProgram program;
  program.sources = 1;
  program.values = {ValueOf(EdgeOp::kSource, 16, -1, -1, 0), ValueOf(EdgeOp::kRepeat, 64, 0),
                    ValueOf(EdgeOp::kSum, 1, 1)};
  program.results = {{EdgeReduce::kSoftmax, 0, 2}};
  EXPECT_TRUE(Fused(program, 0).kept.empty());
  program.values[1] = ValueOf(EdgeOp::kAbs, 16, 0);
  EXPECT_EQ(Fused(program, 0).kept.size(), 1u);
}

// A value of two roots would be computed twice.
TEST(FuseProgramTest, ValuesOfTwoResultsAreStored) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {ValueOf(EdgeOp::kSource, 16, -1, -1, 0), ValueOf(EdgeOp::kTarget, 16, -1, -1, 0),
                    ValueOf(EdgeOp::kAdd, 16, 0, 1), ValueOf(EdgeOp::kAbs, 16, 2)};
  program.results = {{EdgeReduce::kSum, 2, -1}, {EdgeReduce::kMax, 3, -1}};
  const FusedProgram fused = Fused(program, 0);
  EXPECT_EQ(Stored(fused), 1u);
  EXPECT_EQ(fused.messages[0], -1);
  EXPECT_GE(fused.messages[1], 0);
}

// One column that meets many, and columns that are repeated, would be computed once for each.
TEST(FuseProgramTest, ColumnsReadManyTimesAreStored) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {ValueOf(EdgeOp::kSource, 16, -1, -1, 0),
                    ValueOf(EdgeOp::kSum, 1, 0),
                    ValueOf(EdgeOp::kAbs, 1, 1),
                    ValueOf(EdgeOp::kMultiply, 16, 0, 2),
                    ValueOf(EdgeOp::kTarget, 4, -1, -1, 0),
                    ValueOf(EdgeOp::kAbs, 4, 4),
                    ValueOf(EdgeOp::kRepeat, 16, 5),
                    ValueOf(EdgeOp::kAdd, 16, 3, 6)};
  program.results = {{EdgeReduce::kSum, 7, -1}};
  const FusedProgram fused = Fused(program, 0);
  for (size_t n = 0; n < fused.instructions.size(); ++n) {
    EXPECT_FALSE(fused.program.instructions[n].op == TileOp::kAbs && fused.instructions[n].nested) << n;
  }
}

// What an edge reads: numbers that depend on the place alone.
float InMemory(TilePlace place, int32_t matrix, int32_t column) {
  return std::sin(1.0f + 7.0f * static_cast<float>(place) + 3.0f * static_cast<float>(matrix) +
                  static_cast<float>(column));
}

// Carries out a program for one edge, as it stands or with nested values where they are read.
class Edge {
 public:
  explicit Edge(const FusedProgram& fused)
      : fused_(fused), registers_(fused.program.shape.registers, NAN), kept_(fused.kept.size()) {
    for (size_t n = 0; n < fused.instructions.size(); ++n) {
      if (!fused.instructions[n].nested) Store(static_cast<int32_t>(n));
    }
    root_ = static_cast<int32_t>(fused.instructions.size());
  }

  std::vector<float> Results() const {
    std::vector<float> all;
    for (size_t r = 0; r < fused_.program.results.size(); ++r) {
      const TileResult& result = fused_.program.results[r];
      for (int c = 0; c < result.width; ++c)
        all.push_back(fused_.messages[r] >= 0 ? Column(fused_.messages[r], c) : registers_[result.value + c]);
      if (result.reduce != TileReduce::kSoftmax) continue;
      for (int c = 0; c < result.width / result.score_columns; ++c) all.push_back(registers_[result.score + c]);
    }
    return all;
  }

 private:
  void Store(int32_t n) {
    const TileInstruction& i = fused_.program.instructions[n];
    std::vector<float> columns;
    root_ = n;
    for (int c = 0; c < i.width; ++c) columns.push_back(Column(n, c));
    std::copy(columns.begin(), columns.end(), registers_.begin() + i.to);
  }

  float Operand(const TileOperand& operand, int32_t nested, int c) const {
    if (nested >= 0) return Column(nested, c);
    const int column = operand.first + (operand.width == 1 ? 0 : c);
    if (operand.place == TilePlace::kNumber) return operand.number;
    if (operand.place == TilePlace::kRegister) return registers_[column];
    const float x = InMemory(operand.place, operand.matrix, column);
    for (size_t k = 0; k < kept_.size(); ++k) {
      const KeptColumns& kept = fused_.kept[k];
      if (operand.place != TilePlace::kSource || kept.matrix != operand.matrix || kept.first != operand.first ||
          kept.width != operand.width) {
        continue;
      }
      if (root_ == kept.keeper) kept_[k].insert(column);
      return kept_[k].count(column) == 1 ? x : NAN;
    }
    return x;
  }

  float Column(int32_t n, int c) const {
    const TileInstruction& i = fused_.program.instructions[n];
    const auto a = [&](int column) { return Operand(i.a, fused_.instructions[n].a, column); };
    const auto b = [&](int column) { return Operand(i.b, fused_.instructions[n].b, column); };
    float sum = 0.0f;
    switch (i.op) {
      case TileOp::kAdd:
        return a(c) + b(c);
      case TileOp::kSubtract:
        return a(c) - b(c);
      case TileOp::kMultiply:
        return a(c) * b(c);
      case TileOp::kAbs:
        return std::fabs(a(c));
      case TileOp::kRepeat:
        return a(c / (i.width / i.a.width));
      case TileOp::kLinear:
        for (int k = 0; k < i.a.width; ++k) sum += a(k) * static_cast<float>(k + c + 1);
        return sum;
      case TileOp::kDot:
      case TileOp::kSum:
        for (int k = 0, count = i.a.width / i.width; k < count; ++k)
          sum += a(c * count + k) * (i.op == TileOp::kDot ? b(c * count + k) : 1.0f);
        return sum;
      default:
        return a(c);
    }
  }

  const FusedProgram& fused_;
  std::vector<float> registers_;
  mutable std::vector<std::set<int>> kept_;  // columns that are there
  int32_t root_ = 0;
};

FusedProgram AsItStands(const EdgeProgram& program, size_t parameters) {
  FusedProgram plain;
  plain.program = EncodeProgram(*CompileEdgeProgram(program, parameters), std::vector<const void*>(parameters));
  plain.instructions.resize(plain.program.instructions.size());
  plain.messages.assign(plain.program.results.size(), -1);
  return plain;
}

class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {
    program_.sources = program_.targets = 1;
    program_.edge_width = 4;
    Add(ValueOf(EdgeOp::kSource, 16, -1, -1, 0));
    Add(ValueOf(EdgeOp::kTarget, 16, -1, -1, 0));
    Add(ValueOf(EdgeOp::kFeatures, 4));
    Add(ValueOf(EdgeOp::kWeight, 1));
    for (int i = 0, count = 3 + Below(18); i < count; ++i) AddOperation();
    for (int r = 0, count = 1 + Below(3); r < count; ++r) AddResult();
  }

  const EdgeProgram& program() const { return program_; }

 private:
  int Below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  int Any() { return Below(static_cast<int>(program_.values.size())); }
  int64_t Width(int value) const { return program_.values[value].width; }
  int OfWidth(int64_t width) {
    for (int tries = 0;; ++tries) {
      const int value = Any();
      if (Width(value) == width || tries > 50) return value;
    }
  }
  void Add(EdgeValue value) { program_.values.push_back(std::move(value)); }

  void AddOperation() {
    const int a = Any();
    const int64_t width = Width(a);
    const int b = OfWidth(Below(3) == 0 ? 1 : width);
    constexpr EdgeOp kBinary[] = {EdgeOp::kAdd, EdgeOp::kSubtract, EdgeOp::kMultiply};
    switch (Below(8)) {
      case 0:
        return Add(ValueOf(EdgeOp::kAbs, width, a));
      case 1:
        return Add(ValueOf(EdgeOp::kLinear, 8, a, -1, 0));
      case 2:
        return Add(ValueOf(EdgeOp::kSum, 1, a));
      case 3:
        return Add(ValueOf(EdgeOp::kRepeat, 2 * width, a));
      case 4:
        if (width > 1) return Add(ValueOf(EdgeOp::kSlice, width / 2, a, -1, -1, width / 2));
        [[fallthrough]];
      case 5:
        if (Width(b) == width) return Add(ValueOf(EdgeOp::kDot, 1, a, b));
        [[fallthrough]];
      case 6: {
        EdgeValue both = ValueOf(EdgeOp::kConcat, width + Width(b));
        both.parts = {a, b};
        return Add(both);
      }
      default:
        if (Width(b) != width && Width(b) != 1) return Add(ValueOf(EdgeOp::kAbs, width, a));
        return Add(ValueOf(kBinary[Below(3)], width, a, b));
    }
  }
  void AddResult() {
    const int value = Any();
    program_.results.push_back({EdgeReduce::kSum, value, -1});
    if (Below(3) == 0) program_.results.back() = {EdgeReduce::kSoftmax, value, OfWidth(1)};
    if (program_.results.back().score >= 0 && Width(program_.results.back().score) != 1)
      program_.results.back() = {EdgeReduce::kSum, value, -1};
  }

  std::mt19937 random_;
  EdgeProgram program_;
};

TEST(FuseProgramTest, NestingChangesNoNumber) {
  size_t nested = 0, fewer = 0, kept = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const RandomProgram random(seed);
    const FusedProgram plain = AsItStands(random.program(), 1), fused = Fused(random.program(), 1);
    const std::vector<float> want = Edge(plain).Results(), got = Edge(fused).Results();
    ASSERT_EQ(want.size(), got.size()) << seed;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_FALSE(std::isnan(want[i])) << seed;
      ASSERT_EQ(want[i], got[i]) << "seed " << seed << ", number " << i;
    }
    nested += fused.instructions.size() - Stored(fused);
    fewer += fused.program.shape.registers < plain.program.shape.registers;
    int32_t for_kept = 0;
    for (const KeptColumns& columns : fused.kept) for_kept += columns.width + 4;
    kept += fused.kept.size();
    ASSERT_LE(fused.program.shape.registers, plain.program.shape.registers + for_kept) << seed;
  }
  EXPECT_GT(nested, 3000u);
  EXPECT_GT(fewer, 1500u);
  EXPECT_GT(kept, 50u);
}

}  // namespace
}  // namespace vicinal::cuda
