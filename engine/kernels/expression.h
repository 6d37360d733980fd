// SPDX-License-Identifier: Apache-2.0
// The operation `expression`: carries out an EdgeProgram over the edges of an adjacency, or over rows. Values of a tile
// of edges stand in registers of scratch memory; EdgeCode says where, and in what order they are computed.
#ifndef VICINAL_ENGINE_KERNELS_EXPRESSION_H_
#define VICINAL_ENGINE_KERNELS_EXPRESSION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/edge_program.h"
#include "engine/kernels/operations.h"

namespace vicinal {

// Messages of a row that are reduced together, and the edges of a tile by default. Part of the order of a row.
inline constexpr int64_t kExpressionTile = 48;
// Source and target matrices of a program.
inline constexpr int kMaxExpressionInputs = 8;

// Columns between the rows of a register: narrow values are packed, others begin at vectors, and products write whole
// panels of 16 columns.
constexpr int64_t RegisterStride(int64_t width) { return width <= 4 ? width : (width + 15) / 16 * 16; }

// Where an instruction finds a row of an operand.
enum class EdgePlace { kNone, kRegister, kSource, kTarget, kFeatures, kWeight, kNumber, kRow };
struct EdgeOperand {
  EdgePlace place = EdgePlace::kNone;
  int32_t index = 0;   // of the matrix or parameter
  int64_t first = 0;   // column; kRegister: of the register's row
  int64_t offset = 0;  // kRegister: of the register, in floats per edge of a tile
  int64_t stride = 0;  // kRegister
  int64_t width = 0;
  float number = 0.0f;
};
struct EdgeInstruction {
  EdgeOp op = EdgeOp::kAdd;        // kSlice: a copy
  EdgeOperand a, b, to;            // `to` is a register
  int32_t weight = -1, bias = -1;  // kLinear: parameters
  Activation activation;           // of the result
};
struct EdgeCodeResult {
  EdgeReduce reduce = EdgeReduce::kSum;
  EdgeOperand value, score;
  EdgeOperand shares;        // kSoftmax: a register for the weights of a tile
  int64_t state_floats = 0;  // what it carries of a row
};

// An EdgeProgram, with registers. Immutable.
struct EdgeCode {
  std::vector<EdgeInstruction> instructions;
  std::vector<EdgeCodeResult> results;
  bool over_edges = true;
  int64_t register_floats = 0;  // of all registers, per edge of a tile
  int64_t state_floats = 0;     // of all results
  int64_t width = 0;            // of the result
  int64_t edge_width = 0;       // features read of each edge
  int64_t gathered = 0;         // columns read at sources
  double operations = 0;        // per edge or row
  std::vector<bool> is_matrix;  // by parameter: whether products read it, packed
};

// Registers are reused after the last read of a value. `parameters`: their number.
std::shared_ptr<const EdgeCode> CompileEdgeProgram(const EdgeProgram& program, size_t parameters);

struct ExpressionProblem {
  std::shared_ptr<const EdgeCode> code;
  int64_t rows = 0;   // R
  int64_t cols = 0;   // S
  int64_t edges = 0;  // without edges: rows
};
struct ExpressionArgs {
  ExpressionProblem problem;
  KernelConfig config;
  CsrView adjacency;                                          // [R, S]; of a program over rows: empty
  std::array<ConstMatrixView, kMaxExpressionInputs> sources;  // [S, *]
  std::array<ConstMatrixView, kMaxExpressionInputs> targets;  // [R, *]
  EdgeFeaturesView edge;
  std::shared_ptr<const std::vector<const void*>> parameters;  // matrices packed by the same kernel, rows as floats
  MatrixView dst;                                              // [R, code->width]; never overlaps an input
  Epilogue epilogue;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_EXPRESSION_H_
