// SPDX-License-Identifier: Apache-2.0
// template_spmm with features of edges and without a message MLP (GINEConv): m = activation((message(u, v) + W e + b)
// w).
//
// Idea. A warp reduces a row (or a piece of a long one) for a tile of columns, 16 edges at a time. Its lanes first
// fetch all that these edges need, so that one wait covers it: each group of lanes the sources of the edges of its
// chain, and all lanes together the edges' features, which go to shared memory, as every column needs them. Then a lane
// multiplies them by its columns of W, which stay in the L1 cache, for all its edges at once: one load of W for 4
// edges. No product is stored. Steps with few edges are shorter. Features are staged 16 at a time, so their number is
// not limited. Order of evaluation: that of template_spmm: edge j of a row (or piece) goes to chain j mod 4, and so do
// pieces; chains are added (0, 2), (1, 3), then both. Products of features are added in ascending order to b. The bits
// are equal in every run and in every subset of rows; there are no float atomics. Traffic: edges * (4 + 4 weighted + 4
// * width + 4 * A) bytes of gather, features once per tile of 32 columns; rows * 8 * width for targets and results.
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/edge_features.cuh"
#include "engine/cuda/common/row_pieces.cuh"
#include "engine/cuda/message/message.cuh"
#include "engine/cuda/message/template_spmm/template_spmm.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32, kMinBlocks = 4;
constexpr int kChains = 4;
constexpr int kStep = 16;             // edges at a time
constexpr int kStaged = 16;           // features of them at a time
constexpr int kStride = kStaged + 4;  // of an edge's: the edges of four groups of lanes begin in different banks

struct Params {
  CsrView adjacency;       // [R, S]
  ConstMatrixView rows;    // [S, D]
  ConstMatrixView target;  // [R, D], read by messages of two rows
  Message message;
  Activation activation;  // of messages
  Reduce reduce;
  EdgeFeaturesView edge;
  const float* weight;  // W^T [A, D]; null: features are added as they are
  const float* bias;    // [D] or null
  Access access;        // of an edge's features
  MatrixView dst;       // [R, D]
  Epilogue epilogue;
  // Partial results of long rows (row_pieces.h).
  int64_t cells;
  int64_t partial_stride;
  float* partials;  // [cells, partial_stride]
  int* tickets;
};

// kLanes lanes cover a tile of columns; so many groups of lanes take a row's edges in turn.
template <int kVec_, int kLanes_, bool kExtreme>
struct Layout {
  static constexpr int kVec = kVec_, kLanes = kLanes_, kGroups = 32 / kLanes;
  static constexpr int kTile = kVec * kLanes;
  static constexpr int kHeld = kChains / kGroups;  // chains per lane
  static_assert(kGroups == 1 || kGroups == kChains);
  using Reduction = Reducer<kExtreme>;
  __device__ static float Signed(Reduce reduce, float m) { return kExtreme ? Reduction::Sign(reduce) * m : m; }
};

template <class L>
struct Chains {
  Pack<L::kVec> chain[L::kHeld];

  __device__ Chains() {
#pragma unroll
    for (int h = 0; h < L::kHeld; ++h) chain[h] = Pack<L::kVec>::Filled(L::Reduction::Identity());
  }
  __device__ void Join(int held, const Pack<L::kVec>& x) {
#pragma unroll
    for (int v = 0; v < L::kVec; ++v) chain[held].v[v] = L::Reduction::Combine(chain[held].v[v], x.v[v]);
  }
  // To be called by the whole warp; of use in the first group of lanes.
  __device__ Pack<L::kVec> Total() const {
    Pack<L::kVec> total;
#pragma unroll
    for (int v = 0; v < L::kVec; ++v) {
      if constexpr (L::kGroups == 1) {
        total.v[v] = L::Reduction::Combine(L::Reduction::Combine(chain[0].v[v], chain[2].v[v]),
                                           L::Reduction::Combine(chain[1].v[v], chain[3].v[v]));
      } else {
        const float mine = chain[0].v[v];
        const float pair = L::Reduction::Combine(mine, __shfl_xor_sync(kWholeWarp, mine, 2 * L::kLanes));
        total.v[v] = L::Reduction::Combine(pair, __shfl_xor_sync(kWholeWarp, pair, L::kLanes));
      }
    }
    return total;
  }
};

