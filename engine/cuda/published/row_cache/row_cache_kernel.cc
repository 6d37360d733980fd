// SPDX-License-Identifier: Apache-2.0
// row_cache as a kernel of the operation aggregate.
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/cuda/published/row_cache/row_cache.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class RowCacheKernel final : public CudaKernel<AggregateKernel> {
 public:
  RowCacheKernel() : CudaKernel("row_cache") {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (problem.storage != Storage::kFloat32) return "only float32 rows";
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  std::vector<std::string_view> ParameterNames() const override { return {"cf", "uncached"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::OneOf({1, 2, 4, 8}), ParameterRange::OneOf({1})};
  }
  // Not candidates: `uncached`, which only serves to measure the value of caching and merging, and CF = 8, which with
  // 256 and 512 columns took 1.13 to 1.96 times as long as the best (H100, five graphs).
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    std::vector<KernelConfig> candidates = {KernelConfig()};
    const int standard = RowCacheCoarsening(problem.width, 0);
    for (const int coarsening : {1, 2, 4}) {
      if (problem.width > 32 && coarsening != standard) candidates.push_back({{coarsening}});
    }
    return candidates;
  }
  DeclaredOrder declared_order() const override { return {"whole_rows", 1}; }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape, shape.edges < kSmallGpuGraphEdges ? 0.9 : 1.6);
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void*) const override {
    const KernelConfig& config = args.config;
    return LaunchRowCache(args, {RowCacheCoarsening(args.problem.width, config.values[0]), config.values[1] == 0},
                          target);
  }
};

}  // namespace

void AddRowCache(KernelRegistry& registry) { registry.aggregate.Add(std::make_unique<RowCacheKernel>()); }

}  // namespace vicinal::cuda
