// SPDX-License-Identifier: Apache-2.0
// plain_rows as a kernel of the operation attention.
#include <cstdint>
#include <memory>

#include "engine/cuda/attention/attention_limits.h"
#include "engine/cuda/attention/plain_rows/plain_rows.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// The reduction order of plain_rows (Kernel::ReductionOrder); fused_rows has 0.
constexpr int64_t kPlainOrder = 1;

class PlainAttention final : public CudaKernel<AttentionKernel> {
 public:
  PlainAttention() : CudaKernel("plain_rows") {}
  Refusal WhyUnsupported(const AttentionProblem& problem) const override { return WhyAttentionUnsupported(problem); }
  int64_t ReductionOrder(const AttentionProblem&, const KernelConfig&) const override { return kPlainOrder; }

 protected:
  cudaError_t Launch(const AttentionArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchPlainAttention(args, target);
  }
};

}  // namespace

void AddPlainAttention(KernelRegistry& registry) { registry.attention.Add(std::make_unique<PlainAttention>()); }

}  // namespace vicinal::cuda
