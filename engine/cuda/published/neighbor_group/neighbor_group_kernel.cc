// SPDX-License-Identifier: Apache-2.0
// neighbor_group and neighbor_group_atomics as kernels of the operation aggregate: parameters resolved, layouts made.
#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cuda/common/kernels.h"
#include "engine/cuda/published/neighbor_group/detail/neighbor_group_layout.h"
#include "engine/cuda/runtime/cuda_kernel.h"

namespace vicinal::cuda {
namespace {

// With more threads registers would not suffice for weighted sums of two packs.
constexpr int kMinGroup = 4, kMaxGroup = 1024, kMaxThreads = 512;
constexpr int kDefaultThreads = 128;

// The shared memory that a block has without asking for more. The paper's model of it: ours keeps a slot per group.
constexpr int64_t kMemoryCapacity = 48 << 10;
// Floats that a lane should add up in one group, at most (Eq. 3).
constexpr int64_t kComputationCapability = 4096;

NeighborGroupConfig Resolve(const AggregateProblem& problem, const KernelConfig& config) {
  NeighborGroupConfig resolved = DefaultNeighborGroup(problem);
  if (config.values[0] > 0) resolved.group_size = std::clamp(config.values[0], kMinGroup, kMaxGroup);
  if (config.values[1] > 0) {
    resolved.workers = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min(config.values[1], 32))));
  }
  if (config.values[2] > 0) {
    resolved.block_threads = std::clamp((config.values[2] + 31) / 32 * 32, 32, kMaxThreads);
  }
  return resolved;
}

// Eq. 3 and 4 of the paper: neither too much work for a lane nor too much memory for a block.
bool Feasible(const AggregateProblem& problem, const NeighborGroupConfig& config) {
  const int64_t floats = int64_t{config.group_size} * problem.width / config.workers;
  const double degree = std::max(1.0, static_cast<double>(problem.edges) / std::max<double>(1.0, problem.rows));
  const double rows = static_cast<double>(config.groups_per_block()) * config.group_size / degree;
  return floats <= kComputationCapability &&
         rows * static_cast<double>(problem.width) * sizeof(float) <= static_cast<double>(kMemoryCapacity);
}

// Groups of 8, and blocks of 256 threads, were never more than 3 % faster than the best of these on an H200 (artist,
// amazon0505, rmat5, proteins; widths 16, 64, 128), and often much slower.
std::vector<KernelConfig> CandidatesOf(const AggregateProblem& problem) {
  std::vector<KernelConfig> candidates = {KernelConfig()};
  const NeighborGroupConfig standard = DefaultNeighborGroup(problem);
  for (const int group_size : {16, 32, 64, 128}) {
    for (const int workers : {standard.workers, standard.workers / 2}) {
      const NeighborGroupConfig config = {group_size, workers, kDefaultThreads};
      if (workers < 1 || !Feasible(problem, config)) continue;
      if (group_size == standard.group_size && workers == standard.workers) continue;
      candidates.push_back({{group_size, workers, kDefaultThreads}});
    }
  }
  return candidates;
}

std::string LayoutNameOf(const NeighborGroupConfig& config) {
  return absl::StrCat("groups of ", config.group_size, ", ", config.groups_per_block(), " a block");
}

StatusOr<AdjacencyLayoutRef> MakeGroups(const NeighborGroupConfig& config, LayoutSource& source) {
  VICINAL_ASSIGN_OR_RETURN(const CsrView host, source.OnHost());
  return NeighborGroupLayout::Upload(
      BuildNeighborGroups(host.row_ptr, host.rows, config.group_size, config.groups_per_block(), source.pool()),
      source.device());
}

Refusal WhyShapeUnsupported(const AggregateProblem& problem) {
  if (problem.storage != Storage::kFloat32) return "only float32 rows";
  if (Refusal refusal = WhyWidthUnsupported(problem.width); !refusal.empty()) return refusal;
  if (problem.rows >= kMaxItems || problem.edges / kMinGroup + problem.rows >= kMaxItems) {
    return "only graphs of fewer than 2^31 rows and groups";
  }
  return {};
}

