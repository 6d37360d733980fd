// SPDX-License-Identifier: Apache-2.0
// The kernels of the operation expression, for a program that is interpreted or one that was compiled.
//
// A block processes adjacent rows, and pieces of long ones (row_pieces.h), and takes their edges in tiles, across row
// boundaries. Program::Run computes the values of a tile (tile_values.cuh). Then threads reduce the tile's messages,
// each a column of a result over some of the rows, and carry an unfinished row to the next tile. Shares of a
// softmax are computed before, once per score (FindShares).
//
// With parts of the columns (FeatGraph's feature tiles), a block reduces part_columns columns of each result, and all
// blocks of a part stand before those of the next, so that what they gather is a narrower matrix. Nested values are
// computed for these columns alone; values in registers and scores are computed whole for every part.
//
// Order of evaluation: a row's messages are joined in order, folded every 64 edges of the row; pieces of long rows are
// joined in four chains. Columns do not meet. So bits depend neither on the tile, nor on the block, nor on the part,
// nor on other rows.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EXPRESSION_BLOCKS_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EXPRESSION_BLOCKS_CUH_

#include <cstdint>

#include "engine/cuda/common/edge_features.cuh"
#include "engine/cuda/message/expression/detail/program_totals.cuh"
#include "engine/cuda/message/expression/detail/tile_values.cuh"

namespace vicinal::cuda {

// What a block works on: a tile of edges of a run of rows.
template <int kTile>
struct RunOfRows {
  const ExpressionParams& params;
  ProgramTile<kTile> tile;
  // What the tile before has left of an unfinished row, and what this one leaves: [2][2][total_floats], folded totals
  // and those since. `turn` says which of the two the tile before has left.
  float* totals;
  EdgeRun run;
  int64_t cell;  // of a piece
  int turn;
  int first_column;  // of the part

  __device__ float* Carried() const { return totals + turn * 2 * params.shape.total_floats; }
  __device__ float* Left() const { return totals + (1 - turn) * 2 * params.shape.total_floats; }
};

// Columns [first, stop) of a result, those of the block's part, and how many it has at most.
struct PartOfResult {
  int first, stop, most;
};
template <class Program, int kTile>
__device__ __forceinline__ PartOfResult PartOf(const RunOfRows<kTile>& work, const TileResult& result) {
  if constexpr (Program::kPartColumns == kWholeResults) {
    return {0, result.width, result.width};
  } else {
    const int columns = Program::kPartColumns == kColumnsAtRun ? work.params.part_columns : Program::kPartColumns;
    return {min(work.first_column, result.width), min(work.first_column + columns, result.width),
            min(columns, result.width)};
  }
}

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
    const int64_t begin = __ldg(adjacency.row_ptr + low);
    tile.source[at] = __ldg(adjacency.col + edge);
    tile.target[at] = static_cast<int32_t>(low);
    tile.place[at] = static_cast<int32_t>(edge - (work.run.whole_rows ? begin : work.run.begin));
    tile.weight[at] = adjacency.value != nullptr ? __ldg(adjacency.value + edge) : 1.0f;
    if (work.params.shape.edge_width > 0) {
      const FeaturesOfRow features = FindFeatures<1>(work.params.edge, adjacency, low, 0);
      tile.features[at] = features.Of(static_cast<int>(edge - begin), static_cast<int>(work.params.edge.width));
    }
  }
  __syncthreads();
}

