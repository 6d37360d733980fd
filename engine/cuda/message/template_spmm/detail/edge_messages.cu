// SPDX-License-Identifier: Apache-2.0
// template_spmm for messages of edges of other forms: gated ones (CGConv, ResGatedGraphConv), mixtures of a source's
// parts (NNConv, GMMConv), and plain ones whose sum is weighted by a softmax (GENConv), with and without features.
//
// Idea. Blocks of edges in shared memory (edge_tiles.cuh), across row boundaries, so that rows of few edges leave no
// lane idle. Features of a tile's edges are fetched at once. W e is a product of the tile and W, as a layer is: a load
// of W serves 8 edges. u and v are added where it stands, and the function is applied there. A mixture's coefficients
// are made by its network in the same way, once per edge; a thread then mixes the parts of a source for a column, K
// loads in flight. Per edge rather than as K sums per row before one product: any reduction serves, and nothing of [N,
// K F] is written; it reads K parts of a source instead of one row. A block has up to 64 columns of the result.
// Traffic: edges * (8 + 4 * columns of u + 4 * A for every 64 columns) bytes of gather, v from the caches; rows * 4 *
// width of results. Order of evaluation: that of edge_tiles.cuh; u + v first, then the product with the features.
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/edge_features.cuh"
#include "engine/cuda/message/template_spmm/detail/edge_tiles.cuh"

namespace vicinal::cuda {
namespace {

constexpr int kAhead = 8;       // columns of an edge that a thread loads before it uses the first
constexpr int kPartsAhead = 8;  // parts of a source, likewise

// Whether the rows of W can be read 16 bytes at a time, from the first column of each half and block on.
__device__ inline bool TermsInPacks(const MessageReduceArgs& args) {
  return args.problem.width % 4 == 0 && reinterpret_cast<uintptr_t>(args.edge_weight) % kPackBytes == 0;
}

// What a block works on.
template <int kTile>
struct Tile {
  const EdgeTileParams& params;
  const EdgeTileMemory<kTile>& memory;
  const EdgeRun& run;
  int64_t base;  // the first edge
  int edges;
  BlockColumns columns;

  __device__ const MessageReduceArgs& args() const { return params.args; }
  __device__ int halves() const { return args().problem.form == MessageForm::kGated ? 2 : 1; }
  __device__ const float* SourceOf(int edge) const { return args().src.data + memory.source[edge] * args().src.stride; }
};

// Where the features of each edge stand.
template <int kTile>
__device__ inline void FindTileFeatures(const Tile<kTile>& tile) {
  const CsrView& adjacency = tile.args().adjacency;
  if (static_cast<int>(threadIdx.x) >= tile.edges) return;
  const int64_t row = tile.run.first + tile.memory.row[threadIdx.x];
  const int place = static_cast<int>(tile.base + threadIdx.x - __ldg(adjacency.row_ptr + row));
  const FeaturesOfRow features = FindFeatures<1>(tile.args().edge, adjacency, row, 0);
  tile.memory.features[threadIdx.x] = features.Of(place, static_cast<int>(tile.args().edge.width));
}

// Features into a buffer, [A][kStride].
template <int kTile>
__device__ inline void StageFeatures(const Tile<kTile>& tile, float* out) {
  const int width = static_cast<int>(tile.args().edge.width);
  ForEachTileEdge<kTile>([&](int edge, int first) {
    const bool valid = edge < tile.edges;
    const float* const features = valid ? tile.memory.features[edge] : nullptr;
#pragma unroll 4
    for (int a = first; a < width; a += kColumnStep) {
      out[a * tile.memory.kStride + edge] = valid ? __ldg(features + a) : 0.0f;
    }
  });
}

// W e + b for each half of z.
template <int kTile>
__device__ inline void MultiplyFeatures(const Tile<kTile>& tile, const float* features, float* z) {
  const MessageReduceArgs& args = tile.args();
  const bool packs = TermsInPacks(args);
#pragma unroll 1
  for (int half = 0; half < tile.halves(); ++half) {
    const int64_t column = half * args.problem.width + tile.columns.first;
    const TileLayer layer = {args.edge_weight + column,
                             tile.halves() * args.problem.width,
                             args.edge_bias != nullptr ? args.edge_bias + column : nullptr,
                             {},
                             args.edge.width,
                             tile.columns.count};
    float* const out = z + half * tile.columns.count * tile.memory.kStride;
    packs ? MultiplyLayer<kTile, true>(layer, features, out) : MultiplyLayer<kTile, false>(layer, features, out);
  }
}

// What a thread adds to columns of one edge, kColumnStep apart.
struct NodeColumns {
  const float* u;
  const float* v;         // null: none
  const float* features;  // that are not multiplied; null: none
  Message message;
  bool terms;  // `z` has a product with the features
  float* z;
};

template <int kStride, int kCount>
__device__ inline void AddColumns(const NodeColumns& at, int c) {
  float x[kCount], y[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = __ldg(at.u + c + i * kColumnStep);
  if (at.v != nullptr) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) y[i] = __ldg(at.v + c + i * kColumnStep);
    const float sign = at.message == Message::kSubtract ? -1.0f : 1.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = at.message == Message::kMultiply ? x[i] * y[i] : fmaf(sign, y[i], x[i]);
  }
  if (at.features != nullptr) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = __fadd_rn(x[i], __ldg(at.features + c + i * kColumnStep));
  }
  float* const z = at.z + c * kStride;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    z[i * kColumnStep * kStride] = at.terms ? __fadd_rn(x[i], z[i * kColumnStep * kStride]) : x[i];
  }
}

