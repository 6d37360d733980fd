// SPDX-License-Identifier: Apache-2.0
// Passes around the products of the kernel cublas: epilogues, and the test data and comparisons that verify an
// algorithm. Free of device code.
#ifndef VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_PANEL_PASSES_H_
#define VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_PANEL_PASSES_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Rows [first, first + count) of dst = epilogue(products). Row 0 of `products` is row `first` of dst. Its rows are
// `stride` floats apart and aligned to 16 bytes.
cudaError_t LaunchFinishPanel(const DenseUpdateArgs& args, int64_t first, int64_t count, const float* products,
                              int64_t stride, cudaStream_t stream);

// Fills `count` floats with numbers in [-1, 1) that depend on the index alone.
cudaError_t LaunchFillNumbers(float* data, int64_t count, cudaStream_t stream);

// Overwrites every second row of data [rows, stride], starting with row 1, with NaN, infinities and the largest floats.
cudaError_t LaunchDisturbRows(float* data, int64_t rows, int64_t stride, cudaStream_t stream);

// Adds to *differing the number of floats whose bits differ in a and b [rows, stride], in columns [0, cols) of every
// `step`-th row from row 0 on.
cudaError_t LaunchCountDiffering(const float* a, const float* b, int64_t rows, int64_t cols, int64_t stride, int step,
                                 int* differing, cudaStream_t stream);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_PANEL_PASSES_H_
