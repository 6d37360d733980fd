// SPDX-License-Identifier: Apache-2.0
// Packs selected rows contiguously, with a thread per element, so that stores to host memory are full lines however
// narrow the rows are. Bound by the link to the host: count * cols * 4 bytes.
#include <cstdint>

#include "engine/cuda/runtime/gather_rows.h"

namespace vicinal::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct Params {
  ConstMatrixView src;
  unsigned elements;
  float* out;
  RowList rows;
};

__global__ void __launch_bounds__(kThreads) GatherRows(const __grid_constant__ Params params) {
  const unsigned element = blockIdx.x * kThreads + threadIdx.x;
  if (element >= params.elements) return;
  const unsigned cols = static_cast<unsigned>(params.src.cols);
  const unsigned i = element / cols;
  const int64_t row = params.rows.device_rows != nullptr ? params.rows.device_rows[i] : params.rows.rows[i];
  params.out[element] = params.src.data[row * params.src.stride + element % cols];
}

}  // namespace

cudaError_t LaunchGatherRows(const ConstMatrixView& src, const RowList& rows, int64_t count, float* out,
                             cudaStream_t stream) {
  const Params params{src, static_cast<unsigned>(count * src.cols), out, rows};
  if (params.elements == 0) return cudaSuccess;
  GatherRows<<<(params.elements + kThreads - 1) / kThreads, kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
