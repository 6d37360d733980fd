// SPDX-License-Identifier: Apache-2.0
// template_spmm for products of an edge's coefficients and its source's row, side by side (GMMConv's sums and means):
// m = p_1 u, p_2 u, .. for Gaussians p of the edge's features.
//
// Idea. A warp has a row, or a piece of a long one, 64 columns of u (32 of narrow ones) and up to 8 coefficients: their
// sums are in registers, so that one load of u serves 8 products. It takes 16 edges at a time, whose rows of u are on
// their way to shared memory while the lanes make coefficients, each for some of the edges; features of the next 16
// edges follow them. Features come 16 at a time, so that their number is not limited. Nothing but the end of a long row
// waits for other warps. Edges are found, and the first features copied, while the kernel before may still run.
// Order of evaluation: features ascending, folded every 64; edges of a row or piece ascending, folded every 64; pieces
// of long rows in four chains. The bits are equal in every run and in every subset of rows; there are no float atomics.
// Traffic: edges * (4 + 4 * width + 4 * A for every 64 columns) bytes of gather, once for every 8 coefficients, and
// rows * 4 * K * width bytes of results.
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/async_copy.cuh"
#include "engine/cuda/common/edge_features.cuh"
#include "engine/cuda/common/overlap.cuh"
#include "engine/cuda/common/row_pieces.cuh"
#include "engine/cuda/message/template_spmm/detail/gaussians.cuh"
#include "engine/cuda/message/template_spmm/detail/row_totals.cuh"
#include "engine/cuda/message/template_spmm/template_spmm.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kBlocks = 5;            // per multiprocessor that registers allow
constexpr int kStep = 16;             // edges of a warp at a time
constexpr int kStaged = 16;           // features of an edge at a time
constexpr int kStride = kStaged + 4;  // of an edge's: edges that lanes read together begin in different banks
constexpr int kPieceChains = 4;
static_assert(kFoldEdges % kStep == 0 && kFoldFeatures % kStaged == 0);

struct OuterParams {
  MessageReduceArgs args;
  Access access;  // of an edge's features
  int parts;      // coefficients of a block, but for the last one
  int tiles;      // of columns
  bool overlap;   // may start before the kernel before it has ended (overlap.cuh)
  // Partial results of long rows (row_pieces.h).
  int64_t cells, partial_stride;
  float* partials;  // [cells][columns of the result]
  int* tickets;
};

template <int kVec_, int kParts_>
struct OuterLayout {
  static constexpr int kVec = kVec_, kParts = kParts_, kTile = 32 * kVec;
  static constexpr int kAcross = 32 / kParts;  // edges of which the lanes make one coefficient each
};

template <class L>
struct OuterMemory {
  float4 features[2][kStep * kStride / 4];
  float4 coefficients[kStep * L::kParts / 4];
  // Of rows of u, and sums: a lane reads only what it has copied or stored.
  float4 rows[kStep * L::kTile / 4];
  float4 sums[L::kParts * L::kTile / 4];
};

// What a warp works on.
template <class L>
struct OuterWork {
  OuterMemory<L>& memory;
  FeaturesOfRow features;  // by an edge's number in the row or piece
  int edges;
  int lane;
  int first_part, parts;  // of the block

  __device__ float* SumOf(int part) const {
    return reinterpret_cast<float*>(memory.sums) + part * L::kTile + lane * L::kVec;
  }
};

// Starts copying the columns of u that are this lane's, of `count` edges whose sources are in lanes 0, 1, ..
template <class L>
__device__ inline void CopyRows(const MessageReduceArgs& args, const OuterWork<L>& work, const float* u, int32_t source,
                                int count) {
  float* const to = reinterpret_cast<float*>(work.memory.rows) + work.lane * L::kVec;
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const int64_t row = __shfl_sync(kWholeWarp, source, i);
    CopyAsync<L::kVec * 4>(to + i * L::kTile, u + row * args.src.stride, L::kVec * 4);
  }
  CommitCopies();
}

