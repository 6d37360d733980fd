// SPDX-License-Identifier: Apache-2.0
// What kernels share whose messages pass through shared memory.
//
// A block processes adjacent rows, or a piece of a long one (row_pieces.h), and takes their edges in tiles, across row
// boundaries. A tile's numbers are in shared memory, column-major. A layer is a product of such numbers and packed
// weights: a thread holds 8 edges x 4 outputs in registers, so that three 16-byte loads feed 32 multiply-adds. Then one
// thread per output column reduces the tile's messages row by row, and carries an unfinished row to the next tile.
//
// Order of evaluation: a message depends on its edge alone (inputs of a layer ascending, folded every 64, then the
// bias). A row's messages are joined in order, folded every 64 edges of the row; pieces of long rows are joined in four
// chains. The bits are equal in every run, for every tile and in every subset of rows; there are no float atomics.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_EDGE_TILES_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_EDGE_TILES_CUH_

#include <algorithm>
#include <cstdint>

#include "engine/cuda/message/template_spmm/detail/row_totals.cuh"
#include "engine/cuda/message/template_spmm/template_spmm.h"
#include "engine/cuda/message/tile_blocks.cuh"

namespace vicinal::cuda {

struct EdgeTileParams {
  MessageReduceArgs args;
  MessageLayerArgs layers[kMaxMessageLayers];  // instead of the arrays of args and its problem
  int64_t out_widths[kMaxMessageLayers], weight_strides[kMaxMessageLayers];
  int64_t first_floats, second_floats;  // per edge, of the buffers
  int64_t columns;                      // of the result, per block
  int64_t keys_per_block;
  int64_t cells, partial_stride;
  float* partials;  // [cells][floats of a total][columns of the result]
  int* tickets;
};

// The columns of the result that a block computes.
struct BlockColumns {
  int64_t first, count;

  __device__ explicit BlockColumns(const EdgeTileParams& params)
      : first(blockIdx.y * params.columns), count(min(params.columns, params.args.dst.cols - first)) {}
};

// A block's shared memory.
template <int kTile>
struct EdgeTileMemory {
  static constexpr int kStride = kTileStride<kTile>;
  float* buffer[2];  // [columns][kStride]
  float* totals;     // of the current row: the folded one, and the one since
  int32_t* source;   // [kTile]
  int32_t* row;      // [kTile], counted from the first row of the run
};

// The sources and rows of the `edges` edges from `base` on. The first is not before `row`.
template <int kTile>
__device__ inline void FindEdges(const CsrView& adjacency, const EdgeTileMemory<kTile>& memory, const EdgeRun& run,
                                 int64_t row, int64_t base, int edges) {
  if (static_cast<int>(threadIdx.x) < edges) {
    const int64_t edge = base + threadIdx.x;
    int64_t low = row, high = run.last;  // row_ptr[low] <= edge < row_ptr[high]
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (__ldg(adjacency.row_ptr + middle) <= edge ? low : high) = middle;
    }
    memory.source[threadIdx.x] = __ldg(adjacency.col + edge);
    memory.row[threadIdx.x] = static_cast<int32_t>(low - run.first);
  }
}

// Calls use(edge, first) for the edges of a tile: those columns first, first + 8, .. of an edge are this thread's. A
// warp has 8 columns of 4 edges at a time: it reads whole sectors, and writes to 32 different banks.
inline constexpr int kColumnStep = 8;
template <int kTile, class Use>
__device__ inline void ForEachTileEdge(const Use& use) {
  const int lane = threadIdx.x % 32;
  for (int edge = threadIdx.x / 32 * 4 + lane % 4; edge < kTile; edge += kTileThreads / 32 * 4) use(edge, lane / 4);
}

// Applies the network to `in_width` columns of buffer 0, with the block in step before and after. Returns the number of
// the buffer that has the result.
template <int kTile>
__device__ inline int ApplyLayers(const EdgeTileParams& params, const EdgeTileMemory<kTile>& memory, int64_t in_width) {
  int now = 0;
  for (int l = 0; l < params.args.problem.num_layers; ++l) {
    const TileLayer layer = {static_cast<const float*>(params.layers[l].weight),
                             params.weight_strides[l],
                             params.layers[l].bias,
                             params.layers[l].activation,
                             in_width,
                             params.out_widths[l]};
    MultiplyLayer<kTile, true>(layer, memory.buffer[now], memory.buffer[now ^ 1]);
    __syncthreads();
    in_width = layer.out_width;
    now ^= 1;
  }
  return now;
}

template <class Total>
__device__ inline void StoreColumn(const EdgeTileParams& params, const EdgeRun& run, int64_t row, int64_t edges,
                                   int64_t cell, int64_t column, const Total& total) {
  const MessageReduceArgs& args = params.args;
  if (!run.whole_rows) {
    StoreTotal(total, params.partials + cell * params.partial_stride + column, args.dst.cols);
    return;
  }
  args.dst.data[row * args.dst.stride + column] = ApplyEpilogue(args.epilogue, total.Result(args, edges), row, column);
}

