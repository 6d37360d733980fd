// SPDX-License-Identifier: Apache-2.0
// The first half of fused attention (attention.cuh): scores of a batch of edges, into shared memory, and what they
// become in the softmax. Called by whole warps; rows of other groups of lanes may have fewer edges, or none.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_SCORES_CUH_
#define VICINAL_ENGINE_CUDA_ATTENTION_SCORES_CUH_

#include "engine/cuda/attention_layout.cuh"

namespace vicinal::cuda {

// GAT: a lane per edge and head, heads side by side as they are in memory.
template <class Layout>
__device__ inline void GatherScores(const AttentionParams& params, const TileWork<Layout>& work,
                                    const GroupMemory& memory, int edges, int most_edges) {
  constexpr int kAtOnce = 4;
  const int pairs = edges * work.heads;
  for (int base = 0; base < most_edges * work.heads; base += kAtOnce * Layout::kRowLanes) {
    float score[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int pair = base + i * Layout::kRowLanes + work.lane;
      const int edge = static_cast<int>(static_cast<uint32_t>(pair) * work.heads_inverse >> 20);
      if (pair >= pairs) continue;
      const int32_t source = memory.columns[Layout::Position(edge)];
      score[i] = __ldg(params.scored.row(source) + work.first_head + pair - edge * work.heads);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int pair = base + i * Layout::kRowLanes + work.lane;
      const int edge = static_cast<int>(static_cast<uint32_t>(pair) * work.heads_inverse >> 20);
      if (pair >= pairs) continue;
      memory.shares[(pair - edge * work.heads) * kShareStride + Layout::Position(edge)] = score[i];
    }
  }
}

// The same where the tile touches one head: sources are still in registers.
template <class Layout>
__device__ inline void GatherScoresOfOneHead(const AttentionParams& params, const TileWork<Layout>& work,
                                             const GroupMemory& memory, const int32_t (&source)[Layout::kSlots],
                                             int edges) {
  float score[Layout::kSlots];
#pragma unroll
  for (int slot = 0; slot < Layout::kSlots; ++slot) {
    if (slot * Layout::kRowLanes + work.lane < edges) {
      score[slot] = __ldg(params.scored.row(source[slot]) + work.first_head);
    }
  }
#pragma unroll
  for (int slot = 0; slot < Layout::kSlots; ++slot) {
    const int edge = slot * Layout::kRowLanes + work.lane;
    if (edge < edges) memory.shares[Layout::Position(edge)] = score[slot];
  }
}

// A lane's part of a score of GATv2 or of a dot product.
template <class Layout>
__device__ inline float PartOfScore(const AttentionParams& params, const Pack<Layout::kVec>& query,
                                    const Pack<Layout::kVec>& att, const Pack<Layout::kVec>& x) {
  float part = 0.0f;
#pragma unroll
  for (int v = 0; v < Layout::kVec; ++v) {
    if constexpr (Layout::kKind == AttentionKind::kGatV2) {
      part = fmaf(att.v[v], LeakyRelu(x.v[v] + query.v[v], params.negative_slope), part);
    } else {
      part = fmaf(query.v[v], x.v[v], part);
    }
  }
  return part;
}

// GATv2 and dot products: lanes_per_head lanes per edge and head, which read the source's row side by side, hold their
// part of the target's in registers over the batch and add up by shuffles. Wide heads are done in parts.
template <class Layout>
__device__ inline void MultiplyScores(const AttentionParams& params, const TileWork<Layout>& work,
                                      const GroupMemory& memory, int64_t row, int edges, int most_edges) {
  constexpr int kAtOnce = 4;
  const int part_lane = work.lane & (params.lanes_per_head - 1), part = work.lane / params.lanes_per_head;
  const int parts = Layout::kRowLanes / params.lanes_per_head;
  int heads_at_once = 1;
  while (heads_at_once < work.heads && heads_at_once < parts) heads_at_once *= 2;
  const int edges_at_once = parts / heads_at_once, my_edge = part / heads_at_once;
  for (int head0 = 0; head0 < work.heads; head0 += heads_at_once) {
    const int head = head0 + part % heads_at_once;
    for (int c0 = 0; c0 < params.head_width; c0 += params.lanes_per_head * Layout::kVec) {
      const int c = c0 + part_lane * Layout::kVec;
      const bool mine = edges > 0 && head < work.heads, has = mine && c < params.head_width;
      const int64_t column = has ? int64_t{work.first_head + head} * params.head_width + c : 0;
      Pack<Layout::kVec> query = Pack<Layout::kVec>::Filled(0.0f), att = query;
      if (has) query = LoadReadOnly<Layout::kVec>(params.query.data + row * params.query.stride + column);
      if (has && Layout::kKind == AttentionKind::kGatV2) att = LoadReadOnly<Layout::kVec>(params.att + column);
      for (int edge0 = my_edge; edge0 - my_edge < most_edges; edge0 += kAtOnce * edges_at_once) {
        Pack<Layout::kVec> x[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const int edge = edge0 + i * edges_at_once;
          x[i] = Pack<Layout::kVec>::Filled(0.0f);
          if (!has || edge >= edges) continue;
          x[i] = LoadReadOnly<Layout::kVec>(params.scored.row(memory.columns[Layout::Position(edge)]) + column);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const int edge = edge0 + i * edges_at_once;
          float score = PartOfScore<Layout>(params, query, att, x[i]);
          for (int distance = params.lanes_per_head / 2; distance > 0; distance /= 2) {
            score += __shfl_xor_sync(0xffffffffu, score, distance);
          }
          if (part_lane != 0 || !mine || edge >= edges) continue;
          float* at = memory.shares + head * kShareStride + Layout::Position(edge);
          *at = c0 == 0 ? score : *at + score;
        }
      }
    }
  }
}

// Turns the batch's scores into shares relative to the new shift of each head; those of missing edges are 0. True where
// a shift was raised.
template <class Layout>
__device__ inline bool ShareBatch(const AttentionParams& params, const TileWork<Layout>& work,
                                  const GroupMemory& memory, int batch, int edges, int most_edges) {
  const float* shift_before = memory.shift + batch % 2 * params.tile_heads;
  float* shift_after = memory.shift + (batch + 1) % 2 * params.tile_heads;
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
      exponential[slot] = {0.0f, kNoScore};
      if (edge < edges) exponential[slot] = ExponentialOf(shares[Layout::Position(edge)], target, params.factors);
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

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_SCORES_CUH_
