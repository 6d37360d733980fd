// SPDX-License-Identifier: Apache-2.0
// template_spmm with a message MLP (FeatGraph's MLP aggregation, Hu et al., SC'20, section III; EdgeConv).
//
// Idea. A block processes adjacent rows, or a piece of a long one (row_pieces.h), and takes their edges in tiles,
// across row boundaries. A tile's messages are in shared memory, column-major. Each layer is a product of that tile and
// the packed weights: a thread holds 8 edges x 4 outputs in registers, so that three 16-byte loads feed 32
// multiply-adds. Layers alternate between two buffers, and nothing of the size of the edges leaves the block. Then one
// thread per output column reduces the tile's edges row by row, and carries an unfinished row to the next tile.
//
// Order of evaluation: a message's layers depend on its edge alone (inputs ascending, folded every 64, then the bias).
// A row's messages are added in order, folded every 64 edges of the row; pieces of long rows are added in four chains.
// The bits are equal in every run, for every tile and in every subset of rows; there are no float atomics. Bound by
// arithmetic: edges * sum of in * out multiply-adds. Traffic: edges * 4 * width bytes of gather.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/row_pieces.cuh"
#include "engine/cuda/dense/packed_weights.h"
#include "engine/cuda/message/message.cuh"
#include "engine/cuda/message/template_spmm/template_spmm.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kThreadEdges = 8, kThreadColumns = 4;
constexpr int kFoldEdges = 64;
constexpr int kChains = 4;

struct Params {
  MessageReduceArgs args;
  MessageLayerArgs layers[kMaxMessageLayers];  // instead of the arrays of args and its problem
  int64_t out_widths[kMaxMessageLayers], weight_strides[kMaxMessageLayers];
  int64_t first_floats, second_floats;  // per edge, of the buffers
  int64_t rows_per_block;
  int64_t cells, partial_stride;
  float* partials;
  int* tickets;
};

// A block's shared memory.
template <int kTile>
struct Memory {
  static constexpr int kStride = kTile + 4;
  float* buffer[2];       // [columns][kStride]
  float *carried, *held;  // [out_width] of the current row: the folded sum, and the sum since
  int32_t* source;        // [kTile]
  int32_t* row;           // [kTile], counted from the first row of the run
};

// Rows [first, last) and their edges [begin, end), none of them cut, or a piece of one row.
struct Run {
  int64_t first, last, begin, end;
  bool whole_rows;
};

template <int kTile>
__device__ inline void LoadMessages(const Params& params, const Memory<kTile>& memory, const Run& run, int64_t row,
                                    int64_t base, int edges) {
  const MessageReduceArgs& args = params.args;
  const CsrView& adjacency = args.adjacency;
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
  __syncthreads();
  // A warp reads 8 columns of 4 edges at a time: whole sectors, and writes to 32 different banks.
  const int lane = threadIdx.x % 32;
  for (int edge = threadIdx.x / 32 * 4 + lane % 4; edge < kTile; edge += kThreads / 32 * 4) {
    const bool valid = edge < edges;
    const float* u = args.src.data + (valid ? memory.source[edge] * args.src.stride : 0);
    const int64_t target = valid ? run.first + memory.row[edge] : 0;
    const float weight = valid && adjacency.value != nullptr ? __ldg(adjacency.value + base + edge) : 1.0f;
#pragma unroll 4
    for (int64_t c = lane / 4; c < args.problem.width; c += 8) {
      float m = 0.0f;
      if (valid) {
        const TargetTerms<1> terms(args.problem.message, args.target.data + target * args.target.stride + c);
        m = Activate(args.activation, terms.Of(__ldg(u + c), 0) * weight);
      }
      memory.buffer[0][c * Memory<kTile>::kStride + edge] = m;
    }
  }
  __syncthreads();
}

