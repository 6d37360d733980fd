// SPDX-License-Identifier: Apache-2.0
// What the parts of fused attention (attention.cuh) share: how lanes are laid out, the parameters of a launch, what a
// block's tile of columns covers, and each row's part of shared memory.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_LAYOUT_CUH_
#define VICINAL_ENGINE_CUDA_ATTENTION_LAYOUT_CUH_

#include <cstdint>

#include "engine/cuda/attention.h"
#include "engine/cuda/epilogue.cuh"
#include "engine/cuda/pack.cuh"
#include "engine/cuda/row_pieces.cuh"
#include "engine/cuda/softmax_state.cuh"

namespace vicinal::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kAttentionBatch = 32;  // edges whose scores are made at once, counted from a row's (piece's) first
inline constexpr int kChains = 4;           // of additions: edge j of a row (or piece) goes to chain j mod 4
// Shares of a head, one after the other; 4 more than a batch, so that heads begin in different banks.
inline constexpr int kShareStride = kAttentionBatch + 4;
inline constexpr int kMaxLanesPerHead = 8;  // that make a score of GATv2 or a dot product: the same in all layouts

template <AttentionKind kKind_, int kVec_, int kLanes_, int kGroups_, int kPacks_>
struct AttentionLayout {
  static constexpr AttentionKind kKind = kKind_;
  static constexpr int kVec = kVec_, kLanes = kLanes_, kGroups = kGroups_, kPacks = kPacks_;
  static constexpr int kRowLanes = kLanes * kGroups;
  static constexpr int kRowsPerBlock = kAttentionThreads / kRowLanes;
  static constexpr int kTile = kVec * kLanes * kPacks;
  static constexpr int kSlots = kAttentionBatch / kRowLanes;  // edges of a batch per lane
  static constexpr int kHeld = kChains / kGroups;             // chains per lane
  static constexpr int kStep = 4 * kGroups;                   // edges whose rows are on their way at once
  // Blocks per multiprocessor that registers have to suffice for: sums, and what is on its way, decide.
  static constexpr int kHeldFloats = kPacks * (kHeld * (kVec + 1) + 4 * kVec);
  static constexpr int kMinBlocks = kHeldFloats <= 26 ? 8 : kHeldFloats <= 42 ? 6 : kHeldFloats <= 56 ? 5 : 4;
  static_assert(kRowLanes >= kMaxLanesPerHead && kRowLanes <= 32 && kRowLanes % kStep == 0);

  // Where edge `edge` of a batch lies: the edges of a group of lanes side by side, so that four are read at once.
  __device__ static int Position(int edge) { return edge % kGroups * (kAttentionBatch / kGroups) + edge / kGroups; }
};

// Rows that are read where edges point: one multiplication makes an address.
struct GatheredRows {
  const float* data;
  uint32_t stride_bytes;

  __device__ const float* row(int32_t r) const {
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(data) +
                                          uint64_t{static_cast<uint32_t>(r)} * stride_bytes);
  }
};

struct AttentionParams {
  CsrView adjacency;
  GatheredRows value, scored;  // scored: what scores are made of: GAT's score_src, GATv2's value, a dot product's key
  ConstMatrixView score_dst, query;
  const float* att;
  float negative_slope;
  ScoreFactors factors;
  MatrixView dst;
  Epilogue epilogue;
  int heads, head_width;
  int lanes_per_head;  // GATv2 and dot products
  int tile_heads;      // most heads that a tile touches
  int rows_per_group;
  bool vector_store;  // packs of dst may be stored whole
  bool plain;         // no epilogue
  float* heads_out;   // [R, K*C] where heads are averaged, else null
  int64_t cells, partial_stride, sum_floats;
  float* partials;
  int* tickets;
};

// Floats of shared memory for the row of one group of lanes.
__host__ __device__ inline int GroupFloats(int tile_heads) {
  return (tile_heads * (kShareStride + 3) + kAttentionBatch + 3) / 4 * 4;
}

inline size_t SharedBytes(int tile_heads, int rows_per_block) {
  return static_cast<size_t>(GroupFloats(tile_heads)) * static_cast<size_t>(rows_per_block) * sizeof(float);
}

// One row's part of shared memory.
struct GroupMemory {
  float* shares;     // [heads of the tile][kShareStride]: scores, then their shares, by position
  int32_t* columns;  // [kAttentionBatch] by position
  float* shift;      // two of [heads of the tile], taken in turn by batches
  float* target;     // [heads of the tile]: GAT's score_dst

  __device__ GroupMemory(float* floats, int tile_heads)
      : shares(floats),
        columns(reinterpret_cast<int32_t*>(floats + tile_heads * kShareStride)),
        shift(floats + tile_heads * kShareStride + kAttentionBatch),
        target(shift + 2 * tile_heads) {}
};

// What a lane is responsible for.
template <class Layout>
struct TileWork {
  int lane;                    // among those of its row
  int group;                   // of the row's edges
  int first_head, heads;       // of the tile
  uint32_t heads_inverse;      // 2^20 / heads, rounded up
  int column[Layout::kPacks];  // first of each pack
  int head[Layout::kPacks];    // of each pack, counted from first_head
  bool has[Layout::kPacks];

  __device__ explicit TileWork(const AttentionParams& params) {
    lane = static_cast<int>(threadIdx.x) % Layout::kRowLanes;
    group = lane / Layout::kLanes;
    const int columns = params.heads * params.head_width;
    const int begin = static_cast<int>(blockIdx.y) * Layout::kTile;
    const int end = min(begin + Layout::kTile, columns);
    first_head = begin / params.head_width;
    heads = (end - 1) / params.head_width - first_head + 1;
    heads_inverse = (1u << 20) / static_cast<uint32_t>(heads) + 1;
#pragma unroll
    for (int p = 0; p < Layout::kPacks; ++p) {
      column[p] = begin + (p * Layout::kLanes + lane % Layout::kLanes) * Layout::kVec;
      has[p] = column[p] < end;
      head[p] = has[p] ? column[p] / params.head_width - first_head : 0;
    }
  }
};

// Source ids of a batch, loaded a batch ahead: the edges of neighbouring rows lie one after the other, so at a row's
// end what comes next is the next row's. Edges count from those of this lane's group.
template <class Layout>
struct SourceStream {
  const int32_t* col;
  int stop;  // no edge from here on
  int at = -1;
  int32_t held[Layout::kSlots];

  __device__ void Load(int begin, int lane) {
    at = begin;
#pragma unroll
    for (int slot = 0; slot < Layout::kSlots; ++slot) {
      const int edge = begin + slot * Layout::kRowLanes + lane;
      held[slot] = edge < stop ? __ldg(col + edge) : 0;
    }
  }
};

__device__ inline float LeakyRelu(float x, float slope) { return x < 0.0f ? slope * x : x; }

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_LAYOUT_CUH_
