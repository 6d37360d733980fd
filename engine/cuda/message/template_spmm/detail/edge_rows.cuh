// SPDX-License-Identifier: Apache-2.0
// What kernels share whose messages are made in registers, some edges of a warp at a time.
//
// A warp takes 16 edges at a time (8 gated ones), across row boundaries, so that rows of few edges leave no lane idle.
// Its lanes first fetch all that these edges need, so that one wait covers it. A lane has up to 4 neighbouring columns
// of some of the edges. Messages then pass through shared memory of the warp alone, and a lane adds up two columns row
// by row. Only at its begin and end does a block wait for all its warps (edge_table.cuh: what a block works on, and
// where rows are cut).
//
// Order of evaluation: a message depends on its edge alone. The edges of a row or piece are added one by one within a
// chunk of 16, chunks in order, pieces of long rows in four chains. The bits are equal in every run and in every subset
// of rows; there are no float atomics.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_EDGE_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_EDGE_ROWS_CUH_

#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/async_copy.cuh"
#include "engine/cuda/common/overlap.cuh"
#include "engine/cuda/message/template_spmm/detail/edge_table.cuh"
#include "engine/cuda/message/template_spmm/detail/row_totals.cuh"

namespace vicinal::cuda {

inline constexpr int kRowBlocks = 5;  // per multiprocessor that registers allow
inline constexpr int kRowPieceChains = 4;

// A message network that makes coefficients (edge_mixtures.cu), instead of the arrays of args and its problem.
struct RowNetwork {
  MessageLayerArgs layers[kMaxMessageLayers];
  int64_t out_widths[kMaxMessageLayers] = {}, weight_strides[kMaxMessageLayers] = {};
  int coefficients = 0;  // K
  int strides[2] = {};   // floats of an edge in each of two buffers
};

struct RowParams {
  MessageReduceArgs args;
  Access access;  // of an edge's features
  int keys_per_block;
  // Partial results of long rows (row_pieces.h).
  int64_t cells, partial_stride;
  float* partials;  // [cells][floats of a total][columns of the result]
  int* tickets;
  bool overlap;  // may start before the kernel before it has ended (overlap.cuh)
  RowNetwork network;
};

// kLanes lanes cover a tile of columns; so many groups of lanes take a warp's edges in turn.
template <int kVec_, int kLanes_, int kStep_, class Total_>
struct RowLayout {
  static constexpr int kVec = kVec_, kLanes = kLanes_, kGroups = 32 / kLanes, kTile = kVec * kLanes;
  static constexpr int kStep = kStep_;                                  // edges of a warp at a time
  static constexpr int kMine = kStep / kGroups, kCount = kMine * kVec;  // edges of a lane, and its numbers of these
  static constexpr int kOwn = kTile / 32;                               // columns that a lane adds up
  using Total = Total_;
};

template <class L>
struct WarpMemory {
  float4 messages[L::kStep * L::kTile / 4];
  const float* features[L::kStep];
  int32_t source[L::kStep], row[L::kStep];
};

// What a warp works on.
template <class L>
struct RowWork {
  const EdgeTable& table;
  WarpMemory<L>& memory;
  float* slots;         // of the block, [kChunkSlots][floats of a total][kTile]
  float* block_memory;  // of the block, and of the warp, for what makes messages
  float* own_memory;
  int column;  // this lane's first one of messages
  int first_column, lane, group;

