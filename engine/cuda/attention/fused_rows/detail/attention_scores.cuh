// SPDX-License-Identifier: Apache-2.0
// The first half of fused attention (fused_rows.cuh): computes the scores of a batch of edges into shared memory, and
// turns them into shares of the softmax. To be called by whole warps; the rows of their groups of lanes may have
// different numbers of edges, or none.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_SCORES_CUH_
#define VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_SCORES_CUH_

#include "engine/cuda/attention/fused_rows/detail/attention_layout.cuh"
#include "engine/cuda/common/hardware.h"

namespace vicinal::cuda {

// GAT: a lane per edge and kHeads heads, adjacent in memory.
template <class Layout, int kHeads>
__device__ inline void GatherScores(const AttentionParams& params, const TileWork<Layout>& work,
                                    const GroupMemory& memory, int edges, int most_edges) {
  constexpr int kAtOnce = kHeads == 1 ? 4 : 2;
  const int per_edge = work.heads / kHeads;
  const uint32_t inverse = (1u << 20) / static_cast<uint32_t>(per_edge) + 1;  // replaces divisions
#pragma unroll 1
  for (int base = 0; base < most_edges * per_edge; base += kAtOnce * Layout::kRowLanes) {
    Pack<kHeads> score[kAtOnce];
    int at[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = base + i * Layout::kRowLanes + work.lane;
      const int edge = static_cast<int>(static_cast<uint32_t>(item) * inverse >> 20);
      const int position = Layout::Position(min(edge, kAttentionBatch - 1)), head = (item - edge * per_edge) * kHeads;
      score[i] =
          LoadWhere<kHeads>(edge < edges, params.source.scored.row(memory.columns[position]) + work.first_head + head);
      at[i] = edge < edges ? head * kShareStride + position : -1;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (at[i] < 0) continue;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) memory.shares[at[i] + h * kShareStride] = score[i].v[h];
    }
  }
}

// The same for a tile of one head, with sources still in registers.
template <class Layout>
__device__ inline void GatherScoresOfOneHead(const AttentionParams& params, const TileWork<Layout>& work,
                                             const GroupMemory& memory, const int32_t (&source)[Layout::kSlots],
                                             int edges) {
  float score[Layout::kSlots];
#pragma unroll
  for (int slot = 0; slot < Layout::kSlots; ++slot) {
    score[slot] = LoadWhere<1>(slot * Layout::kRowLanes + work.lane < edges,
                               params.source.scored.row(source[slot]) + work.first_head)
                      .v[0];
  }
#pragma unroll
  for (int slot = 0; slot < Layout::kSlots; ++slot) {
    memory.shares[Layout::Position(slot * Layout::kRowLanes + work.lane)] = score[slot];
  }
}

// A lane's part of a row, of the queries, or of att.
template <class Layout>
using ScorePacks = Pack<Layout::kVec>[kScorePacks];

// A lane's part of a score of GATv2 or of a dot product.
template <class Layout>
__device__ inline float PartOfScore(const AttentionParams& params, const ScorePacks<Layout>& query,
                                    const ScorePacks<Layout>& att, const ScorePacks<Layout>& x) {
  float part = 0.0f;
#pragma unroll
  for (int p = 0; p < kScorePacks; ++p) {
#pragma unroll
    for (int v = 0; v < Layout::kVec; ++v) {
      if constexpr (Layout::kKind == AttentionKind::kGatV2) {
        part = fmaf(att[p].v[v], LeakyRelu(x[p].v[v] + query[p].v[v], params.source.negative_slope), part);
      } else {
        part = fmaf(query[p].v[v], x[p].v[v], part);
      }
    }
  }
  return part;
}

// The rows that MultiplyScores multiplies, and where it puts the products: the sources of a batch, and its scores.
template <class Layout>
struct ScoredSources {
  const AttentionParams& params;
  const GroupMemory& memory;

  // Of edge `edge`, below kAttentionBatch; more edges than the batch has repeat one of them.
  __device__ const float* Row(int edge) const {
    return params.source.scored.row(memory.columns[Layout::Position(edge)]);
  }
  __device__ float* At(int head, int edge) const {
    return memory.shares + head * kShareStride + Layout::Position(edge);
  }
  // Adds to a lane's parts of the rows of two edges, before they are multiplied.
  template <int kAtOnce>
  __device__ void AddTerms(const int (&)[kAtOnce], const int64_t (&)[kScorePacks],
                           ScorePacks<Layout> (&)[kAtOnce]) const {}
};

