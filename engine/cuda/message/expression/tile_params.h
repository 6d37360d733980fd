// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels that carry out a TileProgram.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_TILE_PARAMS_H_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_TILE_PARAMS_H_

#include <cstdint>

#include "engine/cuda/message/expression/tile_program.h"
#include "engine/device/views.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

inline constexpr int kExpressionMatrices = 8;
inline constexpr int kExpressionThreads = 128;  // of a block
// The unit, in edges, for cutting long rows (row_pieces.h), and how many messages of a row are joined before they are
// folded into its total. Part of the order of evaluation.
inline constexpr int64_t kExpressionUnit = 128;
inline constexpr int kExpressionFold = 64;
// A compiled program's kPartColumns, and an interpreted one's.
inline constexpr int kWholeResults = 0;   // a block reduces all columns of the results
inline constexpr int kColumnsAtRun = -1;  // ExpressionParams::part_columns of them

struct RowsOfNodes {
  const float* data = nullptr;
  int64_t stride = 0;
};

struct ExpressionParams {
  TileShape shape;
  const TileInstruction* instructions = nullptr;
  const TileResult* results = nullptr;
  CsrView adjacency;  // of a program over rows: empty
  RowsOfNodes sources[kExpressionMatrices], targets[kExpressionMatrices];
  bool in_packs = false;  // their rows and those of parameters are aligned to 16 bytes
  EdgeFeaturesView edge;
  MatrixView dst;
  Epilogue epilogue;
  // Of work: ranges of keys (FirstRowAt), or tiles of rows. With parts, those of a part of the columns come before the
  // next part's.
  int64_t items = 0;
  int64_t part_items = 0;    // of each part
  int32_t part_columns = 0;  // of each result
  int64_t keys_per_item = 0;
  // Partial results of long rows (row_pieces.h).
  int64_t cells = 0;
  int64_t partial_stride = 0;
  float* partials = nullptr;  // [cells][total_floats]
  int* tickets = nullptr;     // [parts][cells]
  // Registers and totals of each block, where shared memory is too small for them; null: they fit.
  float* block_memory = nullptr;
  int64_t block_floats = 0;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_TILE_PARAMS_H_
