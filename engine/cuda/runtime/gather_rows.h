// SPDX-License-Identifier: Apache-2.0
// The launcher that packs selected rows of a matrix contiguously (gather_rows.cu), free of device code.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_GATHER_ROWS_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_GATHER_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/device/views.h"

namespace vicinal::cuda {

// A list of at most this length is passed as a kernel argument.
inline constexpr int64_t kFewRows = 256;

struct RowList {
  const int32_t* device_rows = nullptr;  // in device memory; null: use `rows`
  int32_t rows[kFewRows];
};

// out[i] = src[rows[i]] for i < count. `out` [count, src.cols] may be pinned host memory. REQUIRES: count * src.cols <
// 2^31.
cudaError_t LaunchGatherRows(const ConstMatrixView& src, const RowList& rows, int64_t count, float* out,
                             cudaStream_t stream);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_GATHER_ROWS_H_
