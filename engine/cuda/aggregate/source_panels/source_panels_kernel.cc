// SPDX-License-Identifier: Apache-2.0
// source_panels as a kernel of the operation aggregate.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/aggregate/source_panels/detail/source_panels_form.h"
#include "engine/cuda/aggregate/source_panels/source_panels.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/cuda/runtime/row_borders.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/layout_codec.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// If a smaller share of its edges is staged, a graph gains nothing from panels.
constexpr int kMinStagedPercent = 10;

// The name of a layout of that shape. Pieces are cut for a number of multiprocessors, which is that of the device.
std::string NameOf(const PanelShape& shape) {
  return absl::StrCat("panels of ", shape.places, " x ", shape.pitch(), " bytes, ", shape.rows(), " rows, ", shape.uses,
                      " uses");
}

// The shape of that name, if it has one.
std::optional<PanelShape> ShapeOfName(std::string_view name) {
  int places = 0, pitch = 0, rows = 0, uses = 0;
  const bool read = std::sscanf(std::string(name).c_str(), "panels of %d x %d bytes, %d rows, %d uses", &places, &pitch,
                                &rows, &uses) == 4;
  if (!read || places < 8 || pitch < 64 || pitch > 512 || 512 % pitch != 0 || rows % kSlots != 0) return std::nullopt;
  PanelShape shape;
  shape.warps = rows / kSlots;
  shape.groups = 512 / pitch;
  shape.places = places;
  shape.uses = uses;
  const bool fits = (shape.warps == 16 || shape.warps == 32) && places % 4 == 0 && places <= 65536 / pitch;
  return fits && name == NameOf(shape) ? std::optional(shape) : std::nullopt;
}

class SourcePanelsKernel final : public CudaKernel<AggregateKernel>, public LayoutCodec {
 public:
  explicit SourcePanelsKernel(const GpuLimits& limits) : CudaKernel("source_panels"), limits_(limits) {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (Refusal refusal = WhyWidthUnsupported(problem.width); !refusal.empty()) return refusal;
    if (problem.rows >= kMaxItems || problem.edges >= kMaxItems) return "only graphs of fewer than 2^31 rows and edges";
    return {};
  }
  std::vector<std::string_view> ParameterNames() const override { return {"warps", "uses"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::OneOf({16, 32}), ParameterRange::Between(0, kMaxUses)};
  }
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
    return NameOf(ShapeOf(problem, config));
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
  int64_t layout_version() const override { return 1; }
  FlatLayout Flatten(const AdjacencyLayout& layout) const override {
    return static_cast<const SourcePanelsLayout&>(layout).Flatten();
  }
  StatusOr<AdjacencyLayoutRef> Unflatten(std::string_view name, const LayoutInput& input,
                                         LayoutSource& source) const override {
    const std::optional<PanelShape> shape = ShapeOfName(name);
    if (!shape) return input.Bad("this kernel has no layout of that name");
    VICINAL_ASSIGN_OR_RETURN(const RowBorders borders, RowBorders::Of(source));
    CsrView adjacency = borders.view();
    adjacency.value = source.adjacency().value;
    VICINAL_ASSIGN_OR_RETURN(const SourcePanels panels, ReadSourcePanels(input, adjacency, *shape, source.pool()));
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, SourcePanelsLayout::Upload(panels, source.device()));
    return layout;
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