// Adds messages [first, stop) of a tile to a column, four of them at a load. `place`: of the tile's first edge in the
// row or piece.
template <class Total>
__device__ inline void AddMessages(const MessageReduceArgs& args, const float* messages, int first, int stop, int place,
                                   TileColumn<Total>* column) {
  for (int four = first / 4 * 4; four < stop; four += 4) {
    const Pack<4> m = LoadShared<4>(messages + four);
    if (four >= first && four + 4 <= stop && (place + four) % kFoldEdges < kFoldEdges - 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) column->since.Join(args, Total::Of(args, m.v[i]));
      continue;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (four + i >= first && four + i < stop) column->Add(args, m.v[i], place + four + i);
    }
  }
}

// Reduces the tile's messages [columns][kStride] from row `row` on, and stores the rows that end in this tile.
template <int kTile, class Total>
__device__ inline void ReduceTile(const EdgeTileParams& params, const EdgeTileMemory<kTile>& memory, const EdgeRun& run,
                                  int64_t cell, const float* messages, int64_t row, int64_t base, int edges) {
  const int64_t* row_ptr = params.args.adjacency.row_ptr;
  const BlockColumns columns(params);
  float* const since = memory.totals + Total::kFloats * params.columns;
  for (int64_t c = threadIdx.x; c < columns.count; c += kTileThreads) {
    TileColumn<Total> column{LoadTotal<Total>(memory.totals + c, params.columns),
                             LoadTotal<Total>(since + c, params.columns)};
    int e = 0;
    for (int64_t r = row; r < run.last; ++r) {
      const int64_t begin = run.whole_rows ? __ldg(row_ptr + r) : run.begin;
      const int64_t end = run.whole_rows ? __ldg(row_ptr + r + 1) : run.end;
      const int stop = static_cast<int>(min(end - base, int64_t{edges}));
      AddMessages(params.args, messages + c * EdgeTileMemory<kTile>::kStride, e, stop, static_cast<int>(base - begin),
                  &column);
      e = max(e, stop);
      if (end > base + edges) break;  // continues in the next tile
      StoreColumn(params, run, r, end - begin, cell, columns.first + c, column.All(params.args));
      column = {};
    }
    StoreTotal(column.folded, memory.totals + c, params.columns);
    StoreTotal(column.since, since + c, params.columns);
  }
}

// Build::Messages gives the tile's messages, with the block in step.
template <class Build, int kTile, class Total>
__device__ inline void RunEdges(const EdgeTileParams& params, const EdgeTileMemory<kTile>& memory, const EdgeRun& run,
                                int64_t cell) {
  const int64_t* row_ptr = params.args.adjacency.row_ptr;
  for (int64_t c = threadIdx.x; c < params.columns; c += kTileThreads) {
    StoreTotal(Total(), memory.totals + c, params.columns);
    StoreTotal(Total(), memory.totals + Total::kFloats * params.columns + c, params.columns);
  }
  __syncthreads();
  int64_t row = run.first, base = run.begin;
  do {  // at least once, for rows without edges
    const int edges = static_cast<int>(min(run.end - base, int64_t{kTile}));
    const float* messages = memory.buffer[0];
    if (edges > 0) messages = Build::template Messages<kTile>(params, memory, run, row, base, edges);
    ReduceTile<kTile, Total>(params, memory, run, cell, messages, row, base, edges);
    __syncthreads();
    base += edges;
    while (run.whole_rows && row < run.last && __ldg(row_ptr + row + 1) <= base) ++row;
  } while (base < run.end);
}

template <class Total>
__device__ inline void MergePieces(const EdgeTileParams& params, const RowPiece& piece) {
  const MessageReduceArgs& args = params.args;
  const BlockColumns columns(params);
  for (int64_t c = columns.first + threadIdx.x; c < columns.first + columns.count; c += kTileThreads) {
    const float* partials = params.partials + piece.first_cell * params.partial_stride + c;
    Total chain[kPieceChains];
    for (int64_t base = 0; base < piece.pieces; base += kPieceChains) {
#pragma unroll
      for (int i = 0; i < kPieceChains; ++i) {
        if (base + i >= piece.pieces) break;
        const float* const part = partials + (base + i) * piece.cell_step * params.partial_stride;
        Total total;
#pragma unroll
        for (int f = 0; f < Total::kFloats; ++f) *total.Float(f) = __ldcg(part + f * args.dst.cols);
        chain[i].Join(args, total);
      }
    }
    chain[0].Join(args, chain[2]);
    chain[1].Join(args, chain[3]);
    chain[0].Join(args, chain[1]);
    args.dst.data[piece.row * args.dst.stride + c] =
        ApplyEpilogue(args.epilogue, chain[0].Result(args, piece.row_edges), piece.row, c);
  }
}