// The largest score of a column's fold up to each edge, and each edge's share (ShareOf), by a warp per column of
// scores. A row's folds begin anew, so that the numbers do not depend on the tile.
template <int kTile>
__device__ inline void FindShares(const RunOfRows<kTile>& work, const TileResult& result, const PartOfResult& part) {
  constexpr int kStride = ProgramTile<kTile>::kStride;
  const int lane = threadIdx.x % 32, stop = (part.stop + result.score_columns - 1) / result.score_columns;
  int s = part.first / result.score_columns + static_cast<int>(threadIdx.x) / 32;
  for (; s < stop; s += kTileThreads / 32) {
    const int column = max(s * result.score_columns, part.first);  // all columns of a score have the same largest one
    const float* const scores = work.tile.registers + (result.score + s) * kStride;
    float* const tops = work.tile.registers + (result.top + s) * kStride;
    float* const shares = work.tile.registers + (result.share + s) * kStride;
    float before = work.Carried()[work.params.shape.total_floats + result.first_total + column];
    for (int first = 0; first < work.tile.edges; first += 32) {
      const int e = first + lane;
      const bool is_edge = e < work.tile.edges;
      const float score = is_edge ? scores[e] : -INFINITY;
      const int earlier = is_edge ? work.tile.place[e] % kExpressionFold : 0;  // edges of its fold
      float top = score;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const float other = __shfl_up_sync(kWholeWarp, top, step);
        if (step <= lane && step <= earlier) top = LargerOf(other, top);
      }
      if (earlier > lane) top = LargerOf(before, top);
      float last = __shfl_up_sync(kWholeWarp, top, 1);
      if (lane == 0) last = before;
      if (earlier == 0) last = -INFINITY;
      if (is_edge) tops[e] = top, shares[e] = ShareOf(score, last);
      before = __shfl_sync(kWholeWarp, top, 31);
    }
  }
}

// The shares of one column's edges, and the largest scores up to each. Only softmaxes read them.
struct ColumnShares {
  const float* share;
  const float* top;
};

// The totals of some adjacent columns.
template <class Total, int kColumns>
struct ProgramColumns {
  ProgramColumn<Total> of[kColumns];

  __device__ __forceinline__ void Add(const TileResult& result, const Pack<kColumns>& messages, float share) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) of[i].since.Add(result, messages.v[i], share);
  }
  // `top`: the largest score of the messages since the last fold. Only softmaxes read it.
  __device__ __forceinline__ void SetTop(float top) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if constexpr (Total::kShared) of[i].since.top = top;
    }
  }
  __device__ __forceinline__ void Fold() {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) of[i].Fold();
  }
};

// Adds the messages of edges [first, stop), of one fold, to kColumns columns.
template <class Total, int kColumns, class Message>
__device__ __forceinline__ void AddMessages(const TileResult& result, const Message& message,
                                            const ColumnShares& shares, int first, int stop,
                                            ProgramColumns<Total, kColumns>* columns) {
  const auto share = [&](int edge) { return Total::kShared ? shares.share[edge] : 0.0f; };
  if constexpr (requires { Message::kInRegisters; }) {
    for (int e = first / 4 * 4; e < stop; e += 4) {
      const Pack<4> four = LoadPlain<4>(message.at + e);
      Pack<4> weights = Pack<4>::Filled(0.0f);
      if constexpr (Total::kShared) weights = LoadPlain<4>(shares.share + e);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (e + i >= first && e + i < stop) columns->Add(result, {four.v[i]}, weights.v[i]);
      }
    }
  } else {
    // Computes some messages before it adds the first, so that what they read is on its way at the same time.
    constexpr int kAtOnce = kColumns == 4 ? 4 : 8;
    for (int e = first; e < stop; e += kAtOnce) {
      Pack<kColumns> messages[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) messages[i] = message(min(e + i, stop - 1));
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (e + i < stop) columns->Add(result, messages[i], share(e + i));
      }
    }
  }
}

// Adds messages [first, stop) of a tile. `place`: of the tile's first edge in the row or piece.
template <class Total, int kColumns, class Message>
__device__ __forceinline__ void AddTileMessages(const TileResult& result, const Message& message,
                                                const ColumnShares& shares, int first, int stop, int64_t place,
                                                ProgramColumns<Total, kColumns>* columns) {
  while (first < stop) {
    const int fold = first + kExpressionFold - static_cast<int>(place + first) % kExpressionFold;
    const int until = min(stop, fold);
    AddMessages(result, message, shares, first, until, columns);
    if constexpr (Total::kShared) columns->SetTop(shares.top[until - 1]);
    if (until == fold) columns->Fold();
    first = until;
  }
}

