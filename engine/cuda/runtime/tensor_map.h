// SPDX-License-Identifier: Apache-2.0
// Descriptions of matrices that bulk copies of boxes go by (bulk_copy.cuh). Made on the host, given to kernels as
// parameters.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_TENSOR_MAP_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_TENSOR_MAP_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vicinal::cuda {

// One dimension of what is described: its extent and the box's in elements, and how many floats its elements lie apart.
struct BoxedDimension {
  int64_t extent, stride, box;
};

// float32 in 2 or 3 dimensions, the innermost first; that has stride 1. Rows of a box are 64 or 128 bytes where
// `swizzled`: 16-byte unit u of row r then lies at u ^ (r / 2 % 4), or u ^ (r % 8), in shared memory that is aligned to
// 8 rows. REQUIRES: data and the other strides aligned to 16 bytes.
cudaError_t DescribeBoxes(const float* data, const BoxedDimension* dimensions, int count, bool swizzled,
                          CUtensorMap* map);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_TENSOR_MAP_H_
