// SPDX-License-Identifier: Apache-2.0
// dense_tiles as a kernel of the operation aggregate.
#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/aggregate/dense_tiles/dense_tiles.h"
#include "engine/cuda/aggregate/dense_tiles/detail/dense_tiles_form.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/cuda/runtime/row_borders.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// Rows are faster for tiles with fewer edges. Measured on an H200 at width 64: a tile takes as long as about 150 rows.
constexpr int32_t kDenseEdges = 128;

class DenseTilesKernel final : public CudaKernel<AggregateKernel>, public LayoutCodec {
 public:
  explicit DenseTilesKernel(const GpuLimits& limits) : CudaKernel("dense_tiles"), limits_(limits) {}
  Refusal WhyUnfit() const override {
    return limits_.wgmma() ? Refusal() : "its matrix instructions (wgmma) exist on compute capability 9.0 alone";
  }
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (Refusal refusal = WhyUnfit(); !refusal.empty()) return refusal;
    if (problem.reduce != Reduce::kSum && problem.reduce != Reduce::kMean) return "only sum and mean";
    if (problem.weighted && !problem.source_scaled) return "only weights of 1, or of the sources";
    return WhySizeUnsupported(problem.rows, problem.edges, problem.width);
  }
  std::vector<std::string_view> ParameterNames() const override { return {"threshold"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::Between(kMinThreshold, kTileRows * kTileCols)};
  }
  std::vector<KernelConfig> Candidates(const AggregateProblem&) const override {
    return {{}, {{kMinThreshold}}, {{kDenseEdges * 2}}};
  }
  DeclaredOrder declared_order() const override { return {"tile_products", 1}; }
  std::vector<int64_t> OrderParameters(const AggregateProblem&, const KernelConfig& config) const override {
    return {Threshold(config)};
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape, HasManyLongRows(shape) ? 0.9 : 1.2);
  }
  std::string LayoutName(const AggregateProblem&, const KernelConfig& config) const override {
    return NameOf(Threshold(config));
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem&, const KernelConfig& config,
                                          LayoutSource& source) const override {
    VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, source.OnHost());
    const HostDenseTiles tiles = FindDenseTiles(adjacency, Threshold(config), source.pool());
    if (tiles.tile_col.empty()) {
      return FailedPrecondition("KERNEL_REFUSED", absl::StrCat("no ", kTileRows, " targets and ", kTileCols,
                                                               " sources have ", Threshold(config), " edges"));
    }
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, DenseTilesLayout::Upload(tiles, adjacency, source));
    return layout;
  }
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override {
    return DenseTilesLayout::BytesBound(rows, edges, kMinThreshold);
  }
  int64_t layout_version() const override { return 1; }
  FlatLayout Flatten(const AdjacencyLayout& layout) const override {
    return FlattenDenseTiles(static_cast<const DenseTilesLayout&>(layout));
  }
  StatusOr<AdjacencyLayoutRef> Unflatten(std::string_view name, const LayoutInput& input,
                                         LayoutSource& source) const override {
    int32_t threshold = 0;
    const bool read = std::sscanf(std::string(name).c_str(), "tiles of %" SCNd32, &threshold) == 1;
    if (!read || threshold < kMinThreshold || name != NameOf(threshold)) {
      return input.Bad("this kernel has no layout of that name");
    }
    VICINAL_ASSIGN_OR_RETURN(const HostDenseTiles tiles, ReadDenseTiles(input, source.adjacency(), threshold));
    VICINAL_ASSIGN_OR_RETURN(const RowBorders borders, RowBorders::Of(source));
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, DenseTilesLayout::Upload(tiles, borders.view(), source));
    return layout;
  }
  bool whole_graph_only() const override { return true; }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig&, int) const override {
    return DenseTilesScratchBytes(problem);
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchDenseTiles(args, static_cast<const DenseTilesLayout&>(*args.layout), target, scratch);
  }

 private:
  const GpuLimits limits_;
  // LayoutBytesBound relies on it: a tile takes 1 KiB, however few edges it has.
  static constexpr int32_t kMinThreshold = kDenseEdges / 2;
  static std::string NameOf(int32_t threshold) { return absl::StrCat("tiles of ", threshold); }
  static int32_t Threshold(const KernelConfig& config) {
    return config.values[0] > 0 ? std::max(config.values[0], kMinThreshold) : kDenseEdges;
  }
};

}  // namespace

void AddDenseTiles(KernelRegistry& registry, const GpuLimits& limits) {
  registry.aggregate.Add(std::make_unique<DenseTilesKernel>(limits));
}

}  // namespace vicinal::cuda
