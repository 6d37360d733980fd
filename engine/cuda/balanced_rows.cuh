// SPDX-License-Identifier: Apache-2.0
// balanced_rows: aggregation as a stream of gathered rows, in bounded items of work.
//
// Idea. A group of lanes takes some neighbouring rows, or a piece of a long row (row_pieces.h), and a tile of columns.
// A lane owns packs of up to 4 columns (16 bytes) and keeps their sums in registers. The edges of a group's rows lie
// one after the other, so they are read as one stream: a batch of source rows is loaded at once, whatever rows it
// belongs to, while the indices of the next batch are on their way; at the end of a row its sum is finished and stored.
// Short rows thus keep as many loads in flight as long ones. Wide sources are aggregated tile by tile. Pieces of long
// rows start first; who arrives last adds the pieces up in their order. Order of evaluation (the same for all layouts):
// edges of a short row one after the other; those of a piece, and the pieces of a row, in four interleaved chains. No
// float atomics; equal bits at every run, for every tile width, in every subset of rows. Pieces are short, so rounding
// stays low. Measured on an H200, unweighted sum, against the best of cuSPARSE: 1.5 to 3.9 times as fast on short rows
// (molecules), 0.8 to 1.1 times on amazon0505, 0.4 to 0.9 times on small graphs and on long rows. Moves edges * (4 + 4
// * width) bytes of gather (4 more where weighted: an unweighted graph has no value array to read), rows * 4 * width of
// stores, and up to 1/64 of the gather for partial results of long rows.
#ifndef VICINAL_ENGINE_CUDA_BALANCED_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_BALANCED_ROWS_CUH_

#include <cmath>
#include <cstdint>

#include "engine/cuda/balanced_rows.h"
#include "engine/cuda/epilogue.cuh"
#include "engine/cuda/pack.cuh"
#include "engine/cuda/row_pieces.cuh"

namespace vicinal::cuda {

inline constexpr int kBlockThreads = 128;

// kLanes lanes side by side cover kPacks packs each of a tile.
template <int kVec_, int kLanes_, int kPacks_>
struct RowLayout {
  static constexpr int kVec = kVec_, kLanes = kLanes_, kPacks = kPacks_;
  static constexpr int kTile = kVec * kLanes * kPacks;
  static constexpr int kGroups = kBlockThreads / kLanes;  // per block
  static constexpr int kBatch = 4;                        // source rows on their way at once
};

struct BalancedRowsParams {
  CsrView adjacency;
  const float* src_scale;  // in place of the adjacency's values, where it has none
  ConstMatrixView src;
  MatrixView dst;
  Reduce reduce;
  float self_scale;
  Epilogue epilogue;
  int rows_per_group;
  int64_t unit;  // of cuts; 0: no row is cut
  int64_t cells;
  float* partials;  // [cells, partial_stride]
  int64_t partial_stride;
  int* tickets;       // [tiles, cells]
  bool vector_store;  // packs may be stored whole
  bool plain;         // no self term, mean or epilogue, and stored whole
};

template <class Layout>
using RowPacks = Pack<Layout::kVec>[Layout::kPacks];

// Column of pack `pack` of this lane, relative to the tile.
template <class Layout>
__device__ inline int LaneColumn(int pack) {
  return (static_cast<int>(threadIdx.x) % Layout::kLanes + pack * Layout::kLanes) * Layout::kVec;
}

template <class Layout, bool kMax>
__device__ inline void ClearRow(RowPacks<Layout>& sum) {
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) sum[p] = Pack<Layout::kVec>::Filled(kMax ? -INFINITY : 0.0f);
}

template <class Layout, bool kWeighted, bool kMax>
__device__ inline void AddRow(RowPacks<Layout>& sum, float weight, const RowPacks<Layout>& x) {
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) {
#pragma unroll
    for (int v = 0; v < Layout::kVec; ++v) {
      float& s = sum[p].v[v];
      if (kMax) {
        s = fmaxf(s, kWeighted ? weight * x[p].v[v] : x[p].v[v]);
      } else {
        s = kWeighted ? fmaf(weight, x[p].v[v], s) : s + x[p].v[v];
      }
    }
  }
}

