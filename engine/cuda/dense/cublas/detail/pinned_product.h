// SPDX-License-Identifier: Apache-2.0
// An algorithm of cuBLASLt, pinned for products of one shape, with float32 inputs, sums and outputs.
//
// Rows are multiplied in panels of fixed heights, all with this algorithm, so that the library never selects again. The
// algorithm must add each element in one chain (no split of the inputs, no reduction of partial sums) and need no
// workspace. For equal calls, NVIDIA guarantees equal bits per version, architecture and number of multiprocessors, but
// nothing across heights or positions. So an algorithm is verified before it is used (verify_product.h).
#ifndef VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_PINNED_PRODUCT_H_
#define VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_PINNED_PRODUCT_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/gpu_limits.h"
#include "engine/cuda/dense/cublas/detail/cublas_library.h"

namespace vicinal::cuda {

// Heights are 1 to PanelHeights steps, of 32 rows per multiprocessor each. The highest panel is 16 waves of tiles of
// 128 rows. It is lower if its inputs would exceed 256 MiB, but at least two waves.
inline int64_t PanelStep(const GpuLimits& limits) { return int64_t{32} * limits.multiprocessors; }
inline int PanelHeights(int64_t in_width, const GpuLimits& limits) {
  constexpr int64_t kMin = 8, kMax = 64, kMaxBytes = int64_t{256} << 20;
  const int64_t step_bytes = PanelStep(limits) * PackedStride(in_width) * int64_t{sizeof(float)};
  return static_cast<int>(std::clamp(kMaxBytes / step_bytes, kMin, kMax));
}

// Made by ProductVerification; then immutable, thread-safe.
class PinnedProduct {
 public:
  ~PinnedProduct();
  PinnedProduct(const PinnedProduct&) = delete;
  PinnedProduct& operator=(const PinnedProduct&) = delete;

  int64_t step() const { return step_; }
  int heights() const { return heights_; }
  // dst = src * W^T for height * step() rows, with 1 <= height <= heights(). Rows of src and dst are aligned to 16
  // bytes. `weight` is W [H, F], with rows PackedStride(F) apart.
  Status Multiply(int height, const float* src, int64_t src_stride, const float* weight, float* dst, int64_t dst_stride,
                  cudaStream_t stream) const;
  // Everything that the guarantee and the order of additions depend on: library version, compute capability, number of
  // multiprocessors, step of heights, and the algorithm's configuration.
  const std::vector<int64_t>& order() const { return order_; }

 private:
  friend class ProductVerification;
  PinnedProduct(const CublasLibrary& library, cublasLtHandle_t handle) : library_(library), handle_(handle) {}

  Status Describe(int64_t in_width, int64_t out_width, const GpuLimits& limits);
  StatusOr<std::vector<cublasLtMatmulAlgo_t>> Proposals() const;
  // The algorithm's configuration. Empty if it splits its inputs.
  std::vector<int64_t> ConfigurationOf(const cublasLtMatmulAlgo_t& algorithm) const;

  const CublasLibrary& library_;
  const cublasLtHandle_t handle_;
  int64_t in_width_ = 0, out_width_ = 0, step_ = 0, src_stride_ = 0, dst_stride_ = 0;
  int heights_ = 0;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
  std::vector<int64_t> order_;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_PINNED_PRODUCT_H_
