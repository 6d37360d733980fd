// SPDX-License-Identifier: Apache-2.0
// warp_rows as a kernel of the operation sparse_update.
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/cuda/sparse/warp_rows/warp_rows.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class WarpRows final : public CudaWeightedKernel<SparseUpdateKernel> {
 public:
  WarpRows() : CudaWeightedKernel("warp_rows") {}
  DeclaredOrder declared_order() const override { return {"row_parts", 1, true}; }
  Refusal WhyUnsupported(const SparseUpdateProblem& problem) const override {
    if (problem.out_width > kMaxSparseUpdateWidth) {
      return absl::StrCat("only widths up to ", kMaxSparseUpdateWidth, "; this is ", problem.out_width);
    }
    return problem.rows >= kMaxItems ? "only fewer than 2^31 rows" : Refusal();
  }

 protected:
  cudaError_t Launch(const SparseUpdateArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchSparseUpdate(args, target);
  }
};

}  // namespace

void AddWarpRows(KernelRegistry& registry) { registry.sparse_update.Add(std::make_unique<WarpRows>()); }

}  // namespace vicinal::cuda
