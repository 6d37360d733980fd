// SPDX-License-Identifier: Apache-2.0
// partition_dual as a kernel of the operation aggregate. Decides which blocks are dense, and builds the layout.
//
// The paper compares a block's density with theta = T_full * p / T_selective, at which both modes take the same time.
// Here a dense block costs a whole tile of 128 x 64 pairs, so theta is a share of these. It is a parameter, in
// thousandths; tuning measures it on the graph.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/published/partition_dual/detail/edge_blocks.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// The largest that DefaultNeighborGroup chooses.
constexpr int kLargestDefaultGroup = 64;
constexpr int kDefaultTheta = 80, kMinTheta = 5, kMaxTheta = 1000;

int ThetaOf(const KernelConfig& config) {
  return config.values[0] > 0 ? std::clamp(config.values[0], kMinTheta, kMaxTheta) : kDefaultTheta;
}

int64_t MinEdges(int theta) { return std::max<int64_t>(1, int64_t{theta} * kStripRows * kTileColumns / 1000); }

class PartitionDualKernel final : public CudaKernel<AggregateKernel>, public LayoutCodec {
 public:
  explicit PartitionDualKernel(const GpuLimits& limits) : CudaKernel("partition_dual"), limits_(limits) {}
  Refusal WhyUnfit() const override {
    return limits_.narrow_products() ? Refusal() : "its tensor cores (bfloat16) need code for compute capability 8.0";
  }
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (Refusal refusal = WhyUnfit(); !refusal.empty()) return refusal;
    if (problem.storage != Storage::kFloat32) return "only float32 rows";
    if (problem.reduce != Reduce::kSum && problem.reduce != Reduce::kMean) return "only sum and mean";
    if (problem.weighted && !problem.source_scaled) return "only weights of 1 or per source; these are per edge";
    if (Refusal refusal = WhyWidthUnsupported(problem.width); !refusal.empty()) return refusal;
    if (problem.edges + problem.rows >= kMaxItems) return "only graphs of fewer than 2^31 rows and edges";
    return {};
  }
  std::vector<std::string_view> ParameterNames() const override { return {"theta"}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem&) const override { return {{}, {{40}}, {{160}}}; }
  // The remaining edges are summed as by neighbor_group.
  DeclaredOrder declared_order() const override { return {"dense_blocks", 1}; }
  std::vector<int64_t> OrderParameters(const AggregateProblem& problem, const KernelConfig& config) const override {
    const NeighborGroupConfig rest = DefaultNeighborGroup(problem);
    return {ThetaOf(config), rest.group_size, rest.groups_per_block()};
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GpuGatherSeconds(problem, shape, 0.75);
  }
  std::string LayoutName(const AggregateProblem& problem, const KernelConfig& config) const override {
    const NeighborGroupConfig rest = DefaultNeighborGroup(problem);
    return NameOf(ThetaOf(config), rest.group_size, rest.groups_per_block());
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem& problem, const KernelConfig& config,
                                          LayoutSource& source) const override {
    if (source.adjacency().value != nullptr) {
      return FailedPrecondition("KERNEL_REFUSED", "a mask of edges holds no weights, and this adjacency has them");
    }
    VICINAL_ASSIGN_OR_RETURN(const CsrView host, source.OnHost());
    const std::span<const int64_t> columns = host.rows == host.cols ? source.blocks() : std::span<const int64_t>();
    const HostEdgeBlocks blocks =
        BuildEdgeBlocks(host, CutParts(source.blocks(), host.rows, kStripRows),
                        CutParts(columns, host.cols, kTileColumns), MinEdges(ThetaOf(config)), source.pool());
    const NeighborGroupConfig rest = DefaultNeighborGroup(problem);
    return WithGroups(blocks, rest.group_size, rest.groups_per_block(), source);
  }
  int64_t layout_version() const override { return 1; }
  FlatLayout Flatten(const AdjacencyLayout& layout) const override {
    return static_cast<const EdgeBlocksLayout&>(layout).Flatten();
  }
  // The groups of the remaining edges are made from the borders of their rows, which takes no longer than reading them.
  StatusOr<AdjacencyLayoutRef> Unflatten(std::string_view name, const LayoutInput& input,
                                         LayoutSource& source) const override {
    int theta = 0, group_size = 0, per_block = 0;
    const bool read = std::sscanf(std::string(name).c_str(), "theta %d/1000, groups of %d, %d a block", &theta,
                                  &group_size, &per_block) == 3;
    const bool known = read && theta >= kMinTheta && theta <= kMaxTheta && group_size >= kSmallestDefaultGroup &&
                       group_size <= kLargestDefaultGroup && per_block >= 1 && per_block <= kMaxGroupThreads;
    if (!known || name != NameOf(theta, group_size, per_block))
      return input.Bad("this kernel has no layout of that name");
    VICINAL_ASSIGN_OR_RETURN(const HostEdgeBlocks blocks, ReadEdgeBlocks(input, source.adjacency(), MinEdges(theta)));
    return WithGroups(blocks, group_size, per_block, source);
  }
  // Each edge is in a mask or among the rest. A tile of 1 KiB, with its column and strip, replaces at least MinEdges
  // edges.
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override {
    constexpr int64_t kTileBytes = kStripRows * sizeof(uint64_t) + sizeof(int32_t) + sizeof(RowStrip);
    return edges / MinEdges(kMinTheta) * kTileBytes + 4 * edges + 8 * (rows + 1) +
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
  static std::string NameOf(int theta, int group_size, int per_block) {
    return absl::StrCat("theta ", theta, "/1000, groups of ", group_size, ", ", per_block, " a block");
  }
  static StatusOr<AdjacencyLayoutRef> WithGroups(const HostEdgeBlocks& blocks, int group_size, int per_block,
                                                 LayoutSource& source) {
    VICINAL_ASSIGN_OR_RETURN(auto groups, NeighborGroupLayout::Upload(
                                              BuildNeighborGroups(blocks.rest_row_ptr.data(), source.adjacency().rows,
                                                                  group_size, per_block, source.pool()),
                                              source.device()));
    VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout,
                             EdgeBlocksLayout::Upload(blocks, std::move(groups), source.device()));
    return layout;
  }

  const GpuLimits limits_;
};

}  // namespace

void AddPartitionDual(KernelRegistry& registry, const GpuLimits& limits) {
  registry.aggregate.Add(std::make_unique<PartitionDualKernel>(limits));
}

}  // namespace vicinal::cuda
