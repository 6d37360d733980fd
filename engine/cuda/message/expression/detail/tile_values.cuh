// SPDX-License-Identifier: Apache-2.0
// The values of a tile of edges, instruction by instruction, by a block.
//
// Each edge belongs to one warp, which computes its columns: 4 edges by 8 columns at a time, so that reads of sources
// take whole sectors and registers 32 different banks. So instructions need no barrier between them, but for products,
// where a thread holds several edges by several outputs (tile_blocks.cuh). Everything here takes the instruction by
// value: in a kernel compiled for one program its fields are constants, and nothing else differs.
//
// Order of evaluation: a number depends on its edge alone. Operations are rounded one by one: this is compiled with
// --fmad=false, and where a product and a sum are rounded once, that is written as fmaf. Sums over columns: up to
// kSerialColumns in order; otherwise eight chains, each folded every 64 terms, joined in a tree.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_TILE_VALUES_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_TILE_VALUES_CUH_

#include <cstdint>

#include "engine/cuda/common/edge_features.cuh"
#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/message/expression/tile_params.h"
#include "engine/cuda/message/tile_blocks.cuh"

namespace vicinal::cuda {

static_assert(kExpressionThreads == kTileThreads);
inline constexpr int kEdgesAcross = 4, kColumnsAcross = 8;  // of a warp
inline constexpr int kSerialColumns = 15, kSumFold = 64;

// The edges of a tile, or the rows of a program over rows, in shared memory.
template <int kTile>
struct ProgramTile {
  static constexpr int kStride = kTileStride<kTile>;
  static constexpr int kWarpEdges = kTile / (kTileThreads / 32);
  float* registers;        // [registers][kStride]; in global memory where shared memory is too small
  const float** features;  // [kTile], of each edge
  int32_t* source;         // [kTile]
  int32_t* target;         // [kTile]
  float* weight;           // [kTile]
  int edges;
};

// Columns of one edge's operand, `step` floats apart.
struct OperandColumns {
  const float* first;
  int64_t step;

