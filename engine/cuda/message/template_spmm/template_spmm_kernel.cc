// SPDX-License-Identifier: Apache-2.0
// FeatGraph's SpMM template as a kernel of the operation message_reduce.
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
    if (problem.form == MessageForm::kGated)
      return "no gated messages (CGConv, ResGatedGraphConv), which run on a CPU only";
    if (problem.form == MessageForm::kMixture) return "no mixtures (NNConv, GMMConv), which run on a CPU only";
    if (problem.softmax) return "no sums of messages weighted by a softmax (GENConv), which run on a CPU only";
    if (problem.edge_width > 0 && problem.num_layers > 0) return "features of edges only without a message network";
    if (Refusal refusal = WhyWidthUnsupported(problem.edge_width); !refusal.empty()) return refusal;
    if (problem.num_layers > 0 && MessageTile(problem).Bytes(kSmallMessageTile) > SmallTileBytes(limits_)) {
      return absl::StrCat("only networks of which ", kSmallMessageTile, " edges' messages fit ",
                          SmallTileBytes(limits_), " bytes, before and after their widest layers; these need ",
                          MessageTile(problem).Bytes(kSmallMessageTile));
    }
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  size_t ScratchBytes(const MessageReduceProblem& problem, const KernelConfig&, int) const override {
    return MessageScratch(problem).bytes();
  }

 protected:
  cudaError_t Launch(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) const override {
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
