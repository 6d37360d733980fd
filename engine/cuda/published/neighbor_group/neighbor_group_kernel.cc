// SPDX-License-Identifier: Apache-2.0
// neighbor_group as a kernel of the operation aggregate.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/cuda/published/groups/group_kernel.h"
#include "engine/cuda/published/neighbor_group/neighbor_group.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/group_model.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// The model's latency of a setting relative to a medium one. The default setting counts as medium.
double GroupFactor(const GroupModel& model, const KernelConfig& config) {
  const double gs = config.values[0], dw = config.values[1], tpb = config.values[2];
  if (gs <= 0 || dw <= 0 || tpb <= 0) return 1.0;
  const double middle = model.Latency({32.0, 16.0, 128.0});
  return std::clamp(model.Latency({gs, dw, tpb}) / middle, 0.8, 1.25);
}

class NeighborGroupKernel final : public GroupKernel {
 public:
  explicit NeighborGroupKernel(const GpuLimits& limits) : GroupKernel("neighbor_group", limits) {}
  // The order depends on where groups end and which share a block, but not on how lanes share the columns.
  DeclaredOrder declared_order() const override { return {"edge_groups", 1}; }
  std::vector<int64_t> OrderParameters(const AggregateProblem& problem, const KernelConfig& config) const override {
    const NeighborGroupConfig resolved = Resolve(problem, config);
    return {resolved.group_size, resolved.groups_per_block()};
  }
  // The published model ranks settings; it changes a prediction by at most a quarter.
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig& config,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape, GroupFactor(ModelOf(problem, shape), config));
  }
  // The paper's ranges. Larger blocks than the device's are left out.
  std::vector<std::vector<int32_t>> SearchSpace(const AggregateProblem&) const override {
    std::vector<int32_t> threads;
    for (int32_t tpb = 32; tpb <= MostThreads(); tpb *= 2) threads.push_back(tpb);
    return {{4, 8, 16, 32, 64, 128, 256, 512, 1024}, {1, 2, 4, 8, 16, 32}, std::move(threads)};
  }
  std::optional<double> ModelLatency(const AggregateProblem& problem, const KernelConfig& config,
                                     const WorkShape& shape) const override {
    const GroupModel model = ModelOf(problem, shape);
    const GroupSetting setting = SettingOf(problem, config);
    return model.Fits(setting) ? std::optional<double>(model.Latency(setting)) : std::nullopt;
  }
  double LaneFloats(const AggregateProblem& problem, const KernelConfig& config) const override {
    const GroupSetting setting = SettingOf(problem, config);
    return setting.gs * static_cast<double>(problem.width) / setting.dw;
  }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig& config, int) const override {
    return NeighborGroupScratch(problem, Resolve(problem, config));
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchNeighborGroup(args, Resolve(args.problem, args.config), GroupsOf(args), CarriedSums(), target,
                               scratch);
  }

 private:
  GroupModel ModelOf(const AggregateProblem& problem, const WorkShape& shape) const {
    GroupModel model = GroupKernel::ModelOf(shape.rows, shape.edges, problem.width);
    model.degree_deviation = shape.degree_deviation;
    model.lane_floats = shape.lane_floats;
    return model;
  }
  static GroupSetting SettingOf(const AggregateProblem& problem, const KernelConfig& config) {
    return GroupKernel::SettingOf(Resolve(problem, config));
  }
};

}  // namespace

void AddNeighborGroup(KernelRegistry& registry, const GpuLimits& limits) {
  registry.aggregate.Add(std::make_unique<NeighborGroupKernel>(limits));
}

}  // namespace vicinal::cuda
