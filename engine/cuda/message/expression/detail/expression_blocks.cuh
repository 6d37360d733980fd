// SPDX-License-Identifier: Apache-2.0
// The kernels of the operation expression, for a program that is interpreted or one that was compiled.
//
// A block processes adjacent rows, or a piece of a long one (row_pieces.h), and takes their edges in tiles, across row
// boundaries. Program::Run computes the values of a tile (tile_values.cuh). Then one thread per column of a result
// reduces the tile's messages row by row, and carries an unfinished row to the next tile.
//
// Order of evaluation: a row's messages are joined in order, folded every 64 edges of the row; pieces of long rows are
// joined in four chains. So bits depend neither on the tile, nor on the block, nor on other rows.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EXPRESSION_BLOCKS_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EXPRESSION_BLOCKS_CUH_

#include <cstdint>

#include "engine/cuda/message/expression/detail/program_totals.cuh"
#include "engine/cuda/message/expression/detail/tile_values.cuh"

namespace vicinal::cuda {

// What a block works on: a tile of edges of a run of rows.
template <int kTile>
struct RunOfRows {
  const ExpressionParams& params;
  ProgramTile<kTile> tile;
  float* totals;  // of the current row: [2][total_floats], folded ones and those since
  EdgeRun run;
  int64_t cell;  // of a piece
};

// Sources, targets, weights and features of the edges from `base` on. The first is not before `row`.
template <int kTile>
__device__ inline void FindTileEdges(const RunOfRows<kTile>& work, int64_t row, int64_t base) {
  const CsrView& adjacency = work.params.adjacency;
  const ProgramTile<kTile>& tile = work.tile;
  const int at = static_cast<int>(threadIdx.x);
  if (at < tile.edges) {
    const int64_t edge = base + at;
    int64_t low = row, high = work.run.last;  // row_ptr[low] <= edge < row_ptr[high]
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (__ldg(adjacency.row_ptr + middle) <= edge ? low : high) = middle;
    }
    tile.source[at] = __ldg(adjacency.col + edge);
    tile.target[at] = static_cast<int32_t>(low);
    tile.weight[at] = adjacency.value != nullptr ? __ldg(adjacency.value + edge) : 1.0f;
    if (work.params.shape.edge_width > 0) {
      const FeaturesOfRow features = FindFeatures<1>(work.params.edge, adjacency, low, 0);
      tile.features[at] = features.Of(static_cast<int>(edge - __ldg(adjacency.row_ptr + low)),
                                      static_cast<int>(work.params.edge.width));
    }
  }
  __syncthreads();
}

// Adds messages [first, stop) of a tile to a column, four of them at a load. `place`: of the tile's first edge in the
// row or piece.
template <class Total>
__device__ inline void AddTileMessages(const TileResult& result, const float* messages, const float* scores, int first,
                                       int stop, int64_t place, ProgramColumn<Total>* column) {
  for (int four = first / 4 * 4; four < stop; four += 4) {
    const Pack<4> m = LoadPlain<4>(messages + four), s = LoadPlain<4>(scores + four);
    if (four >= first && four + 4 <= stop && (place + four) % kExpressionFold < kExpressionFold - 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) column->since.Add(result, m.v[i], s.v[i]);
      continue;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (four + i >= first && four + i < stop) column->Add(result, m.v[i], s.v[i], place + four + i);
    }
  }
}

template <int kTile, class Total>
__device__ inline void StoreProgramRow(const RunOfRows<kTile>& work, const TileResult& result, int64_t row,
                                       int64_t edges, int c, const Total& total) {
  const ExpressionParams& params = work.params;
  if (!work.run.whole_rows) {
    StoreTotal(total, params.partials + work.cell * params.partial_stride + result.first_total + c, result.width);
    return;
  }
  const float x = edges == 0 ? 0.0f : total.Result(result, edges);
  const int64_t column = result.first + c;
  params.dst.data[row * params.dst.stride + column] = ApplyEpilogue(params.epilogue, x, row, column);
}

