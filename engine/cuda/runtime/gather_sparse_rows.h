// SPDX-License-Identifier: Apache-2.0
// The launcher that packs selected rows of a sparse matrix contiguously (gather_sparse_rows.cu), free of device code.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_GATHER_SPARSE_ROWS_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_GATHER_SPARSE_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/device/views.h"

namespace vicinal::cuda {

// Implements DeviceContext::GatherSparseRows. REQUIRES: out.nnz < 2^38.
cudaError_t LaunchGatherSparseRows(const CsrView& src, const int64_t* rows, const SparseRowsOut& out,
                                   cudaStream_t stream);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_GATHER_SPARSE_ROWS_H_
