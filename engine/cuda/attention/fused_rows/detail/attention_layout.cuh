// SPDX-License-Identifier: Apache-2.0
// What the parts of fused attention (fused_rows.cuh) share: how lanes are laid out, the parameters of a launch, what a
// block's tile of columns covers, and each row's part of shared memory.
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
inline constexpr int kAttentionBatch = 32;  // edges whose scores are made at once, counted from a row's (piece's) first
inline constexpr int kAttentionChains = 4;  // of additions: edge j of a row (or piece) goes to chain j mod 4
// Shares of a head, one after the other; 4 more than a batch, so that heads begin in different banks.
inline constexpr int kShareStride = kAttentionBatch + 4;
// Lanes that make a score of GATv2 or a dot product, and packs of each: the same in all layouts.
inline constexpr int kMaxLanesPerHead = 8, kScorePacks = 2;

template <AttentionKind kKind_, int kVec_, int kLanes_, int kGroups_, int kPacks_>
struct AttentionLayout {
  static constexpr AttentionKind kKind = kKind_;
  static constexpr int kVec = kVec_, kLanes = kLanes_, kGroups = kGroups_, kPacks = kPacks_;
  static constexpr int kRowLanes = kLanes * kGroups;
  static constexpr int kRowsPerBlock = kAttentionThreads / kRowLanes;
  static constexpr int kTile = kVec * kLanes * kPacks;
  static constexpr int kSlots = kAttentionBatch / kRowLanes;  // edges of a batch per lane
  static constexpr int kHeld = kAttentionChains / kGroups;    // chains per lane
  static constexpr int kStep = 4 * kGroups;                   // edges whose rows are on their way at once
  // Blocks per multiprocessor that registers have to suffice for: sums, and what is on its way, decide.
  static constexpr int kOnTheWay = kKind == AttentionKind::kGat ? 0 : 4 * kScorePacks * 2;
  static constexpr int kHeldFloats = kPacks * (kHeld * (kVec + 1) + 4 * kVec) + kOnTheWay;
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

// The rows, and how they are shared out: K heads of C columns each.
struct AttentionWork {
  CsrView adjacency;   // [R, S]
  int heads;           // K
  int head_width;      // C
  int lanes_per_head;  // GATv2 and dot products
  int tile_heads;      // most heads that a tile touches
  int rows_per_group;
  int cells_per_group;
};

// What scores and sums are made of.
struct AttentionSource {
  GatheredRows value;         // [S, K * C]
  GatheredRows scored;        // what scores are made of: GAT's score_src, GATv2's value, a dot product's key
  ConstMatrixView score_dst;  // [R, K], of GAT
  ConstMatrixView query;      // [R, K * C], of GATv2 and dot products
  const float* att;           // [K * C], of GATv2
  float negative_slope;       // of GATv2
  ScoreFactors factors;
  Access score_access;  // of GAT's scores
};

// Partial results of long rows (row_pieces.h).
struct AttentionParts {
  int64_t cells;
  int64_t partial_stride;  // floats of a cell
  int64_t sum_floats;      // sums of a cell, before its shifts and denominators
  float* partials;         // [cells, partial_stride]
  int* tickets;
};

struct AttentionEpilogue {
  MatrixView dst;  // [R, K * C], or [R, C] where heads are averaged
  Epilogue epilogue;
  float* heads_out;  // [R, K * C] where heads are averaged, else null
  Access dst_access;
  bool plain;  // the epilogue does nothing
};

// The argument of the fused kernels: trivially copyable.
struct AttentionParams {
  AttentionWork work;
  AttentionSource source;
  AttentionParts parts;
  AttentionEpilogue out;
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
  RowPiece* piece;   // of a long row: where it is, while its edges take the registers
  float* shares;     // [heads of the tile][kShareStride]: scores, then their shares, by position
  int32_t* columns;  // [kAttentionBatch] by position
  float* shift;      // two of [heads of the tile], taken in turn by batches
  float* target;     // [heads of the tile]: GAT's score_dst

  __device__ GroupMemory(float* floats, int tile_heads)
      : piece(reinterpret_cast<RowPiece*>(floats)),
        shares(floats + kNoteFloats),
        columns(reinterpret_cast<int32_t*>(shares + tile_heads * kShareStride)),
        shift(shares + tile_heads * kShareStride + kAttentionBatch),
        target(shift + 2 * tile_heads) {}
};

// What a lane is responsible for.
template <class Layout>
struct TileWork {
  int lane;                    // among those of its row
  int group;                   // of the row's edges
  int first_head, heads;       // of the tile
  bool score_packs;            // GAT's scores of the tile's heads can be read four at a time
  int column[Layout::kPacks];  // first of each pack; that of another lane where this one has none
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

// *p where `there`, without a branch.
template <int kVec>
__device__ inline Pack<kVec> LoadWhere(bool there, const float* p) {
  Pack<kVec> x = Pack<kVec>::Filled(0.0f);
  if constexpr (kVec == 4) {
    asm("{ .reg .pred there; setp.ne.s32 there, %5, 0; @there ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4]; }"
        : "+f"(x.v[0]), "+f"(x.v[1]), "+f"(x.v[2]), "+f"(x.v[3])
        : "l"(p), "r"(static_cast<int>(there)));
  } else {
    asm("{ .reg .pred there; setp.ne.s32 there, %2, 0; @there ld.global.nc.f32 %0, [%1]; }"
        : "+f"(x.v[0])
        : "l"(p), "r"(static_cast<int>(there)));
  }
  return x;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_LAYOUT_CUH_