// Stores columns c and following of a row or, for a piece of a row, their totals.
template <int kTile, class Total, int kColumns>
__device__ __forceinline__ void StoreProgramRow(const RunOfRows<kTile>& work, const TileResult& result, int64_t row,
                                                int64_t edges, int c, const ProgramColumns<Total, kColumns>& columns) {
  const ExpressionParams& params = work.params;
  if (!work.run.whole_rows) {
    float* const partial = params.partials + work.cell * params.partial_stride + result.first_total + c;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) StoreTotal(columns.of[i].All(), partial + i, result.width);
    return;
  }
  const int64_t column = result.first + c;
  const Pack<kColumns> made = WithEpilogue<kColumns>(
      params.epilogue, row, column, column + kColumns - 1,
      EachOf<kColumns>([&](int i) { return edges == 0 ? 0.0f : columns.of[i].All().Result(result, edges); }));
  float* const to = params.dst.data + row * params.dst.stride + column;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) to[i] = made.v[i];
}

// How the threads of a block share the rows of a tile and the columns of a result: `groups` of them take rows in turn.
struct RowGroups {
  int lanes, groups;  // lanes of a group; their product is kTileThreads
};
// `threads`: that a row needs.
__device__ __forceinline__ RowGroups GroupsFor(int threads) {
  int lanes = 16;
  while (lanes < threads && lanes < kTileThreads) lanes *= 2;
  return {lanes, kTileThreads / lanes};
}

// Reduces kColumns columns of a result from `c` on over this thread's rows among those of the tile, from row `row` on,
// and stores rows that end in this tile.
template <class Total, int kColumns, int kTile, class Value>
__device__ inline void ReduceTileColumns(const RunOfRows<kTile>& work, const TileResult& result, const Value& value,
                                         const RowGroups& split, int c, int64_t row, int64_t base) {
  constexpr int kStride = ProgramTile<kTile>::kStride;
  const int64_t* const row_ptr = work.params.adjacency.row_ptr;
  const int total_floats = work.params.shape.total_floats, edges = work.tile.edges;
  const auto message = value.OfColumns(c, ColumnCount<kColumns>());
  const int of_scores = (c / result.score_columns) * kStride;
  const ColumnShares shares = {work.tile.registers + result.share * kStride + of_scores,
                               work.tile.registers + result.top * kStride + of_scores};
  for (int64_t r = row + threadIdx.x / split.lanes; r < work.run.last; r += split.groups) {
    const int64_t begin = work.run.whole_rows ? __ldg(row_ptr + r) : work.run.begin;
    const int64_t end = work.run.whole_rows ? __ldg(row_ptr + r + 1) : work.run.end;
    if (begin > base + edges) break;
    ProgramColumns<Total, kColumns> columns;
    if (r == row) {
      const float* const carried = work.Carried() + result.first_total + c;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        columns.of[i] = {LoadTotal<Total>(carried + i, result.width),
                         LoadTotal<Total>(carried + total_floats + i, result.width)};
      }
    }
    const int first = static_cast<int>(max(begin - base, int64_t{0}));
    const int stop = static_cast<int>(min(end - base, int64_t{edges}));
    AddTileMessages(result, message, shares, first, stop, base - begin, &columns);
    if (end > base + edges) {  // continues in the next tile
      float* const left = work.Left() + result.first_total + c;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        StoreTotal(columns.of[i].folded, left + i, result.width);
        StoreTotal(columns.of[i].since, left + total_floats + i, result.width);
      }
      break;
    }
    StoreProgramRow(work, result, r, end - begin, c, columns);
  }
}

// Calls use(result, c, total) for this thread's columns of the part of all results, with an empty total of the result's
// kind.
template <class Program, int kTile, class Use>
__device__ __forceinline__ void ForEachResultColumn(const RunOfRows<kTile>& work, const Use& use) {
  Program::ForEachResult(work.params, work.tile, [&](const TileResult& result, const auto&, auto) {
    WithTotal(result, [&](auto total) {
      const PartOfResult part = PartOf<Program>(work, result);
      for (int c = part.first + static_cast<int>(threadIdx.x); c < part.stop; c += kTileThreads) use(result, c, total);
    });
  });
}

