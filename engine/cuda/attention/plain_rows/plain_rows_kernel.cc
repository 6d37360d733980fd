// SPDX-License-Identifier: Apache-2.0
// plain_rows as a kernel of the operation attention.
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/cuda/attention/attention_limits.h"
#include "engine/cuda/attention/plain_rows/plain_rows.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class PlainAttention final : public CudaKernel<AttentionKernel> {
 public:
  PlainAttention() : CudaKernel("plain_rows") {}
  Refusal WhyUnsupported(const AttentionProblem& problem) const override { return WhyAttentionUnsupported(problem); }
  DeclaredOrder declared_order() const override { return {"two_pass_softmax", 1}; }
  std::optional<double> PredictSeconds(const AttentionProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape);
  }

 protected:
  cudaError_t Launch(const AttentionArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchPlainAttention(args, target);
  }
};

}  // namespace

void AddPlainAttention(KernelRegistry& registry) { registry.attention.Add(std::make_unique<PlainAttention>()); }

}  // namespace vicinal::cuda