// Starts copying features [first, first + kStaged), or as many as there are, of the edges from `base` on, if any.
template <class L>
__device__ inline void CopyFeatures(const OuterParams& params, const OuterWork<L>& work, int base, int first,
                                    int buffer) {
  float* const to = reinterpret_cast<float*>(work.memory.features[buffer]);
  const int width = static_cast<int>(params.args.edge.width);
  const int count = min(width - first, kStaged), edges = min(work.edges - base, kStep);
  if (params.access != Access::kElements) {
    constexpr int kPacks = kStaged / 4;
#pragma unroll
    for (int i = 0; i < kStep * kPacks / 32; ++i) {
      const int item = i * 32 + work.lane, edge = item / kPacks, a = item % kPacks * 4;
      if (edge < edges && a < count)
        CopyAsync<16>(to + edge * kStride + a, work.features.Of(base + edge, width) + first + a, 16);
    }
  } else {
#pragma unroll 1
    for (int item = work.lane; item < edges * kStaged; item += 32) {
      const int edge = item / kStaged, a = item % kStaged;
      if (a < count) CopyAsync<4>(to + edge * kStride + a, work.features.Of(base + edge, width) + first + a, 4);
    }
  }
  CommitCopies();
}

// Makes the coefficients of the edges from `base` on, kMine for each lane. Their first features are on their way to
// `buffer`, and one group of copies after them; on return features of the next edges are the latest group, on their way
// to what is `buffer` then.
template <int kMine, class L>
__device__ inline void MakeCoefficients(const OuterParams& params, const OuterWork<L>& work, int base, int* buffer) {
  const MessageReduceArgs& args = params.args;
  const int width = static_cast<int>(args.edge.width), edges = min(work.edges - base, kStep);
  const int own = work.lane % L::kParts, group = work.lane / L::kParts;
  const int stride = static_cast<int>(args.problem.gaussians);
  // Lanes without a coefficient or an edge repeat others.
  const GaussianColumn gaussian(args, work.first_part + min(own, work.parts - 1));
  int place[kMine];
#pragma unroll
  for (int i = 0; i < kMine; ++i) place[i] = min(i * L::kAcross + group, edges - 1) * kStride;
  float total[kMine] = {}, sum[kMine] = {};
#pragma unroll 1
  for (int first = 0; first < width; first += kStaged, *buffer ^= 1) {
    first == 0 ? AwaitCopies<1>() : AwaitCopies<0>();
    __syncwarp();  // for all lanes; and none reads the other buffer, or coefficients, any more
    const bool more = first + kStaged < width;
    CopyFeatures(params, work, more ? base : base + kStep, more ? first + kStaged : 0, *buffer ^ 1);
    const float* const staged = reinterpret_cast<const float*>(work.memory.features[*buffer]);
    gaussian.AddTerms(staged, place, first, min(width - first, kStaged), stride, sum);
    if ((first + kStaged) % kFoldFeatures != 0) continue;
#pragma unroll
    for (int i = 0; i < kMine; ++i) total[i] += sum[i], sum[i] = 0.0f;
  }
  float* const to = reinterpret_cast<float*>(work.memory.coefficients) + work.lane;
#pragma unroll
  for (int i = 0; i < kMine; ++i) to[i * 32] = expf(total[i] + sum[i]);
  __syncwarp();
}

template <class L>
__device__ inline void StoreResult(const OuterParams& params, const RowPiece& piece, int64_t column,
                                   const Pack<L::kVec>& total) {
  const MessageReduceArgs& args = params.args;
  Pack<L::kVec> result;
#pragma unroll
  for (int v = 0; v < L::kVec; ++v) {
    const float reduced = Reducer<false>::Finish(args.problem.reduce, total.v[v], piece.row_edges);
    result.v[v] = ApplyEpilogue(args.epilogue, reduced, piece.row, column + v);
  }
  StorePack(args.dst.data + piece.row * args.dst.stride + column, result);
}

// Adds a lane's sums to those in shared memory, or puts the first ones there, and sets them to zero.
template <class L>
__device__ inline void Fold(const OuterWork<L>& work, bool first, Pack<L::kVec> (&sums)[L::kParts]) {
#pragma unroll
  for (int k = 0; k < L::kParts; ++k) {
    float* const to = work.SumOf(k);
    const Pack<L::kVec> before = LoadShared<L::kVec>(to);
#pragma unroll
    for (int v = 0; v < L::kVec; ++v) sums[k].v[v] = first ? sums[k].v[v] : before.v[v] + sums[k].v[v];
    StorePack(to, sums[k]);
    sums[k] = Pack<L::kVec>::Filled(0.0f);
  }
}

