// SPDX-License-Identifier: Apache-2.0
// The part of fused attention (fused_rows.cuh) that reads features of edges. Their product with W is never stored:
// GAT's is one number per edge and head; GATv2's is added to a lane's part of a source's row in registers; of dot
// products, q . (k + W e) = q . k + (W^T q) . e takes one short vector per row and head, and the sum of a_e (v + W e)
// is that of a_e v plus W times that of a_e e. Each lane reads features through pointers that its group keeps for a
// batch of edges. Order of evaluation: features in ascending order; sums of features by batches of a row's (piece's)
// edges, and by pieces. So it follows from the row alone, as the rest of the attention does.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_FEATURES_CUH_
#define VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_FEATURES_CUH_

#include "engine/cuda/attention/fused_rows/detail/attention_scores.cuh"
#include "engine/cuda/common/edge_features.cuh"

namespace vicinal::cuda {

// Floats of shared memory for the features of one group of lanes, next to GroupFloats.
__host__ __device__ inline int FeatureFloats(AttentionKind kind, int tile_heads, int width) {
  const int pointers = kAttentionBatch * static_cast<int>(sizeof(const float*) / sizeof(float));
  return pointers + (kind == AttentionKind::kDot ? (2 * tile_heads * width + 3) / 4 * 4 : 0);
}

inline size_t FeatureBytes(AttentionKind kind, int tile_heads, int width, int rows_per_block) {
  return static_cast<size_t>(FeatureFloats(kind, tile_heads, width)) * static_cast<size_t>(rows_per_block) *
         sizeof(float);
}

// One row's part of shared memory for features.
struct FeatureMemory {
  const float** edges;  // [kAttentionBatch] by position: the features of the batch's edges
  float* turned;        // [heads of the tile, A]: W^T q, of dot products
  float* sums;          // [heads of the tile, A]: features times shares, likewise

  __device__ FeatureMemory(const AttentionParams& params, const GroupMemory& memory)
      : edges(reinterpret_cast<const float**>(reinterpret_cast<float*>(memory.piece) +
                                              GroupFloats(params.work.tile_heads))),
        turned(reinterpret_cast<float*>(edges + kAttentionBatch)),
        sums(turned + params.work.tile_heads * params.features.width) {}
};

// Notes where the features of a batch's edges stand. Missing edges have W, of which as many floats may be read.
template <class Layout>
__device__ inline void NoteFeatures(const AttentionParams& params, const TileWork<Layout>& work,
                                    const FeatureMemory& features, const FeaturesOfRow& row, int done, int edges) {
#pragma unroll
  for (int slot = 0; slot < Layout::kSlots; ++slot) {
    const int edge = slot * Layout::kRowLanes + work.lane;
    features.edges[Layout::Position(edge)] =
        edge < edges ? row.Of(done + edge, params.features.width) : params.features.weight;
  }
}

// Adds the products of features with a vector per head to the scores of a batch, a lane per edge. weight(head, a) is
// feature a's number for a head of the tile.
template <class Layout, class Weight>
__device__ inline void AddFeatureScores(const AttentionParams& params, const TileWork<Layout>& work,
                                        const GroupMemory& memory, const FeatureMemory& features, int edges,
                                        const Weight& weight) {
  constexpr int kHeads = 4;
#pragma unroll 1
  for (int edge = work.lane; edge < edges; edge += Layout::kRowLanes) {
    const int at = Layout::Position(edge);
    const float* const of_edge[1] = {features.edges[at]};
#pragma unroll 1
    for (int head0 = 0; head0 < work.heads; head0 += kHeads) {
      float sum[kHeads] = {};
      ForEachFeature(of_edge, params.features.width, params.features.access, [&](int a, const float(&x)[1]) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) sum[h] = fmaf(x[0], weight(min(head0 + h, work.heads - 1), a), sum[h]);
      });
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        if (head0 + h < work.heads) memory.shares[(head0 + h) * kShareStride + at] += sum[h];
      }
    }
  }
}

