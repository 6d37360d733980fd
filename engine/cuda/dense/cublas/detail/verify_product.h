// SPDX-License-Identifier: Apache-2.0
// Finds the algorithm that a PinnedProduct uses: the first one, in the order in which the library proposes them, that
// gives a row the same bits at every height, at other positions, and next to other rows, including NaN and infinities.
// It runs in units of one panel each, so that other work can go between them.
#ifndef VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_VERIFY_PRODUCT_H_
#define VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_VERIFY_PRODUCT_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/common/gpu_limits.h"
#include "engine/cuda/dense/cublas/detail/cublas_library.h"
#include "engine/cuda/dense/cublas/detail/pinned_product.h"
#include "engine/cuda/runtime/cuda_device.h"
#include "engine/kernels/kernel_preparation.h"

namespace vicinal::cuda {

// Used by one thread at a time.
class ProductVerification {
 public:
  using Part = KernelPreparation::Part;

  // `device` must outlive the object.
  ProductVerification(int64_t in_width, int64_t out_width, const GpuLimits& limits, CudaDevice* device);
  ~ProductVerification();
  ProductVerification(const ProductVerification&) = delete;
  ProductVerification& operator=(const ProductVerification&) = delete;

  // As KernelPreparation's; `library` must outlive the object and its result. The first Load asks for proposals and
  // allocates a panel of inputs and two of outputs; each loads the code of one proposal.
  int64_t bytes() const;
  Part next() const;
  Status Load(const CublasLibrary& library, cublasLtHandle_t handle);
  Status Run();

  // FAILED_PRECONDITION (KERNEL_REFUSED) with the reason if no proposed algorithm passes. REQUIRES: next() is kDone.
  const StatusOr<std::shared_ptr<const PinnedProduct>>& result() const { return *result_; }

 private:
  // The product of `height` steps of rows from row `row` of the inputs on has, in every `every`-th row, the bits of the
  // reference.
  struct Check {
    int height;
    int64_t row;
    int every;
    const char* what;  // in messages
  };
  struct Sizes {
    size_t src, weight, outputs;  // bytes
  };

  Sizes SizesOf() const;
  Status Begin(const CublasLibrary& library, cublasLtHandle_t handle);
  void ListChecks();
  void LoadCode() const;
  Status MakeReference() const;
  Status ExpectSame(const Check& check) const;
  Status RunCheck() const;
  void Finish();

  const int64_t in_width_, out_width_;
  const GpuLimits limits_;
  CudaDevice& device_;
  std::shared_ptr<PinnedProduct> product_;
  std::vector<cublasLtMatmulAlgo_t> proposals_;
  size_t proposal_ = 0;  // the one at hand
  bool loaded_ = false;  // its code
  std::vector<Check> checks_;
  size_t done_ = 0;  // runs of this proposal: the reference, then the checks in order
  Status why_;       // the last proposal was refused
  // Inputs [2 * kShift + rows of the highest panel], weights, and two sets of outputs of the highest panel.
  Buffer src_, weight_, reference_, dst_, differing_;
  cudaStream_t stream_ = nullptr;
  std::optional<StatusOr<std::shared_ptr<const PinnedProduct>>> result_;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_VERIFY_PRODUCT_H_
