// SPDX-License-Identifier: Apache-2.0
// template_spmm without a message MLP: FeatGraph's generalised SpMM (Hu et al., SC'20, section III). One skeleton
// visits edges by target; message, weight, activation and reduce are parameters.
//
// Idea. As in FeatGraph on a GPU, adjacent lanes cover adjacent features (feature-parallel threads), a target row at a
// time keeps its result and its part of the message in registers, and the grid covers tiles of columns. Instead of
// FeatGraph's hybrid partitioning by degree, long rows are cut into pieces (row_pieces.h), which needs no preparation
// of the graph. With the partitioning (staged_rows.cu), this kernel sums the edges that are not staged and adds the
// staged sums. A lane has up to 4 columns (16 bytes) and loads four edges before it uses the first.
// Order of evaluation: edge j of a row (or piece) goes to chain j mod 4, and so do pieces. The bits are equal for all
// tiles, in every run and in every subset of rows; there are no float atomics.
// Traffic: edges * (4 + 4 weighted + 4 * width) bytes of gather, rows * 8 * width for targets and results.
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/row_pieces.cuh"
#include "engine/cuda/message/message.cuh"
#include "engine/cuda/message/template_spmm/template_spmm.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kChains = 4;

struct MessageSource {
  ConstMatrixView rows;    // [S, D]
  ConstMatrixView target;  // [R, D], read by messages of two rows
  Message message;
  Activation activation;  // of messages
};

// Partial results of long rows (row_pieces.h).
struct MessageParts {
  int64_t cells;
  int64_t partial_stride;
  float* partials;  // [cells, partial_stride]
  int* tickets;
};

struct MessageEpilogue {
  MatrixView dst;  // [R, D]
  Reduce reduce;
  Epilogue epilogue;
  MessageRowsPart extra;
};

struct Params {
  CsrView adjacency;  // [R, S]
  MessageSource source;
  MessageParts parts;
  MessageEpilogue out;
};

// kPlain: messages have neither weight nor activation.
template <int kVec_, int kLanes_, bool kExtreme_, bool kPlain_>
struct Layout {
  static constexpr int kVec = kVec_, kLanes = kLanes_;
  static constexpr bool kExtreme = kExtreme_, kPlain = kPlain_;
  static constexpr int kTile = kVec * kLanes, kGroups = kThreads / kLanes;
  using Reduction = Reducer<kExtreme>;
};

template <class L>
struct Chains {
  Pack<L::kVec> chain[kChains];

  __device__ Chains() {
#pragma unroll
    for (int i = 0; i < kChains; ++i) chain[i] = Pack<L::kVec>::Filled(L::Reduction::Identity());
  }
  __device__ Pack<L::kVec> Total() const {
    Pack<L::kVec> total;
#pragma unroll
    for (int v = 0; v < L::kVec; ++v) {
      total.v[v] = L::Reduction::Combine(L::Reduction::Combine(chain[0].v[v], chain[2].v[v]),
                                         L::Reduction::Combine(chain[1].v[v], chain[3].v[v]));
    }
    return total;
  }
};

// The next kChains edges of a piece. If fewer remain, the last one is repeated.
template <class L>
struct EdgeBatch {
  int32_t source[kChains];
  float weight[kChains];

  __device__ EdgeBatch(const Params& params, int64_t base, int64_t end) {
    const bool weighted = !L::kPlain && (params.adjacency.value != nullptr || params.out.extra.src_scale != nullptr);
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      const int64_t edge = min(base + i, end - 1);
      source[i] = __ldg(params.adjacency.col + edge);
      weight[i] = weighted ? EdgeWeight(params.adjacency, params.out.extra.src_scale, edge, source[i]) : 1.0f;
    }
  }
};

// Loads the next sources while the rows of the current ones are in flight.
template <class L>
__device__ inline Pack<L::kVec> ReduceEdges(const Params& params, const RowPiece& piece, int64_t column) {
  const TargetTerms<L::kVec> terms(params.source.message,
                                   params.source.target.data + piece.row * params.source.target.stride + column);
  const float sign = L::Reduction::Sign(params.out.reduce);
  Chains<L> chains;
  if (piece.begin >= piece.end) return chains.Total();
  EdgeBatch<L> edges(params, piece.begin, piece.end);
  for (int64_t base = piece.begin; base < piece.end; base += kChains) {
    Pack<L::kVec> u[kChains];
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      u[i] = LoadReadOnly<L::kVec>(params.source.rows.data + edges.source[i] * params.source.rows.stride + column);
    }
    const EdgeBatch<L> next(params, base + kChains, piece.end);
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      if (base + i >= piece.end) break;
#pragma unroll
      for (int v = 0; v < L::kVec; ++v) {
        float m = terms.Of(u[i].v[v], v);
        if constexpr (!L::kPlain) m = Activate(params.source.activation, m * edges.weight[i]);
        chains.chain[i].v[v] = L::Reduction::Combine(chains.chain[i].v[v], L::kExtreme ? sign * m : m);
      }
    }
    edges = next;
  }
  return chains.Total();
}

template <class L>
__device__ inline Pack<L::kVec> ReducePieces(const Params& params, const RowPiece& piece, int64_t column) {
  const float* partials = params.parts.partials + piece.first_cell * params.parts.partial_stride + column;
  Chains<L> chains;
  for (int64_t base = 0; base < piece.pieces; base += kChains) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      if (base + i >= piece.pieces) break;
      const Pack<L::kVec> part =
          LoadCoherent<L::kVec>(partials + (base + i) * piece.cell_step * params.parts.partial_stride);
#pragma unroll
      for (int v = 0; v < L::kVec; ++v) chains.chain[i].v[v] = L::Reduction::Combine(chains.chain[i].v[v], part.v[v]);
    }
  }
  return chains.Total();
}