// Stores the results of a row of which all pieces are in params.partials: `count` sums, `step` columns apart.
template <class L>
__device__ inline void JoinPieces(const OuterParams& params, const RowPiece& piece, int64_t column, int count,
                                  int64_t step) {
  constexpr int kAtOnce = 2;
#pragma unroll 1
  for (int first = 0; first < count; first += kAtOnce, column += kAtOnce * step) {
    Pack<L::kVec> chain[kPieceChains][kAtOnce];
#pragma unroll
    for (int i = 0; i < kPieceChains * kAtOnce; ++i) chain[i / kAtOnce][i % kAtOnce] = Pack<L::kVec>::Filled(0.0f);
    for (int64_t base = 0; base < piece.pieces; base += kPieceChains) {
#pragma unroll
      for (int i = 0; i < kPieceChains; ++i) {
        if (base + i >= piece.pieces) break;
        const int64_t cell = piece.first_cell + (base + i) * piece.cell_step;
        const float* const part = params.partials + cell * params.partial_stride + column;
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          if (first + k >= count) break;
          const Pack<L::kVec> x = LoadCoherent<L::kVec>(part + k * step);
#pragma unroll
          for (int v = 0; v < L::kVec; ++v) chain[i][k].v[v] += x.v[v];
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k >= count) break;
      Pack<L::kVec> total;
#pragma unroll
      for (int v = 0; v < L::kVec; ++v)
        total.v[v] = (chain[0][k].v[v] + chain[2][k].v[v]) + (chain[1][k].v[v] + chain[3][k].v[v]);
      StoreResult<L>(params, piece, column + k * step, total);
    }
  }
}

// Puts the sums of a row or piece into shared memory, for this lane's columns of u from `column` on.
template <class L>
__device__ inline void SumEdges(const OuterParams& params, const OuterWork<L>& work, int64_t first_edge,
                                int64_t column) {
  const MessageReduceArgs& args = params.args;
  const float* const u = args.src.data + column;
  const int edges = work.edges;
  Pack<L::kVec> since[L::kParts];
#pragma unroll
  for (int k = 0; k < L::kParts; ++k) since[k] = Pack<L::kVec>::Filled(0.0f);
  if (edges == 0) {
    AwaitPreviousKernels();
    return Fold(work, true, since);
  }
  const int32_t* const sources = args.adjacency.col + first_edge;
  // In lane i, and lane 16 + i, of edge base + i. Lanes beyond the last edge have its source.
  int32_t source = __ldg(sources + min(work.lane % kStep, edges - 1));
  int buffer = 0;
  CopyFeatures(params, work, 0, 0, buffer);
  AwaitPreviousKernels();
#pragma unroll 1
  for (int base = 0; base < edges; base += kStep) {
    const int count = min(edges - base, kStep), next = base + kStep;
    __syncwarp();  // what is there has been read
    CopyRows(args, work, u, source, count);
    if (next < edges) source = __ldg(sources + min(next + work.lane % kStep, edges - 1));
    if (count <= L::kAcross) {
      MakeCoefficients<1>(params, work, base, &buffer);
    } else {
      MakeCoefficients<kStep / L::kAcross>(params, work, base, &buffer);
    }
    AwaitCopies<1>();
    const float* const coefficients = reinterpret_cast<const float*>(work.memory.coefficients);
    const float* const rows = reinterpret_cast<const float*>(work.memory.rows) + work.lane * L::kVec;
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const Pack<L::kVec> x = LoadShared<L::kVec>(rows + i * L::kTile);
      constexpr int kPack = L::kParts < 4 ? L::kParts : 4;
#pragma unroll
      for (int first = 0; first < L::kParts; first += kPack) {
        const Pack<kPack> p = LoadShared<kPack>(coefficients + i * L::kParts + first);
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
#pragma unroll
          for (int v = 0; v < L::kVec; ++v) since[first + k].v[v] = fmaf(p.v[k], x.v[v], since[first + k].v[v]);
        }
      }
    }
    if (next % kFoldEdges == 0 || next >= edges) Fold(work, base < kFoldEdges, since);
  }
}