// What a warp works on: the edges of a row, or of a piece of it, counted from its first one.
struct Work {
  const int32_t* sources;
  const float* weights;  // null: 1
  int edges;
  FeaturesOfRow features;
  int column;       // this lane's first
  int lane, group;  // in the warp; of the lane
  float* staged;    // [kStep][kStride], of the warp
};

// Features [first, first + count) of the `edges` edges from `begin` on, into shared memory.
__device__ inline void Stage(const Params& params, const Work& work, int begin, int edges, int first, int count) {
  const int width = static_cast<int>(params.edge.width);
  __syncwarp();  // the features before may still be read
  if (params.access != Access::kElements) {
    constexpr int kParts = kStaged / 4;
#pragma unroll
    for (int i = 0; i < kStep * kParts / 32; ++i) {
      const int item = i * 32 + work.lane, edge = item / kParts, a = item % kParts * 4;
      if (edge >= edges || a >= count) continue;
      const float* from = work.features.Of(begin + edge, width) + first + a;
      *reinterpret_cast<float4*>(work.staged + edge * kStride + a) = __ldg(reinterpret_cast<const float4*>(from));
    }
  } else {
#pragma unroll 4
    for (int item = work.lane; item < edges * kStaged; item += 32) {
      const int edge = item / kStaged, a = item % kStaged;
      if (a < count) work.staged[edge * kStride + a] = __ldg(work.features.Of(begin + edge, width) + first + a);
    }
  }
  __syncwarp();
}

// Adds features times W to the terms of a lane's edges; `edges` of the step are there, the last is repeated.
template <class L, int kMine>
__device__ inline void AddProducts(const Params& params, const Work& work, int begin, int edges,
                                   Pack<L::kVec> (&term)[kMine]) {
  const int width = static_cast<int>(params.edge.width);
  int of_edge[kMine];  // in the staged features
#pragma unroll
  for (int k = 0; k < kMine; ++k) of_edge[k] = min(k * L::kGroups + work.group, edges - 1) * kStride;
#pragma unroll 1
  for (int first = 0; first < width; first += kStaged) {
    const int count = min(width - first, kStaged);
    Stage(params, work, begin, edges, first, count);
    const float* weight = params.weight + first * params.rows.cols + work.column;
#pragma unroll 1
    for (int a = 0; a < count; a += 4) {
      float x[kMine][4];
#pragma unroll
      for (int k = 0; k < kMine; ++k) {
        const float4 four = *reinterpret_cast<const float4*>(work.staged + of_edge[k] + a);
        x[k][0] = four.x, x[k][1] = four.y, x[k][2] = four.z, x[k][3] = four.w;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (a + i >= count) break;
        const Pack<L::kVec> w = LoadReadOnly<L::kVec>(weight + (a + i) * params.rows.cols);
#pragma unroll
        for (int k = 0; k < kMine; ++k) {
#pragma unroll
          for (int v = 0; v < L::kVec; ++v) term[k].v[v] = fmaf(x[k][i], w.v[v], term[k].v[v]);
        }
      }
    }
  }
}

// What features add to the messages of a lane's edges.
template <class L, int kMine>
__device__ inline void MakeTerms(const Params& params, const Work& work, int begin, int edges,
                                 Pack<L::kVec> (&term)[kMine]) {
  if (params.weight == nullptr) {
    const int width = static_cast<int>(params.edge.width);
#pragma unroll
    for (int k = 0; k < kMine; ++k) {
      const float* of_edge = work.features.Of(begin + min(k * L::kGroups + work.group, edges - 1), width);
#pragma unroll
      for (int v = 0; v < L::kVec; ++v) term[k].v[v] = __ldg(of_edge + work.column + v);
    }
    return;
  }
  const Pack<L::kVec> bias =
      params.bias != nullptr ? LoadReadOnly<L::kVec>(params.bias + work.column) : Pack<L::kVec>::Filled(0.0f);
#pragma unroll
  for (int k = 0; k < kMine; ++k) term[k] = bias;
  AddProducts<L, kMine>(params, work, begin, edges, term);
}