// GAT: e . (W^T a_e), where W^T a_e is one number per head and feature.
template <class Layout>
__device__ inline void AddGatFeatures(const AttentionParams& params, const TileWork<Layout>& work,
                                      const GroupMemory& memory, const FeatureMemory& features, int edges) {
  const float* const weight = params.features.weight + work.first_head;
  AddFeatureScores<Layout>(params, work, memory, features, edges,
                           [&](int head, int a) { return __ldg(weight + a * params.work.heads + head); });
}

// GATv2: the sources of a batch, with W e added in registers.
template <class Layout>
struct FeaturedSources : ScoredSources<Layout> {
  const FeatureMemory& features;

  __device__ FeaturedSources(const AttentionParams& params, const GroupMemory& memory, const FeatureMemory& of_edges)
      : ScoredSources<Layout>{params, memory}, features(of_edges) {}

  template <int kAtOnce>
  __device__ void AddTerms(const int (&edge)[kAtOnce], const int64_t (&column)[kScorePacks],
                           ScorePacks<Layout> (&x)[kAtOnce]) const {
    const FeatureSource& source = this->params.features;
    const int64_t columns = int64_t{this->params.work.heads} * this->params.work.head_width;
    const float* of_edge[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) of_edge[i] = features.edges[Layout::Position(edge[i])];
    ForEachFeature(of_edge, source.width, source.access, [&](int a, const float(&f)[kAtOnce]) {
#pragma unroll
      for (int p = 0; p < kScorePacks; ++p) {
        const Pack<Layout::kVec> weight = LoadReadOnly<Layout::kVec>(source.weight + a * columns + column[p]);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
          for (int v = 0; v < Layout::kVec; ++v) x[i][p].v[v] = fmaf(f[i], weight.v[v], x[i][p].v[v]);
        }
      }
    });
  }
};

// Dot products: rows of W^T, whose products with the query are W^T q.
template <class Layout>
struct TurnedQuery : ScoredSources<Layout> {
  const FeatureMemory& features;
  const int first;  // feature

  __device__ TurnedQuery(const AttentionParams& params, const GroupMemory& memory, const FeatureMemory& of_row, int a)
      : ScoredSources<Layout>{params, memory}, features(of_row), first(a) {}

  __device__ const float* Row(int a) const {
    const int64_t columns = int64_t{this->params.work.heads} * this->params.work.head_width;
    return this->params.features.weight + min(first + a, this->params.features.width - 1) * columns;
  }
  __device__ float* At(int head, int a) const {
    return features.turned + head * this->params.features.width + first + a;
  }
};

// W^T q for each head of the tile and the query of `row`; `edges`: of the row, which may be none in a warp of several.
template <class Layout>
__device__ inline void TurnQuery(const AttentionParams& params, const TileWork<Layout>& work, const GroupMemory& memory,
                                 const FeatureMemory& features, int64_t row, int edges) {
#pragma unroll 1
  for (int a = 0; a < params.features.width; a += kAttentionBatch) {
    const int count = min(params.features.width - a, kAttentionBatch);
    MultiplyScores<Layout>(params, work, TurnedQuery<Layout>(params, memory, features, a), row, edges > 0 ? count : 0,
                           count);
  }
}

// Dot products: adds (W^T q) . e.
template <class Layout>
__device__ inline void AddDotFeatures(const AttentionParams& params, const TileWork<Layout>& work,
                                      const GroupMemory& memory, const FeatureMemory& features, int edges) {
  AddFeatureScores<Layout>(params, work, memory, features, edges,
                           [&](int head, int a) { return features.turned[head * params.features.width + a]; });
}

