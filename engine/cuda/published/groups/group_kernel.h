// SPDX-License-Identifier: Apache-2.0
// Base class of neighbor_group and neighbor_group_atomics as kernels of the operation aggregate: parameters, candidates
// and layouts.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_GROUP_KERNEL_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_GROUP_KERNEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cuda/published/groups/neighbor_group_layout.h"
#include "engine/cuda/runtime/cuda_kernel.h"

namespace vicinal::cuda {

class GroupKernel : public CudaKernel<AggregateKernel> {
 public:
  using CudaKernel::CudaKernel;
  Refusal WhyUnsupported(const AggregateProblem& problem) const override;
  std::vector<std::string_view> ParameterNames() const override { return {"gs", "dw", "tpb"}; }
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
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_GROUP_KERNEL_H_
