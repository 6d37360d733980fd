// SPDX-License-Identifier: Apache-2.0
// Blocks whose messages pass through shared memory, whatever the messages are: which rows a block has, how edges of a
// tile are shared out to threads, and products of a tile with weights. A tile's numbers are column-major, kTileStride
// floats per column.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_TILE_BLOCKS_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_TILE_BLOCKS_CUH_

#include <cstdint>

#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/row_pieces.cuh"
#include "engine/cuda/dense/packed_weights.h"

namespace vicinal::cuda {

inline constexpr int kTileThreads = 128, kTileBlocks = 4;  // blocks per multiprocessor that registers allow
inline constexpr int kThreadColumns = 4;
inline constexpr int kPieceChains = 4;

// Floats from one column of a tile to the next. Four more than edges, so that columns begin in different banks.
template <int kTile>
inline constexpr int kTileStride = kTile + 4;

// Rows [first, last) and their edges [begin, end), none of them cut, or a piece of one row.
struct EdgeRun {
  int64_t first, last, begin, end;
  bool whole_rows;
};

// out = activation(in * W^T + bias) for the tile's edges.
struct TileLayer {
  const float* weight;  // W^T [in_width, out_width], rows `stride` apart
  int64_t stride;
  const float* bias;  // or null
  Activation activation;
  int64_t in_width, out_width;
};

// kPacks: rows of the weights are aligned to 16 bytes, and padded to whole packs.
template <int kTile, int kThreadEdges, bool kPacks>
__device__ inline void MultiplyTile(const TileLayer& layer, const float* in, float* out) {
  constexpr int kStride = kTileStride<kTile>, kAcross = kTileThreads / (kTile / kThreadEdges);
  constexpr int kLoaded = kThreadEdges < 4 ? kThreadEdges : 4;
  const int edge = static_cast<int>(threadIdx.x) / kAcross * kThreadEdges;
  for (int64_t h = threadIdx.x % kAcross * kThreadColumns; h < layer.out_width; h += kAcross * kThreadColumns) {
    float total[kThreadEdges][kThreadColumns] = {}, sum[kThreadEdges][kThreadColumns] = {};
    for (int64_t k0 = 0; k0 < layer.in_width; k0 += kFoldInputs) {
      const int64_t k1 = min(k0 + kFoldInputs, layer.in_width);
#pragma unroll 4
      for (int64_t k = k0; k < k1; ++k) {
        const float* const weight = layer.weight + k * layer.stride + h;
        Pack<4> w;
        if constexpr (kPacks) {
          w = LoadReadOnly<4>(weight);
        } else {
#pragma unroll
          for (int j = 0; j < kThreadColumns; ++j) w.v[j] = h + j < layer.out_width ? __ldg(weight + j) : 0.0f;
        }
#pragma unroll
        for (int part = 0; part < kThreadEdges; part += kLoaded) {
          const Pack<kLoaded> x = LoadShared<kLoaded>(in + k * kStride + edge + part);
#pragma unroll
          for (int i = 0; i < kLoaded; ++i) {
#pragma unroll
            for (int j = 0; j < kThreadColumns; ++j) sum[part + i][j] = fmaf(x.v[i], w.v[j], sum[part + i][j]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kThreadEdges; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadColumns; ++j) {
          total[i][j] += sum[i][j];
          sum[i][j] = 0.0f;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kThreadColumns; ++j) {
      if (h + j >= layer.out_width) break;
      const float bias = layer.bias != nullptr ? __ldg(layer.bias + h + j) : 0.0f;
#pragma unroll
      for (int i = 0; i < kThreadEdges; ++i) {
        out[(h + j) * kStride + edge + i] = Activate(layer.activation, total[i][j] + bias);
      }
    }
  }
}

// Not inlined, so that it has registers of its own. Two edges per thread where 8, which are fewer loads of weights,
// would leave three threads of four idle; bits do not depend on it.
template <int kTile, bool kPacks>
__device__ __noinline__ void MultiplyLayer(TileLayer layer, const float* in, float* out) {
  constexpr int kFewOutputs = 8 * kThreadColumns * (kTileThreads / 4) / kTile;
  layer.out_width <= kFewOutputs ? MultiplyTile<kTile, 2, kPacks>(layer, in, out)
                                 : MultiplyTile<kTile, 8, kPacks>(layer, in, out);
}

// Rows are shared out by their edges and one more each, so that blocks have equal work in any order of rows: a row's
// key is the number of edges and rows before it. This is the first row whose key is not below `key`. To be called by
// whole warps.
__device__ inline int64_t FirstRowAt(const CsrView& adjacency, int64_t key, int64_t low, int64_t high) {
  const int lane = threadIdx.x % 32;
  while (low < high) {
    const int64_t step = (high - low) / 33 + 1;  // all lanes below: the result may be `high`
    const int64_t at = low + (lane + 1) * step - 1;
    const bool below = at < high && __ldg(adjacency.row_ptr + at) + at < key;
    const int passed = __popc(__ballot_sync(kWholeWarp, below));
    high = min(high, low + (passed + 1) * step - 1);
    low += passed * step;
  }
  return low;
}

// True in all threads of the block that stores the last of a row's pieces.
__device__ inline bool BlockArrivesLast(int* ticket, int64_t pieces) {
  __shared__ int before;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) before = atomicAdd(ticket, 1);
  __syncthreads();
  if (before != pieces - 1) return false;
  __threadfence();
  if (threadIdx.x == 0) *ticket = 0;
  return true;
}

// The floats of a reduction's total, `step` apart.
template <class Total>
__device__ inline Total LoadTotal(const float* from, int64_t step) {
  Total total;
#pragma unroll
  for (int i = 0; i < Total::kFloats; ++i) *total.Float(i) = from[i * step];
  return total;
}
template <class Total>
__device__ inline void StoreTotal(Total total, float* to, int64_t step) {
#pragma unroll
  for (int i = 0; i < Total::kFloats; ++i) to[i * step] = *total.Float(i);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_TILE_BLOCKS_CUH_