// Reduces column `c` of a result over the tile's edges from row `row` on, and stores the rows that end in this tile.
template <int kTile, class Total>
__device__ inline void ReduceTileColumn(const RunOfRows<kTile>& work, const TileResult& result, int c, int64_t row,
                                        int64_t base) {
  constexpr int kStride = ProgramTile<kTile>::kStride;
  const int64_t* const row_ptr = work.params.adjacency.row_ptr;
  const float* const messages = work.tile.registers + (result.value + c) * kStride;
  const float* const scores = work.tile.registers + (result.score + c / result.score_columns) * kStride;
  float* const folded = work.totals + result.first_total + c;
  float* const since = folded + work.params.shape.total_floats;
  ProgramColumn<Total> column{LoadTotal<Total>(folded, result.width), LoadTotal<Total>(since, result.width)};
  int e = 0;
  for (int64_t r = row; r < work.run.last; ++r) {
    const int64_t begin = work.run.whole_rows ? __ldg(row_ptr + r) : work.run.begin;
    const int64_t end = work.run.whole_rows ? __ldg(row_ptr + r + 1) : work.run.end;
    const int stop = static_cast<int>(min(end - base, int64_t{work.tile.edges}));
    AddTileMessages(result, messages, scores, e, stop, base - begin, &column);
    e = max(e, stop);
    if (end > base + work.tile.edges) break;  // continues in the next tile
    StoreProgramRow(work, result, r, end - begin, c, column.All());
    column = {};
  }
  StoreTotal(column.folded, folded, result.width);
  StoreTotal(column.since, since, result.width);
}

// Calls use(result, c, total) for this thread's columns of all results.
template <class Program, class Use>
__device__ __forceinline__ void ForEachResultColumn(const ExpressionParams& params, const Use& use) {
  Program::ForEachResult(params, [&](const TileResult& result) {
    WithTotal(result, [&](auto total) {
      for (int c = static_cast<int>(threadIdx.x); c < result.width; c += kTileThreads) use(result, c, total);
    });
  });
}

template <class Program, int kTile>
__device__ inline void RunRows(RunOfRows<kTile>& work) {
  const int64_t* const row_ptr = work.params.adjacency.row_ptr;
  ForEachResultColumn<Program>(work.params, [&](const TileResult& result, int c, auto total) {
    float* const folded = work.totals + result.first_total + c;
    StoreTotal(total, folded, result.width);
    StoreTotal(total, folded + work.params.shape.total_floats, result.width);
  });
  __syncthreads();
  int64_t row = work.run.first, base = work.run.begin;
  do {  // at least once, for rows without edges
    work.tile.edges = static_cast<int>(min(work.run.end - base, int64_t{kTile}));
    if (work.tile.edges > 0) {
      FindTileEdges(work, row, base);
      Program::Run(work.params, work.tile);
      __syncthreads();
    }
    ForEachResultColumn<Program>(work.params, [&]<class Total>(const TileResult& result, int c, Total) {
      ReduceTileColumn<kTile, Total>(work, result, c, row, base);
    });
    __syncthreads();
    base += work.tile.edges;
    while (work.run.whole_rows && row < work.run.last && __ldg(row_ptr + row + 1) <= base) ++row;
  } while (base < work.run.end);
}

// Joins the pieces of a long row, in four chains.
template <class Program>
__device__ inline void JoinPieces(const ExpressionParams& params, const RowPiece& piece) {
  ForEachResultColumn<Program>(params, [&]<class Total>(const TileResult& result, int c, Total) {
    const float* const partials = params.partials + piece.first_cell * params.partial_stride + result.first_total + c;
    Total chain[kPieceChains];
    for (int64_t base = 0; base < piece.pieces; base += kPieceChains) {
#pragma unroll
      for (int i = 0; i < kPieceChains; ++i) {
        if (base + i >= piece.pieces) break;
        const float* const part = partials + (base + i) * piece.cell_step * params.partial_stride;
        Total total;
#pragma unroll
        for (int f = 0; f < Total::kFloats; ++f) *total.Float(f) = __ldcg(part + f * result.width);
        chain[i].Join(total);
      }
    }
    chain[0].Join(chain[2]);
    chain[1].Join(chain[3]);
    chain[0].Join(chain[1]);
    const int64_t column = result.first + c;
    params.dst.data[piece.row * params.dst.stride + column] =
        ApplyEpilogue(params.epilogue, chain[0].Result(result, piece.row_edges), piece.row, column);
  });
}

// Shared memory of a block: for each edge of a tile where its numbers stand, then registers and totals.
template <int kTile>
struct BlockMemory {
  const float* features[kTile];
  int32_t source[kTile], target[kTile];
  float weight[kTile];
};