  __device__ int own() const { return lane * L::kOwn; }  // this lane's first one of sums, in the tile
  __device__ int EdgeOf(int mine) const { return mine * L::kGroups + group; }
};

// Sources, rows and places of features of the `edges` edges from `base` on. The first is not before `entry`.
template <class L>
__device__ inline void FindRowEdges(const RowParams& params, const RowWork<L>& work, int entry, int base, int edges) {
  const MessageReduceArgs& args = params.args;
  __syncwarp();  // what is there may still be read
  if (work.lane < L::kStep) {
    const int edge = base + min(work.lane, edges - 1);
    const int at = work.table.EntryOf(edge, entry);
    work.memory.source[work.lane] = __ldg(args.adjacency.col + work.table.shift[at] + edge);
    work.memory.row[work.lane] = work.table.row[at];
    if (args.edge.width > 0)
      work.memory.features[work.lane] = work.table.features[at].Of(edge, static_cast<int>(args.edge.width));
  }
  __syncwarp();
}

// The `messages` of a lane's edges, in shared memory.
template <class L>
__device__ inline void StoreMessages(const RowWork<L>& work, const float (&messages)[L::kCount]) {
  float* const to = reinterpret_cast<float*>(work.memory.messages) + work.lane % L::kLanes * L::kVec;
#pragma unroll
  for (int k = 0; k < L::kMine; ++k) {
    Pack<L::kVec> m;
#pragma unroll
    for (int v = 0; v < L::kVec; ++v) m.v[v] = messages[k * L::kVec + v];
    StorePack(to + work.EdgeOf(k) * L::kTile, m);
  }
  __syncwarp();
}

template <class L>
struct Totals {
  typename L::Total of[L::kOwn];

  __device__ void Join(const MessageReduceArgs& args, const Totals& other) {
#pragma unroll
    for (int i = 0; i < L::kOwn; ++i) of[i].Join(args, other.of[i]);
  }
};

// Totals of a chunk of a row that is cut between warps.
template <class L>
__device__ inline float* SlotOf(const RowWork<L>& work, int slot) {
  return work.slots + slot * L::Total::kFloats * L::kTile + work.own();
}

// The pieces of a long row, in four chains.
template <class L>
__device__ inline Totals<L> JoinPieces(const RowParams& params, const RowWork<L>& work, int64_t first_cell,
                                       int64_t step, int64_t pieces) {
  const MessageReduceArgs& args = params.args;
  Totals<L> chain[kRowPieceChains];
  for (int64_t base = 0; base < pieces; base += kRowPieceChains) {
#pragma unroll
    for (int i = 0; i < kRowPieceChains; ++i) {
      if (base + i >= pieces) break;
      Totals<L> total;
#pragma unroll
      for (int j = 0; j < L::kOwn; ++j) {
        const int64_t column = min(int64_t{work.first_column + work.own() + j}, args.dst.cols - 1);
        const float* const part = params.partials + (first_cell + (base + i) * step) * params.partial_stride + column;
#pragma unroll
        for (int f = 0; f < L::Total::kFloats; ++f) *total.of[j].Float(f) = __ldcg(part + f * args.dst.cols);
      }
      chain[i].Join(args, total);
    }
  }
  chain[0].Join(args, chain[2]);
  chain[1].Join(args, chain[3]);
  chain[0].Join(args, chain[1]);
  return chain[0];
}

// Stores the result of an entry, from the totals of all its edges.
template <class L>
__device__ inline void Finish(const RowParams& params, const RowWork<L>& work, int entry, Totals<L> totals) {
  const MessageReduceArgs& args = params.args;
  const int64_t row = work.table.row[entry], begin = __ldg(args.adjacency.row_ptr + row);
  const int64_t row_edges = __ldg(args.adjacency.row_ptr + row + 1) - begin;
  const int first = work.first_column + work.own();
  if (const int number = work.table.piece[entry]; number >= 0) {
    const int64_t length = PieceLength(row_edges, kFeaturedUnit), pieces = max(row_edges / length, int64_t{1});
    const int64_t first_cell = (begin + kFeaturedUnit - 1) / kFeaturedUnit, step = length / kFeaturedUnit;
    if (pieces > 1) {
      float* const part = params.partials + (first_cell + number * step) * params.partial_stride + first;
#pragma unroll
      for (int j = 0; j < L::kOwn; ++j) {
        if (first + j < args.dst.cols) StoreTotal(totals.of[j], part + j, args.dst.cols);
      }
      int* const ticket = params.tickets + blockIdx.y * params.cells + first_cell;
      if (!ArrivesLast(ticket, pieces, kWholeWarp, work.lane == 0)) return;
      totals = JoinPieces(params, work, first_cell, step, pieces);
    }
  }
#pragma unroll
  for (int j = 0; j < L::kOwn; ++j) {
    if (first + j >= args.dst.cols) break;
    args.dst.data[row * args.dst.stride + first + j] =
        ApplyEpilogue(args.epilogue, totals.of[j].Result(args, row_edges), row, first + j);
  }
}

// A warp's way through its entries.
template <class L>
struct Walk {
  WarpCut from, to;
  int entry, begin, stop;  // the current one, and its edges that are this warp's
  int slot;                // for its next chunk; -1: all its edges are this warp's
  Totals<L> folded, since;

