// SPDX-License-Identifier: Apache-2.0
// Base class of neighbor_group and neighbor_group_atomics as kernels of the operation aggregate: parameters, candidates
// and layouts.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_GROUP_KERNEL_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_GROUP_KERNEL_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cuda/common/gpu_limits.h"
#include "engine/cuda/published/groups/neighbor_group_layout.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/group_model.h"

namespace vicinal::cuda {

class GroupKernel : public CudaKernel<AggregateKernel> {
 public:
  GroupKernel(std::string name, const GpuLimits& limits) : CudaKernel(std::move(name)), limits_(limits) {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override;
  std::vector<std::string_view> ParameterNames() const override { return {"gs", "dw", "tpb"}; }
  std::vector<ParameterRange> ParameterRanges() const override;
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override;
  std::string LayoutName(const AggregateProblem& problem, const KernelConfig& config) const override;
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem& problem, const KernelConfig& config,
                                          LayoutSource& source) const override;
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override;
  bool whole_graph_only() const override { return true; }

 protected:
  // `config` with defaults for unset values, and every value clamped to its range.
  static NeighborGroupConfig Resolve(const AggregateProblem& problem, const KernelConfig& config);
  static NeighborGroups GroupsOf(const AggregateArgs& args) {
    return static_cast<const NeighborGroupLayout*>(args.layout)->view();
  }
  // Of a block: every GPU allows kMaxGroupThreads, unless its multiprocessors have fewer.
  int MostThreads() const { return std::min(kMaxGroupThreads, limits_.multiprocessor_threads); }
  // The published model within this GPU's limits, for a graph with `rows` rows and `edges` edges.
  // computation_capability is a resident thread's even share of the work.
  GroupModel ModelOf(int64_t rows, int64_t edges, int64_t width) const;
  static GroupSetting SettingOf(const NeighborGroupConfig& config);

 private:
  const GpuLimits limits_;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_GROUP_KERNEL_H_