// GATv2 and dot products: lanes_per_head adjacent lanes per edge and head. They read adjacent parts of the source's
// row, keep their parts of the target's row in registers over the batch, and add their sums by shuffles. Wide heads are
// done in parts.
template <class Layout, class Scored>
__device__ inline void MultiplyScores(const AttentionParams& params, const TileWork<Layout>& work, const Scored& scored,
                                      int64_t row, int edges, int most_edges) {
  constexpr int kAtOnce = 2;
  const int part_lane = work.lane & (params.work.lanes_per_head - 1), part = work.lane / params.work.lanes_per_head;
  const int parts = Layout::kRowLanes / params.work.lanes_per_head, step = params.work.lanes_per_head * Layout::kVec;
  int heads_at_once = 1;
  while (heads_at_once < work.heads && heads_at_once < parts) heads_at_once *= 2;
  const int edges_at_once = parts / heads_at_once, my_edge = part / heads_at_once;
  for (int head0 = 0; head0 < work.heads; head0 += heads_at_once) {
    const int head = head0 + part % heads_at_once;
    const bool mine = head < work.heads;
    const int64_t begin = int64_t{work.first_head + (mine ? head : 0)} * params.work.head_width;
    for (int c0 = 0; c0 < params.work.head_width; c0 += kScorePacks * step) {
      // Lanes without a part of this score repeat another lane's, with a weight of 0.
      int64_t column[kScorePacks];
      ScorePacks<Layout> query, att;
#pragma unroll
      for (int p = 0; p < kScorePacks; ++p) {
        const int c = c0 + p * step + part_lane * Layout::kVec;
        const bool has = mine && c < params.work.head_width;
        column[p] = begin + (has ? c : 0);
        query[p] = att[p] = Pack<Layout::kVec>::Filled(0.0f);
        if (!has || edges == 0) continue;
        query[p] = LoadReadOnly<Layout::kVec>(params.source.query.data + row * params.source.query.stride + column[p]);
        if constexpr (Layout::kKind == AttentionKind::kGatV2) {
          att[p] = LoadReadOnly<Layout::kVec>(params.source.att + column[p]);
        }
      }
#pragma unroll 1
      for (int edge0 = my_edge; edge0 - my_edge < most_edges; edge0 += kAtOnce * edges_at_once) {
        ScorePacks<Layout> x[kAtOnce];
        int at[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          at[i] = min(edge0 + i * edges_at_once, kAttentionBatch - 1);
          const float* source = scored.Row(at[i]);
#pragma unroll
          for (int p = 0; p < kScorePacks; ++p) x[i][p] = LoadReadOnly<Layout::kVec>(source + column[p]);
        }
        scored.AddTerms(at, column, x);
        float score[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) score[i] = PartOfScore<Layout>(params, query, att, x[i]);
        for (int distance = params.work.lanes_per_head / 2; distance > 0; distance /= 2) {
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) score[i] += __shfl_xor_sync(kWholeWarp, score[i], distance);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const int edge = edge0 + i * edges_at_once;
          if (part_lane != 0 || !mine || edge >= edges) continue;
          float* to = scored.At(head, edge);
          *to = c0 == 0 ? score[i] : *to + score[i];
        }
      }
    }
  }
}

// Turns the batch's scores into shares relative to the new shift of each head. Shares of missing edges are 0. Returns
// true if a shift was raised.
template <class Layout>
__device__ inline bool ShareBatch(const AttentionParams& params, const TileWork<Layout>& work,
                                  const GroupMemory& memory, int batch, int edges, int most_edges) {
  const float* shift_before = memory.shift + batch % 2 * params.work.tile_heads;
  float* shift_after = memory.shift + (batch + 1) % 2 * params.work.tile_heads;
  bool raised = false;
#pragma unroll 2
  for (int head = 0; head < work.heads; ++head) {
    float* shares = memory.shares + head * kShareStride;
    const float target = Layout::kKind == AttentionKind::kGat ? memory.target[head] : 0.0f;
    const float before = shift_before[head];
    Exponential exponential[Layout::kSlots];
    float largest = before;
#pragma unroll
    for (int slot = 0; slot < Layout::kSlots; ++slot) {
      if (slot * Layout::kRowLanes >= most_edges) break;
      const int edge = slot * Layout::kRowLanes + work.lane;
      exponential[slot] = ExponentialOf(shares[Layout::Position(edge)], target, params.source.factors);
      if (edge >= edges) exponential[slot] = {0.0f, kNoScore};
      largest = fmaxf(largest, exponential[slot].whole);
    }
    const float after = LargestOf<Layout::kRowLanes>(largest);
#pragma unroll
    for (int slot = 0; slot < Layout::kSlots; ++slot) {
      if (slot * Layout::kRowLanes >= most_edges) break;
      shares[Layout::Position(slot * Layout::kRowLanes + work.lane)] =
          exponential[slot].share * PowerOfTwo(exponential[slot].whole - after);
    }
    if (work.lane == 0) shift_after[head] = after;
    raised = raised || after > before;
  }
  return raised;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_SCORES_CUH_