// Self term, mean and epilogue of one pack of a finished row, and its store. Not inlined: rows end in many places of an
// unrolled loop.
template <int kVec, bool kMax>
__device__ __noinline__ void FinishPack(const BalancedRowsParams* params, int64_t row, int64_t edges, int64_t first,
                                        Pack<kVec> out) {
  float* dst = params->dst.data + row * params->dst.stride + first;
#pragma unroll
  for (int v = 0; v < kVec; ++v) {
    const int64_t col = first + v;
    if (col >= params->dst.cols) continue;
    float x = out.v[v];
    if (kMax && edges == 0) x = 0.0f;
    if (params->reduce == Reduce::kMean && edges > 0) x = __fdiv_rn(x, static_cast<float>(edges));
    if (params->self_scale != 0.0f) x = fmaf(params->self_scale, params->src.data[row * params->src.stride + col], x);
    out.v[v] = ApplyEpilogue(params->epilogue, x, row, col);
    if (!params->vector_store) dst[v] = out.v[v];
  }
  if (params->vector_store && first < params->dst.cols) StorePack<kVec>(dst, out);
}

template <class Layout, bool kMax, bool kPlain>
__device__ inline void StoreRow(const BalancedRowsParams& params, int64_t row, int64_t edges, int64_t tile_begin,
                                const RowPacks<Layout>& sum) {
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) {
    const int64_t first = tile_begin + LaneColumn<Layout>(p);
    if constexpr (!kPlain) {
      FinishPack<Layout::kVec, kMax>(&params, row, edges, first, sum[p]);
    } else if (first < params.dst.cols) {
      Pack<Layout::kVec> out = sum[p];
      if (kMax && edges == 0) out = Pack<Layout::kVec>::Filled(0.0f);
      StorePack<Layout::kVec>(params.dst.data + row * params.dst.stride + first, out);
    }
  }
}

// A batch of source rows on its way. Edges at `end` and beyond are not read; the stream never adds them.
template <class Layout, bool kWeighted>
struct Batch {
  static constexpr int kSize = Layout::kBatch;
  int32_t source[kSize];
  float weight[kSize];
  RowPacks<Layout> x[kSize];

  __device__ void LoadIndices(const BalancedRowsParams& params, int64_t base, int64_t end) {
    const int32_t* col = params.adjacency.col + base;
    const int count = static_cast<int>(min(end - base, int64_t{kSize}));
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      source[i] = i < count ? __ldg(col + i) : -1;
      weight[i] = kWeighted && i < count ? EdgeWeight(params.adjacency, params.src_scale, base + i, source[i]) : 1.0f;
    }
  }
  __device__ void LoadRows(const float* data, int64_t stride, int columns) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
#pragma unroll
      for (int p = 0; p < Layout::kPacks; ++p) {
        const int column = LaneColumn<Layout>(p);
        x[i][p] = Pack<Layout::kVec>::Filled(0.0f);
        if (source[i] >= 0 && column < columns)
          x[i][p] = LoadReadOnly<Layout::kVec>(data + source[i] * stride + column);
      }
    }
  }
};

