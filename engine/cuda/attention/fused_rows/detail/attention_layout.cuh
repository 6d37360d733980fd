// SPDX-License-Identifier: Apache-2.0
// What the parts of fused attention (fused_rows.cuh) share: the layout of lanes, the parameters of a launch, a lane's
// part of the tile of columns, and each row's part of shared memory.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_LAYOUT_CUH_
#define VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_LAYOUT_CUH_

#include <cstdint>

#include "engine/cuda/attention/fused_rows/fused_rows.h"
#include "engine/cuda/attention/softmax/softmax_state.cuh"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/pack.cuh"
#include "engine/cuda/common/row_pieces.cuh"

namespace vicinal::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kAttentionBatch = 32;  // edges whose scores are computed at once, from a row's (piece's) first on
inline constexpr int kAttentionChains = 4;  // of additions: edge j of a row (or piece) goes to chain j mod 4
// Stride of a head's shares: 4 more than a batch, so that heads begin in different banks.
inline constexpr int kShareStride = kAttentionBatch + 4;
// The most lanes that compute a score of GATv2 or a dot product, and the packs of each lane. The same in all layouts.
inline constexpr int kMaxLanesPerHead = 8, kScorePacks = 2;

// kFeatured: edges have features (attention_features.cuh).
template <AttentionKind kKind_, int kVec_, int kLanes_, int kGroups_, int kPacks_, bool kFeatured_ = false>
struct AttentionLayout {
  static constexpr AttentionKind kKind = kKind_;
  static constexpr bool kFeatured = kFeatured_;
  static constexpr int kVec = kVec_, kLanes = kLanes_, kGroups = kGroups_, kPacks = kPacks_;
  static constexpr int kRowLanes = kLanes * kGroups;
  static constexpr int kRowsPerBlock = kAttentionThreads / kRowLanes;
  static constexpr int kTile = kVec * kLanes * kPacks;
  static constexpr int kSlots = kAttentionBatch / kRowLanes;  // edges of a batch per lane
  static constexpr int kHeld = kAttentionChains / kGroups;    // chains per lane
  static constexpr int kStep = 4 * kGroups;                   // edges whose rows are in flight at once
  // Blocks per multiprocessor that the registers must suffice for. Sums and loads in flight determine it.
  static constexpr int kOnTheWay = kKind == AttentionKind::kGat ? 0 : 4 * kScorePacks * 2;
  static constexpr int kHeldFloats = kPacks * (kHeld * (kVec + 1) + 4 * kVec) + kOnTheWay;
  static constexpr int kMinBlocks = kFeatured           ? 4
                                    : kHeldFloats <= 26 ? 8
                                    : kHeldFloats <= 42 ? 6
                                    : kHeldFloats <= 56 ? 5
                                                        : 4;
  static_assert(kRowLanes >= kMaxLanesPerHead && kRowLanes <= 32 && kRowLanes % kStep == 0);

  // The position of edge `edge` of a batch: the edges of a group of lanes are adjacent, so that four are read at once.
  __device__ static int Position(int edge) { return edge % kGroups * (kAttentionBatch / kGroups) + edge / kGroups; }
};

// Rows gathered by source id, with 32-bit strides, so that one multiplication computes an address.
struct GatheredRows {
  const float* data;
  uint32_t stride_bytes;

  __device__ const float* row(int32_t r) const {
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(data) +
                                          uint64_t{static_cast<uint32_t>(r)} * stride_bytes);
  }
};

// The rows, which have K heads of C columns each, and how they are distributed.
struct AttentionWork {
  CsrView adjacency;   // [R, S]
  int heads;           // K
  int head_width;      // C
  int lanes_per_head;  // GATv2 and dot products
  int tile_heads;      // the most heads that a tile overlaps
  int rows_per_group;
  int cells_per_group;
};

// The inputs of scores and sums.
struct AttentionSource {
  GatheredRows value;         // [S, K * C]
  GatheredRows scored;        // the scores' inputs: GAT's score_src, GATv2's value, a dot product's key
  ConstMatrixView score_dst;  // [R, K], of GAT
  ConstMatrixView query;      // [R, K * C], of GATv2 and dot products
  const float* att;           // [K * C], of GATv2
  float negative_slope;       // of GATv2
  ScoreFactors factors;
  Access score_access;  // of GAT's scores
};

// Features of edges and their weights; read by kernels with Layout::kFeatured alone.
struct FeatureSource {
  EdgeFeaturesView edge;
  const float* weight;  // W^T [A, K] for GAT, otherwise [A, K * C]
  int width;            // A
  Access access;        // of an edge's features
};