// Calls use(c, kAhead columns) or, for the last ones, use(c, one) for columns first, first + kColumnStep, ..
template <int kCount>
struct Columns {};
template <class Use>
__device__ inline void ForColumns(int first, int count, const Use& use) {
  int c = first;
  for (; c + (kAhead - 1) * kColumnStep < count; c += kAhead * kColumnStep) use(c, Columns<kAhead>());
  for (; c < count; c += kColumnStep) use(c, Columns<1>());
}

// Adds u and v to the product with the features in z, or puts them there.
template <int kTile>
__device__ inline void AddNodes(const Tile<kTile>& tile, bool terms, float* z) {
  const MessageReduceArgs& args = tile.args();
  const bool plain_features = args.problem.edge_width > 0 && !terms, targets = args.problem.message != Message::kSource;
  const int count = static_cast<int>(tile.columns.count);
  ForEachTileEdge<kTile>([&](int edge, int first) {
    if (edge >= tile.edges) return;
    for (int half = 0; half < tile.halves(); ++half) {
      const int64_t begin = half * args.problem.width + tile.columns.first;
      NodeColumns at = {tile.SourceOf(edge) + begin, nullptr, nullptr,
                        args.problem.message,        terms,   z + half * count * tile.memory.kStride + edge};
      if (targets && begin < args.target.cols)
        at.v = args.target.data + (tile.run.first + tile.memory.row[edge]) * args.target.stride + begin;
      if (plain_features) at.features = tile.memory.features[edge] + begin;
      ForColumns(first, count, [&]<int kCount>(int c, Columns<kCount>) {
        AddColumns<EdgeTileMemory<kTile>::kStride, kCount>(at, c);
      });
    }
  });
}

// Sigmoids of several numbers at once; others as everywhere.
template <int kCount>
__device__ inline void ActivateAll(const Activation& activation, float (&x)[kCount]) {
  if (activation.kind == ActivationKind::kNone) return;
  if (activation.kind == ActivationKind::kSigmoid || activation.kind == ActivationKind::kRelu) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      x[i] = activation.kind == ActivationKind::kRelu ? Rectified(x[i]) : 1.0f / (1.0f + expf(-x[i]));
    }
    return;
  }
  ApplyRareActivation(activation, x);
}

// Messages from z, in place of its first half. The halves of an edge's columns are of the same warp as in AddNodes.
template <int kTile>
__device__ inline void ApplyFunction(const Tile<kTile>& tile, float* z) {
  constexpr int kStride = EdgeTileMemory<kTile>::kStride;
  const MessageReduceArgs& args = tile.args();
  const bool gated = args.problem.form == MessageForm::kGated;
  const int count = static_cast<int>(tile.columns.count);
  ForEachTileEdge<kTile>([&](int edge, int first) {
    if (edge >= tile.edges) return;
    const float* const weights = args.adjacency.value;
    const float weight = weights != nullptr && !gated ? __ldg(weights + tile.base + edge) : 1.0f;
    ForColumns(first, count, [&]<int kCount>(int c, Columns<kCount>) {
      float* const first_half = z + c * kStride + edge;
      const float* const values = first_half + (gated ? count * kStride : 0);
      float x[kCount], gate[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        x[i] = __fmul_rn(values[i * kColumnStep * kStride], weight);
        gate[i] = first_half[i * kColumnStep * kStride];
      }
      ActivateAll(args.activation, x);
      if (gated) {
        ActivateAll(args.gate, gate);
#pragma unroll
        for (int i = 0; i < kCount; ++i) x[i] = __fmul_rn(gate[i], x[i]);
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) first_half[i * kColumnStep * kStride] = x[i];
    });
  });
}