// Streams rows [row, stop) of one group, which are short but for those it stops at: returns the first row that is not
// done.
template <class Layout, bool kWeighted, bool kMax, bool kPlain>
__device__ inline int64_t StreamRows(const BalancedRowsParams& params, int64_t row, int64_t stop, int64_t tile_begin,
                                     int columns) {
  const int64_t* row_ptr = params.adjacency.row_ptr;
  const float* data = params.src.data + tile_begin;
  int64_t begin = __ldg(row_ptr + row), end = __ldg(row_ptr + row + 1);
  if (params.unit > 0 && IsLongRow(end - begin, params.unit)) return row + 1;
  int64_t after = row + 1 < stop ? __ldg(row_ptr + row + 2) : end;  // end of the next row
  int64_t last = __ldg(row_ptr + stop);                             // of the stream
  RowPacks<Layout> sum;
  ClearRow<Layout, kMax>(sum);
  Batch<Layout, kWeighted> batch;
  batch.LoadIndices(params, begin, last);
  for (int64_t base = begin; base < last; base += Layout::kBatch) {
    batch.LoadRows(data, params.src.stride, columns);
    float weight[Layout::kBatch];
#pragma unroll
    for (int i = 0; i < Layout::kBatch; ++i) weight[i] = batch.weight[i];
    batch.LoadIndices(params, base + Layout::kBatch, last);
    if (base + Layout::kBatch <= end) {  // within a row, as most batches of all but the shortest rows are
#pragma unroll
      for (int i = 0; i < Layout::kBatch; ++i) AddRow<Layout, kWeighted, kMax>(sum, weight[i], batch.x[i]);
      continue;
    }
#pragma unroll
    for (int i = 0; i < Layout::kBatch; ++i) {
      while (base + i == end && base + i < last) {
        StoreRow<Layout, kMax, kPlain>(params, row, end - begin, tile_begin, sum);
        ClearRow<Layout, kMax>(sum);
        ++row;
        begin = end;
        end = after;
        if (params.unit > 0 && IsLongRow(end - begin, params.unit)) {
          last = begin;
        } else if (row + 1 < stop) {
          after = __ldg(row_ptr + row + 2);
        }
      }
      if (base + i < last) AddRow<Layout, kWeighted, kMax>(sum, weight[i], batch.x[i]);
    }
  }
  while (row < stop && (params.unit == 0 || !IsLongRow(end - begin, params.unit))) {
    StoreRow<Layout, kMax, kPlain>(params, row, end - begin, tile_begin, sum);
    ClearRow<Layout, kMax>(sum);
    ++row;
    begin = end;
    end = row < stop ? __ldg(row_ptr + row + 1) : end;
  }
  return row;
}

// Four partial sums: edge j of a piece goes to the one j mod 4, so that chains of additions stay short.
template <class Layout, bool kMax>
struct Slots {
  RowPacks<Layout> sum[4];

  __device__ Slots() {
#pragma unroll
    for (int s = 0; s < 4; ++s) ClearRow<Layout, kMax>(sum[s]);
  }
  __device__ void Total(RowPacks<Layout>& total) const {
#pragma unroll
    for (int p = 0; p < Layout::kPacks; ++p) total[p] = sum[0][p];
#pragma unroll
    for (int s = 1; s < 4; ++s) AddRow<Layout, false, kMax>(total, 1.0f, sum[s]);
  }
};

// The sum of edges [begin, end) of a long row.
template <class Layout, bool kWeighted, bool kMax>
__device__ inline void SumPiece(const BalancedRowsParams& params, int64_t begin, int64_t end, int64_t tile_begin,
                                int columns, RowPacks<Layout>& sum) {
  Slots<Layout, kMax> slots;
  Batch<Layout, kWeighted> batch;
  batch.LoadIndices(params, begin, end);
  for (int64_t base = begin; base < end; base += Layout::kBatch) {
    batch.LoadRows(params.src.data + tile_begin, params.src.stride, columns);
    float weight[Layout::kBatch];
#pragma unroll
    for (int i = 0; i < Layout::kBatch; ++i) weight[i] = batch.weight[i];
    batch.LoadIndices(params, base + Layout::kBatch, end);
#pragma unroll
    for (int i = 0; i < Layout::kBatch; ++i) {
      if (base + i < end) AddRow<Layout, kWeighted, kMax>(slots.sum[i], weight[i], batch.x[i]);
    }
  }
  slots.Total(sum);
}

// The sum of a row's pieces, several of them on their way at once.
template <class Layout, bool kMax>
__device__ inline void SumPartials(const BalancedRowsParams& params, const RowPiece& piece, int64_t tile_begin,
                                   int columns, RowPacks<Layout>& sum) {
  const float* partials = params.partials + piece.first_cell * params.partial_stride + tile_begin;
  const int64_t step = piece.cell_step * params.partial_stride;
  Slots<Layout, kMax> slots;
  for (int64_t base = 0; base < piece.pieces; base += 4) {
    RowPacks<Layout> x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int p = 0; p < Layout::kPacks; ++p) {
        const int column = LaneColumn<Layout>(p);
        x[i][p] = Pack<Layout::kVec>::Filled(0.0f);
        if (base + i < piece.pieces && column < columns) {
          x[i][p] = LoadCoherent<Layout::kVec>(partials + (base + i) * step + column);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (base + i < piece.pieces) AddRow<Layout, false, kMax>(slots.sum[i], 1.0f, x[i]);
    }
  }
  slots.Total(sum);
}

