// SPDX-License-Identifier: Apache-2.0
// A program of messages as a GPU carries it out: plain values that stand in its memory. Registers are columns of a tile
// of edges: register r of edge e is float r * kTileStride + e of the tile. Columns and sizes are counted in 32 bits.
// Free of host and device code, so that a kernel compiled at run time reads the same form.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_TILE_PROGRAM_H_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_TILE_PROGRAM_H_

#include <cstdint>

#include "engine/base/vocabulary.h"

namespace vicinal::cuda {

enum class TileOp : int32_t {
  kCopy,
  // a op b, column by column; an operand of one column meets all columns of the other.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMin,
  kMax,
  kLog,
  kAbs,
  kLinear,  // a W^T + bias; a is a register
  kDot,     // sums of a * b over `width` equal parts of their columns
  kSum,     // likewise of a
  kRepeat,  // each column of a as often as width / a.width
};

enum class TilePlace : int32_t { kRegister, kSource, kTarget, kFeatures, kWeight, kNumber, kRow };

struct TileOperand {
  TilePlace place = TilePlace::kNumber;
  int32_t matrix = 0;  // of sources or targets
  int32_t first = 0;   // register, or column of the matrix, the features or the row
  int32_t width = 1;
  float number = 0.0f;
  const float* row = nullptr;  // kRow: a parameter, the same for all edges
};

struct TileInstruction {
  TileOp op = TileOp::kCopy;
  int32_t width = 0;  // of the result
  int32_t to = 0;     // its first register; no register of an operand, unless they are the same ones
  Activation activation;
  TileOperand a, b;
  const float* weight = nullptr;  // kLinear: W^T [a.width, width], rows padded to PackedStride(width) floats
  const float* bias = nullptr;    // or null
};

enum class TileReduce : int32_t { kSum, kMean, kMax, kMin, kVariance, kDeviation, kSoftmax };

// Floats of a row's total, per column.
inline constexpr int32_t kPlainFloats = 1, kSpreadFloats = 3, kSoftmaxFloats = 3;

struct TileResult {
  TileReduce reduce = TileReduce::kSum;
  int32_t value = 0;  // first register of the messages
  int32_t width = 0;
  int32_t score = 0;          // kSoftmax: first register of the scores
  int32_t top = 0;            // and of the largest scores so far, up to each edge
  int32_t share = 0;          // and of what each score makes of the sums
  int32_t score_columns = 1;  // columns that share a score
  int32_t first = 0;          // column of the kernel's result
  int32_t first_total = 0;    // where the floats of its totals begin among those of all results, [floats][width]
};

// Sizes that launches read on the host.
struct TileShape {
  int32_t instructions = 0;
  int32_t results = 0;
  int32_t registers = 0;
  int32_t width = 0;         // of all results
  int32_t widest = 0;        // of them
  int32_t total_floats = 0;  // of a row, of all results
  int32_t edge_width = 0;    // features that are read; 0: none
  bool over_edges = true;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_TILE_PROGRAM_H_
