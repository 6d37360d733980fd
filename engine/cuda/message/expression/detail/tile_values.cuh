// SPDX-License-Identifier: Apache-2.0
// The values of a tile of edges, instruction by instruction, by a block.
//
// Each edge belongs to one warp, which computes its columns: 4 edges by 8 columns at a time, so that reads of sources
// take whole sectors and registers 32 different banks. So instructions need no barrier between them, but for products,
// where a thread holds several edges by several outputs (tile_blocks.cuh). A kernel compiled for one program calls the
// same functions, with constants and with nested values (edge_values.cuh).
//
// Order of evaluation: a number depends on its edge alone. Operations are rounded one by one: this is compiled with
// --fmad=false, and where a product and a sum are rounded once, that is written as fmaf. Sums over columns: up to
// kSerialColumns in order; otherwise eight chains, each folded every 64 terms, joined in a tree.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_TILE_VALUES_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_TILE_VALUES_CUH_

#include <cstdint>

#include "engine/cuda/message/expression/detail/edge_values.cuh"
#include "engine/cuda/message/expression/tile_params.h"
#include "engine/cuda/message/tile_blocks.cuh"

namespace vicinal::cuda {

static_assert(kExpressionThreads == kTileThreads);
inline constexpr int kEdgesAcross = 4, kColumnsAcross = 8;  // of a warp
inline constexpr int kSerialColumns = 15, kSumFold = 64;

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

// Stores the columns of a value.
template <int kTile, class Value>
__device__ __forceinline__ void StoreValue(const ProgramTile<kTile>& tile, int first_register, int width,
                                           const Value& value) {
  constexpr int kStride = ProgramTile<kTile>::kStride;
  float* const to = tile.registers + first_register * kStride;
  if (width < kColumnsAcross) {
    ForEachNumber(tile, width, [&](int edge, int c) { to[c * kStride + edge] = value.OfEdge(edge)(c); });
    return;
  }
  ForEachTileRow(tile, [&](int edge, int first) {
    const auto columns = value.OfEdge(edge);
#pragma unroll 4
    for (int c = first; c < width; c += kColumnsAcross) to[c * kStride + edge] = columns(c);
  });
}

// A sum over terms [begin, begin + count) of an edge by its eight lanes, which all get it.
template <class Terms>
__device__ inline float SumAcross(const Terms& terms, int begin, int count, int lane) {
  float total = 0.0f, sum = 0.0f;
  int added = 0;
  for (int c = lane / kEdgesAcross; c < count; c += kColumnsAcross) {
    sum = terms.AddTo(sum, begin + c);
    if (++added % kSumFold == 0) total += sum, sum = 0.0f;
  }
  total += sum;
#pragma unroll
  for (int distance = kEdgesAcross; distance < 32; distance *= 2) {
    total += __shfl_xor_sync(kWholeWarp, total, distance);
  }
  return total;
}

// Stores `parts` sums of `count` terms each. kTogether: edges whose terms a thread has on their way at the same time.
template <int kTogether, int kTile, class Terms>
__device__ __forceinline__ void StoreSums(const ProgramTile<kTile>& tile, int first_register, int parts, int count,
                                          const Activation& activation, const Terms& terms) {
  constexpr int kStride = ProgramTile<kTile>::kStride, kWarpEdges = ProgramTile<kTile>::kWarpEdges;
  float* const to = tile.registers + first_register * kStride;
  if (count <= kSerialColumns) {
    ForEachNumber(tile, parts, [&](int edge, int part) {
      const auto of_edge = terms.OfEdge(edge);
      float sum = 0.0f;
      for (int c = part * count; c < (part + 1) * count; ++c) sum = of_edge.AddTo(sum, c);
      to[part * kStride + edge] = Activate(activation, sum);
    });
    return;
  }
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * kWarpEdges;
#pragma unroll kTogether
  for (int e = lane % kEdgesAcross; e < kWarpEdges; e += kEdgesAcross) {  // as often in all lanes
    const auto of_edge = terms.OfEdge(min(first + e, tile.edges - 1));
    for (int part = 0; part < parts; ++part) {
      const float sum = SumAcross(of_edge, part * count, count, lane);
      if (lane / kEdgesAcross == part % kColumnsAcross && first + e < tile.edges) {
        to[part * kStride + first + e] = Activate(activation, sum);
      }
    }
  }
}

template <int kTile>
__device__ __forceinline__ void Multiply(const ProgramTile<kTile>& tile, const TileInstruction& i) {
  const TileLayer layer = {i.weight, (i.width + 3) / 4 * 4, i.bias, i.activation, i.a.width, i.width};
  __syncthreads();
  MultiplyLayer<kTile, true>(layer, tile.registers + i.a.first * tile.kStride, tile.registers + i.to * tile.kStride);
  __syncthreads();
}

// The values of the operands stand where the instruction says. To be called by whole blocks.
template <int kTile>
__device__ __forceinline__ void Execute(const ExpressionParams& params, const ProgramTile<kTile>& tile,
                                        const TileInstruction& i) {
  const OperandValue<kTile> a = {params, tile, i.a}, b = {params, tile, i.b};
  const auto combine = [&]<TileOp kOp>(OpTag<kOp>) {
    StoreValue(tile, i.to, i.width, Combined<kOp, OperandValue<kTile>, OperandValue<kTile>>{a, b, i.activation});
  };
  switch (i.op) {
    case TileOp::kAdd:
      combine(OpTag<TileOp::kAdd>());
      break;
    case TileOp::kSubtract:
      combine(OpTag<TileOp::kSubtract>());
      break;
    case TileOp::kMultiply:
      combine(OpTag<TileOp::kMultiply>());
      break;
    case TileOp::kDivide:
      combine(OpTag<TileOp::kDivide>());
      break;
    case TileOp::kMin:
      combine(OpTag<TileOp::kMin>());
      break;
    case TileOp::kMax:
      combine(OpTag<TileOp::kMax>());
      break;
    case TileOp::kLog:
      combine(OpTag<TileOp::kLog>());
      break;
    case TileOp::kAbs:
      combine(OpTag<TileOp::kAbs>());
      break;
    case TileOp::kLinear:
      return Multiply(tile, i);
    case TileOp::kDot:
      StoreSums<1>(tile, i.to, i.width, i.a.width / i.width, i.activation, DotTerms{a, b});
      break;
    case TileOp::kSum:
      StoreSums<1>(tile, i.to, i.width, i.a.width / i.width, i.activation, SumTerms{a});
      break;
    case TileOp::kRepeat:
      StoreValue(tile, i.to, i.width, Repeated<OperandValue<kTile>>{a, i.width / i.a.width, i.activation});
      break;
    default:
      combine(OpTag<TileOp::kCopy>());
  }
  __syncwarp();
}

// The program as it stands in memory. Compiled ones have the same members (compile/generate_source.h).
struct InterpretedProgram {
  static constexpr bool kRegistersInShared = false;  // or true: known at run time
  template <int kTile>
  __device__ static void Run(const ExpressionParams& params, const ProgramTile<kTile>& tile) {
#pragma unroll 1
    for (int i = 0; i < params.shape.instructions; ++i) Execute(params, tile, params.instructions[i]);
  }
  // Calls use(result, its messages) for each.
  template <int kTile, class Use>
  __device__ static void ForEachResult(const ExpressionParams& params, const ProgramTile<kTile>& tile, const Use& use) {
#pragma unroll 1
    for (int r = 0; r < params.shape.results; ++r) {
      const TileResult result = params.results[r];
      use(result, RegisterValue<kTile>{tile, result.value});
    }
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_TILE_VALUES_CUH_
