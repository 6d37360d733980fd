// SPDX-License-Identifier: Apache-2.0
// fused_rows: attention with scores, softmax and weighted sum in one pass over a row's edges; nothing of the size of
// the edges is stored.
//
// Idea. As in balanced_rows, a group of lanes takes a row (or a piece of a long one) and a tile of columns. Each lane
// holds columns of one head and follows that head's softmax by itself (softmax_state.cuh): lanes of a head compute the
// same score, which costs less than to pass it around (GAT: two loads and an exponential). For GATv2 the lanes of a
// head add up their parts of the score by shuffles; there a head begins at a lane that is a multiple of its lanes,
// rounded up to a power of two. Order of evaluation: edge j goes to state j mod 4, states are merged (0, 2), (1, 3),
// then both; pieces of long rows are merged as if they were edges. Equal bits for all layouts and in every subset of
// rows; no float atomics. Moves edges * (4 + 4 * heads * head_width + 4 * heads) bytes of gather and the stores. Heads
// that are averaged are stored one by one first and averaged by a second small kernel.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_CUH_
#define VICINAL_ENGINE_CUDA_ATTENTION_CUH_

#include <cstdint>

#include "engine/cuda/attention.h"
#include "engine/cuda/epilogue.cuh"
#include "engine/cuda/row_pieces.cuh"
#include "engine/cuda/softmax_state.cuh"

namespace vicinal::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kStates = 4;

template <AttentionKind kKind_, int kVec_, int kLanes_, int kGroups_, int kPacks_>
struct AttentionLayout {
  static constexpr AttentionKind kKind = kKind_;
  static constexpr int kVec = kVec_, kLanes = kLanes_, kGroups = kGroups_, kPacks = kPacks_;
  static constexpr int kRowLanes = kLanes * kGroups;
  static constexpr int kRowsPerBlock = kAttentionThreads / kRowLanes;
  static constexpr int kHeld = kStates / kGroups;  // states per lane
  using State = SoftmaxState<kVec, kPacks>;
};

struct AttentionParams {
  CsrView adjacency;
  ConstMatrixView value, score_src, score_dst, query;
  const float* att;
  float negative_slope;
  MatrixView dst;
  Epilogue epilogue;
  int heads, head_width;
  int lanes_per_head;  // GATv2
  int64_t lanes;       // of a row, over all tiles
  float* heads_out;    // [R, K*C] where heads are averaged, else null
  int64_t cells, partial_stride, sum_floats;
  float* partials;
  int* tickets;
};

// What a lane is responsible for.
template <class Layout>
struct LaneWork {
  int64_t lane;  // over all tiles
  int head;
  int first;  // column of its first pack, within the head
  int step;   // to its next pack
  bool active;

  __device__ explicit LaneWork(const AttentionParams& params) {
    lane = int64_t{blockIdx.y} * Layout::kLanes + threadIdx.x % Layout::kLanes;
    if constexpr (Layout::kKind == AttentionKind::kGat) {
      const int64_t col = lane * Layout::kVec;
      head = static_cast<int>(col / params.head_width);
      first = static_cast<int>(col % params.head_width);
      step = 0;
    } else {
      head = static_cast<int>(lane / params.lanes_per_head);
      first = static_cast<int>(lane % params.lanes_per_head) * Layout::kVec;
      step = params.lanes_per_head * Layout::kVec;
    }
    active = head < params.heads;
  }

  __device__ bool Has(int pack, const AttentionParams& params) const {
    return active && first + pack * step < params.head_width;
  }
  __device__ int64_t Column(int pack, const AttentionParams& params) const {
    return int64_t{head} * params.head_width + first + pack * step;
  }
};

__device__ inline float LeakyRelu(float x, float slope) { return x < 0.0f ? slope * x : x; }

// The row's side of the scores.
template <class Layout>
struct RowScore {
  float dst_score;
  Pack<Layout::kVec> query[Layout::kPacks], att[Layout::kPacks];

  __device__ RowScore(const AttentionParams& params, const LaneWork<Layout>& work, int64_t row) {
    dst_score = 0.0f;
    if (row < 0) row = 0;
    if constexpr (Layout::kKind == AttentionKind::kGat) {
      if (work.active) dst_score = params.score_dst.data[row * params.score_dst.stride + work.head];
    } else {
#pragma unroll
      for (int p = 0; p < Layout::kPacks; ++p) {
#pragma unroll
        for (int v = 0; v < Layout::kVec; ++v) {
          const bool has = work.Has(p, params);
          const int64_t col = has ? work.Column(p, params) + v : 0;
          query[p].v[v] = has ? params.query.data[row * params.query.stride + col] : 0.0f;
          att[p].v[v] = has ? params.att[col] : 0.0f;
        }
      }
    }
  }