template <class Build, int kTile, class Total>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks) EdgeTiles(const __grid_constant__ EdgeTileParams params) {
  extern __shared__ float4 shared[];
  __shared__ int32_t sources[kTile], rows_of[kTile];
  __shared__ RowPiece piece;  // of a block that has one: out of the registers while edges are reduced
  EdgeTileMemory<kTile> memory;
  memory.buffer[0] = reinterpret_cast<float*>(shared);
  memory.buffer[1] = memory.buffer[0] + params.first_floats * memory.kStride;
  memory.totals = memory.buffer[1] + params.second_floats * memory.kStride;
  memory.source = sources;
  memory.row = rows_of;
  const CsrView& adjacency = params.args.adjacency;
  const bool whole_rows = blockIdx.x >= params.cells;
  int64_t begin, end;
  if (whole_rows) {
    const int64_t key = (blockIdx.x - params.cells) * params.keys_per_block;
    begin = FirstRowAt(adjacency, key, 0, adjacency.rows);
    end = FirstRowAt(adjacency, key + params.keys_per_block, begin, min(begin + params.keys_per_block, adjacency.rows));
  } else {
    const RowPiece found = FindPiece<32>(adjacency.row_ptr, adjacency.rows, kMessageUnit, blockIdx.x);
    if (found.row < 0) return;
    if (threadIdx.x == 0) piece = found;
    begin = found.row, end = found.row + 1;
    __syncthreads();
  }
  const auto is_cut = [&](int64_t row) {
    return params.cells > 0 &&
           IsLongRow(__ldg(adjacency.row_ptr + row + 1) - __ldg(adjacency.row_ptr + row), kMessageUnit);
  };
  for (int64_t first = begin, last; first < end; first = last) {
    last = first + 1;
    if (whole_rows && is_cut(first)) continue;
    while (last < end && !is_cut(last)) ++last;
    EdgeRun run{first, last, __ldg(adjacency.row_ptr + first), __ldg(adjacency.row_ptr + last), true};
    if (!whole_rows) run = {first, last, piece.begin, piece.end, !piece.split()};
    RunEdges<Build, kTile, Total>(params, memory, run, whole_rows ? 0 : piece.cell);
  }
  if (whole_rows || !piece.split()) return;
  int* const ticket = params.tickets + blockIdx.y * params.cells + piece.first_cell;
  if (BlockArrivesLast(ticket, piece.pieces)) MergePieces<Total>(params, piece);
}

// What all launches have, with zeroed tickets. A block has up to four large tiles of edges, fewer where not every
// multiprocessor would have some blocks.
inline cudaError_t SetEdgeTileParams(const MessageReduceArgs& args, const MessageTile& tile, const LaunchTarget& target,
                                     void* scratch, EdgeTileParams* params) {
  constexpr int64_t kBlocksPerSm = 8;
  const PieceScratch layout = MessageScratch(args.problem);
  params->args = args;
  std::copy(args.layers.begin(), args.layers.end(), params->layers);
  std::copy(args.problem.out_widths.begin(), args.problem.out_widths.end(), params->out_widths);
  for (int l = 0; l < kMaxMessageLayers; ++l) params->weight_strides[l] = PackedStride(params->out_widths[l]);
  params->first_floats = tile.first_floats;
  params->second_floats = tile.second_floats;
  params->columns = tile.columns;
  params->keys_per_block = std::clamp<int64_t>(
      (args.adjacency.nnz + args.adjacency.rows) / (kBlocksPerSm * target.limits.multiprocessors), 32, 256);
  params->cells = layout.cells;
  params->partial_stride = layout.stride;
  params->partials = static_cast<float*>(scratch);
  params->tickets = target.tickets;
  if (layout.tickets == 0) return cudaSuccess;
  params->tickets = reinterpret_cast<int*>(params->partials + layout.cells * layout.stride);
  return cudaMemsetAsync(params->tickets, 0, layout.tickets * sizeof(int), target.stream);
}

template <class Build, int kTile, class Total>
cudaError_t LaunchEdgeTiles(const EdgeTileParams& params, int64_t bytes, const LaunchTarget& target) {
  const auto kernel = &EdgeTiles<Build, kTile, Total>;
  const cudaError_t error = AllowShared(kernel, bytes, target.limits);
  if (error != cudaSuccess) return error;
  const int64_t keys = params.args.adjacency.nnz + params.args.adjacency.rows, columns = params.args.dst.cols;
  const dim3 grid(static_cast<unsigned>(params.cells + (keys + params.keys_per_block - 1) / params.keys_per_block),
                  static_cast<unsigned>((columns + params.columns - 1) / params.columns));
  kernel<<<grid, kTileThreads, static_cast<size_t>(bytes), target.stream>>>(params);
  return cudaGetLastError();
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_EDGE_TILES_CUH_
