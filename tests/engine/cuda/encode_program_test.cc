// SPDX-License-Identifier: Apache-2.0
// Programs in the form that a GPU carries out: registers without gaps, results that are registers, totals of reductions
// one after the other, and tiles that fit. What programs compute: conformance, on a GPU.
#include "engine/cuda/message/expression/encode_program.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/kernels/edge_values.h"

namespace vicinal::cuda {
namespace {

using testing::ValueOf;

// u + v of 20 columns, and its product with W [7, 20].
EdgeProgram SumAndProduct() {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {ValueOf(EdgeOp::kSource, 20, -1, -1, 0), ValueOf(EdgeOp::kTarget, 20, -1, -1, 0),
                    ValueOf(EdgeOp::kAdd, 20, 0, 1), ValueOf(EdgeOp::kLinear, 7, 2, -1, 0)};
  program.results = {{EdgeReduce::kVar, 2, -1}, {EdgeReduce::kSum, 3, -1}};
  return program;
}

TEST(EncodeProgramTest, RegistersHaveNoGaps) {
  const float weight = 0.0f;
  const TileProgram program = EncodeProgram(*CompileEdgeProgram(SumAndProduct(), 1), {&weight});
  EXPECT_EQ(program.shape.registers, 27);
  ASSERT_EQ(program.instructions.size(), 2u);
  const TileInstruction& sum = program.instructions[0];
  EXPECT_EQ(sum.op, TileOp::kAdd);
  EXPECT_EQ(sum.a.place, TilePlace::kSource);
  EXPECT_EQ(sum.b.place, TilePlace::kTarget);
  const TileInstruction& product = program.instructions[1];
  EXPECT_EQ(product.op, TileOp::kLinear);
  EXPECT_EQ(product.a.first, sum.to);
  EXPECT_EQ(product.a.width, 20);
  EXPECT_EQ(product.weight, &weight);
  EXPECT_EQ(product.bias, nullptr);
}

TEST(EncodeProgramTest, ResultsStandSideBySide) {
  const TileProgram program = EncodeProgram(*CompileEdgeProgram(SumAndProduct(), 1), {nullptr});
  ASSERT_EQ(program.results.size(), 2u);
  EXPECT_EQ(program.results[0].reduce, TileReduce::kVariance);
  EXPECT_EQ(program.results[0].width, 20);
  EXPECT_EQ(program.results[0].first, 0);
  EXPECT_EQ(program.results[1].first, 20);
  EXPECT_EQ(program.results[1].first_total, 20 * kSpreadFloats);
  EXPECT_EQ(program.shape.total_floats, 20 * kSpreadFloats + 7);
  EXPECT_EQ(program.shape.width, 27);
}

// Messages that are rows of sources, and scores of targets, are no registers in an EdgeCode.
TEST(EncodeProgramTest, MessagesAndScoresBecomeRegisters) {
  EdgeProgram program;
  program.sources = program.targets = 1;
  program.values = {ValueOf(EdgeOp::kSource, 12, -1, -1, 0), ValueOf(EdgeOp::kTarget, 6, -1, -1, 0)};
  program.results = {{EdgeReduce::kSoftmax, 0, 1}};
  const TileProgram encoded = EncodeProgram(*CompileEdgeProgram(program, 0), {});
  ASSERT_EQ(encoded.instructions.size(), 2u);
  for (const TileInstruction& instruction : encoded.instructions) EXPECT_EQ(instruction.op, TileOp::kCopy);
  ASSERT_EQ(encoded.results.size(), 1u);
  EXPECT_EQ(encoded.results[0].value, encoded.instructions[0].to);
  EXPECT_EQ(encoded.results[0].score, encoded.instructions[1].to);
  EXPECT_EQ(encoded.results[0].score_columns, 2);
  EXPECT_EQ(encoded.shape.registers, 18 + 2 * 6);  // the largest scores, and shares
}

TEST(EncodeProgramTest, ShapesNeedNoParameters) {
  const auto code = CompileEdgeProgram(SumAndProduct(), 1);
  const TileShape shape = ProgramWithoutParameters(*code).shape, whole = EncodeProgram(*code, {nullptr}).shape;
  EXPECT_EQ(shape.registers, whole.registers);
  EXPECT_EQ(shape.total_floats, whole.total_floats);
  EXPECT_EQ(shape.instructions, 2);
}

}  // namespace
}  // namespace vicinal::cuda
