// SPDX-License-Identifier: Apache-2.0
// FeatGraph's SDDMM template as a kernel of the operation edge_scores.
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/cuda/published/template_sddmm/template_sddmm.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class TemplateSddmm final : public CudaKernel<EdgeScoresKernel> {
 public:
  TemplateSddmm() : CudaKernel("template_sddmm") {}
  Refusal WhyUnsupported(const EdgeScoresProblem& problem) const override {
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  // `serial` is not a candidate: it only serves to measure the value of the tree.
  std::vector<std::string_view> ParameterNames() const override { return {"serial"}; }
  std::vector<ParameterRange> ParameterRanges() const override { return {ParameterRange::OneOf({1})}; }
  DeclaredOrder declared_order() const override { return {"tree_products", 1, true}; }
  std::vector<int64_t> OrderParameters(const EdgeScoresProblem& problem, const KernelConfig& config) const override {
    return {Serial(problem, config) ? 1 : 0};
  }

 protected:
  cudaError_t Launch(const EdgeScoresArgs& args, const LaunchTarget& target, void*) const override {
    return LaunchEdgeScores(args, !Serial(args.problem, args.config), target);
  }

 private:
  static bool Serial(const EdgeScoresProblem& problem, const KernelConfig& config) {
    return problem.dot && config.values[0] != 0;
  }
};

}  // namespace

void AddTemplateSddmm(KernelRegistry& registry) { registry.edge_scores.Add(std::make_unique<TemplateSddmm>()); }

}  // namespace vicinal::cuda
