// SPDX-License-Identifier: Apache-2.0
// neighbor_group as a kernel of the operation aggregate.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/cuda/published/groups/group_kernel.h"
#include "engine/cuda/published/neighbor_group/neighbor_group.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// GNNAdvisor's model of a setting's latency (Wang et al., OSDI'21, section 7.1, Eq. 2), in arbitrary units. Eq. 3 and
// 4, the limits per thread and of shared memory, are in GroupKernel::Candidates.
double GroupLatency(const WorkShape& shape, double width, double gs, double dw, double tpb) {
  constexpr double kMaxThreads = 1024.0;
  constexpr double kAlpha = 0.2;  // the paper gives 0.15 to 0.3
  const double edges = std::max<double>(1.0, static_cast<double>(shape.edges));
  const double workers = std::max(1.0, std::abs(dw - width / 3.0));
  const double threads = std::max(1.0, std::abs(tpb - std::sqrt(kMaxThreads)));
  const double imbalance = 1.0 + std::abs(gs - kAlpha * static_cast<double>(shape.rows) / edges);
  return edges * width / (gs * workers * threads) * imbalance;
}

// The modelled latency relative to a medium setting. The default setting counts as medium.
double GroupFactor(const WorkShape& shape, double width, const KernelConfig& config) {
  const double gs = config.values[0], dw = config.values[1], tpb = config.values[2];
  if (gs <= 0 || dw <= 0 || tpb <= 0) return 1.0;
  const double middle = GroupLatency(shape, width, 32.0, 16.0, 128.0);
  return std::clamp(GroupLatency(shape, width, gs, dw, tpb) / middle, 0.8, 1.25);
}

class NeighborGroupKernel final : public GroupKernel {
 public:
  NeighborGroupKernel() : GroupKernel("neighbor_group") {}
  // The order depends on where groups end and which share a block, but not on how lanes share the columns.
  DeclaredOrder declared_order() const override { return {"edge_groups", 1}; }
  std::vector<int64_t> OrderParameters(const AggregateProblem& problem, const KernelConfig& config) const override {
    const NeighborGroupConfig resolved = Resolve(problem, config);
    return {resolved.group_size, resolved.groups_per_block()};
  }
  // The published model ranks settings; it changes a prediction by at most a quarter.
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig& config,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape, GroupFactor(shape, static_cast<double>(problem.width), config));
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
