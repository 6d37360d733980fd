// SPDX-License-Identifier: Apache-2.0
// neighbor_group as a kernel of the operation aggregate.
#include <cstdint>
#include <memory>

#include "engine/cuda/published/groups/group_kernel.h"
#include "engine/cuda/published/neighbor_group/neighbor_group.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// First of the reduction orders of this kernel (Kernel::ReductionOrder).
constexpr int64_t kNeighborGroupOrder = int64_t{1} << 21;

class NeighborGroupKernel final : public GroupKernel {
 public:
  NeighborGroupKernel() : GroupKernel("neighbor_group") {}
  // Where groups end and where they meet is what decides; how many lanes share their columns does not.
  int64_t ReductionOrder(const AggregateProblem& problem, const KernelConfig& config) const override {
    const NeighborGroupConfig resolved = Resolve(problem, config);
    return kNeighborGroupOrder + int64_t{resolved.group_size} * (kMaxThreads + 1) + resolved.groups_per_block();
  }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig& config, int) const override {
    return NeighborGroupScratch(problem, Resolve(problem, config));
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchNeighborGroup(args, Resolve(args.problem, args.config), GroupsOf(args), CarriedSums(), target,
                               scratch);
  }
};

}  // namespace

void AddNeighborGroup(KernelRegistry& registry) { registry.aggregate.Add(std::make_unique<NeighborGroupKernel>()); }

}  // namespace vicinal::cuda
