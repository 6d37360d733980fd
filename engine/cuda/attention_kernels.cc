// SPDX-License-Identifier: Apache-2.0
// fused_rows and plain_rows as kernels of the operation attention.
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/cuda/attention.h"
#include "engine/cuda/cuda_kernel.h"
#include "engine/cuda/kernels.h"

namespace vicinal::cuda {
namespace {

Refusal RefusesSize(const AttentionProblem& problem) {
  if (problem.kind == AttentionKind::kDot) return "only GAT's and GATv2's scores";
  if (problem.heads * problem.head_width > kMaxWidth) return absl::StrCat("only widths up to ", kMaxWidth);
  if (problem.rows >= kMaxItems || problem.edges / kAttentionUnit >= kMaxItems)
    return "only graphs of fewer than 2^31 rows and 2^38 edges";
  return {};
}

class FusedAttention final : public CudaKernel<AttentionKernel> {
 public:
  FusedAttention() : CudaKernel("fused_rows") {}
  Refusal Refuses(const AttentionProblem& problem) const override {
    if (problem.kind == AttentionKind::kGatV2 && problem.head_width > kMaxFusedHead) {
      return absl::StrCat("only GATv2 heads of up to ", kMaxFusedHead, " columns; this has ", problem.head_width);
    }
    return RefusesSize(problem);
  }
  size_t ScratchBytes(const AttentionProblem& problem, const KernelConfig&, int) const override {
    return AttentionScratch(problem).bytes;
  }

 protected:
  cudaError_t Launch(const AttentionArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchFusedAttention(args, target, scratch);
  }
};

class PlainAttention final : public CudaKernel<AttentionKernel> {
 public:
  PlainAttention() : CudaKernel("plain_rows") {}
  Refusal Refuses(const AttentionProblem& problem) const override { return RefusesSize(problem); }

 protected:
  cudaError_t Launch(const AttentionArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchPlainAttention(args, target);
  }
};

}  // namespace

std::unique_ptr<const AttentionKernel> MakeFusedAttention() { return std::make_unique<FusedAttention>(); }
std::unique_ptr<const AttentionKernel> MakePlainAttention() { return std::make_unique<PlainAttention>(); }

}  // namespace vicinal::cuda