  // Lanes of a head end with the same score. GATv2: called by all lanes of `mask`.
  __device__ float Of(const AttentionParams& params, float src_score, const Pack<Layout::kVec> (&x)[Layout::kPacks],
                      unsigned mask) const {
    if constexpr (Layout::kKind == AttentionKind::kGat) {
      return LeakyRelu(src_score + dst_score, params.negative_slope);
    } else {
      float score = 0.0f;
#pragma unroll
      for (int p = 0; p < Layout::kPacks; ++p) {
#pragma unroll
        for (int v = 0; v < Layout::kVec; ++v) {
          score = fmaf(att[p].v[v], LeakyRelu(x[p].v[v] + query[p].v[v], params.negative_slope), score);
        }
      }
      for (int distance = params.lanes_per_head / 2; distance > 0; distance /= 2) {
        score += __shfl_xor_sync(mask, score, distance);
      }
      return score;
    }
  }
};

// Merges the states of the lane, then those of the groups, in the order (0, 2), (1, 3), both.
template <class Layout>
__device__ inline typename Layout::State MergeStates(typename Layout::State (&state)[Layout::kHeld], unsigned mask) {
  typename Layout::State result = state[0];
  if constexpr (Layout::kGroups == 1) {
    result.Merge(state[2]);
    state[1].Merge(state[3]);
    result.Merge(state[1]);
  } else if constexpr (Layout::kGroups == 2) {
    result.Merge(state[1]);
    result.Merge(result.FromLane(mask, Layout::kLanes));
  } else {
    result.Merge(result.FromLane(mask, 2 * Layout::kLanes));
    result.Merge(result.FromLane(mask, Layout::kLanes));
  }
  return result;
}

template <class Layout>
__device__ inline typename Layout::State AttendEdges(const AttentionParams& params, const LaneWork<Layout>& work,
                                                     const RowPiece& piece, unsigned mask) {
  constexpr int kGroups = Layout::kGroups, kBatch = 4;
  const RowScore<Layout> row_score(params, work, piece.row);
  typename Layout::State state[Layout::kHeld];
#pragma unroll
  for (int s = 0; s < Layout::kHeld; ++s) state[s].Clear();
  const int group = threadIdx.x % Layout::kRowLanes / Layout::kLanes;
  // The count of rounds is that of the row, the same for all its lanes: GATv2 shuffles among them.
  for (int64_t base = piece.begin; base < piece.end; base += kBatch * kGroups) {
    Pack<Layout::kVec> x[kBatch][Layout::kPacks];
    float src_score[kBatch];
    int64_t source[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int64_t edge = base + group + i * kGroups;
      source[i] = edge < piece.end ? __ldg(params.adjacency.col + edge) : -1;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      src_score[i] = 0.0f;
      if (Layout::kKind == AttentionKind::kGat && source[i] >= 0 && work.active) {
        src_score[i] = __ldg(params.score_src.data + source[i] * params.score_src.stride + work.head);
      }
#pragma unroll
      for (int p = 0; p < Layout::kPacks; ++p) {
        x[i][p] = Pack<Layout::kVec>::Filled(0.0f);
        if (source[i] < 0 || !work.Has(p, params)) continue;
        x[i][p] =
            LoadReadOnly<Layout::kVec>(params.value.data + source[i] * params.value.stride + work.Column(p, params));
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const float score = row_score.Of(params, src_score[i], x[i], mask);
      if (source[i] >= 0) state[i % Layout::kHeld].Add(score, x[i]);
    }
  }
  return MergeStates<Layout>(state, mask);
}

template <class Layout>
__device__ inline void StorePartial(const AttentionParams& params, const LaneWork<Layout>& work, int64_t cell,
                                    const typename Layout::State& state) {
  if (!work.active) return;
  float* partial = params.partials + cell * params.partial_stride;
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) {
    if (work.Has(p, params)) StorePack<Layout::kVec>(partial + work.Column(p, params), state.sum[p]);
  }
  partial[params.sum_floats + 2 * work.lane] = state.shift;
  partial[params.sum_floats + 2 * work.lane + 1] = state.denominator;
}

template <class Layout>
__device__ inline typename Layout::State MergePieces(const AttentionParams& params, const LaneWork<Layout>& work,
                                                     const RowPiece& piece, unsigned mask) {
  typename Layout::State state[Layout::kHeld];
#pragma unroll
  for (int s = 0; s < Layout::kHeld; ++s) state[s].Clear();
  const int group = threadIdx.x % Layout::kRowLanes / Layout::kLanes;
  for (int64_t base = 0; base < piece.pieces; base += kStates) {
#pragma unroll
    for (int s = 0; s < Layout::kHeld; ++s) {
      const int64_t number = base + group + s * Layout::kGroups;
      if (number >= piece.pieces || !work.active) continue;
      const float* partial = params.partials + (piece.first_cell + number * piece.cell_step) * params.partial_stride;
      typename Layout::State part;
      part.shift = __ldcg(partial + params.sum_floats + 2 * work.lane);
      part.denominator = __ldcg(partial + params.sum_floats + 2 * work.lane + 1);
#pragma unroll
      for (int p = 0; p < Layout::kPacks; ++p) {
        part.sum[p] = Pack<Layout::kVec>::Filled(0.0f);
        if (work.Has(p, params)) part.sum[p] = LoadCoherent<Layout::kVec>(partial + work.Column(p, params));
      }
      state[s].Merge(part);
    }
  }
  return MergeStates<Layout>(state, mask);
}

