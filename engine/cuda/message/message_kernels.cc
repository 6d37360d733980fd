// SPDX-License-Identifier: Apache-2.0
// FeatGraph's templates as kernels: template_spmm of the operation message_reduce, template_sddmm of edge_scores.
#include <memory>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cuda/common/kernels.h"
#include "engine/cuda/message/message_reduce.h"
#include "engine/cuda/published/featgraph/edge_scores.h"
#include "engine/cuda/runtime/cuda_kernel.h"

namespace vicinal::cuda {
namespace {

// The order of evaluation of products by one thread (Kernel::ReductionOrder); those by trees have 0.
constexpr int64_t kSerialOrder = 1;

class TemplateSpmm final : public CudaWeightedKernel<MessageReduceKernel> {
 public:
  TemplateSpmm() : CudaWeightedKernel("template_spmm") {}
  Refusal WhyUnsupported(const MessageReduceProblem& problem) const override {
    if (problem.num_layers > 0 && EdgeTile(problem).Bytes(kSmallEdgeTile) > kSmallTileBytes) {
      return absl::StrCat("only networks of which ", kSmallEdgeTile, " edges' messages fit ", kSmallTileBytes,
                          " bytes, before and after their widest layers; these need ",
                          EdgeTile(problem).Bytes(kSmallEdgeTile));
    }
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  size_t ScratchBytes(const MessageReduceProblem& problem, const KernelConfig&, int) const override {
    return MessageScratch(problem).bytes();
  }

 protected:
  cudaError_t Launch(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) const override {
    return args.problem.num_layers > 0 ? LaunchEdgeNetwork(args, target, scratch)
                                       : LaunchMessageRows(args, {}, target, scratch);
  }
};

class TemplateSddmm final : public CudaKernel<EdgeScoresKernel> {
 public:
  TemplateSddmm() : CudaKernel("template_sddmm") {}
  Refusal WhyUnsupported(const EdgeScoresProblem& problem) const override {
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  // No candidate: it is there to tell what the tree is worth.
  std::vector<std::string_view> ParameterNames() const override { return {"serial"}; }
  int64_t ReductionOrder(const EdgeScoresProblem& problem, const KernelConfig& config) const override {
    return Serial(problem, config) ? kSerialOrder : 0;
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

std::unique_ptr<const MessageReduceKernel> MakeTemplateSpmm() { return std::make_unique<TemplateSpmm>(); }
std::unique_ptr<const EdgeScoresKernel> MakeTemplateSddmm() { return std::make_unique<TemplateSddmm>(); }

}  // namespace vicinal::cuda