template <class L>
__global__ void __launch_bounds__(kThreads, kBlocks) OuterRows(const __grid_constant__ OuterParams params) {
  __shared__ OuterMemory<L> memories[kWarps];
  TriggerNextLaunch();
  const MessageReduceArgs& args = params.args;
  const CsrView& adjacency = args.adjacency;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t item = int64_t{blockIdx.x} * kWarps + warp, width = args.problem.width;
  RowPiece piece;
  if (item < params.cells) {
    piece = FindPiece<32>(adjacency.row_ptr, adjacency.rows, kFeaturedUnit, item);
  } else if (item - params.cells < adjacency.rows) {
    piece = WholeRow(adjacency.row_ptr, params.cells > 0 ? kFeaturedUnit : 0, item - params.cells);
  }
  if (piece.row < 0) return;
  const int64_t row_begin = piece.split() ? __ldg(adjacency.row_ptr + piece.row) : piece.begin;
  const int first_part = static_cast<int>(blockIdx.y) / params.tiles * params.parts;
  const OuterWork<L> work = {memories[warp],
                             FindFeatures<32>(args.edge, adjacency, piece.row, piece.begin - row_begin),
                             static_cast<int>(piece.end - piece.begin),
                             lane,
                             first_part,
                             min(params.parts, static_cast<int>(args.problem.gaussians) - first_part)};
  const int64_t tile = static_cast<int>(blockIdx.y) % params.tiles * L::kTile, own = tile + lane * L::kVec;
  const bool has = own < width;  // lanes without columns repeat others
  SumEdges(params, work, piece.begin, has ? own : tile);
  const int64_t column = first_part * width + own;  // of the result
  if (piece.split()) {
    float* const part = params.partials + piece.cell * params.partial_stride + column;
    for (int k = 0; has && k < work.parts; ++k) StorePack(part + k * width, LoadShared<L::kVec>(work.SumOf(k)));
    int* const ticket = params.tickets + blockIdx.y * params.cells + piece.first_cell;
    if (!ArrivesLast(ticket, piece.pieces, kWholeWarp, lane == 0)) return;
    if (has) JoinPieces<L>(params, piece, column, work.parts, width);
    return;
  }
#pragma unroll 1
  for (int k = 0; has && k < work.parts; ++k)
    StoreResult<L>(params, piece, column + k * width, LoadShared<L::kVec>(work.SumOf(k)));
}

template <class L>
cudaError_t Launch(OuterParams params, const LaunchTarget& target) {
  const int64_t items = params.cells + params.args.adjacency.rows;
  params.tiles = static_cast<int>((params.args.problem.width + L::kTile - 1) / L::kTile);
  const int64_t groups = (params.args.problem.gaussians + params.parts - 1) / params.parts;
  const dim3 grid(static_cast<unsigned>((items + kWarps - 1) / kWarps), static_cast<unsigned>(params.tiles * groups));
  return LaunchOverlapping(params.overlap, OuterRows<L>, grid, kThreads, target.stream, params);
}

template <int kParts>
cudaError_t LaunchParts(const OuterParams& params, const LaunchTarget& target) {
  const MessageReduceArgs& args = params.args;
  const int64_t width = args.problem.width;
  const bool pairs = width > 32 && width % 2 == 0 && InPacks(args.src, 2) && InPacks(args.dst, 2);
  return pairs ? Launch<OuterLayout<2, kParts>>(params, target) : Launch<OuterLayout<1, kParts>>(params, target);
}

}  // namespace

cudaError_t LaunchEdgeOuter(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const PieceScratch layout = MessageScratch(args.problem);
  OuterParams params;
  params.args = args;
  params.access = FeatureAccess(args.edge);
  params.tiles = 0;
  // Groups of equal size: nine coefficients are five and four.
  const int64_t count = args.problem.gaussians, groups = (count + kOuterParts - 1) / kOuterParts;
  params.parts = static_cast<int>((count + groups - 1) / groups);
  params.cells = layout.cells;
  params.partial_stride = layout.stride;
  params.partials = static_cast<float*>(scratch);
  params.tickets = target.tickets;
  params.overlap = target.overlap && layout.tickets == 0;  // it must not overlap with the clearing of tickets
  if (layout.tickets > 0) {
    params.tickets = reinterpret_cast<int*>(params.partials + layout.cells * layout.stride);
    const cudaError_t error = cudaMemsetAsync(params.tickets, 0, layout.tickets * sizeof(int), target.stream);
    if (error != cudaSuccess) return error;
  }
  return params.parts <= 2 ? LaunchParts<2>(params, target) : LaunchParts<kOuterParts>(params, target);
}

}  // namespace vicinal::cuda
