// SPDX-License-Identifier: Apache-2.0
// Packs selected rows of a sparse matrix contiguously. A thread per entry finds its row by a binary search in the
// packed row offsets, so that a hub costs no more than its share. Traffic: 2 * 4 bytes per entry and array; the
// searches stay in the caches.
#include <cstdint>

#include "engine/cuda/runtime/gather_sparse_rows.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 256;

struct Params {
  CsrView src;
  const int64_t* rows;
  SparseRowsOut out;
};

__global__ void __launch_bounds__(kThreads) GatherSparseRows(const __grid_constant__ Params params) {
  const int64_t entry = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (entry >= params.out.nnz) return;
  // The last row that starts at or before the entry. Empty rows before it start there too, or earlier.
  int64_t first = 0, last = params.out.rows;
  while (last - first > 1) {
    const int64_t middle = (first + last) / 2;
    if (__ldg(params.out.row_ptr + middle) <= entry) {
      first = middle;
    } else {
      last = middle;
    }
  }
  const int64_t from =
      __ldg(params.src.row_ptr + __ldg(params.rows + first)) + entry - __ldg(params.out.row_ptr + first);
  if (params.out.col != nullptr) params.out.col[entry] = __ldg(params.src.col + from);
  if (params.out.value != nullptr) params.out.value[entry] = __ldg(params.src.value + from);
}

}  // namespace

cudaError_t LaunchGatherSparseRows(const CsrView& src, const int64_t* rows, const SparseRowsOut& out,
                                   cudaStream_t stream) {
  if (out.nnz == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>((out.nnz + kThreads - 1) / kThreads);
  GatherSparseRows<<<blocks, kThreads, 0, stream>>>(Params{src, rows, out});
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
