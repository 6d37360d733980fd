// SPDX-License-Identifier: Apache-2.0
// elements as the kernel of the operation rowwise.
#include <cstddef>
#include <memory>

#include "engine/cuda/rowwise/rowwise.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class Rowwise final : public CudaKernel<RowwiseKernel> {
 public:
  Rowwise() : CudaKernel("elements") {}
  DeclaredOrder declared_order() const override { return {"row_elements", 1, true}; }
  Refusal WhyUnsupported(const RowwiseProblem& problem) const override {
    if (problem.kind == RowwiseKind::kNarrow && problem.storage == Storage::kFloat32)
      return "narrows to bfloat16 or float16 only";
    return WhyWidthUnsupported(problem.width);
  }
  size_t ScratchBytes(const RowwiseProblem& problem, const KernelConfig&, int) const override {
    return RowwiseScratchBytes(problem);
  }

 protected:
  cudaError_t Launch(const RowwiseArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchRowwise(args, target, scratch);
  }
};

}  // namespace

void AddRowwise(KernelRegistry& registry) { registry.rowwise.Add(std::make_unique<Rowwise>()); }

}  // namespace vicinal::cuda
