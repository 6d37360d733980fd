// SPDX-License-Identifier: Apache-2.0
// fused_rows as a kernel of the operation attention.
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/cuda/attention/attention_limits.h"
#include "engine/cuda/attention/fused_rows/fused_rows.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class FusedAttention final : public CudaKernel<AttentionKernel> {
 public:
  FusedAttention() : CudaKernel("fused_rows") {}
  Refusal WhyUnsupported(const AttentionProblem& problem) const override { return WhyAttentionUnsupported(problem); }
  DeclaredOrder declared_order() const override { return {"fused_softmax", 1, true}; }
  std::optional<double> PredictSeconds(const AttentionProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape);
  }

  std::vector<std::string_view> ParameterNames() const override { return {"tile_columns", "row_lanes"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::AtLeast(0), ParameterRange::OneOf({8, 16, 32, kBlockLanes})};
  }
  // Tiles narrower than the row, if their part of the sources fits the caches better; more or fewer lanes per row; a
  // block per long row.
  std::vector<KernelConfig> Candidates(const AttentionProblem& problem) const override {
    std::vector<KernelConfig> candidates = {KernelConfig()};
    const int64_t columns = problem.heads * problem.head_width;
    for (const int32_t row_lanes : {8, 16, 32, kBlockLanes}) {
      const bool in_blocks = problem.kind == AttentionKind::kGat && problem.edge_width == 0;
      if (row_lanes <= 32 || in_blocks) candidates.push_back({{0, row_lanes}});
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

}  // namespace

void AddFusedAttention(KernelRegistry& registry) { registry.attention.Add(std::make_unique<FusedAttention>()); }

}  // namespace vicinal::cuda
