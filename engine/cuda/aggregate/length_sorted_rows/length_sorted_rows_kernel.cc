// SPDX-License-Identifier: Apache-2.0
// length_sorted_rows as a kernel of the operation aggregate.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cuda/aggregate/length_sorted_rows/length_sorted_rows.h"
#include "engine/cuda/aggregate/rows/row_work_form.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/cuda/runtime/row_borders.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// Sort window for graphs in which nearby rows share sources.
constexpr int32_t kNearRows = 4096;

LengthSortedConfig ConfigOf(const KernelConfig& config) {
  LengthSortedConfig resolved;
  resolved.tile = config.values[0];
  if (config.values[1] > 0) resolved.part = std::clamp<int64_t>(config.values[1], kMinPart, kMaxPart);
  resolved.window = std::max(0, config.values[2]);
  resolved.scale_first = config.values[3] != 0;
  return resolved;
}

// A power of two near a tenth of the square root of the edges: long enough that rows restart rarely, short enough for
// many parts. On an H200, the fastest or close to it: 128 for 1.6 M edges, 256 for 10 M, 512 and 1024 for 48 M to 115
// M.
int32_t PartFor(int64_t edges) {
  const double root = std::sqrt(static_cast<double>(edges)) / 10.0;
  return 1 << std::clamp(static_cast<int>(std::lround(std::log2(std::max(root, 1.0)))), 7, 10);
}

class LengthSortedRowsKernel final : public CudaKernel<AggregateKernel>, public LayoutCodec {
 public:
  LengthSortedRowsKernel() : CudaKernel("length_sorted_rows") {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (Refusal refusal = WhyWidthUnsupported(problem.width); !refusal.empty()) return refusal;
    if (problem.rows >= kMaxItems || problem.edges / kMinPart >= kMaxItems) {
      return "only graphs of fewer than 2^31 rows and 2^37 edges";
    }
    return {};
  }
  std::vector<std::string_view> ParameterNames() const override { return {"tile", "part", "window", "scale_first"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::AtLeast(0), ParameterRange::Between(kMinPart, kMaxPart), ParameterRange::AtLeast(0),
            ParameterRange::OneOf({1})};
  }
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    constexpr int64_t kMinTrialEdges = int64_t{1} << 18, kFullTrialEdges = int64_t{1} << 22;
    // Short rows and small graphs gain nothing from parameters, so one candidate is enough.
    if (problem.edges < kMinTrialEdges || problem.edges < 8 * problem.rows) return {{}};
    const bool few = problem.edges < kFullTrialEdges, scales = ScalesFirst(problem, {.scale_first = true});
    const bool wide = problem.width > 32 && problem.storage == Storage::kFloat32;
    const int32_t part = PartFor(problem.edges), scale = scales ? 1 : 0;
    std::vector<KernelConfig> candidates = {{}, {{0, part, 0, scale}}};
    if (wide) candidates.push_back({{64, part, 0, scale}});
    // For communities with adjacent ids. Small graphs have few of these, so narrow tiles are enough.
    if (problem.rows > kNearRows) candidates.push_back({{0, part, kNearRows, scale}});
    if (problem.rows > kNearRows && wide && !few) candidates.push_back({{64, part, kNearRows, scale}});
    if (!few) return candidates;
    // Small graphs with few, very long rows were up to 8 % faster with parts of 256, as in the first candidate. For
    // them, copying the sources takes a large share of the time.
    if (wide) candidates.push_back({{64, 256, 0, 0}});
    if (scales) candidates.push_back({{0, part, 0, 0}});
    return candidates;
  }
  DeclaredOrder declared_order() const override { return {"equal_parts", 1}; }
  std::vector<int64_t> OrderParameters(const AggregateProblem& problem, const KernelConfig& config) const override {
    const LengthSortedConfig resolved = ConfigOf(config);
    return {resolved.part, ScalesFirst(problem, resolved) ? 1 : 0};
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape, HasManyLongRows(shape) ? 0.7 : 1.5);
  }
  std::string LayoutName(const AggregateProblem&, const KernelConfig& config) const override {
    return NameOf(ConfigOf(config));
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem&, const KernelConfig& config,
                                          LayoutSource& source) const override {
    VICINAL_ASSIGN_OR_RETURN(const RowBorders borders, RowBorders::Of(source));
    const RowWork work = MakeLengthSortedWork(borders.view(), ConfigOf(config), source.pool());
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, RowWorkLayout::Upload(work, source.device()));
    return layout;
  }
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override { return LengthSortedBytesBound(rows, edges); }
  int64_t layout_version() const override { return 1; }
  FlatLayout Flatten(const AdjacencyLayout& layout) const override {
    return FlattenRowWork(static_cast<const RowWorkLayout&>(layout));
  }
  StatusOr<AdjacencyLayoutRef> Unflatten(std::string_view name, const LayoutInput& input,
                                         LayoutSource& source) const override {
    LengthSortedConfig config;
    const bool read = std::sscanf(std::string(name).c_str(), "parts of %" SCNd64 ", windows of %" SCNd64, &config.part,
                                  &config.window) == 2;
    if (!read || config.part < kMinPart || config.part > kMaxPart || name != NameOf(config)) {
      return input.Bad("this kernel has no layout of that name");
    }
    VICINAL_ASSIGN_OR_RETURN(const RowBorders borders, RowBorders::Of(source));
    VICINAL_ASSIGN_OR_RETURN(const RowWork work,
                             ReadRowWork(input, borders.view(), {config.part, config.part, PartBegin}));
    if (work.num_blocks != 0) return input.Bad("it has blocks");
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, RowWorkLayout::Upload(work, source.device()));
    return layout;
  }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig& config, int) const override {
    return LengthSortedScratchBytes(problem, ConfigOf(config));
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchLengthSortedRows(args, static_cast<const RowWorkLayout*>(args.layout), ConfigOf(args.config), target,
                                  scratch);
  }

 private:
  static std::string NameOf(const LengthSortedConfig& config) {
    return absl::StrCat("parts of ", config.part, ", windows of ", config.window);
  }
};

}  // namespace

void AddLengthSortedRows(KernelRegistry& registry) {
  registry.aggregate.Add(std::make_unique<LengthSortedRowsKernel>());
}

}  // namespace vicinal::cuda