// Up to 4 * kRounds edges from `base` on.
template <class L, int kRounds>
__device__ inline void ReduceStep(const Params& params, const Work& work, const TargetTerms<L::kVec>& terms, int base,
                                  Chains<L>& chains) {
  constexpr int kMine = kRounds * kChains / L::kGroups;
  const int edges = min(work.edges - base, kRounds * kChains);
  Pack<L::kVec> u[kMine], term[kMine];
  float weight[kMine];
#pragma unroll
  for (int k = 0; k < kMine; ++k) {
    const int edge = base + min(k * L::kGroups + work.group, edges - 1);
    const int32_t source = __ldg(work.sources + edge);
    weight[k] = work.weights != nullptr ? __ldg(work.weights + edge) : 1.0f;
    u[k] = LoadReadOnly<L::kVec>(params.rows.data + source * params.rows.stride + work.column);
  }
  MakeTerms<L, kMine>(params, work, base, edges, term);
#pragma unroll
  for (int k = 0; k < kMine; ++k) {
    if (k * L::kGroups + work.group >= edges) break;
    Pack<L::kVec> m;
#pragma unroll
    for (int v = 0; v < L::kVec; ++v) {
      m.v[v] = __fmul_rn(__fadd_rn(terms.Of(u[k].v[v], v), term[k].v[v]), weight[k]);
      if (params.activation.kind == ActivationKind::kRelu) m.v[v] = Rectified(m.v[v]);
    }
    ApplyRareActivation(params.activation, m.v);
#pragma unroll
    for (int v = 0; v < L::kVec; ++v) m.v[v] = L::Signed(params.reduce, m.v[v]);
    chains.Join(k % L::kHeld, m);
  }
}

template <class L>
__device__ inline Pack<L::kVec> ReduceEdges(const Params& params, const Work& work, int64_t row) {
  const TargetTerms<L::kVec> terms(params.message, params.target.data + row * params.target.stride + work.column);
  Chains<L> chains;
#pragma unroll 1
  for (int base = 0; base < work.edges; base += kStep) {
    const int left = work.edges - base;
    if (left <= kChains) {
      ReduceStep<L, 1>(params, work, terms, base, chains);
    } else if (left <= 2 * kChains) {
      ReduceStep<L, 2>(params, work, terms, base, chains);
    } else {
      ReduceStep<L, kStep / kChains>(params, work, terms, base, chains);
    }
  }
  return chains.Total();
}

template <class L>
__device__ inline Pack<L::kVec> ReducePieces(const Params& params, const Work& work, const RowPiece& piece) {
  const float* partials = params.partials + piece.first_cell * params.partial_stride + work.column;
  Chains<L> chains;
  for (int64_t i = work.group; i < piece.pieces; i += L::kGroups) {
    const Pack<L::kVec> part = LoadCoherent<L::kVec>(partials + i * piece.cell_step * params.partial_stride);
    if constexpr (L::kHeld == 1) {
      chains.Join(0, part);
    } else {
#pragma unroll
      for (int h = 0; h < L::kHeld; ++h) {
        if (i % L::kHeld == h) chains.Join(h, part);
      }
    }
  }
  return chains.Total();
}