  __device__ float operator[](int64_t c) const { return first[c * step]; }
};

template <int kTile>
__device__ __forceinline__ OperandColumns ColumnsOf(const ExpressionParams& params, const ProgramTile<kTile>& tile,
                                                    const TileOperand& operand, int edge) {
  const int64_t step = operand.width == 1 ? 0 : 1;
  switch (operand.place) {
    case TilePlace::kRegister:
      return {tile.registers + operand.first * tile.kStride + edge, step * tile.kStride};
    case TilePlace::kSource: {
      const RowsOfNodes& rows = params.sources[operand.matrix];
      return {rows.data + tile.source[edge] * rows.stride + operand.first, step};
    }
    case TilePlace::kTarget: {
      const RowsOfNodes& rows = params.targets[operand.matrix];
      return {rows.data + tile.target[edge] * rows.stride + operand.first, step};
    }
    case TilePlace::kFeatures:
      return {tile.features[edge] + operand.first, step};
    case TilePlace::kWeight:
      return {tile.weight + edge, 0};
    case TilePlace::kRow:
      return {operand.row + operand.first, step};
    default:
      return {&operand.number, 0};
  }
}

// Calls use(edge, c) for all columns of this warp's edges. Narrow values take all lanes along the edges first.
template <int kTile, class Use>
__device__ inline void ForEachNumber(const ProgramTile<kTile>& tile, int width, const Use& use) {
  constexpr int kWarpEdges = ProgramTile<kTile>::kWarpEdges;
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * kWarpEdges;
  for (int item = lane; item < kWarpEdges * width; item += 32) {
    const int edge = first + item % kWarpEdges;
    if (edge < tile.edges) use(edge, item / kWarpEdges);
  }
}

// The same for wide values: use(edge, first column) is to take every kColumnsAcross-th column.
template <int kTile, class Use>
__device__ inline void ForEachTileRow(const ProgramTile<kTile>& tile, const Use& use) {
  constexpr int kWarpEdges = ProgramTile<kTile>::kWarpEdges;
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * kWarpEdges;
#pragma unroll 1
  for (int e = lane % kEdgesAcross; e < kWarpEdges; e += kEdgesAcross) {
    if (first + e < tile.edges) use(first + e, lane / kEdgesAcross);
  }
}

// to[c] = activation(f(a[c], b[c])).
template <int kTile, class F>
__device__ __forceinline__ void ApplyColumns(const ExpressionParams& params, const ProgramTile<kTile>& tile,
                                             const TileInstruction& i, const F& f) {
  constexpr int kStride = ProgramTile<kTile>::kStride;
  float* const to = tile.registers + i.to * kStride;
  if (i.width < kColumnsAcross) {
    ForEachNumber(tile, i.width, [&](int edge, int c) {
      const float x = f(ColumnsOf(params, tile, i.a, edge)[c], ColumnsOf(params, tile, i.b, edge)[c]);
      to[c * kStride + edge] = Activate(i.activation, x);
    });
    return;
  }
  ForEachTileRow(tile, [&](int edge, int first) {
    const OperandColumns a = ColumnsOf(params, tile, i.a, edge), b = ColumnsOf(params, tile, i.b, edge);
#pragma unroll 4
    for (int c = first; c < i.width; c += kColumnsAcross) {
      to[c * kStride + edge] = Activate(i.activation, f(a[c], b[c]));
    }
  });
}

__device__ inline float TermOf(bool dot, float a, float b, float sum) { return dot ? fmaf(a, b, sum) : a + sum; }

// A sum over columns [begin, begin + count) of an edge by its eight lanes, which all get it.
__device__ inline float SumAcross(bool dot, const OperandColumns& a, const OperandColumns& b, int begin, int count,
                                  int lane) {
  float total = 0.0f, sum = 0.0f;
  int terms = 0;
  for (int c = lane / kEdgesAcross; c < count; c += kColumnsAcross) {
    sum = TermOf(dot, a[begin + c], dot ? b[begin + c] : 0.0f, sum);
    if (++terms % kSumFold == 0) total += sum, sum = 0.0f;
  }
  total += sum;
#pragma unroll
  for (int distance = kEdgesAcross; distance < 32; distance *= 2) {
    total += __shfl_xor_sync(kWholeWarp, total, distance);
  }
  return total;
}

template <int kTile>
__device__ __forceinline__ void SumParts(const ExpressionParams& params, const ProgramTile<kTile>& tile,
                                         const TileInstruction& i) {
  constexpr int kStride = ProgramTile<kTile>::kStride, kWarpEdges = ProgramTile<kTile>::kWarpEdges;
  const bool dot = i.op == TileOp::kDot;
  const int count = i.a.width / i.width;
  float* const to = tile.registers + i.to * kStride;
  if (count <= kSerialColumns) {
    ForEachNumber(tile, i.width, [&](int edge, int part) {
      const OperandColumns a = ColumnsOf(params, tile, i.a, edge), b = ColumnsOf(params, tile, dot ? i.b : i.a, edge);
      float sum = 0.0f;
      for (int c = part * count; c < (part + 1) * count; ++c) sum = TermOf(dot, a[c], dot ? b[c] : 0.0f, sum);
      to[part * kStride + edge] = Activate(i.activation, sum);
    });
    return;
  }
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * kWarpEdges;
#pragma unroll 1
  for (int e = lane % kEdgesAcross; e < kWarpEdges; e += kEdgesAcross) {  // as often in all lanes
    const int edge = min(first + e, tile.edges - 1);
    const OperandColumns a = ColumnsOf(params, tile, i.a, edge), b = ColumnsOf(params, tile, dot ? i.b : i.a, edge);
    for (int part = 0; part < i.width; ++part) {
      const float sum = SumAcross(dot, a, b, part * count, count, lane);
      if (lane / kEdgesAcross == part % kColumnsAcross && first + e < tile.edges) {
        to[part * kStride + edge] = Activate(i.activation, sum);
      }
    }
  }
}

template <int kTile>
__device__ __forceinline__ void Repeat(const ExpressionParams& params, const ProgramTile<kTile>& tile,
                                       const TileInstruction& i) {
  constexpr int kStride = ProgramTile<kTile>::kStride;
  const int times = i.width / i.a.width;
  float* const to = tile.registers + i.to * kStride;
  ForEachNumber(tile, i.width, [&](int edge, int c) {
    to[c * kStride + edge] = Activate(i.activation, ColumnsOf(params, tile, i.a, edge)[c / times]);
  });
}

template <int kTile>
__device__ __forceinline__ void Multiply(const ProgramTile<kTile>& tile, const TileInstruction& i) {
  const TileLayer layer = {i.weight, (i.width + 3) / 4 * 4, i.bias, i.activation, i.a.width, i.width};
  __syncthreads();
  MultiplyLayer<kTile, true>(layer, tile.registers + i.a.first * tile.kStride, tile.registers + i.to * tile.kStride);
  __syncthreads();
}

// To be called by whole blocks.
template <int kTile>
__device__ __forceinline__ void Execute(const ExpressionParams& params, const ProgramTile<kTile>& tile,
                                        const TileInstruction& i) {
  const auto apply = [&](const auto& f) { ApplyColumns(params, tile, i, f); };
  switch (i.op) {
    case TileOp::kAdd:
      apply([](float a, float b) { return a + b; });
      break;
    case TileOp::kSubtract:
      apply([](float a, float b) { return a - b; });
      break;
    case TileOp::kMultiply:
      apply([](float a, float b) { return a * b; });
      break;
    case TileOp::kDivide:
      apply([](float a, float b) { return __fdiv_rn(a, b); });
      break;
    case TileOp::kMin:
      apply([](float a, float b) { return -LargerOf(-a, -b); });
      break;
    case TileOp::kMax:
      apply([](float a, float b) { return LargerOf(a, b); });
      break;
    case TileOp::kLog:
      apply([](float a, float) { return logf(a); });
      break;
    case TileOp::kAbs:
      apply([](float a, float) { return fabsf(a); });
      break;
    case TileOp::kLinear:
      return Multiply(tile, i);
    case TileOp::kDot:
    case TileOp::kSum:
      SumParts(params, tile, i);
      break;
    case TileOp::kRepeat:
      Repeat(params, tile, i);
      break;
    default:
      apply([](float a, float) { return a; });
  }
  __syncwarp();
}

// The program as it stands in memory. Compiled ones have the same members (compile/generate_source.h).
struct InterpretedProgram {
  template <int kTile>
  __device__ static void Run(const ExpressionParams& params, const ProgramTile<kTile>& tile) {
#pragma unroll 1
    for (int i = 0; i < params.shape.instructions; ++i) Execute(params, tile, params.instructions[i]);
  }
  // Calls use(result) for each.
  template <class Use>
  __device__ static void ForEachResult(const ExpressionParams& params, const Use& use) {
#pragma unroll 1
    for (int r = 0; r < params.shape.results; ++r) {
      const TileResult result = params.results[r];
      use(result);
    }
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_TILE_VALUES_CUH_