template <class Layout, bool kWeighted, bool kMax, bool kPlain>
__device__ inline void RunCell(const BalancedRowsParams& params, int64_t cell, int64_t tile_begin, int columns) {
  const RowPiece piece = FindPiece<Layout::kLanes>(params.adjacency.row_ptr, params.adjacency.rows, params.unit, cell);
  if (piece.row < 0) return;
  RowPacks<Layout> sum;
  SumPiece<Layout, kWeighted, kMax>(params, piece.begin, piece.end, tile_begin, columns, sum);
  if (piece.split()) {
    float* partial = params.partials + piece.cell * params.partial_stride + tile_begin;
#pragma unroll
    for (int p = 0; p < Layout::kPacks; ++p) {
      const int column = LaneColumn<Layout>(p);
      if (column < columns) StorePack<Layout::kVec>(partial + column, sum[p]);
    }
    int* ticket = params.tickets + blockIdx.y * params.cells + piece.first_cell;
    const bool leader = threadIdx.x % Layout::kLanes == 0;
    if (!ArrivesLast(ticket, piece.pieces, GroupMask<Layout::kLanes>(), leader)) return;
    SumPartials<Layout, kMax>(params, piece, tile_begin, columns, sum);
  }
  StoreRow<Layout, kMax, kPlain>(params, piece.row, piece.row_edges, tile_begin, sum);
}

template <class Layout, bool kWeighted, bool kMax, bool kPlain>
__global__ void __launch_bounds__(kBlockThreads) BalancedRows(const __grid_constant__ BalancedRowsParams params) {
  const int64_t item = int64_t{blockIdx.x} * Layout::kGroups + threadIdx.x / Layout::kLanes;
  const int64_t tile_begin = int64_t{blockIdx.y} * Layout::kTile;
  const int columns = static_cast<int>(min(params.dst.cols - tile_begin, int64_t{Layout::kTile}));
  if (item < params.cells) {
    RunCell<Layout, kWeighted, kMax, kPlain>(params, item, tile_begin, columns);
    return;
  }
  int64_t row = (item - params.cells) * params.rows_per_group;
  const int64_t stop = min(row + params.rows_per_group, params.adjacency.rows);
  while (row < stop) row = StreamRows<Layout, kWeighted, kMax, kPlain>(params, row, stop, tile_begin, columns);
}

template <class Layout, bool kWeighted, bool kMax>
void LaunchGrid(const BalancedRowsParams& params, const dim3& grid, cudaStream_t stream) {
  if (params.plain) {
    BalancedRows<Layout, kWeighted, kMax, true><<<grid, kBlockThreads, 0, stream>>>(params);
  } else {
    BalancedRows<Layout, kWeighted, kMax, false><<<grid, kBlockThreads, 0, stream>>>(params);
  }
}

template <class Layout>
cudaError_t LaunchLayout(const BalancedRowsParams& params, cudaStream_t stream) {
  const int64_t groups = (params.adjacency.rows + params.rows_per_group - 1) / params.rows_per_group;
  const int64_t items = params.cells + groups;
  const dim3 grid(static_cast<unsigned>((items + Layout::kGroups - 1) / Layout::kGroups),
                  static_cast<unsigned>((params.dst.cols + Layout::kTile - 1) / Layout::kTile));
  const bool weighted = params.adjacency.value != nullptr || params.src_scale != nullptr;
  if (params.reduce == Reduce::kMax) {
    weighted ? LaunchGrid<Layout, true, true>(params, grid, stream)
             : LaunchGrid<Layout, false, true>(params, grid, stream);
  } else {
    weighted ? LaunchGrid<Layout, true, false>(params, grid, stream)
             : LaunchGrid<Layout, false, false>(params, grid, stream);
  }
  return cudaGetLastError();
}

// One per pack width, each in a file of its own: they compile side by side. `tile`: columns to cover at most.
cudaError_t LaunchBalancedRowsVec4(const BalancedRowsParams& params, int tile, cudaStream_t stream);
cudaError_t LaunchBalancedRowsVec2(const BalancedRowsParams& params, int tile, cudaStream_t stream);
cudaError_t LaunchBalancedRowsVec1(const BalancedRowsParams& params, int tile, cudaStream_t stream);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_BALANCED_ROWS_CUH_