// The result of one column of a row, from its reduced messages.
template <class L>
__device__ inline float FinishedColumn(const Params& params, const RowPiece& piece, int64_t column, float x) {
  const MessageRowsPart& part = params.out.extra;
  int64_t edges = piece.row_edges;
  if (part.carried != nullptr) {
    x = L::Reduction::Combine(part.carried[piece.row * part.carried_stride + column], x);
    edges = __ldg(part.degree_ptr + piece.row + 1) - __ldg(part.degree_ptr + piece.row);
  }
  x = L::Reduction::Finish(params.out.reduce, x, edges);
  if (part.self_scale != 0.0f)
    x = fmaf(part.self_scale, params.source.rows.data[piece.row * params.source.rows.stride + column], x);
  return ApplyEpilogue(params.out.epilogue, x, piece.row, column);
}

template <class L>
__global__ void __launch_bounds__(kThreads) MessageRows(const __grid_constant__ Params params) {
  const int64_t item = int64_t{blockIdx.x} * L::kGroups + threadIdx.x / L::kLanes;
  const int lane = static_cast<int>(threadIdx.x) % L::kLanes;
  const int64_t column = int64_t{blockIdx.y} * L::kTile + lane * L::kVec;
  const bool has = column < params.out.dst.cols;
  const CsrView& adjacency = params.adjacency;
  RowPiece piece;
  if (item < params.parts.cells) {
    piece = FindPiece<L::kLanes>(adjacency.row_ptr, adjacency.rows, kMessageUnit, item);
  } else if (item - params.parts.cells < adjacency.rows) {
    piece = WholeRow(adjacency.row_ptr, params.parts.cells > 0 ? kMessageUnit : 0, item - params.parts.cells);
  }
  if (piece.row < 0) return;
  Pack<L::kVec> result = Pack<L::kVec>::Filled(0.0f);
  if (has) result = ReduceEdges<L>(params, piece, column);
  if (piece.split()) {
    if (has) StorePack<L::kVec>(params.parts.partials + piece.cell * params.parts.partial_stride + column, result);
    int* ticket = params.parts.tickets + blockIdx.y * params.parts.cells + piece.first_cell;
    if (!ArrivesLast(ticket, piece.pieces, GroupMask<L::kLanes>(), lane == 0)) return;
    if (has) result = ReducePieces<L>(params, piece, column);
  }
  if (!has) return;
#pragma unroll
  for (int v = 0; v < L::kVec; ++v) {
    params.out.dst.data[piece.row * params.out.dst.stride + column + v] =
        FinishedColumn<L>(params, piece, column + v, result.v[v]);
  }
}

template <int kVec, int kLanes, bool kExtreme>
void Launch(const Params& params, cudaStream_t stream) {
  using General = Layout<kVec, kLanes, kExtreme, false>;
  const int64_t items = params.parts.cells + params.adjacency.rows;
  const dim3 grid(static_cast<unsigned>((items + General::kGroups - 1) / General::kGroups),
                  static_cast<unsigned>((params.out.dst.cols + General::kTile - 1) / General::kTile));
  if (params.adjacency.value == nullptr && params.out.extra.src_scale == nullptr &&
      params.source.activation.kind == ActivationKind::kNone) {
    MessageRows<Layout<kVec, kLanes, kExtreme, true>><<<grid, kThreads, 0, stream>>>(params);
  } else {
    MessageRows<General><<<grid, kThreads, 0, stream>>>(params);
  }
}

template <int kVec, int kLanes>
void LaunchReduce(const Params& params, cudaStream_t stream) {
  IsExtreme(params.out.reduce) ? Launch<kVec, kLanes, true>(params, stream)
                               : Launch<kVec, kLanes, false>(params, stream);
}

template <int kVec>
void LaunchLanes(const Params& params, cudaStream_t stream) {
  const int64_t lanes = (params.out.dst.cols + kVec - 1) / kVec;
  if (lanes <= 8) {
    LaunchReduce<kVec, 8>(params, stream);
  } else if (lanes <= 16) {
    LaunchReduce<kVec, 16>(params, stream);
  } else {
    LaunchReduce<kVec, 32>(params, stream);
  }
}

}  // namespace

cudaError_t LaunchMessageRows(const MessageReduceArgs& args, const MessageRowsPart& part, const LaunchTarget& target,
                              void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const PieceScratch layout = MessageScratch(args.problem);
  Params params;
  params.adjacency = args.adjacency;
  params.source.rows = args.src;
  params.source.target = args.target;
  params.source.message = args.problem.message;
  params.out.reduce = args.problem.reduce;
  params.source.activation = args.activation;
  params.out.dst = args.dst;
  params.out.epilogue = args.epilogue;
  params.out.extra = part;
  params.parts.cells = layout.cells;
  params.parts.partial_stride = layout.stride;
  params.parts.partials = static_cast<float*>(scratch);
  params.parts.tickets = target.tickets;
  if (layout.tickets > 0) {
    params.parts.tickets = reinterpret_cast<int*>(params.parts.partials + layout.cells * layout.stride);
    const cudaError_t error = cudaMemsetAsync(params.parts.tickets, 0, layout.tickets * sizeof(int), target.stream);
    if (error != cudaSuccess) return error;
  }
  const bool packs = InPacks(args.src) && (args.problem.message == Message::kSource || InPacks(args.target));
  packs&& args.problem.width % 4 == 0 ? LaunchLanes<4>(params, target.stream) : LaunchLanes<1>(params, target.stream);
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
