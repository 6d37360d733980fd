// SPDX-License-Identifier: Apache-2.0
// FeatGraph's SpMM template as a kernel of the operation message_reduce.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/cuda/message/template_spmm/template_spmm.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class TemplateSpmm final : public CudaWeightedKernel<MessageReduceKernel> {
 public:
  explicit TemplateSpmm(const GpuLimits& limits) : CudaWeightedKernel("template_spmm"), limits_(limits) {}
  DeclaredOrder declared_order() const override { return {"message_rows", 1, true}; }
  Refusal WhyUnsupported(const MessageReduceProblem& problem) const override {
    if (problem.num_layers > 0 && problem.form != MessageForm::kMixture) {
      if (problem.edge_width > 0) return "features of edges only without a message network, or mixed by it";
      if (HasForm(problem))
        return "a message network only of messages that are neither gated nor weighted by a softmax";
    }
    if (Refusal refusal = WhyWidthUnsupported(std::max(problem.edge_width, problem.source_width())); !refusal.empty())
      return refusal;
    if ((problem.num_layers > 0 || HasForm(problem)) &&
        MessageTile(problem).Bytes(kSmallMessageTile) > SmallTileBytes(limits_)) {
      return absl::StrCat("only messages of which ", kSmallMessageTile, " edges' features, or inputs and outputs of a ",
                          "network's widest layers, fit ", SmallTileBytes(limits_), " bytes; these need ",
                          MessageTile(problem).Bytes(kSmallMessageTile));
    }
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  size_t ScratchBytes(const MessageReduceProblem& problem, const KernelConfig&, int) const override {
    return MessageScratch(problem).bytes();
  }

 protected:
  cudaError_t Launch(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) const override {
    if (HasForm(args.problem)) return LaunchEdgeMessages(args, target, scratch);
    if (args.problem.num_layers > 0) return LaunchMessageMlp(args, target, scratch);
    return args.problem.edge_width > 0 ? LaunchFeaturedMessages(args, target, scratch)
                                       : LaunchMessageRows(args, {}, target, scratch);
  }

 private:
  const GpuLimits limits_;
};

}  // namespace

void AddTemplateSpmm(KernelRegistry& registry, const GpuLimits& limits) {
  registry.message_reduce.Add(std::make_unique<TemplateSpmm>(limits));
}

}  // namespace vicinal::cuda