// out = activation(in * W^T + bias) for the tile's edges.
template <int kTile>
__device__ inline void MultiplyLayer(const Params& params, int l, int64_t in_width, const float* in, float* out) {
  constexpr int kStride = Memory<kTile>::kStride, kAcross = kThreads / (kTile / kThreadEdges);
  const MessageLayerArgs& layer = params.layers[l];
  const float* weight = static_cast<const float*>(layer.weight);
  const int64_t stride = params.weight_strides[l], out_width = params.out_widths[l];
  const int edge = static_cast<int>(threadIdx.x) / kAcross * kThreadEdges;
  for (int64_t h = threadIdx.x % kAcross * kThreadColumns; h < out_width; h += kAcross * kThreadColumns) {
    float total[kThreadEdges][kThreadColumns] = {}, sum[kThreadEdges][kThreadColumns] = {};
    for (int64_t k0 = 0; k0 < in_width; k0 += kFoldInputs) {
      const int64_t k1 = min(k0 + kFoldInputs, in_width);
#pragma unroll 4
      for (int64_t k = k0; k < k1; ++k) {
        const Pack<4> w = LoadReadOnly<4>(weight + k * stride + h);
        const float4 low = *reinterpret_cast<const float4*>(in + k * kStride + edge);
        const float4 high = *reinterpret_cast<const float4*>(in + k * kStride + edge + 4);
        const float x[kThreadEdges] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < kThreadEdges; ++i) {
#pragma unroll
          for (int j = 0; j < kThreadColumns; ++j) sum[i][j] = fmaf(x[i], w.v[j], sum[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < kThreadEdges; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadColumns; ++j) {
          total[i][j] += sum[i][j];
          sum[i][j] = 0.0f;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kThreadColumns; ++j) {
      if (h + j >= out_width) break;
      const float bias = layer.bias != nullptr ? __ldg(layer.bias + h + j) : 0.0f;
#pragma unroll
      for (int i = 0; i < kThreadEdges; ++i) {
        out[(h + j) * kStride + edge + i] = Activate(layer.activation, total[i][j] + bias);
      }
    }
  }
}

// The partial result of one column of the current row.
template <bool kExtreme>
struct Column {
  float folded, since;

  __device__ void Start() { folded = since = Reducer<kExtreme>::Identity(); }
  // `place`: index of the edge in its row or piece.
  __device__ void Add(float m, int64_t place) {
    since = Reducer<kExtreme>::Combine(since, m);
    if (place % kFoldEdges != kFoldEdges - 1) return;
    folded = Total();
    since = Reducer<kExtreme>::Identity();
  }
  __device__ float Total() const { return Reducer<kExtreme>::Combine(folded, since); }
};

template <bool kExtreme>
__device__ inline void StoreColumn(const Params& params, const Run& run, int64_t row, int64_t edges, int64_t cell,
                                   int64_t c, float reduced) {
  const MessageReduceArgs& args = params.args;
  if (!run.whole_rows) {
    params.partials[cell * params.partial_stride + c] = reduced;
    return;
  }
  const float x = Reducer<kExtreme>::Finish(args.problem.reduce, reduced, edges);
  args.dst.data[row * args.dst.stride + c] = ApplyEpilogue(args.epilogue, x, row, c);
}

// Reduces the tile's messages [out_width][kStride] from row `row` on, and stores the rows that end in this tile.
template <int kTile, bool kExtreme>
__device__ inline void ReduceTile(const Params& params, const Memory<kTile>& memory, const Run& run, int64_t cell,
                                  const float* messages, int64_t row, int64_t base, int edges) {
  const MessageReduceArgs& args = params.args;
  const int64_t* row_ptr = args.adjacency.row_ptr;
  const float sign = Reducer<kExtreme>::Sign(args.problem.reduce);
  for (int64_t c = threadIdx.x; c < args.dst.cols; c += kThreads) {
    Column<kExtreme> column{memory.carried[c], memory.held[c]};
    int e = 0;
    for (int64_t r = row; r < run.last; ++r) {
      const int64_t begin = run.whole_rows ? __ldg(row_ptr + r) : run.begin;
      const int64_t end = run.whole_rows ? __ldg(row_ptr + r + 1) : run.end;
      const int stop = static_cast<int>(min(end - base, int64_t{edges}));
      for (; e < stop; ++e) {
        const float m = messages[c * Memory<kTile>::kStride + e];
        column.Add(kExtreme ? sign * m : m, base + e - begin);
      }
      if (end > base + edges) break;  // continues in the next tile
      StoreColumn<kExtreme>(params, run, r, end - begin, cell, c, column.Total());
      column.Start();
    }
    memory.carried[c] = column.folded;
    memory.held[c] = column.since;
  }
}

template <int kTile, bool kExtreme>
__device__ inline void RunEdges(const Params& params, const Memory<kTile>& memory, const Run& run, int64_t cell) {
  const MessageReduceProblem& problem = params.args.problem;
  const int64_t* row_ptr = params.args.adjacency.row_ptr;
  for (int64_t c = threadIdx.x; c < params.args.dst.cols; c += kThreads) {
    memory.carried[c] = memory.held[c] = Reducer<kExtreme>::Identity();
  }
  __syncthreads();
  int64_t row = run.first, base = run.begin;
  do {  // at least once, for rows without edges
    const int edges = static_cast<int>(min(run.end - base, int64_t{kTile}));
    int now = 0;
    if (edges > 0) {
      LoadMessages<kTile>(params, memory, run, row, base, edges);
      int64_t in_width = problem.width;
      for (int l = 0; l < problem.num_layers; ++l) {
        MultiplyLayer<kTile>(params, l, in_width, memory.buffer[now], memory.buffer[now ^ 1]);
        __syncthreads();
        in_width = params.out_widths[l];
        now ^= 1;
      }
    }
    ReduceTile<kTile, kExtreme>(params, memory, run, cell, memory.buffer[now], row, base, edges);
    __syncthreads();
    base += edges;
    while (run.whole_rows && row < run.last && __ldg(row_ptr + row + 1) <= base) ++row;
  } while (base < run.end);
}

// True in all threads of the block that stores the last of a row's pieces.
__device__ inline bool BlockArrivesLast(int* ticket, int64_t pieces) {
  __shared__ int before;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) before = atomicAdd(ticket, 1);
  __syncthreads();
  if (before != pieces - 1) return false;
  __threadfence();
  if (threadIdx.x == 0) *ticket = 0;
  return true;
}

template <bool kExtreme>
__device__ inline void MergePieces(const Params& params, const RowPiece& piece) {
  const MessageReduceArgs& args = params.args;
  using R = Reducer<kExtreme>;
  for (int64_t c = threadIdx.x; c < args.dst.cols; c += kThreads) {
    const float* partials = params.partials + piece.first_cell * params.partial_stride + c;
    float chain[kChains] = {R::Identity(), R::Identity(), R::Identity(), R::Identity()};
    for (int64_t base = 0; base < piece.pieces; base += kChains) {
#pragma unroll
      for (int i = 0; i < kChains; ++i) {
        if (base + i >= piece.pieces) break;
        chain[i] = R::Combine(chain[i], __ldcg(partials + (base + i) * piece.cell_step * params.partial_stride));
      }
    }
    const float total = R::Combine(R::Combine(chain[0], chain[2]), R::Combine(chain[1], chain[3]));
    args.dst.data[piece.row * args.dst.stride + c] =
        ApplyEpilogue(args.epilogue, R::Finish(args.problem.reduce, total, piece.row_edges), piece.row, c);
  }
}

template <int kTile, bool kExtreme>
__global__ void __launch_bounds__(kThreads) MessageMlp(const __grid_constant__ Params params) {
  extern __shared__ float4 shared[];
  __shared__ int32_t sources[kTile], rows_of[kTile];
  Memory<kTile> memory;
  memory.buffer[0] = reinterpret_cast<float*>(shared);
  memory.buffer[1] = memory.buffer[0] + params.first_floats * Memory<kTile>::kStride;
  memory.carried = memory.buffer[1] + params.second_floats * Memory<kTile>::kStride;
  memory.held = memory.carried + params.args.dst.cols;
  memory.source = sources;
  memory.row = rows_of;
  const CsrView& adjacency = params.args.adjacency;
  if (blockIdx.x < params.cells) {
    const RowPiece piece = FindPiece<32>(adjacency.row_ptr, adjacency.rows, kMessageUnit, blockIdx.x);
    if (piece.row < 0) return;
    const Run run{piece.row, piece.row + 1, piece.begin, piece.end, !piece.split()};
    RunEdges<kTile, kExtreme>(params, memory, run, piece.cell);
    if (piece.split() && BlockArrivesLast(params.tickets + piece.first_cell, piece.pieces)) {
      MergePieces<kExtreme>(params, piece);
    }
    return;
  }
  const auto is_cut = [&](int64_t row) {
    return params.cells > 0 &&
           IsLongRow(__ldg(adjacency.row_ptr + row + 1) - __ldg(adjacency.row_ptr + row), kMessageUnit);
  };
  const int64_t begin = (blockIdx.x - params.cells) * params.rows_per_block;
  const int64_t end = min(begin + params.rows_per_block, adjacency.rows);
  for (int64_t first = begin, last; first < end; first = last) {
    last = first + 1;
    if (is_cut(first)) continue;
    while (last < end && !is_cut(last)) ++last;
    const Run run{first, last, __ldg(adjacency.row_ptr + first), __ldg(adjacency.row_ptr + last), true};
    RunEdges<kTile, kExtreme>(params, memory, run, 0);
  }
}

template <int kTile, bool kExtreme>
cudaError_t Launch(const Params& params, int64_t bytes, const LaunchTarget& target) {
  const auto kernel = &MessageMlp<kTile, kExtreme>;
  const cudaError_t error = AllowShared(kernel, bytes, target.limits);
  if (error != cudaSuccess) return error;
  const int64_t blocks =
      params.cells + (params.args.adjacency.rows + params.rows_per_block - 1) / params.rows_per_block;
  kernel<<<static_cast<unsigned>(blocks), kThreads, static_cast<size_t>(bytes), target.stream>>>(params);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchMessageMlp(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const PieceScratch layout = MessageScratch(args.problem);
  const MessageTile tile(args.problem);
  const bool large = tile.Bytes(kLargeMessageTile) <= LargeTileBytes(target.limits);
  // About two large tiles of edges per block.
  const int64_t rows_per_block =
      std::clamp<int64_t>(2 * kLargeMessageTile * args.problem.rows / std::max<int64_t>(args.problem.edges, 1), 1, 64);
  Params params{args,
                {},
                {},
                {},
                tile.first_floats,
                tile.second_floats,
                rows_per_block,
                layout.cells,
                layout.stride,
                static_cast<float*>(scratch),
                target.tickets};
  std::copy(args.layers.begin(), args.layers.end(), params.layers);
  std::copy(args.problem.out_widths.begin(), args.problem.out_widths.end(), params.out_widths);
  for (int l = 0; l < args.problem.num_layers; ++l) params.weight_strides[l] = PackedStride(params.out_widths[l]);
  if (layout.tickets > 0) {
    params.tickets = reinterpret_cast<int*>(params.partials + layout.cells * layout.stride);
    const cudaError_t error = cudaMemsetAsync(params.tickets, 0, layout.tickets * sizeof(int), target.stream);
    if (error != cudaSuccess) return error;
  }
  const bool extreme = IsExtreme(args.problem.reduce);
  if (large) {
    const int64_t bytes = tile.Bytes(kLargeMessageTile);
    return extreme ? Launch<kLargeMessageTile, true>(params, bytes, target)
                   : Launch<kLargeMessageTile, false>(params, bytes, target);
  }
  const int64_t bytes = tile.Bytes(kSmallMessageTile);
  return extreme ? Launch<kSmallMessageTile, true>(params, bytes, target)
                 : Launch<kSmallMessageTile, false>(params, bytes, target);
}

}  // namespace vicinal::cuda
