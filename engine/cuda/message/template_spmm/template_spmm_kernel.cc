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
    const MessageMaker maker = MakerOf(problem);
    if (maker == MessageMaker::kNetwork) {
      if (problem.edge_width > 0) return "features of edges only without a message network, or mixed by it";
      if (problem.softmax || problem.form == MessageForm::kGated)
        return "a message network only of messages that are neither gated nor weighted by a softmax";
    }
    const int64_t columns = std::max(problem.edge_width, problem.source_width());
    const int64_t widest = std::max({columns, problem.out_width(), problem.gaussians * problem.edge_width});
    if (Refusal refusal = WhyWidthUnsupported(widest); !refusal.empty()) return refusal;
    if (Refusal refusal = WhyTooWide(problem, maker); !refusal.empty()) return refusal;
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  size_t ScratchBytes(const MessageReduceProblem& problem, const KernelConfig&, int) const override {
    return MessageScratch(problem).bytes();
  }

 protected:
  cudaError_t Launch(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) const override {
    switch (MakerOf(args.problem)) {
      case MessageMaker::kRows:
        return LaunchMessageRows(args, {}, target, scratch);
      case MessageMaker::kEdgeRows:
        return LaunchEdgeRows(args, target, scratch);
      case MessageMaker::kNetwork:
        return LaunchMessageMlp(args, target, scratch);
      case MessageMaker::kMixture:
        return LaunchEdgeMixtures(args, target, scratch);
      case MessageMaker::kOuter:
        return LaunchEdgeOuter(args, target, scratch);
    }
    return cudaErrorNotSupported;
  }

 private:
  // Whether the fewest edges that are processed at a time fit the shared memory.
  Refusal WhyTooWide(const MessageReduceProblem& problem, MessageMaker maker) const {
    if (maker == MessageMaker::kOuter && OuterTiles(problem) > kMaxOuterTiles) {
      return absl::StrCat("only up to ", kMaxOuterTiles, " tiles of ", kFeaturedTile, " columns and ", kOuterParts,
                          " coefficients; this is ", OuterTiles(problem));
    }
    int64_t bytes = 0, most = 0;
    if (maker == MessageMaker::kNetwork)
      bytes = MessageTile(problem).Bytes(kSmallMessageTile), most = SmallTileBytes(limits_);
    if (maker == MessageMaker::kMixture)
      bytes = MixtureMemory(problem).Bytes(kSmallMixtureStep), most = SmallMixtureBytes(limits_);
    if (bytes <= most) return "";
    return absl::StrCat(
        "only messages of which 16 edges' features, or inputs and outputs of a network's widest layers, ", "fit ", most,
        " bytes; these need ", bytes);
  }

  const GpuLimits limits_;
};

}  // namespace

void AddTemplateSpmm(KernelRegistry& registry, const GpuLimits& limits) {
  registry.message_reduce.Add(std::make_unique<TemplateSpmm>(limits));
}

}  // namespace vicinal::cuda
