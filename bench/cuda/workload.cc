// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/workload.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/cuda/numbers.h"

namespace vicinal::bench {
namespace {

size_t BytesOf(Storage storage) { return storage == Storage::kFloat32 ? 4 : 2; }

template <class K>
std::string Parameters(const K& kernel, const KernelConfig& config) {
  std::string text;
  const std::vector<std::string_view> names = kernel.ParameterNames();
  for (size_t i = 0; i < names.size() && config != KernelConfig(); ++i) {
    absl::StrAppend(&text, text.empty() ? "" : " ", std::string(names[i]), "=", config.values[i]);
  }
  return text;
}

// The layout that a configuration needs besides the adjacency, if any.
template <class K>
StatusOr<DeviceGraph::Layout> LayoutOf(Gpu& gpu, const DeviceGraph& graph, const K& kernel,
                                       const typename K::Args& args, const KernelConfig& config) {
  const std::string name = kernel.LayoutName(args.problem, config);
  if (name.empty()) return DeviceGraph::Layout();
  return graph.FindLayout(gpu, args.adjacency.value != nullptr, std::string(kernel.name()), name,
                          [&](LayoutSource& source) { return kernel.MakeLayout(args.problem, config, source); });
}

// One configuration as a contestant; `args` are those of the first set.
template <class K, class ArgsOf>
Contestant Enlist(Gpu& gpu, const RegisteredKernel<K>& entry, const typename K::Args& args, const KernelConfig& config,
                  const DeviceGraph::Layout& layout, const ArgsOf& args_of) {
  const K& kernel = entry.kernel();
  Contestant contestant;
  contestant.kernel = std::string(kernel.name());
  contestant.parameters = Parameters(kernel, config);
  contestant.deterministic = kernel.deterministic(config);
  contestant.reduction_order = kernel.ReductionOrder(args.problem, config);
  contestant.scratch_bytes = kernel.ScratchBytes(args.problem, config, 1);
  if (layout.layout != nullptr) contestant.layout_bytes = layout.layout->size_bytes();
  contestant.layout_seconds = layout.seconds;
  contestant.launch = [&gpu, &entry, args_of, config, structure = layout.layout](int set, void* scratch) {
    auto run = args_of(set);
    run.config = config;
    if constexpr (requires { run.layout; }) run.layout = structure.get();
    return entry.Launch(gpu.context(), run, scratch);
  };
  return contestant;
}

// Every selected kernel that does not refuse, in all its configurations or the named ones. `args_of(set)` returns the
// arguments of a run.
template <class K, class ArgsOf>
Entrants Enter(Gpu& gpu, const DeviceGraph& graph, const OperationKernels<K>& kernels, const Choice& choice,
               const ArgsOf& args_of) {
  Entrants entrants;
  const typename K::Args args = args_of(0);
  bool first = true;
  for (const auto& entry : kernels.kernels()) {
    const K& kernel = entry->kernel();
    const std::string name(kernel.name());
    if (Refusal reason = kernel.WhyUnsupported(args.problem); !reason.empty()) {
      entrants.refusals.push_back({name, std::move(reason)});
      continue;
    }
    const bool first_kernel = std::exchange(first, false);
    if (!choice.Wants(name)) continue;
    std::vector<KernelConfig> configs = Must(choice.Forced(name, kernel.ParameterNames()), "--configurations");
    if (configs.empty()) configs = kernel.Candidates(args.problem);
    for (const KernelConfig& config : configs) {
      const bool first_choice = first_kernel && config == KernelConfig();
      const StatusOr<DeviceGraph::Layout> layout = LayoutOf(gpu, graph, kernel, args, config);
      if (!layout.ok()) {
        entrants.refusals.push_back({name, std::string(layout.status().message())});
        continue;
      }
      entrants.contestants.push_back(Enlist(gpu, *entry, args, config, *layout, args_of));
      entrants.contestants.back().first_choice = first_choice;
    }
  }
  return entrants;
}

}  // namespace

Workload::Workload(Gpu& gpu, const DeviceGraph& graph, const Operation& operation, int64_t width)
    : gpu_(gpu), graph_(graph), operation_(operation), width_(width) {
  Fill(&source_, kSourceNumbers, width, operation.storage);
  if (operation.family == Family::kAttention && operation.attention == AttentionKind::kGat) {
    Fill(&source_scores_, kSourceScores, operation.heads, Storage::kFloat32);
    Fill(&target_scores_, kTargetScores, operation.heads, Storage::kFloat32);
  } else if (operation.family != Family::kAggregate) {
    Fill(&target_, kTargetNumbers, width, Storage::kFloat32);
  }
  if (operation.family == Family::kAttention && operation.attention == AttentionKind::kDot) {
    Fill(&key_, kKeyNumbers, width, Storage::kFloat32);
  }
  score_vector_ = gpu.Allocate(width * sizeof(float));
  FillNumbers(score_vector_.data(), width, kScoreVector, Storage::kFloat32, gpu.stream());
  const int64_t elements = operation.family == Family::kEdgeScores ? graph.edges() : graph.nodes() * width;
  for (int set = 0; set < kSets; ++set) result_.push_back(gpu.Allocate(elements * sizeof(float)));
}

void Workload::Fill(std::vector<Buffer>* sets, uint64_t numbers, int64_t columns, Storage storage) {
  const int64_t elements = graph_.nodes() * columns;
  for (int set = 0; set < kSets; ++set) {
    sets->push_back(gpu_.Allocate(elements * BytesOf(storage)));
    FillNumbers(sets->back().data(), elements, numbers, storage, gpu_.stream());
  }
}

ConstMatrixView Workload::Rows(const std::vector<Buffer>& sets, int set, int64_t columns) const {
  if (sets.empty()) return {};
  return {sets[set].as<float>(), graph_.nodes(), columns, columns};
}

AggregateArgs Workload::Aggregate(int set) const {
  AggregateArgs args;
  args.problem.reduce = operation_.reduce;
  args.problem.weighted = operation_.weights != Weights::kNone;
  args.problem.source_scaled = operation_.weights == Weights::kRankOne;
  args.problem.rows = args.problem.cols = graph_.nodes();
  args.problem.edges = graph_.edges();
  args.problem.width = width_;
  args.problem.storage = operation_.storage;
  args.adjacency = graph_.view(operation_.weights == Weights::kPerEdge);
  if (operation_.storage == Storage::kFloat32) {
    args.src = Rows(source_, set, width_);
  } else {
    args.src16 = {source_[set].as<uint16_t>(), graph_.nodes(), width_, width_};
  }
  if (operation_.weights == Weights::kRankOne) {
    args.src_scale = graph_.device_factors();
    args.epilogue.row_scale = graph_.device_factors();
  }
  args.self_scale = operation_.self_scale;
  args.dst = {result(set), graph_.nodes(), width_, width_};
  return args;
}

AttentionArgs Workload::Attend(int set) const {
  const int64_t heads = operation_.heads, columns = width_ / heads;
  AttentionArgs args;
  args.problem = {operation_.attention, graph_.nodes(), graph_.nodes(), graph_.edges(), heads, columns, true};
  args.adjacency = graph_.view(false);
  args.value = Rows(source_, set, width_);
  args.score_src = Rows(source_scores_, set, heads);
  args.score_dst = Rows(target_scores_, set, heads);
  args.query = Rows(target_, set, width_);
  args.key = Rows(key_, set, width_);
  args.att = score_vector_.as<float>();
  args.score_scale = 1.0f / std::sqrt(static_cast<float>(columns));
  args.dst = {result(set), graph_.nodes(), width_, width_};
  return args;
}

EdgeScoresArgs Workload::EdgeProducts(int set) const {
  EdgeScoresArgs args;
  args.problem.rows = args.problem.cols = graph_.nodes();
  args.problem.edges = graph_.edges();
  args.problem.width = width_;
  args.adjacency = graph_.view(false);
  args.src = Rows(source_, set, width_);
  args.target = Rows(target_, set, width_);
  args.dst = {result(set), graph_.edges(), 1, 1};
  return args;
}

Entrants Workload::Kernels(const Choice& choice) const {
  const KernelRegistry& registry = gpu_.registry();
  switch (operation_.family) {
    case Family::kAggregate:
      return Enter(gpu_, graph_, registry.aggregate, choice, [this](int set) { return Aggregate(set); });
    case Family::kAttention:
      return Enter(gpu_, graph_, registry.attention, choice, [this](int set) { return Attend(set); });
    case Family::kEdgeScores:
      return Enter(gpu_, graph_, registry.edge_scores, choice, [this](int set) { return EdgeProducts(set); });
  }
  return {};
}

Traffic Workload::traffic() const {
  const auto nodes = static_cast<double>(graph_.nodes()), edges = static_cast<double>(graph_.edges());
  const auto width = static_cast<double>(width_);
  const double row_bytes = width * static_cast<double>(BytesOf(operation_.storage));
  const double scores = static_cast<double>(source_scores_.size() + target_scores_.size()) / kSets *
                        static_cast<double>(operation_.heads) * 4.0;
  const double adjacency = 4.0 * edges + 8.0 * nodes + (operation_.weights == Weights::kPerEdge ? 4.0 * edges : 0.0);
  const double factors = operation_.weights == Weights::kRankOne ? 4.0 * nodes : 0.0;
  Traffic traffic;
  traffic.floor = adjacency + factors + nodes * (row_bytes + scores) + static_cast<double>(result_bytes());
  if (!target_.empty()) traffic.floor += nodes * width * 4.0;
  if (!key_.empty()) traffic.floor += nodes * width * 4.0;
  traffic.gather = edges * row_bytes * (key_.empty() ? 1.0 : 2.0);
  return traffic;
}

SpmmPeer Workload::spmm(const Buffer& value, Storage result_storage) const {
  SpmmPeer peer;
  peer.matrix = graph_.peer();
  peer.width = width_;
  peer.storage = operation_.storage;
  peer.result_storage = result_storage;
  peer.value = value.data();
  for (int set = 0; set < kSets; ++set) {
    peer.src[set] = source_[set].data();
    peer.result[set] = result_[set].data();
  }
  return peer;
}

SddmmPeer Workload::sddmm() const {
  SddmmPeer peer;
  peer.matrix = graph_.peer();
  peer.width = width_;
  for (int set = 0; set < kSets; ++set) {
    peer.src[set] = source_[set].as<float>();
    peer.target[set] = target_[set].as<float>();
    peer.result[set] = result(set);
  }
  return peer;
}

}  // namespace vicinal::bench