template <int kTile>
__device__ inline RunOfRows<kTile> StartBlock(const ExpressionParams& params, float4* shared) {
  BlockMemory<kTile>* const memory = reinterpret_cast<BlockMemory<kTile>*>(shared);
  float* floats = reinterpret_cast<float*>(memory + 1);
  if (params.block_memory != nullptr) floats = params.block_memory + blockIdx.x * params.block_floats;
  const ProgramTile<kTile> tile = {floats, memory->features, memory->source, memory->target, memory->weight, 0};
  return {params, tile, floats + params.shape.registers * tile.kStride, {}, 0};
}

// Item `item` of the work: the piece of a long row in that cell, or a range of rows.
template <class Program, int kTile>
__device__ inline void RunItem(RunOfRows<kTile>& work, int64_t item, RowPiece* shared_piece) {
  const ExpressionParams& params = work.params;
  const CsrView& adjacency = params.adjacency;
  const bool whole_rows = item >= params.cells;
  int64_t begin, end;
  if (whole_rows) {
    const int64_t key = (item - params.cells) * params.keys_per_item;
    begin = FirstRowAt(adjacency, key, 0, adjacency.rows);
    end = FirstRowAt(adjacency, key + params.keys_per_item, begin, min(begin + params.keys_per_item, adjacency.rows));
  } else {
    const RowPiece found = FindPiece<32>(adjacency.row_ptr, adjacency.rows, kExpressionUnit, item);
    if (found.row < 0) return;
    if (threadIdx.x == 0) *shared_piece = found;
    begin = found.row, end = found.row + 1;
    __syncthreads();
  }
  const auto is_cut = [&](int64_t row) {
    return params.cells > 0 &&
           IsLongRow(__ldg(adjacency.row_ptr + row + 1) - __ldg(adjacency.row_ptr + row), kExpressionUnit);
  };
  for (int64_t first = begin, last; first < end; first = last) {
    last = first + 1;
    if (whole_rows && is_cut(first)) continue;
    while (last < end && !is_cut(last)) ++last;
    work.run = {first, last, __ldg(adjacency.row_ptr + first), __ldg(adjacency.row_ptr + last), true};
    work.cell = 0;
    if (!whole_rows) {
      work.run = {first, last, shared_piece->begin, shared_piece->end, !shared_piece->split()};
      work.cell = shared_piece->cell;
    }
    RunRows<Program>(work);
  }
  if (whole_rows || !shared_piece->split()) return;
  if (BlockArrivesLast(params.tickets + shared_piece->first_cell, shared_piece->pieces)) {
    JoinPieces<Program>(params, *shared_piece);
  }
}

// Over the edges of an adjacency.
template <class Program, int kTile>
__device__ inline void RunOverEdges(const ExpressionParams& params) {
  extern __shared__ float4 shared[];
  __shared__ RowPiece piece;
  RunOfRows<kTile> work = StartBlock<kTile>(params, shared);
  for (int64_t item = blockIdx.x; item < params.items; item += gridDim.x) {
    RunItem<Program>(work, item, &piece);
    __syncthreads();
  }
}

// Over rows: the values of kTile of them at a time, the result is the value of the only result.
template <class Program, int kTile>
__device__ inline void RunOverRows(const ExpressionParams& params) {
  extern __shared__ float4 shared[];
  RunOfRows<kTile> work = StartBlock<kTile>(params, shared);
  ProgramTile<kTile>& tile = work.tile;
  for (int64_t item = blockIdx.x; item < params.items; item += gridDim.x) {
    const int64_t base = item * kTile;
    tile.edges = static_cast<int>(min(params.dst.rows - base, int64_t{kTile}));
    const int at = static_cast<int>(threadIdx.x);
    if (at < tile.edges) tile.target[at] = tile.source[at] = static_cast<int32_t>(base + at), tile.weight[at] = 1.0f;
    __syncthreads();
    Program::Run(params, tile);
    Program::ForEachResult(params, [&](const TileResult& result) {
      ForEachTileRow(tile, [&](int edge, int first) {
        const int64_t row = base + edge;
        for (int c = first; c < result.width; c += kColumnsAcross) {
          const float x = tile.registers[(result.value + c) * tile.kStride + edge];
          params.dst.data[row * params.dst.stride + c] = ApplyEpilogue(params.epilogue, x, row, c);
        }
      });
    });
    __syncthreads();
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EXPRESSION_BLOCKS_CUH_
