// SPDX-License-Identifier: Apache-2.0
// neighbor_group_atomics as a kernel of the operation aggregate.
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/cuda/published/groups/group_kernel.h"
#include "engine/cuda/published/neighbor_group_atomics/neighbor_group_atomics.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class NeighborGroupAtomicsKernel final : public GroupKernel {
 public:
  explicit NeighborGroupAtomicsKernel(const GpuLimits& limits) : GroupKernel("neighbor_group_atomics", limits) {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (problem.reduce != Reduce::kSum && problem.reduce != Reduce::kMean) return "only sum and mean";
    return GroupKernel::WhyUnsupported(problem);
  }
  // `apart` is not a candidate: it only serves to measure the value of the block-level optimisations.
  std::vector<std::string_view> ParameterNames() const override { return {"gs", "dw", "tpb", "apart"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    std::vector<ParameterRange> ranges = GroupKernel::ParameterRanges();
    ranges.push_back(ParameterRange::OneOf({1}));
    return ranges;
  }
  DeclaredOrder declared_order() const override { return {"atomic_additions", 1}; }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape);
  }
  bool deterministic(const KernelConfig&) const override { return false; }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig&, int) const override {
    return NeighborGroupAtomicsScratch(problem);
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchNeighborGroupAtomics(args, Resolve(args.problem, args.config), GroupsOf(args),
                                      args.config.values[3] != 0, target, scratch);
  }
};

}  // namespace

void AddNeighborGroupAtomics(KernelRegistry& registry, const GpuLimits& limits) {
  registry.aggregate.Add(std::make_unique<NeighborGroupAtomicsKernel>(limits));
}

}  // namespace vicinal::cuda
