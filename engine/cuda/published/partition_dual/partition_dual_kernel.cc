// SPDX-License-Identifier: Apache-2.0
// partition_dual as a kernel of the operation aggregate. Decides which blocks are dense, and builds the layout.
//
// The paper compares a block's density with theta = T_full * p / T_selective, at which both modes take the same time.
// Here a dense block costs whole tiles of 128 x 64 pairs, so theta is a share of these. It is a parameter, in
// thousandths. Tuning tries the default, and the theta that was measured on this device for problems of that width and
// kind of weights (detail/measured_theta.h).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/mutex.h"
#include "engine/cuda/published/partition_dual/detail/edge_blocks.h"
#include "engine/cuda/published/partition_dual/detail/measured_theta.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

enum Parameter { kTheta, kParts, kSelective };

// The largest that DefaultNeighborGroup chooses.
constexpr int kLargestDefaultGroup = 64;
// Above 1,000 nothing is dense.
constexpr int kDefaultTheta = 80, kMinTheta = 5, kNothingDense = 1001;
// Limits the counts per pair of blocks.
constexpr int kMaxParts = 1024;
// Nodes per part of the partition that tuning tries: as METIS makes them.
constexpr int64_t kPartNodes = 4096;

int ThetaOf(const KernelConfig& config) {
  const int theta = config.values[kTheta];
  return theta > 0 ? std::clamp(theta, kMinTheta, kNothingDense) : kDefaultTheta;
}
int PartsOf(const KernelConfig& config) { return std::clamp(config.values[kParts], 0, kMaxParts); }
bool SelectiveAsPublished(const KernelConfig& config) { return config.values[kSelective] > 0; }

int64_t MinEdges(int theta) { return std::max<int64_t>(1, int64_t{theta} * kTileRows * kTileCols / 1000); }

bool PerEdge(const AggregateProblem& problem) { return problem.weighted && !problem.source_scaled; }

// What a layout depends on besides the adjacency.
struct Form {
  int theta = 0, parts = 0;
  int group_size = 0, per_block = 0;  // of the remaining edges' groups; 0: summed as published

  std::string Name() const {
    std::string name = absl::StrCat("theta ", theta, "/1000");
    if (parts > 0) absl::StrAppend(&name, ", ", parts, " parts");
    if (group_size == 0) return absl::StrCat(name, ", rows");
    return absl::StrCat(name, ", groups of ", group_size, ", ", per_block, " a block");
  }
  // The form of that name; nothing if there is none within the limits.
  static std::optional<Form> Parse(const std::string& name) {
    Form form;
    int read = 0;  // characters
    if (std::sscanf(name.c_str(), "theta %d/1000%n", &form.theta, &read) != 1) return std::nullopt;
    const char* rest = name.c_str() + read;
    int more = 0;
    if (std::sscanf(rest, ", %d parts%n", &form.parts, &more) == 1 && more > 0) rest += more;
    if (std::sscanf(rest, ", groups of %d, %d a block", &form.group_size, &form.per_block) == 2) {
      if (form.group_size < kSmallestDefaultGroup || form.group_size > kLargestDefaultGroup) return std::nullopt;
      if (form.per_block < 1 || form.per_block > kMaxGroupThreads) return std::nullopt;
    }
    const bool known = form.theta >= kMinTheta && form.theta <= kNothingDense && form.parts >= 0 &&
                       form.parts <= kMaxParts && form.Name() == name;
    return known ? std::optional<Form>(form) : std::nullopt;
  }
};