template <class Program, int kTile>
__device__ inline void ReduceTile(const RunOfRows<kTile>& work, int64_t row, int64_t base) {
  bool shared = false;
  Program::ForEachResult(work.params, work.tile, [&](const TileResult& result, const auto&, auto) {
    if (result.reduce == TileReduce::kSoftmax) FindShares(work, result, PartOf<Program>(work, result)), shared = true;
  });
  if (shared) __syncthreads();
  Program::ForEachResult(work.params, work.tile,
                         [&]<int kColumns>(const TileResult& result, const auto& value, ColumnCount<kColumns>) {
                           WithTotal(result, [&]<class Total>(Total) {
                             const PartOfResult part = PartOf<Program>(work, result);
                             const RowGroups split = GroupsFor(part.most / kColumns);
                             const int lane = static_cast<int>(threadIdx.x) % split.lanes;
                             for (int c = part.first + lane * kColumns; c < part.stop; c += split.lanes * kColumns) {
                               ReduceTileColumns<Total, kColumns>(work, result, value, split, c, row, base);
                             }
                           });
                         });
}

template <class Program, int kTile>
__device__ inline void RunRows(RunOfRows<kTile>& work) {
  const int64_t* const row_ptr = work.params.adjacency.row_ptr;
  work.turn = 0;
  ForEachResultColumn<Program>(work, [&](const TileResult& result, int c, auto total) {
    float* const folded = work.Carried() + result.first_total + c;
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
    ReduceTile<Program>(work, row, base);
    __syncthreads();
    work.turn = 1 - work.turn;
    base += work.tile.edges;
    while (work.run.whole_rows && row < work.run.last && __ldg(row_ptr + row + 1) <= base) ++row;
  } while (base < work.run.end);
}

// Joins the pieces of a long row, in four chains.
template <class Program, int kTile>
__device__ inline void JoinPieces(const RunOfRows<kTile>& work, const RowPiece& piece) {
  const ExpressionParams& params = work.params;
  ForEachResultColumn<Program>(work, [&]<class Total>(const TileResult& result, int c, Total) {
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
  int32_t source[kTile], target[kTile], place[kTile];
  float weight[kTile];
};

template <class Program, int kTile>
__device__ inline RunOfRows<kTile> StartBlock(const ExpressionParams& params, float4* shared) {
  BlockMemory<kTile>* const memory = reinterpret_cast<BlockMemory<kTile>*>(shared);
  float* floats = reinterpret_cast<float*>(memory + 1);
  if constexpr (!Program::kRegistersInShared) {
    if (params.block_memory != nullptr) floats = params.block_memory + blockIdx.x * params.block_floats;
  }
  const ProgramTile<kTile> tile = {
      floats, memory->features, memory->source, memory->target, memory->place, memory->weight, 0};
  return {params, tile, floats + params.shape.registers * tile.kStride, {}, 0, 0, 0};
}

// The pieces of the long row `row` whose cells are at keys [key, stop) (FirstRowAt). An edge's key counts the edges and
// the rows before it, its own row among them. `tickets`: of the part.
template <class Program, int kTile>
__device__ inline void RunPieces(RunOfRows<kTile>& work, int64_t row, int64_t key, int64_t stop, int* tickets) {
  const int64_t* const row_ptr = work.params.adjacency.row_ptr;
  const int64_t first = max(key - row - 1, __ldg(row_ptr + row)), last = min(stop - row - 1, __ldg(row_ptr + row + 1));
  for (int64_t cell = (first + kExpressionUnit - 1) / kExpressionUnit; cell * kExpressionUnit < last; ++cell) {
    const RowPiece piece = PieceAt(row_ptr, kExpressionUnit, cell, row);
    if (piece.row < 0) continue;
    work.run = {row, row + 1, piece.begin, piece.end, !piece.split()};
    work.cell = piece.cell;
    RunRows<Program>(work);
    if (piece.split() && BlockArrivesLast(tickets + piece.first_cell, piece.pieces)) JoinPieces<Program>(work, piece);
  }
}

// Item `item` of a part's work: the rows whose keys are in its range, and the pieces of long rows whose cells are.
template <class Program, int kTile>
__device__ inline void RunItem(RunOfRows<kTile>& work, int64_t item, int* tickets) {
  const ExpressionParams& params = work.params;
  const CsrView& adjacency = params.adjacency;
  const int64_t key = item * params.keys_per_item, stop = key + params.keys_per_item;
  const int64_t begin = FirstRowAt(adjacency, key, 0, adjacency.rows);
  const int64_t end = FirstRowAt(adjacency, stop, begin, min(begin + params.keys_per_item, adjacency.rows));
  const auto edges_of = [&](int64_t first, int64_t last) {
    return __ldg(adjacency.row_ptr + last) - __ldg(adjacency.row_ptr + first);
  };
  const auto may_be_long = [&](int64_t first, int64_t last) {
    return params.cells > 0 && IsLongRow(edges_of(first, last), kExpressionUnit);
  };
  // The row before may reach into the range.
  if (begin > 0 && may_be_long(begin - 1, begin)) RunPieces<Program>(work, begin - 1, key, stop, tickets);
  const bool some_long = may_be_long(begin, end);
  for (int64_t first = begin, last; first < end; first = last) {
    last = first + 1;
    if (some_long && may_be_long(first, last)) {
      RunPieces<Program>(work, first, key, stop, tickets);
      continue;
    }
    if (!some_long) last = end;
    while (last < end && !may_be_long(last, last + 1)) ++last;
    work.run = {first, last, __ldg(adjacency.row_ptr + first), __ldg(adjacency.row_ptr + last), true};
    work.cell = 0;
    RunRows<Program>(work);
  }
}

// Over the edges of an adjacency.
template <class Program, int kTile>
__device__ inline void RunOverEdges(const ExpressionParams& params) {
  extern __shared__ float4 shared[];
  RunOfRows<kTile> work = StartBlock<Program, kTile>(params, shared);
  for (int64_t item = blockIdx.x; item < params.items; item += gridDim.x) {
    int64_t part = 0;
    if constexpr (Program::kPartColumns != kWholeResults) {
      part = item / params.part_items;
      work.first_column = static_cast<int>(part * params.part_columns);
    }
    RunItem<Program>(work, item - part * params.part_items, params.tickets + part * params.cells);
    __syncthreads();
  }
}

// Over rows: the values of kTile of them at a time, the result is the value of the only result.
template <class Program, int kTile>
__device__ inline void RunOverRows(const ExpressionParams& params) {
  extern __shared__ float4 shared[];
  RunOfRows<kTile> work = StartBlock<Program, kTile>(params, shared);
  ProgramTile<kTile>& tile = work.tile;
  for (int64_t item = blockIdx.x; item < params.items; item += gridDim.x) {
    const int64_t base = item * kTile;
    tile.edges = static_cast<int>(min(params.dst.rows - base, int64_t{kTile}));
    const int at = static_cast<int>(threadIdx.x);
    if (at < tile.edges) tile.target[at] = tile.source[at] = static_cast<int32_t>(base + at), tile.weight[at] = 1.0f;
    __syncthreads();
    Program::Run(params, tile);
    Program::ForEachResult(params, tile, [&](const TileResult& result, const auto& value, auto) {
      ForEachTileRow(tile, [&](int edge, int first) {
        const int64_t row = base + edge;
        const auto columns = value.OfEdge(edge);
        for (int c = first; c < result.width; c += kColumnsAcross) {
          params.dst.data[row * params.dst.stride + c] =
              ApplyEpilogue(params.epilogue, columns(c, ColumnCount<1>()).v[0], row, c);
        }
      });
    });
    __syncthreads();
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EXPRESSION_BLOCKS_CUH_
