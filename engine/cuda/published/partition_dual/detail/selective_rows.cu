// SPDX-License-Identifier: Apache-2.0
// The selective mode of PCGCN (Tian et al., IPDPS'20, section IV-B). A thread block has consecutive rows. It copies
// their edges, which are consecutive in the CSR, to shared memory, part by part. Consecutive threads have consecutive
// columns; each adds the sources of its row in the order of the edges, in a register, and writes the sum once.
//
// Unlike the published one, a row's edges are added in chains of kChain, whose sums are then added: in one chain, a row
// of 100,000 edges with each source 143 times had an error of 5e-5, because adding a number again and again to a much
// larger one rounds the same way every time. With chains it is 3e-6, as in other kernels.
//
// A row's time is that of its edges one after the other, so hubs decide; neighbor_group, which partition_dual uses
// unless it is told otherwise, cuts them. Deterministic; a row's order does not depend on other rows.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/cuda/published/groups/finished_row.cuh"
#include "engine/cuda/published/partition_dual/detail/selective_rows.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPart = 512;  // edges in shared memory
constexpr int kChain = 512;

struct Params {
  AggregateArgs args;
  CarriedSums carried;
  int lanes;  // threads per row, a power of two
};

template <bool kWeighted>
__global__ void __launch_bounds__(kThreads) SelectiveRows(const __grid_constant__ Params params) {
  __shared__ int32_t source[kPart];
  __shared__ float weight[kPart];
  const AggregateArgs& args = params.args;
  const CsrView& adjacency = args.adjacency;
  const int64_t rows = kThreads / params.lanes, first = int64_t{blockIdx.x} * rows;
  const int64_t row = first + threadIdx.x / params.lanes;
  const int64_t column = int64_t{blockIdx.y} * params.lanes + threadIdx.x % params.lanes;
  const bool inside = row < args.dst.rows && column < args.dst.cols;
  const int64_t end = __ldg(adjacency.row_ptr + min(first + rows, args.dst.rows));
  const int64_t own = inside ? __ldg(adjacency.row_ptr + row) : 0;
  const int64_t own_end = inside ? __ldg(adjacency.row_ptr + row + 1) : 0;
  float total = 0.0f, sum = 0.0f;
  int length = 0;  // of the chain
  for (int64_t part = __ldg(adjacency.row_ptr + first); part < end; part += kPart) {
    const int count = static_cast<int>(min(int64_t{kPart}, end - part));
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kThreads) {
      source[i] = __ldg(adjacency.col + part + i);
      if constexpr (kWeighted) weight[i] = EdgeWeight(adjacency, args.src_scale, part + i, source[i]);
    }
    __syncthreads();
    int i = static_cast<int>(max(own - part, int64_t{0}));
    const int to = static_cast<int>(min(own_end - part, int64_t{count}));
    while (i < to) {
      const int end_of_chain = min(to, i + kChain - length);
      length += end_of_chain - i;
#pragma unroll 8
      for (; i < end_of_chain; ++i) {
        const float x = __ldg(args.src.data + source[i] * args.src.stride + column);
        sum = kWeighted ? fmaf(weight[i], x, sum) : sum + x;
      }
      if (length < kChain) continue;
      total += sum;
      sum = 0.0f;
      length = 0;
    }
  }
  if (!inside) return;
  const RowEnd row_end = {params.carried, args.problem.reduce, args.self_scale, args.epilogue, args.src};
  args.dst.data[row * args.dst.stride + column] =
      FinishedRow(row_end, row, column, WholeDegree(params.carried, adjacency.row_ptr, row), total + sum);
}

}  // namespace

cudaError_t LaunchSelectiveRows(const AggregateArgs& args, const CarriedSums& carried, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const int lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(args.dst.cols, kThreads))));
  const int64_t rows = kThreads / lanes;
  const dim3 grid(static_cast<unsigned>((args.dst.rows + rows - 1) / rows),
                  static_cast<unsigned>((args.dst.cols + lanes - 1) / lanes));
  const Params params = {args, carried, lanes};
  if (args.adjacency.value != nullptr || args.src_scale != nullptr) {
    SelectiveRows<true><<<grid, kThreads, 0, target.stream>>>(params);
  } else {
    SelectiveRows<false><<<grid, kThreads, 0, target.stream>>>(params);
  }
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