// What both forms have in common.
class GroupKernel : public CudaKernel<AggregateKernel> {
 public:
  using CudaKernel::CudaKernel;
  std::vector<std::string_view> ParameterNames() const override { return {"gs", "dw", "tpb"}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override { return CandidatesOf(problem); }
  std::string LayoutName(const AggregateProblem& problem, const KernelConfig& config) const override {
    return LayoutNameOf(Resolve(problem, config));
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem& problem, const KernelConfig& config,
                                          LayoutSource& source) const override {
    return MakeGroups(Resolve(problem, config), source);
  }
  int64_t LayoutBytesBound(int64_t rows, int64_t edges) const override {
    return NeighborGroupBytesBound(rows, edges, kMinGroup);
  }
  bool whole_graph_only() const override { return true; }

 protected:
  static NeighborGroups GroupsOf(const AggregateArgs& args) {
    return static_cast<const NeighborGroupLayout*>(args.layout)->view();
  }
};

class NeighborGroupKernel final : public GroupKernel {
 public:
  NeighborGroupKernel() : GroupKernel("neighbor_group") {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override { return WhyShapeUnsupported(problem); }
  // Where groups end and where they meet is what decides; how many lanes share their columns does not.
  int64_t ReductionOrder(const AggregateProblem& problem, const KernelConfig& config) const override {
    const NeighborGroupConfig resolved = Resolve(problem, config);
    return kNeighborGroupOrder + int64_t{resolved.group_size} * (kMaxThreads + 1) + resolved.groups_per_block();
  }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig& config, int) const override {
    return NeighborGroupScratch(problem, Resolve(problem, config));
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchNeighborGroup(args, Resolve(args.problem, args.config), GroupsOf(args), CarriedSums(), target,
                               scratch);
  }
};

class NeighborGroupAtomicsKernel final : public GroupKernel {
 public:
  NeighborGroupAtomicsKernel() : GroupKernel("neighbor_group_atomics") {}
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    if (problem.reduce != Reduce::kSum && problem.reduce != Reduce::kMean) return "only sum and mean";
    return WhyShapeUnsupported(problem);
  }
  // `apart` is no candidate: it is there to tell what the block-level optimisations are worth.
  std::vector<std::string_view> ParameterNames() const override { return {"gs", "dw", "tpb", "apart"}; }
  bool deterministic(const KernelConfig&) const override { return false; }
  size_t ScratchBytes(const AggregateProblem& problem, const KernelConfig&, int) const override {
    return NeighborGroupAtomicsScratch(problem);
  }

 protected:
  cudaError_t Launch(const AggregateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchNeighborGroupAtomics(args, Resolve(args.problem, args.config), GroupsOf(args),
                                      args.config.values[3] != 0, target, scratch);
  }
};

}  // namespace

NeighborGroupConfig DefaultNeighborGroup(const AggregateProblem& problem) {
  // Groups longer than most rows, so that these are one; lanes that cover the columns with 16 bytes each.
  const int64_t degree = 2 * problem.edges / std::max<int64_t>(1, problem.rows);
  const int64_t lanes = std::clamp<int64_t>((problem.width + 3) / 4, 1, 32);
  return {
      static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(degree, kSmallestDefaultGroup, 64)))),
      static_cast<int>(std::bit_ceil(static_cast<uint64_t>(lanes))), kDefaultThreads};
}

std::unique_ptr<const AggregateKernel> MakeNeighborGroup() { return std::make_unique<NeighborGroupKernel>(); }
std::unique_ptr<const AggregateKernel> MakeNeighborGroupAtomics() {
  return std::make_unique<NeighborGroupAtomicsKernel>();
}

}  // namespace vicinal::cuda