// Messages as sums of the sources' parts times `coefficients` [K][kStride].
template <int kTile>
__device__ inline void Mix(const Tile<kTile>& tile, const float* coefficients, float* messages) {
  const MessageReduceArgs& args = tile.args();
  const int64_t width = args.problem.width, parts = tile.params.coefficients;
  ForEachTileEdge<kTile>([&](int edge, int first) {
    if (edge >= tile.edges) return;
    const float* const u = tile.SourceOf(edge) + tile.columns.first;
    for (int64_t c = first; c < tile.columns.count; c += kColumnStep) {
      float m = args.problem.one_more ? __ldg(u + parts * width + c) : 0.0f;
      int64_t k = 0;
      for (; k + kPartsAhead <= parts; k += kPartsAhead) {
        float part[kPartsAhead];
#pragma unroll
        for (int i = 0; i < kPartsAhead; ++i) part[i] = __ldg(u + (k + i) * width + c);
#pragma unroll
        for (int i = 0; i < kPartsAhead; ++i) m = fmaf(coefficients[(k + i) * tile.memory.kStride + edge], part[i], m);
      }
#pragma unroll 4
      for (; k < parts; ++k) m = fmaf(coefficients[k * tile.memory.kStride + edge], __ldg(u + k * width + c), m);
      messages[c * tile.memory.kStride + edge] = m;
    }
  });
}

struct FormMessages {
  template <int kTile>
  __device__ static const float* Messages(const EdgeTileParams& params, const EdgeTileMemory<kTile>& memory,
                                          const EdgeRun& run, int64_t row, int64_t base, int edges) {
    const Tile<kTile> tile = {params, memory, run, base, edges, BlockColumns(params)};
    const MessageReduceProblem& problem = params.args.problem;
    FindEdges(params.args.adjacency, memory, run, row, base, edges);
    if (problem.edge_width > 0) FindTileFeatures(tile);
    __syncthreads();
    if (problem.form == MessageForm::kMixture) {
      StageFeatures(tile, memory.buffer[0]);
      __syncthreads();
      const int made = ApplyLayers(params, memory, problem.edge_width);
      Mix(tile, memory.buffer[made], memory.buffer[made ^ 1]);
      __syncthreads();
      return memory.buffer[made ^ 1];
    }
    float* const z = memory.buffer[0];
    const bool terms = problem.edge_width > 0 && params.args.edge_weight != nullptr;
    if (terms) {
      StageFeatures(tile, memory.buffer[1]);
      __syncthreads();
      MultiplyFeatures(tile, memory.buffer[1], z);
      __syncthreads();
    }
    AddNodes(tile, terms, z);
    __syncwarp();
    ApplyFunction(tile, z);
    __syncthreads();
    return z;
  }
};

template <class Total>
cudaError_t Launch(const EdgeTileParams& params, const MessageTile& tile, bool large, const LaunchTarget& target) {
  return large ? LaunchEdgeTiles<FormMessages, kLargeMessageTile, Total>(params, tile.Bytes(kLargeMessageTile), target)
               : LaunchEdgeTiles<FormMessages, kSmallMessageTile, Total>(params, tile.Bytes(kSmallMessageTile), target);
}

}  // namespace

cudaError_t LaunchEdgeMessages(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const MessageTile tile(args.problem);
  const bool large = tile.Bytes(kLargeMessageTile) <= LargeTileBytes(target.limits);
  EdgeTileParams params;
  const cudaError_t error = SetEdgeTileParams(args, tile, target, scratch, &params);
  if (error != cudaSuccess) return error;
  if (args.problem.softmax) return Launch<SoftmaxTotal>(params, tile, large, target);
  return IsExtreme(args.problem.reduce) ? Launch<PlainTotal<true>>(params, tile, large, target)
                                        : Launch<PlainTotal<false>>(params, tile, large, target);
}

}  // namespace vicinal::cuda