// Dot products: adds features times shares of a batch to the row's sums, which are rescaled if a shift was raised.
template <class Layout>
__device__ inline void SumFeatures(const AttentionParams& params, const TileWork<Layout>& work,
                                   const GroupMemory& memory, const FeatureMemory& features, int batch, int edges) {
  const float* before = memory.shift + batch % 2 * params.work.tile_heads;
  const float* after = memory.shift + (batch + 1) % 2 * params.work.tile_heads;
  const int width = params.features.width, items = edges > 0 ? work.heads * width : 0;
#pragma unroll 1
  for (int item = work.lane; item < items; item += Layout::kRowLanes) {
    const int head = item / width, a = item - head * width;
    const float* shares = memory.shares + head * kShareStride;
    float sum = 0.0f;
#pragma unroll 4
    for (int edge = 0; edge < edges; ++edge) {
      const int at = Layout::Position(edge);
      sum = fmaf(shares[at], __ldg(features.edges[at] + a), sum);
    }
    float* const total = features.sums + item;
    *total = batch == 0 ? sum : fmaf(*total, PowerOfTwo(before[head] - after[head]), sum);
  }
}

// Dot products: adds W times the row's sums of features to a lane's sums of values.
template <class Layout>
__device__ inline void AddSummedFeatures(const AttentionParams& params, const TileWork<Layout>& work,
                                         const FeatureMemory& features, Pack<Layout::kVec> (&sum)[Layout::kPacks]) {
  const int width = params.features.width;
  const int64_t columns = int64_t{params.work.heads} * params.work.head_width;
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) {
    if (!work.has[p]) continue;
    const float* sums = features.sums + work.head[p] * width;
    Pack<Layout::kVec> product = Pack<Layout::kVec>::Filled(0.0f);
#pragma unroll 4
    for (int a = 0; a < width; ++a) {
      const Pack<Layout::kVec> weight =
          LoadReadOnly<Layout::kVec>(params.features.weight + a * columns + work.column[p]);
      const float x = sums[a];
#pragma unroll
      for (int v = 0; v < Layout::kVec; ++v) product.v[v] = fmaf(x, weight.v[v], product.v[v]);
    }
#pragma unroll
    for (int v = 0; v < Layout::kVec; ++v) sum[p].v[v] += product.v[v];
  }
}

// Stores a piece's sums of features behind its other partial results.
template <class Layout>
__device__ inline void StoreFeaturePartial(const AttentionParams& params, const TileWork<Layout>& work,
                                           const FeatureMemory& features, float* partial) {
  const int width = params.features.width;
  float* to = partial + params.parts.sum_floats + 2 * params.work.heads + int64_t{work.first_head} * width;
  for (int item = work.lane; item < work.heads * width; item += Layout::kRowLanes) to[item] = features.sums[item];
}

// The sums of a row's pieces, relative to the largest of their shifts.
template <class Layout>
__device__ inline void MergeFeatures(const AttentionParams& params, const TileWork<Layout>& work,
                                     const FeatureMemory& features, const RowPiece& piece) {
  const float* partials = params.parts.partials + piece.first_cell * params.parts.partial_stride;
  const int64_t step = piece.cell_step * params.parts.partial_stride;
  const int width = params.features.width;
#pragma unroll 1
  for (int item = work.lane; item < work.heads * width; item += Layout::kRowLanes) {
    const float* of_head = partials + params.parts.sum_floats + 2 * (work.first_head + item / width);
    const float* from =
        partials + params.parts.sum_floats + 2 * params.work.heads + int64_t{work.first_head} * width + item;
    float shift = kNoScore, sum = 0.0f;
    for (int64_t i = 0; i < piece.pieces; ++i) shift = fmaxf(shift, __ldcg(of_head + i * step));
    for (int64_t i = 0; i < piece.pieces; ++i) {
      sum = fmaf(PowerOfTwo(__ldcg(of_head + i * step) - shift), __ldcg(from + i * step), sum);
    }
    features.sums[item] = sum;
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_ATTENTION_FEATURES_CUH_
