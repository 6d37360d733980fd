// SPDX-License-Identifier: Apache-2.0
// fused_rows and plain_rows as kernels of the operation attention.
#include <memory>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cuda/attention/attention.h"
#include "engine/cuda/common/kernels.h"
#include "engine/cuda/runtime/cuda_kernel.h"

namespace vicinal::cuda {
namespace {

// The order of evaluation of plain_rows (Kernel::ReductionOrder); fused_rows has 0.
constexpr int64_t kPlainOrder = 1;

Refusal WhySizeUnsupported(const AttentionProblem& problem) {
  if (problem.heads * problem.head_width > kMaxWidth) return absl::StrCat("only widths up to ", kMaxWidth);
  if (problem.rows >= kMaxItems || problem.edges / kAttentionUnit >= kMaxItems)
    return "only graphs of fewer than 2^31 rows and 2^38 edges";
  return {};
}

class FusedAttention final : public CudaKernel<AttentionKernel> {
 public:
  FusedAttention() : CudaKernel("fused_rows") {}
  Refusal WhyUnsupported(const AttentionProblem& problem) const override { return WhySizeUnsupported(problem); }

  std::vector<std::string_view> ParameterNames() const override { return {"tile_columns", "row_lanes"}; }
  // Narrower tiles than the row where their part of the sources fits the caches better; more or fewer lanes to a row,
  // or a block to a long one.
  std::vector<KernelConfig> Candidates(const AttentionProblem& problem) const override {
    std::vector<KernelConfig> candidates = {KernelConfig()};
    const int64_t columns = problem.heads * problem.head_width;
    for (const int32_t row_lanes : {8, 16, 32, kBlockLanes}) {
      if (row_lanes <= 32 || problem.kind == AttentionKind::kGat) candidates.push_back({{0, row_lanes}});
    }
    for (const int32_t tile : {64, 128}) {
      if (columns > tile) candidates.push_back({{tile, 32}});
    }
    return candidates;
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
  Refusal WhyUnsupported(const AttentionProblem& problem) const override { return WhySizeUnsupported(problem); }
  int64_t ReductionOrder(const AttentionProblem&, const KernelConfig&) const override { return kPlainOrder; }

 protected:
  cudaError_t Launch(const AttentionArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchPlainAttention(args, target);
  }
};

}  // namespace

std::unique_ptr<const AttentionKernel> MakeFusedAttention() { return std::make_unique<FusedAttention>(); }
std::unique_ptr<const AttentionKernel> MakePlainAttention() { return std::make_unique<PlainAttention>(); }

}  // namespace vicinal::cuda
