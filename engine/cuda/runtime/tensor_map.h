// SPDX-License-Identifier: Apache-2.0
// Tensor maps: descriptions of matrices for bulk copies of boxes (bulk_copy.cuh). Created on the host and passed to
// kernels as parameters.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_TENSOR_MAP_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_TENSOR_MAP_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vicinal::cuda {

// One dimension: the extents of the matrix and of the box, in elements, and the distance of adjacent elements in
// floats.
struct BoxedDimension {
  int64_t extent, stride, box;
};

// Describes float32 data in 2 or 3 dimensions, innermost first, which has stride 1. If `swizzled`, rows of a box have
// 64 or 128 bytes, and 16-byte unit u of row r is stored at u ^ (r / 2 % 4) or u ^ (r % 8), respectively, in shared
// memory that is aligned to 8 rows. Returns cudaErrorNotSupported if the driver lacks the function. REQUIRES: data and
// the other strides are aligned to 16 bytes.
cudaError_t DescribeBoxes(const float* data, const BoxedDimension* dimensions, int count, bool swizzled,
                          CUtensorMap* map);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_TENSOR_MAP_H_