class PartitionDualKernel final : public CudaKernel<AggregateKernel>, public LayoutCodec {
 public:
  // `device` must outlive every call, but not the kernel itself. Null: there is no device.
  explicit PartitionDualKernel(CudaDevice* device) : CudaKernel("partition_dual"), device_(device) {}
  Refusal WhyUnfit() const override {
    return limits_.narrow_products() ? Refusal() : "its tensor cores (bfloat16) need code for compute capability 8.0";
  }
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (Refusal refusal = WhyUnfit(); !refusal.empty()) return refusal;
    if (problem.storage != Storage::kFloat32) return "only float32 rows";
    if (problem.reduce != Reduce::kSum && problem.reduce != Reduce::kMean) return "only sum and mean";
    if (Refusal refusal = WhyWidthUnsupported(problem.width); !refusal.empty()) return refusal;
    if (problem.edges + problem.rows >= kMaxItems) return "only graphs of fewer than 2^31 rows and edges";
    return {};
  }
  std::vector<std::string_view> ParameterNames() const override { return {"theta", "parts", "selective"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::Between(kMinTheta, kNothingDense), ParameterRange::Between(0, kMaxParts),
            ParameterRange::OneOf({1})};
  }
  // Each threshold is that of the selective kernel which it is used with.
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    std::vector<KernelConfig> candidates(1);
    if (const int theta = MeasuredTheta(problem, false); theta > 0) {
      candidates.push_back({{theta}});
      const int64_t parts = (problem.rows + kPartNodes - 1) / kPartNodes;
      if (parts > 1) candidates.push_back({{theta, static_cast<int32_t>(std::min<int64_t>(parts, kMaxParts))}});
    }
    if (const int theta = MeasuredTheta(problem, true); theta > 0) candidates.push_back({{theta, 0, 1}});
    return candidates;
  }
  // The remaining edges are summed as by neighbor_group, or one after the other.
  DeclaredOrder declared_order() const override { return {"dense_blocks", 1}; }
  std::vector<int64_t> OrderParameters(const AggregateProblem& problem, const KernelConfig& config) const override {
    const NeighborGroupConfig rest = DefaultNeighborGroup(problem);
    if (SelectiveAsPublished(config)) return {ThetaOf(config), 0, 0, PartsOf(config), 1};
    return {ThetaOf(config), rest.group_size, rest.groups_per_block(), PartsOf(config)};
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig& config,
                                       const WorkShape& shape) const override {
    // The published kernel sums a long row's edges one after the other.
    return GpuGatherSeconds(problem, shape, SelectiveAsPublished(config) ? 1.0 : 0.75);
  }
  std::string LayoutName(const AggregateProblem& problem, const KernelConfig& config) const override {
    return FormOf(problem, config).Name();
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem& problem, const KernelConfig& config,
                                          LayoutSource& source) const override {
    VICINAL_ASSIGN_OR_RETURN(const CsrView host, source.OnHost());
    const Form form = FormOf(problem, config);
    const TileRule rule = EdgeBlockRule(host, source.blocks(), form.parts, MinEdges(form.theta));
    return WithGroups(BuildEdgeBlocks(host, rule, source.pool()), form, source);
  }
  int64_t layout_version() const override { return 2; }
  FlatLayout Flatten(const AdjacencyLayout& layout) const override {
    return static_cast<const EdgeBlocksLayout&>(layout).Flatten();
  }
  // The groups of the remaining edges are made from the borders of their rows, which takes no longer than reading them.
  StatusOr<AdjacencyLayoutRef> Unflatten(std::string_view name, const LayoutInput& input,
                                         LayoutSource& source) const override {
    const std::optional<Form> form = Form::Parse(std::string(name));
    if (!form) return input.Bad("this kernel has no layout of that name");
    VICINAL_ASSIGN_OR_RETURN(const HostEdgeBlocks blocks,
                             ReadEdgeBlocks(input, source.adjacency(), MinEdges(form->theta)));
    return WithGroups(blocks, *form, source);
  }
  // Each edge is in a mask or among the rest, with its weight. A tile with its column, strip, and places of weights
  // replaces at least MinEdges edges, in the mean.
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override {
    constexpr int64_t kTileBytes = kTileRows * static_cast<int64_t>(sizeof(uint64_t) + sizeof(uint16_t)) +
                                   sizeof(int64_t) + sizeof(int32_t) + sizeof(RowStrip);
    return edges / MinEdges(kMinTheta) * kTileBytes + 8 * edges + 8 * (rows + 1) +
           NeighborGroupBytesBound(rows, edges, kSmallestDefaultGroup);
  }
  bool whole_graph_only() const override { return true; }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig&, int) const override {
    return PartitionDualScratch(problem, DefaultNeighborGroup(problem));
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchPartitionDual(args, DefaultNeighborGroup(args.problem),
                               static_cast<const EdgeBlocksLayout*>(args.layout)->view(), target, scratch);
  }

 private:
  static Form FormOf(const AggregateProblem& problem, const KernelConfig& config) {
    if (SelectiveAsPublished(config)) return {ThetaOf(config), PartsOf(config), 0, 0};
    const NeighborGroupConfig rest = DefaultNeighborGroup(problem);
    return {ThetaOf(config), PartsOf(config), rest.group_size, rest.groups_per_block()};
  }
  static StatusOr<AdjacencyLayoutRef> WithGroups(const HostEdgeBlocks& blocks, const Form& form, LayoutSource& source) {
    std::shared_ptr<const NeighborGroupLayout> groups;
    if (form.group_size > 0) {
      VICINAL_ASSIGN_OR_RETURN(
          groups, NeighborGroupLayout::Upload(BuildNeighborGroups(blocks.rest_row_ptr.data(), source.adjacency().rows,
                                                                  form.group_size, form.per_block, source.pool()),
                                              source.device()));
    }
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout,
                             EdgeBlocksLayout::Upload(blocks, std::move(groups), source.device()));
    return layout;
  }

  // Columns that a block processes, weights per edge, selective kernel as published: what theta depends on.
  using ThetaKey = std::tuple<int64_t, bool, bool>;

  // Measured on first use and kept. 0: there is no device, or it could not be measured.
  int MeasuredTheta(const AggregateProblem& problem, bool as_published) const {
    if (device_ == nullptr) return 0;
    AggregateProblem kind;
    kind.weighted = problem.weighted;
    kind.source_scaled = problem.source_scaled;
    kind.width = problem.width <= 16 ? 16 : problem.width <= 32 ? 32 : 64;
    MutexLock lock(&mutex_);
    const auto [entry, is_new] = thetas_.emplace(ThetaKey(kind.width, PerEdge(problem), as_published), 0);
    if (!is_new) return entry->second;
    const int32_t selective = as_published ? 1 : 0;
    const StatusOr<double> theta =
        MeasureTheta(*this, kind, {{kMinTheta, 0, selective}}, {{kNothingDense, 0, selective}}, *device_);
    if (theta.ok()) entry->second = std::clamp(RoundedTheta(*theta), kMinTheta, kNothingDense);
    return entry->second;
  }

  CudaDevice* const device_;
  const GpuLimits limits_ = device_ != nullptr ? device_->limits() : GpuLimits();
  mutable Mutex mutex_;
  mutable std::map<ThetaKey, int> thetas_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace

void AddPartitionDual(KernelRegistry& registry, CudaDevice* device) {
  registry.aggregate.Add(std::make_unique<PartitionDualKernel>(device));
}

}  // namespace vicinal::cuda