  __device__ Walk(const RowWork<L>& work, const WarpCut& first, const WarpCut& last)
      : from(first), to(last), entry(first.entry) {
    Enter(work);
  }
  __device__ void Enter(const RowWork<L>& work) {
    folded = {}, since = {};
    if (entry >= work.table.entries) return;
    begin = work.table.begin(entry);
    const bool continued = entry == from.entry && from.edge > begin, goes_on = entry == to.entry && to.edge > begin;
    stop = entry == to.entry ? to.edge : work.table.stop[entry];
    slot = continued ? from.slot + (from.edge - begin) / kChunkEdges : goes_on ? to.slot : -1;
  }
  // A chunk has ended.
  __device__ void Fold(const MessageReduceArgs& args, const RowWork<L>& work) {
    if (slot < 0) {
      folded.Join(args, since);
    } else {
#pragma unroll
      for (int j = 0; j < L::kOwn; ++j) StoreTotal(since.of[j], SlotOf(work, slot) + j, L::kTile);
      ++slot;
    }
    since = {};
  }
  // Adds the messages of edges [base, base + edges), and finishes the entries that end there.
  __device__ void Add(const RowParams& params, const RowWork<L>& work, int base, int edges) {
    const MessageReduceArgs& args = params.args;
    const float* const messages = reinterpret_cast<const float*>(work.memory.messages) + work.own();
    for (int at = base;;) {
      if (entry > to.entry || entry >= work.table.entries) return;
      const int last = min(stop, base + edges);
      while (at < last) {
        const int chunk_end = min(last, at + kChunkEdges - (at - begin) % kChunkEdges);
#pragma unroll 4
        for (int i = at; i < chunk_end; ++i) {
          const Pack<L::kOwn> m = LoadShared<L::kOwn>(messages + (i - base) * L::kTile);
#pragma unroll
          for (int j = 0; j < L::kOwn; ++j) since.of[j].Join(args, L::Total::Of(args, m.v[j]));
        }
        at = chunk_end;
        if ((at - begin) % kChunkEdges == 0) Fold(args, work);
      }
      if (entry == to.entry || stop > at) return;
      if (slot < 0) {
        folded.Join(args, since);
        Finish(params, work, entry, folded);
      } else if ((at - begin) % kChunkEdges != 0) {
        Fold(args, work);
      }
      ++entry;
      Enter(work);
    }
  }
};

// Finishes the entry that is cut where warp `warp` begins, if no cut before it is the same entry's.
template <class L>
__device__ inline void JoinChunks(const RowParams& params, const RowWork<L>& work, const WarpCut& before,
                                  const WarpCut& cut) {
  if (cut.slot < 0 || (before.entry == cut.entry && before.slot == cut.slot)) return;
  const int edges = work.table.stop[cut.entry] - work.table.begin(cut.entry);
  Totals<L> folded;
  for (int chunk = 0; chunk * kChunkEdges < edges; ++chunk) {
    Totals<L> total;
#pragma unroll
    for (int j = 0; j < L::kOwn; ++j)
      total.of[j] = LoadTotal<typename L::Total>(SlotOf(work, cut.slot + chunk) + j, L::kTile);
    folded.Join(params.args, total);
  }
  Finish(params, work, cut.entry, folded);
}

__device__ inline WarpCut CutOf(const WarpCut& cuts, int warp) {
  WarpCut cut;
  cut.entry = __shfl_sync(kWholeWarp, cuts.entry, warp);
  cut.edge = __shfl_sync(kWholeWarp, cuts.edge, warp);
  cut.slot = __shfl_sync(kWholeWarp, cuts.slot, warp);
  return cut;
}

// Maker::Make stores the messages of the edges from `base` on, with StoreMessages. Maker::BlockFloats and Maker::Floats
// are the shared memory of a block and of each warp for that. Maker::Begin starts copies of weights into the block's.
// What a block works on is found, and weights are copied, while the kernel before may still run; rows of nodes are read
// with plain loads after that.
template <class L, class Maker>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks) EdgeRows(const __grid_constant__ RowParams params) {
  extern __shared__ float4 buffers[];
  __shared__ EdgeTable table;
  __shared__ WarpMemory<L> memories[kRowWarps];
  __shared__ float slots[kChunkSlots * L::Total::kFloats * L::kTile];
  const MessageReduceArgs& args = params.args;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first_column = static_cast<int>(blockIdx.y) * L::kTile, own = lane % L::kLanes * L::kVec;
  // Lanes without columns repeat others.
  const int column = first_column + own < args.dst.cols ? first_column + own : first_column;
  float* const block_memory = reinterpret_cast<float*>(buffers);
  float* const own_memory = block_memory + Maker::BlockFloats(params) + warp * Maker::Floats(params);
  const RowWork<L> work = {table,  memories[warp], slots, block_memory,    own_memory,
                           column, first_column,   lane,  lane / L::kLanes};
  TriggerNextLaunch();
  Maker::Begin(params, work);
  const int edges = MakeTable(args.adjacency, args.edge, params.cells > 0, int64_t{blockIdx.x} * params.keys_per_block,
                              params.keys_per_block, &table);
  AwaitCopies<0>();
  __syncthreads();
  const WarpCut cuts = FindCuts(table, edges);
  const WarpCut from = CutOf(cuts, warp), to = CutOf(cuts, warp + 1);
  AwaitPreviousKernels();
  Walk<L> walk(work, from, to);
  int base = from.edge;
  do {  // at least once, for rows without edges
    const int count = min(to.edge - base, L::kStep);
    if (count > 0) Maker::Make(params, work, walk.entry, base, count);
    walk.Add(params, work, base, count);
    base += count;
  } while (base < to.edge);
  __syncthreads();
  if (warp > 0) JoinChunks(params, work, CutOf(cuts, warp - 1), from);
}

