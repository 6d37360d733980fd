// SPDX-License-Identifier: Apache-2.0
// Base class of the kernels of the operation dense_update that use packed weights.
#ifndef VICINAL_ENGINE_CUDA_DENSE_DENSE_KERNEL_H_
#define VICINAL_ENGINE_CUDA_DENSE_DENSE_KERNEL_H_

#include <cstddef>
#include <cstdint>

#include "engine/cuda/dense/packed_weights.h"
#include "engine/cuda/runtime/cuda_kernel.h"

namespace vicinal::cuda {

// Packs weights W [H, F] as packed_weights.h describes.
class DenseProduct : public CudaWeightedKernel<DenseUpdateKernel> {
 public:
  using CudaWeightedKernel::CudaWeightedKernel;
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(DensePackedFloats(out_width, in_width)) * sizeof(float);
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_DENSE_KERNEL_H_