template <class Layout>
__device__ inline void StoreAttended(const AttentionParams& params, const LaneWork<Layout>& work, int64_t row,
                                     const typename Layout::State& state) {
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) {
    if (!work.Has(p, params)) continue;
    const int64_t first = work.Column(p, params);
#pragma unroll
    for (int v = 0; v < Layout::kVec; ++v) {
      const int64_t col = first + v;
      const float x = state.denominator > 0.0f ? __fdiv_rn(state.sum[p].v[v], state.denominator) : state.sum[p].v[v];
      if (params.heads_out != nullptr) {
        params.heads_out[row * params.heads * params.head_width + col] = x;
      } else {
        params.dst.data[row * params.dst.stride + col] = ApplyEpilogue(params.epilogue, x, row, col);
      }
    }
  }
}

template <class Layout>
__global__ void __launch_bounds__(kAttentionThreads) FusedAttention(const AttentionParams params) {
  const int64_t item = int64_t{blockIdx.x} * Layout::kRowsPerBlock + threadIdx.x / Layout::kRowLanes;
  const CsrView& adjacency = params.adjacency;
  RowPiece piece;
  if (item < params.cells) {
    piece = FindPiece<Layout::kRowLanes>(adjacency.row_ptr, adjacency.rows, kAttentionUnit, item);
  } else if (item - params.cells < adjacency.rows) {
    piece = WholeRow(adjacency.row_ptr, params.cells > 0 ? kAttentionUnit : 0, item - params.cells);
  }
  const bool first_group = threadIdx.x % Layout::kRowLanes < Layout::kLanes;
  const unsigned mask = GroupMask<Layout::kRowLanes>();
  if (piece.row < 0) return;
  const LaneWork<Layout> work(params);
  typename Layout::State state = AttendEdges<Layout>(params, work, piece, mask);
  if (piece.split()) {
    if (first_group) StorePartial<Layout>(params, work, piece.cell, state);
    int* ticket = params.tickets + blockIdx.y * params.cells + piece.first_cell;
    if (!ArrivesLast(ticket, piece.pieces, mask, threadIdx.x % Layout::kRowLanes == 0)) return;
    state = MergePieces<Layout>(params, work, piece, mask);
  }
  if (first_group) StoreAttended<Layout>(params, work, piece.row, state);
}

template <class Layout>
cudaError_t LaunchAttentionLayout(const AttentionParams& params, cudaStream_t stream) {
  const int64_t items = params.cells + params.adjacency.rows;
  const dim3 grid(static_cast<unsigned>((items + Layout::kRowsPerBlock - 1) / Layout::kRowsPerBlock),
                  static_cast<unsigned>((params.lanes + Layout::kLanes - 1) / Layout::kLanes));
  FusedAttention<Layout><<<grid, kAttentionThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

// One kind and pack width each, in files of their own: they compile side by side. `packs`: 1, or 4 for GATv2 heads of
// more than 32 columns that cannot be read 4 at a time.
template <AttentionKind kKind, int kVec>
cudaError_t LaunchAttentionLanes(const AttentionParams& params, int packs, bool long_rows, cudaStream_t stream) {
  if constexpr (kKind == AttentionKind::kGatV2 && kVec == 1) {
    if (packs > 1) return LaunchAttentionLayout<AttentionLayout<kKind, kVec, 32, 1, 4>>(params, stream);
  }
  if (params.lanes > 16) return LaunchAttentionLayout<AttentionLayout<kKind, kVec, 32, 1, 1>>(params, stream);
  if (params.lanes > 8) {
    return long_rows ? LaunchAttentionLayout<AttentionLayout<kKind, kVec, 16, 2, 1>>(params, stream)
                     : LaunchAttentionLayout<AttentionLayout<kKind, kVec, 16, 1, 1>>(params, stream);
  }
  return long_rows ? LaunchAttentionLayout<AttentionLayout<kKind, kVec, 8, 4, 1>>(params, stream)
                   : LaunchAttentionLayout<AttentionLayout<kKind, kVec, 8, 1, 1>>(params, stream);
}

cudaError_t LaunchGat(const AttentionParams& params, int vec, bool long_rows, cudaStream_t stream);
cudaError_t LaunchGatV2(const AttentionParams& params, int vec, int packs, bool long_rows, cudaStream_t stream);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_CUH_