// Partial results of long rows (row_pieces.h).
struct AttentionParts {
  int64_t cells;
  int64_t partial_stride;  // floats of a cell
  int64_t sum_floats;      // sums of a cell, before its shifts and denominators, then its sums of features
  float* partials;         // [cells, partial_stride]
  int* tickets;
};

struct AttentionEpilogue {
  MatrixView dst;  // [R, K * C], or [R, C] if heads are averaged
  Epilogue epilogue;
  float* heads_out;  // [R, K * C] if heads are averaged, else null
  Access dst_access;
  bool plain;  // the epilogue does nothing
};

// The argument of the fused kernels. Trivially copyable.
struct AttentionParams {
  AttentionWork work;
  AttentionSource source;
  AttentionParts parts;
  AttentionEpilogue out;
  FeatureSource features;
};

inline constexpr int kNoteFloats = sizeof(RowPiece) / sizeof(float);  // a multiple of 16 bytes
static_assert(kNoteFloats % 4 == 0);

// Floats of shared memory for the row of one group of lanes.
__host__ __device__ inline int GroupFloats(int tile_heads) {
  return kNoteFloats + (tile_heads * (kShareStride + 3) + kAttentionBatch + 3) / 4 * 4;
}

inline size_t SharedBytes(int tile_heads, int rows_per_block) {
  return static_cast<size_t>(GroupFloats(tile_heads)) * static_cast<size_t>(rows_per_block) * sizeof(float);
}

// One row's part of shared memory.
struct GroupMemory {
  RowPiece* piece;   // of a long row, kept out of the registers while its edges are summed
  float* shares;     // [heads of the tile][kShareStride] by position: scores, then shares
  int32_t* columns;  // [kAttentionBatch] by position
  float* shift;      // [2][heads of the tile]; batches alternate between the two
  float* target;     // [heads of the tile]: GAT's score_dst

  __device__ GroupMemory(float* floats, int tile_heads)
      : piece(reinterpret_cast<RowPiece*>(floats)),
        shares(floats + kNoteFloats),
        columns(reinterpret_cast<int32_t*>(shares + tile_heads * kShareStride)),
        shift(shares + tile_heads * kShareStride + kAttentionBatch),
        target(shift + 2 * tile_heads) {}
};

// The work of a lane.
template <class Layout>
struct TileWork {
  int lane;                    // among those of its row
  int group;                   // of the row's edges
  int first_head, heads;       // of the tile
  bool score_packs;            // GAT's scores of the tile's heads can be read four at a time
  int column[Layout::kPacks];  // first of each pack; without a pack, that of another lane
  int head[Layout::kPacks];    // of each pack, counted from first_head
  bool has[Layout::kPacks];

  __device__ explicit TileWork(const AttentionParams& params) {
    lane = static_cast<int>(threadIdx.x) % Layout::kRowLanes;
    group = lane / Layout::kLanes;
    const int columns = params.work.heads * params.work.head_width;
    const int begin = static_cast<int>(blockIdx.y) * Layout::kTile;
    const int end = min(begin + Layout::kTile, columns);
    first_head = begin / params.work.head_width;
    heads = (end - 1) / params.work.head_width - first_head + 1;
    score_packs = params.source.score_access != Access::kElements && first_head % 4 == 0 && heads % 4 == 0;
#pragma unroll
    for (int p = 0; p < Layout::kPacks; ++p) {
      column[p] = begin + (p * Layout::kLanes + lane % Layout::kLanes) * Layout::kVec;
      has[p] = column[p] < end;
      if (!has[p]) column[p] = begin;
      head[p] = column[p] / params.work.head_width - first_head;
    }
  }
};

// The source ids of a batch, loaded one batch ahead. The edges of adjacent rows are adjacent, so the batch after a
// row's last one is the next row's first. Edge numbers are relative to the first edge of this lane's group.
template <class Layout>
struct SourceStream {
  const int32_t* col;
  int stop;  // end of the edges
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

// *p if `valid`, else zeros, without a branch.
template <int kVec>
__device__ inline Pack<kVec> LoadWhere(bool valid, const float* p) {
  Pack<kVec> x = Pack<kVec>::Filled(0.0f);
  if constexpr (kVec == 4) {
    asm("{ .reg .pred valid; setp.ne.s32 valid, %5, 0; @valid ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4]; }"
        : "+f"(x.v[0]), "+f"(x.v[1]), "+f"(x.v[2]), "+f"(x.v[3])
        : "l"(p), "r"(static_cast<int>(valid)));
  } else {
    asm("{ .reg .pred valid; setp.ne.s32 valid, %2, 0; @valid ld.global.nc.f32 %0, [%1]; }"
        : "+f"(x.v[0])
        : "l"(p), "r"(static_cast<int>(valid)));
  }
  return x;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_LAYOUT_CUH_