template <class L, class Maker>
cudaError_t LaunchRows(const RowParams& params, const LaunchTarget& target) {
  const auto kernel = &EdgeRows<L, Maker>;
  const int64_t floats = Maker::BlockFloats(params) + int64_t{kRowWarps} * Maker::Floats(params);
  const int64_t bytes = floats * static_cast<int64_t>(sizeof(float));
  const cudaError_t error = AllowShared(kernel, bytes, target.limits);
  if (error != cudaSuccess) return error;
  const int64_t keys = params.args.adjacency.nnz + params.args.adjacency.rows;
  const dim3 grid(static_cast<unsigned>((keys + params.keys_per_block - 1) / params.keys_per_block),
                  static_cast<unsigned>((params.args.dst.cols + L::kTile - 1) / L::kTile));
  return LaunchOverlapping(params.overlap, kernel, grid, kRowThreads, static_cast<size_t>(bytes), target.stream,
                           params);
}

// What all launches have, with zeroed tickets.
inline cudaError_t SetRowParams(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch,
                                RowParams* params) {
  constexpr int64_t kLeastKeys = 56;  // of a block: fewer edges than a warp takes at a time leave its lanes idle
  const PieceScratch layout = MessageScratch(args.problem);
  const int64_t resident = int64_t{kRowBlocks} * target.limits.multiprocessors;
  params->args = args;
  params->access = FeatureAccess(args.edge);
  params->keys_per_block = static_cast<int>(
      std::clamp<int64_t>((args.adjacency.nnz + args.adjacency.rows) / resident, kLeastKeys, kMaxKeys));
  params->cells = layout.cells;
  params->partial_stride = layout.stride;
  params->partials = static_cast<float*>(scratch);
  params->tickets = target.tickets;
  params->overlap = target.overlap && layout.tickets == 0;  // it must not overlap with the clearing of tickets
  if (layout.tickets == 0) return cudaSuccess;
  params->tickets = reinterpret_cast<int*>(params->partials + layout.cells * layout.stride);
  return cudaMemsetAsync(params->tickets, 0, layout.tickets * sizeof(int), target.stream);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_EDGE_ROWS_CUH_