template <class L>
__global__ void __launch_bounds__(kThreads, kMinBlocks) FeaturedMessages(const __grid_constant__ Params params) {
  __shared__ float4 staged[kWarps][kStep * kStride / 4];
  __shared__ RowPiece pieces[kWarps];  // out of the registers while edges are reduced
  const CsrView& adjacency = params.adjacency;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t item = int64_t{blockIdx.x} * kWarps + warp;
  Work work;
  work.lane = static_cast<int>(threadIdx.x) % 32;
  work.group = work.lane / L::kLanes;
  work.staged = reinterpret_cast<float*>(staged[warp]);
  RowPiece found;
  if (item < params.cells) {
    found = FindPiece<32>(adjacency.row_ptr, adjacency.rows, kMessageUnit, item);
  } else if (item - params.cells < adjacency.rows) {
    found = WholeRow(adjacency.row_ptr, params.cells > 0 ? kMessageUnit : 0, item - params.cells);
  }
  if (found.row < 0) return;
  if (work.lane == 0) pieces[warp] = found;
  const int first_column = static_cast<int>(blockIdx.y) * L::kTile,
            own = first_column + work.lane % L::kLanes * L::kVec;
  const bool stores = own < params.dst.cols && work.group == 0;
  work.column = own < params.dst.cols ? own : first_column;  // lanes without columns repeat others
  work.sources = adjacency.col + found.begin;
  work.weights = adjacency.value != nullptr ? adjacency.value + found.begin : nullptr;
  work.edges = static_cast<int>(found.end - found.begin);
  const int64_t from = found.begin - __ldg(adjacency.row_ptr + found.row);
  work.features = FindFeatures<32>(params.edge, adjacency, found.row, from);
  Pack<L::kVec> result = ReduceEdges<L>(params, work, found.row);
  __syncwarp();
  const RowPiece piece = pieces[warp];
  if (piece.split()) {
    if (stores) StorePack<L::kVec>(params.partials + piece.cell * params.partial_stride + own, result);
    int* ticket = params.tickets + blockIdx.y * params.cells + piece.first_cell;
    if (!ArrivesLast(ticket, piece.pieces, kWholeWarp, work.lane == 0)) return;
    result = ReducePieces<L>(params, work, piece);
  }
  if (!stores) return;
#pragma unroll
  for (int v = 0; v < L::kVec; ++v) {
    const float x = L::Reduction::Finish(params.reduce, result.v[v], piece.row_edges);
    params.dst.data[piece.row * params.dst.stride + own + v] = ApplyEpilogue(params.epilogue, x, piece.row, own + v);
  }
}

template <int kVec, int kLanes, bool kExtreme>
void Launch(const Params& params, cudaStream_t stream) {
  using L = Layout<kVec, kLanes, kExtreme>;
  const int64_t items = params.cells + params.adjacency.rows;
  const dim3 grid(static_cast<unsigned>((items + kWarps - 1) / kWarps),
                  static_cast<unsigned>((params.dst.cols + L::kTile - 1) / L::kTile));
  FeaturedMessages<L><<<grid, kThreads, 0, stream>>>(params);
}

template <int kVec, int kLanes>
void LaunchReduce(const Params& params, cudaStream_t stream) {
  params.reduce == Reduce::kMax || params.reduce == Reduce::kMin ? Launch<kVec, kLanes, true>(params, stream)
                                                                 : Launch<kVec, kLanes, false>(params, stream);
}

bool InPacks(const MessageReduceArgs& args) {
  const bool rows = vicinal::cuda::InPacks(args.src) &&
                    (args.problem.message == Message::kSource || vicinal::cuda::InPacks(args.target));
  return rows && args.problem.width % 4 == 0 && vicinal::cuda::InPacks(args.edge_weight, 0, sizeof(float), 4) &&
         vicinal::cuda::InPacks(args.edge_bias, 0, sizeof(float), 4);
}

}  // namespace

cudaError_t LaunchFeaturedMessages(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const PieceScratch layout = MessageScratch(args.problem);
  Params params;
  params.adjacency = args.adjacency;
  params.rows = args.src;
  params.target = args.target;
  params.message = args.problem.message;
  params.activation = args.activation;
  params.reduce = args.problem.reduce;
  params.edge = args.edge;
  params.weight = args.edge_weight;
  params.bias = args.edge_bias;
  params.access = FeatureAccess(args.edge);
  params.dst = args.dst;
  params.epilogue = args.epilogue;
  params.cells = layout.cells;
  params.partial_stride = layout.stride;
  params.partials = static_cast<float*>(scratch);
  params.tickets = target.tickets;
  if (layout.tickets > 0) {
    params.tickets = reinterpret_cast<int*>(params.partials + layout.cells * layout.stride);
    const cudaError_t error = cudaMemsetAsync(params.tickets, 0, layout.tickets * sizeof(int), target.stream);
    if (error != cudaSuccess) return error;
  }
  if (InPacks(args)) {
    LaunchReduce<4, 8>(params, target.stream);
  } else if (args.problem.width <= 8) {
    LaunchReduce<1, 8>(params, target.stream);
  } else {
    LaunchReduce<1, 32>(params, target.stream);
  }
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
