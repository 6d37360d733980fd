// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/published/groups/group_kernel.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "engine/cuda/runtime/row_borders.h"

namespace vicinal::cuda {
namespace {

constexpr int kMinGroup = 4, kMaxGroup = 1024, kMaxWorkers = 32;
constexpr int kDefaultThreads = 128;

// A lane's share of small graphs is less than one group; it may have this many floats anyway.
constexpr double kLeastLaneFloats = 256;

}  // namespace

std::vector<ParameterRange> GroupKernel::ParameterRanges() const {
  return {ParameterRange::Between(kMinGroup, kMaxGroup), ParameterRange::Between(0, kMaxWorkers),
          ParameterRange::Between(0, kMaxGroupThreads)};
}

NeighborGroupConfig GroupKernel::Resolve(const AggregateProblem& problem, const KernelConfig& config) {
  NeighborGroupConfig resolved = DefaultNeighborGroup(problem);
  if (config.values[0] > 0) resolved.group_size = std::clamp(config.values[0], kMinGroup, kMaxGroup);
  if (config.values[1] > 0) {
    resolved.workers = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min(config.values[1], kMaxWorkers))));
  }
  if (config.values[2] > 0) {
    resolved.block_threads = std::clamp((config.values[2] + 31) / 32 * 32, 32, kMaxGroupThreads);
  }
  return resolved;
}

// Two cuts through the paper's ranges: group sizes and workers with blocks of 128 threads, then other block sizes with
// the default groups. Groups of 8 were at most 3 % faster than the best of these, and often much slower (measured on an
// H200: artist, amazon0505, rmat5, proteins; widths 16, 64, 128).
std::vector<KernelConfig> GroupKernel::Candidates(const AggregateProblem& problem) const {
  std::vector<KernelConfig> candidates = {KernelConfig()};
  const NeighborGroupConfig standard = DefaultNeighborGroup(problem);
  const GroupModel model = ModelOf(problem.rows, problem.edges, problem.width);
  const auto add = [&](const NeighborGroupConfig& config) {
    if (config.block_threads > MostThreads()) return;
    if (model.Fits(SettingOf(config)))
      candidates.push_back({{config.group_size, config.workers, config.block_threads}});
  };
  for (const int group_size : {16, 32, 64, 128}) {
    for (const int workers : {standard.workers, standard.workers / 2}) {
      if (workers < 1) continue;
      if (group_size == standard.group_size && workers == standard.workers) continue;
      add({group_size, workers, kDefaultThreads});
    }
  }
  for (const int threads : {64, 256, 512, kMaxGroupThreads}) add({standard.group_size, standard.workers, threads});
  return candidates;
}

GroupModel GroupKernel::ModelOf(int64_t rows, int64_t edges, int64_t width) const {
  GroupModel model;
  model.nodes = static_cast<double>(rows);
  model.edges = static_cast<double>(edges);
  model.width = static_cast<double>(width);
  model.max_threads = MostThreads();
  model.block_bytes = limits_.block_shared_bytes;
  const double lanes = static_cast<double>(limits_.multiprocessors) * limits_.multiprocessor_threads;
  model.lane_floats = std::max(kLeastLaneFloats, model.edges * model.width / lanes);
  return model;
}

GroupSetting GroupKernel::SettingOf(const NeighborGroupConfig& config) {
  return {static_cast<double>(config.group_size), static_cast<double>(config.workers),
          static_cast<double>(config.block_threads)};
}

std::string GroupKernel::LayoutName(const AggregateProblem& problem, const KernelConfig& config) const {
  const NeighborGroupConfig resolved = Resolve(problem, config);
  return absl::StrCat("groups of ", resolved.group_size, ", ", resolved.groups_per_block(), " a block");
}

StatusOr<AdjacencyLayoutRef> GroupKernel::MakeLayout(const AggregateProblem& problem, const KernelConfig& config,
                                                     LayoutSource& source) const {
  VICINAL_ASSIGN_OR_RETURN(const RowBorders borders, RowBorders::Of(source));
  const CsrView rows = borders.view();
  const NeighborGroupConfig resolved = Resolve(problem, config);
  return NeighborGroupLayout::Upload(
      BuildNeighborGroups(rows.row_ptr, rows.rows, resolved.group_size, resolved.groups_per_block(), source.pool()),
      source.device());
}

int64_t GroupKernel::LayoutBytesBound(int64_t rows, int64_t edges) const {
  return NeighborGroupBytesBound(rows, edges, kMinGroup);
}

Refusal GroupKernel::WhyUnsupported(const AggregateProblem& problem) const {
  if (problem.storage != Storage::kFloat32) return "only float32 rows";
  if (Refusal refusal = WhyWidthUnsupported(problem.width); !refusal.empty()) return refusal;
  if (problem.rows >= kMaxItems || problem.edges / kMinGroup + problem.rows >= kMaxItems) {
    return "only graphs of fewer than 2^31 rows and groups";
  }
  return {};
}

NeighborGroupConfig DefaultNeighborGroup(const AggregateProblem& problem) {
  // Groups that are longer than most rows, so that most rows have one group. Lanes cover the columns with 16 bytes
  // each.
  const int64_t degree = 2 * problem.edges / std::max<int64_t>(1, problem.rows);
  const int64_t lanes = std::clamp<int64_t>((problem.width + 3) / 4, 1, 32);
  return {
      static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(degree, kSmallestDefaultGroup, 64)))),
      static_cast<int>(std::bit_ceil(static_cast<uint64_t>(lanes))), kDefaultThreads};
}

}  // namespace vicinal::cuda
