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
// kSerialColumns in order; otherwise four chains (up to 16 columns) or eight, joined in a tree. A chain takes every
// fourth or eighth pack of four columns, in order, and is folded every 64 terms.
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
// Of sums over columns: lanes of an edge, columns at a time, and sums of an edge that have their terms on the way.
inline constexpr int kSumLanes = 8, kSumPack = 4, kSumsAtOnce = 4;

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
    ForEachNumber(tile, width,
                  [&](int edge, int c) { to[c * kStride + edge] = value.OfEdge(edge)(c, ColumnCount<1>()).v[0]; });
    return;
  }
  ForEachTileRow(tile, [&](int edge, int first) {
    const auto columns = value.OfEdge(edge);
#pragma unroll 4
    for (int c = first; c < width; c += kColumnsAcross) {
      to[c * kStride + edge] = columns(c, ColumnCount<1>()).v[0];
    }
  });
}

// A chain of a sum over terms [begin, begin + count) of an edge, which `chains` adjacent lanes share. With kColumns of
// kSumPack, count is a multiple of it.
template <int kColumns, class Terms>
__device__ __forceinline__ float ChainOf(const Terms& terms, int begin, int count, int chain, int chains) {
  float total = 0.0f, sum = 0.0f;
  int added = 0;
  for (int c = kSumPack * chain; c < count; c += kSumPack * chains) {
#pragma unroll
    for (int i = 0; i < kSumPack; i += kColumns) {
      if (kColumns == kSumPack || c + i < count) sum = terms.AddTo(sum, begin + c + i, ColumnCount<kColumns>());
    }
    added += kSumPack;
    if (added % kSumFold == 0) total += sum, sum = 0.0f;
  }
  return total + sum;
}

// Stores `parts` sums of `count` terms each, read kColumns at a time: kSumPack if count is a multiple of it, or 1.
template <int kColumns, int kTile, class Terms>
__device__ __forceinline__ void StoreSums(const ProgramTile<kTile>& tile, int first_register, int parts, int count,
                                          const Activation& activation, const Terms& terms) {
  constexpr int kStride = ProgramTile<kTile>::kStride, kWarpEdges = ProgramTile<kTile>::kWarpEdges;
  float* const to = tile.registers + first_register * kStride;
  if (count <= kSerialColumns) {
    ForEachNumber(tile, parts, [&](int edge, int part) {
      const auto of_edge = terms.OfEdge(edge);
      float sum = 0.0f;
      for (int c = 0; c < count; c += kColumns) sum = of_edge.AddTo(sum, part * count + c, ColumnCount<kColumns>());
      to[part * kStride + edge] = Activate(activation, sum);
    });
    return;
  }
  const int chains = count <= kSumLanes / 2 * kSumPack ? kSumLanes / 2 : kSumLanes, together = kSumLanes / chains;
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * kWarpEdges;
  const int chain = lane % chains, of_together = lane % kSumLanes / chains;
  if (first >= tile.edges) return;  // the whole warp
#pragma unroll 1
  for (int e = lane / kSumLanes; e < kWarpEdges; e += 32 / kSumLanes) {  // as often in all lanes
    const auto of_edge = terms.OfEdge(min(first + e, tile.edges - 1));
    for (int some = 0; some < parts; some += together * kSumsAtOnce) {
      float sums[kSumsAtOnce];
#pragma unroll
      for (int s = 0; s < kSumsAtOnce; ++s) {
        const int part = min(some + s * together + of_together, parts - 1);
        sums[s] = some + s * together < parts ? ChainOf<kColumns>(of_edge, part * count, count, chain, chains) : 0.0f;
      }
#pragma unroll
      for (int s = 0; s < kSumsAtOnce; ++s) {
#pragma unroll
        for (int distance = 1; distance < kSumLanes; distance *= 2) {
          if (distance < chains) sums[s] += __shfl_xor_sync(kWholeWarp, sums[s], distance);
        }
        const int part = some + s * together + of_together;
        if (chain == 0 && part < parts && first + e < tile.edges) {
          to[part * kStride + first + e] = Activate(activation, sums[s]);
        }
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
  static constexpr int kPartColumns = kColumnsAtRun;
  template <int kTile>
  __device__ static void Run(const ExpressionParams& params, const ProgramTile<kTile>& tile) {
#pragma unroll 1
    for (int i = 0; i < params.shape.instructions; ++i) Execute(params, tile, params.instructions[i]);
  }
  // Calls use(result, its messages, how many columns of them a thread takes) for each.
  template <int kTile, class Use>
  __device__ static void ForEachResult(const ExpressionParams& params, const ProgramTile<kTile>& tile, const Use& use) {
#pragma unroll 1
    for (int r = 0; r < params.shape.results; ++r) {
      const TileResult result = params.results[r];
      use(result, RegisterValue<kTile>{tile, result.value}, ColumnCount<1>());
    }
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_TILE_VALUES_CUH_
