// SPDX-License-Identifier: Apache-2.0
// source_panels as a kernel of the operation aggregate.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/aggregate/source_panels/source_panels.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// If a smaller share of its edges is staged, a graph gains nothing from panels.
constexpr int kMinStagedPercent = 10;

class SourcePanelsKernel final : public CudaKernel<AggregateKernel> {
 public:
  explicit SourcePanelsKernel(const GpuLimits& limits) : CudaKernel("source_panels"), limits_(limits) {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (Refusal refusal = WhyWidthUnsupported(problem.width); !refusal.empty()) return refusal;
    if (problem.rows >= kMaxItems || problem.edges >= kMaxItems) return "only graphs of fewer than 2^31 rows and edges";
    return {};
  }
  std::vector<std::string_view> ParameterNames() const override { return {"warps", "uses"}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem&) const override {
    // Each candidate needs a layout. 16 warps, or staging sources of two uses, were never more than 3 % faster.
    return {{}, {{0, 32}}};
  }
  DeclaredOrder declared_order() const override { return {"staged_panels", 1}; }
  std::vector<int64_t> OrderParameters(const AggregateProblem& problem, const KernelConfig& config) const override {
    const PanelShape shape = ShapeOf(problem, config);
    // The shape on a GPU of Hopper's size. If this GPU's shape is the same, its panels and cuts are not part of the
    // order, which keeps existing orders valid.
    const PanelShape plain = PanelShapeFor(problem, config.values[0], config.values[1], GpuLimits());
    if (shape.places == plain.places && shape.multiprocessors == plain.multiprocessors)
      return {shape.groups, shape.warps, shape.uses};
    return {shape.groups, shape.warps, shape.uses, shape.places, shape.multiprocessors};
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape, HasManyLongRows(shape) ? 0.9 : 1.2);
  }
  std::string LayoutName(const AggregateProblem& problem, const KernelConfig& config) const override {
    const PanelShape shape = ShapeOf(problem, config);
    return absl::StrCat("panels of ", shape.places, " x ", shape.pitch(), " bytes, ", shape.rows(), " rows, ",
                        shape.uses, " uses");
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem& problem, const KernelConfig& config,
                                          LayoutSource& source) const override {
    VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, source.OnHost());
    const PanelShape shape = ShapeOf(problem, config);
    const int staged = StagedPercent(adjacency, shape);
    if (staged < kMinStagedPercent) {
      return FailedPrecondition("KERNEL_REFUSED",
                                absl::StrCat("only ", staged, " % of the edges have a source that ", shape.rows(),
                                             " rows together read ", shape.uses, " times"));
    }
    const SourcePanels panels = MakePanels(adjacency, shape, source.pool());
    const auto entries = static_cast<int64_t>(panels.stream.size());
    if (entries > SourcePanelsLayout::MaxEntries(adjacency.rows, adjacency.nnz)) {
      return FailedPrecondition("KERNEL_REFUSED", absl::StrCat("panels would take ", entries, " entries for ",
                                                               adjacency.nnz, " edges: cells have too few"));
    }
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, SourcePanelsLayout::Upload(panels, source.device()));
    return layout;
  }
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override {
    return SourcePanelsLayout::BytesBound(rows, edges);
  }
  bool whole_graph_only() const override { return true; }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig& config, int) const override {
    return SourcePanelsScratchBytes(problem, ShapeOf(problem, config));
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchSourcePanels(args, static_cast<const SourcePanelsLayout&>(*args.layout),
                              ShapeOf(args.problem, args.config), target, scratch);
  }

 private:
  PanelShape ShapeOf(const AggregateProblem& problem, const KernelConfig& config) const {
    return PanelShapeFor(problem, config.values[0], config.values[1], limits_);
  }

  const GpuLimits limits_;
};

}  // namespace

void AddSourcePanels(KernelRegistry& registry, const GpuLimits& limits) {
  registry.aggregate.Add(std::make_unique<SourcePanelsKernel>(limits));
}

}  // namespace vicinal::cuda
