// SPDX-License-Identifier: Apache-2.0
// One node, one kernel: what each kind of node asks of the registry. Choosing comes first for all nodes (it says how
// much scratch is needed), binding of views (bind_views.cc) once the arena is there.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/plan/build/describe.h"
#include "engine/plan/build/plan_builder.h"
#include "engine/tune/work.h"

namespace vicinal::internal {
namespace {

std::string_view ForcedName(const ForcedKernels& forced, std::string_view operation) {
  const auto found = forced.find(std::string(operation));
  return found == forced.end() ? std::string_view() : std::string_view(found->second);
}

RowwiseKind RowwiseKindOf(NodeKind kind) {
  switch (kind) {
    case NodeKind::kMax:
      return RowwiseKind::kMax;
    case NodeKind::kNormalize:
      return RowwiseKind::kNormalize;
    case NodeKind::kLayerNorm:
      return RowwiseKind::kLayerNorm;
    case NodeKind::kGraphNorm:
      return RowwiseKind::kGraphNorm;
    case NodeKind::kReadout:
      return RowwiseKind::kReadout;
    case NodeKind::kDensify:
      return RowwiseKind::kSparseToDense;
    case NodeKind::kGate:
      return RowwiseKind::kGate;
    case NodeKind::kNarrow:
      return RowwiseKind::kNarrow;
    default:
      return RowwiseKind::kAdd;
  }
}

// Host memory as Pack wants it.
struct AlignedBytes {
  explicit AlignedBytes(size_t bytes)
      : data(std::aligned_alloc(ScratchLedger::kAlignment,
                                (bytes / ScratchLedger::kAlignment + 1) * ScratchLedger::kAlignment)) {}
  ~AlignedBytes() { std::free(data); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  void* data;
};

}  // namespace

// What the request forces, else what tuning found on this graph, `setting`, else the registry's default. `tuned`:
// whether it is what tuning found.
template <class K>
StatusOr<KernelChoice<K>> PlanBuilder::ChosenKernel(const OperationKernels<K>& operation,
                                                    const typename K::Problem& problem,
                                                    const std::optional<KernelSetting>& setting, bool* tuned) const {
  const std::string_view forced = ForcedName(request_.forced, operation.operation());
  if (setting.has_value() && (forced.empty() || forced == setting->kernel)) {
    // It was measured on a problem that differs in sizes at most, and may refuse this one all the same.
    StatusOr<KernelChoice<K>> choice = operation.Choose(problem, device_.kind(), setting->kernel);
    *tuned = choice.ok();
    if (choice.ok()) return choice;
  }
  return operation.Choose(problem, device_.kind(), forced);
}

template <class K>
StatusOr<KernelChoice<K>> PlanBuilder::ChooseKernel(const OperationKernels<K>& operation,
                                                    const typename K::Problem& problem, const TuningWork* work,
                                                    KernelConfig* config, Launch* launch) {
  std::optional<KernelSetting> setting;
  if (work != nullptr) {
    TuningTable& table = request_.graph->tuning();
    if (!draft_) launch->uses = table.Note(*work);
    launch->info.tuning_key = work->key;
    setting = table.Find(work->key);
  }
  if (const Unfit* unfit = setting.has_value() ? FindUnfit(work->key) : nullptr; unfit != nullptr) {
    launch->info.refusals.push_back({setting->kernel, unfit->reason});
    setting.reset();
  }
  StatusOr<KernelChoice<K>> choice = ChosenKernel(operation, problem, setting, &launch->info.tuned);
  if (launch->info.tuned) *config = setting->config;
  return choice;
}

template <class K>
StatusOr<const AdjacencyLayout*> PlanBuilder::LayoutOf(const K& kernel, const typename K::Problem& problem,
                                                       const KernelConfig& config, const TuningWork& work) {
  if (draft_) {
    const std::string name = kernel.LayoutName(problem, config);
    const int64_t bound = kernel.LayoutBytesBound(problem.rows, problem.edges);
    if (!name.empty()) derived_->AddLayout(work.adjacency, kernel.name(), name, bound);
    return nullptr;
  }
  VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout,
                           LayoutFor(*request_.graph, work.adjacency, kernel, problem, config));
  if (layout != nullptr) built_.layouts.push_back(layout);
  return layout.get();
}

const PlanBuilder::Unfit* PlanBuilder::FindUnfit(const TuningKey& key) const {
  const auto found = std::find_if(unfit_.begin(), unfit_.end(), [&](const Unfit& unfit) { return unfit.key == key; });
  return found == unfit_.end() ? nullptr : &*found;
}

void PlanBuilder::NoteUnfit(const TuningKey& key, std::string_view kernel, const Status& refused) {
  unfit_.push_back({key, std::string(refused.message())});
  program_.decisions.push_back(absl::StrCat(
      Describe(key), ": ", std::string(kernel),
      ", which tuning chose, does not take this adjacency, so the default serves: ", unfit_.back().reason));
}

// Steps count, too: two that change their orders are not one that changed its own.
void PlanBuilder::NoteReductionOrder(int step, int64_t reduction_order) {
  if (reduction_order == 0) return;
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15ULL;
  const uint64_t before = static_cast<uint64_t>(built_.reduction_order), place = static_cast<uint64_t>(step) + 1;
  const uint64_t mixed = (before ^ (place << 32 | static_cast<uint64_t>(reduction_order))) * kPrime;
  built_.reduction_order = static_cast<int64_t>(mixed >> 32 | 1);
}

namespace {

// Rows that were rounded have other sums, whoever adds them: numbers beyond those of kernels (Kernel::ReductionOrder).
constexpr int64_t StorageReductionOrder(Storage storage) {
  return (int64_t{1} << 32) - 1 - static_cast<int64_t>(storage);
}

}  // namespace

// Chooses the kernel of `launch`, books its scratch for `step`, and notes what Explain tells.
template <class K>
StatusOr<Bound<K>*> PlanBuilder::Register(const OperationKernels<K>& operation, const typename K::Problem& problem,
                                          int step, Launch* launch, const TuningWork* work) {
  Bound<K> bound;
  VICINAL_ASSIGN_OR_RETURN(KernelChoice<K> choice, ChooseKernel(operation, problem, work, &bound.args.config, launch));
  bound.kernel = choice.kernel;
  bound.args.problem = problem;
  const K& kernel = choice.kernel->kernel();
  if constexpr (requires { bound.args.layout; }) {
    const auto layout = LayoutOf(kernel, problem, bound.args.config, *work);
    const bool asked_for = !ForcedName(request_.forced, operation.operation()).empty();
    if (layout.status().code() == StatusCode::kFailedPrecondition && launch->info.tuned && !asked_for) {
      NoteUnfit(work->key, kernel.name(), layout.status());
    }
    VICINAL_ASSIGN_OR_RETURN(bound.args.layout, layout);
  }
  NoteReductionOrder(step, kernel.ReductionOrder(problem, bound.args.config));
  if constexpr (std::is_same_v<typename K::Problem, AggregateProblem>) {
    if (problem.storage != Storage::kFloat32) NoteReductionOrder(step, StorageReductionOrder(problem.storage));
  }
  const size_t scratch = kernel.ScratchBytes(problem, bound.args.config, request_.num_threads);
  if (scratch > 0) scratch_booking_[step] = ledger_.Book(scratch, step, step);
  launch->info.operation = std::string(operation.operation());
  launch->info.kernel = std::string(kernel.name());
  launch->info.parameters = NameParameters(kernel, bound.args.config);
  launch->info.refusals.insert(launch->info.refusals.end(), choice.refusals.begin(), choice.refusals.end());
  launch->bound = std::move(bound);
  return &std::get<Bound<K>>(launch->bound);
}

// The kernel and the weights, where all of them are the model's own; else nothing.
PackedKey PlanBuilder::KeyOfPacked(const void* kernel, const ProductWeight& weight) {
  PackedKey key = {kernel};
  for (const WeightPiece& piece : weight.pieces) {
    if (piece.sent == nullptr || !piece.row_scale.empty()) return {};
    key.push_back(piece.sent.get());
  }
  return key;
}

template <class K>
StatusOr<const void*> PlanBuilder::Pack(const K& kernel, const ProductWeight& weight) {
  const PackedKey key = KeyOfPacked(&kernel, weight);
  if (key.empty()) return PackAnew(kernel, weight);
  const auto known = packed_.find(key);
  if (known != packed_.end()) return known->second;
  VICINAL_ASSIGN_OR_RETURN(const void* const packed, PackAnew(kernel, weight));
  packed_.emplace(key, packed);
  return packed;
}

template <class K>
StatusOr<const void*> PlanBuilder::PackAnew(const K& kernel, const ProductWeight& weight) {
  const size_t bytes = kernel.PackedBytes(weight.rows, weight.cols);
  if (draft_) return Keep(nullptr, bytes);
  std::vector<float> rounded;
  const float* values = nullptr;
  if (weight.plain()) {
    values = weight.pieces[0].sent->values.data();
  } else {
    rounded.resize(weight.rows * weight.cols);
    weight.Round(rounded.data());
    values = rounded.data();
  }
  const ConstMatrixView view = {values, weight.rows, weight.cols, weight.cols};
  if (device_.kind() == DeviceKind::kCpu) {
    VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device_.Allocate(bytes));
    if (bytes > 0) kernel.Pack(view, buffer.data());
    return KeepBuffer(std::move(buffer));
  }
  AlignedBytes packed(bytes);
  if (packed.data == nullptr) {
    return ResourceExhausted("OUT_OF_MEMORY", "no memory to pack a model's weights; free graphs or models, or retry",
                             std::chrono::seconds(1));
  }
  kernel.Pack(view, packed.data);
  return Keep(packed.data, bytes);
}

AdjacencyShape PlanBuilder::ShapeOf(const Node& node) {
  for (const auto& [spec, shape] : shapes_) {
    if (spec == node.adjacency) return shape;
  }
  shapes_.emplace_back(node.adjacency, request_.graph->ShapeOf(node.adjacency));
  return shapes_.back().second;
}

StatusOr<CsrView> PlanBuilder::AdjacencyOf(const Node& node, const AdjacencyShape& shape) {
  if (draft_) {
    derived_->AddAdjacency(node.adjacency, shape);
    return CsrView{shape.rows, shape.cols, shape.edges, nullptr, nullptr, nullptr};
  }
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceCsr> adjacency, request_.graph->Adjacency(node.adjacency));
  built_.adjacencies.push_back(adjacency);
  VICINAL_DCHECK(adjacency->view().nnz == shape.edges && (adjacency->view().value != nullptr) == shape.weighted);
  return adjacency->view();
}

void PlanBuilder::Tell(const Node& node, const AdjacencyShape& adjacency, Launch* launch) const {
  const NodeSizes sizes = {request_.graph->num_nodes(), num_graphs_, adjacency.edges, adjacency.weighted,
                           request_.features.nnz};
  PlanStepInfo info = Describe(program_, node, sizes);
  info.operation = std::move(launch->info.operation);
  info.kernel = std::move(launch->info.kernel);
  info.parameters = std::move(launch->info.parameters);
  info.refusals = std::move(launch->info.refusals);
  info.tuning_key = std::move(launch->info.tuning_key);
  info.tuned = launch->info.tuned;
  launch->info = std::move(info);
}

Status PlanBuilder::ChooseLinear(int step, const Node& node, Launch* launch) {
  const int64_t rows = RowsOf(node.output), in_width = node.weight->cols, out_width = node.weight->rows;
  if (IsSparseInput(node.inputs[0])) {
    const SparseUpdateProblem problem = {rows, in_width, out_width, request_.features.nnz};
    VICINAL_ASSIGN_OR_RETURN(auto* bound, Register(registry_.sparse_update, problem, step, launch));
    VICINAL_ASSIGN_OR_RETURN(bound->args.weight, Pack(bound->kernel->kernel(), *node.weight));
  } else {
    const DenseUpdateProblem problem = {rows, in_width, out_width, request_.products};
    VICINAL_ASSIGN_OR_RETURN(auto* bound, Register(registry_.dense_update, problem, step, launch));
    VICINAL_ASSIGN_OR_RETURN(bound->args.weight, Pack(bound->kernel->kernel(), *node.weight));
  }
  Tell(node, {}, launch);
  return OkStatus();
}

AggregateProblem PlanBuilder::AggregationOf(const Node& node) {
  const AdjacencyShape shape = ShapeOf(node);
  AggregateProblem problem;
  problem.reduce = node.reduce;
  problem.weighted = shape.weighted || node.source_scale.has_value();
  problem.rows = shape.rows;
  problem.cols = shape.cols;
  problem.edges = shape.edges;
  problem.width = WidthOf(node.inputs[0]);
  problem.storage = program_.values[node.inputs[0]].storage;
  problem.source_scaled = !shape.weighted && node.source_scale.has_value();
  return problem;
}

TuningWork PlanBuilder::WorkOf(const AggregateProblem& problem, const Node& node) const {
  const EdgeWeights weights = problem.source_scaled ? EdgeWeights::kPerSource
                              : problem.weighted    ? EdgeWeights::kPerEdge
                                                    : EdgeWeights::kNone;
  return {KeyOf(problem, weights), node.adjacency};
}

std::string PlanBuilder::WhyProductUnsupported(const Node& node, int64_t out_width) {
  if (request_.products != ProductPrecision::kFloat32) return "the request lets its factors be rounded";
  if (!ForcedName(request_.forced, registry_.dense_update.operation()).empty()) return "the request forces its kernel";
  AggregateProblem problem = AggregationOf(node);
  const TuningKey key = WorkOf(problem, node).key;
  const std::optional<KernelSetting> setting = request_.graph->tuning().Find(key);
  bool tuned = false;
  const auto choice = ChosenKernel(registry_.aggregate, problem, setting, &tuned);
  if (!choice.ok()) return "no kernel takes its aggregation";
  problem.out_width = out_width;
  const AggregateKernel& kernel = choice->kernel->kernel();
  const std::string refusal = kernel.WhyProductUnsupported(problem);
  return refusal.empty() ? refusal : absl::StrCat(std::string(kernel.name()), ": ", refusal);
}

Status PlanBuilder::AddProduct(const Node& node, Bound<AggregateKernel>* bound) {
  VICINAL_ASSIGN_OR_RETURN(bound->args.weight, Pack(bound->kernel->kernel(), *node.weight));
  Epilogue& epilogue = bound->args.row_epilogue;
  VICINAL_ASSIGN_OR_RETURN(epilogue.bias, KeepVector(node.inner.bias));
  VICINAL_ASSIGN_OR_RETURN(epilogue.row_scale, DegreeScaleOf(node.inner.degree_scale));
  return OkStatus();
}

Status PlanBuilder::ChoosePropagate(int step, const Node& node, Launch* launch) {
  const AdjacencyShape shape = ShapeOf(node);
  VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, AdjacencyOf(node, shape));
  VICINAL_ASSIGN_OR_RETURN(const float* const src_scale, DegreeScaleOf(node.source_scale));
  AggregateProblem problem = AggregationOf(node);
  const TuningWork work = WorkOf(problem, node);
  if (node.weight != nullptr) problem.out_width = node.weight->rows;
  VICINAL_ASSIGN_OR_RETURN(auto* bound, Register(registry_.aggregate, problem, step, launch, &work));
  bound->args.adjacency = adjacency;
  bound->args.src_scale = src_scale;
  bound->args.self_scale = static_cast<float>(node.self_scale);
  if (node.weight != nullptr) VICINAL_RETURN_IF_ERROR(AddProduct(node, bound));
  Tell(node, shape, launch);
  return OkStatus();
}

Status PlanBuilder::ChoosePropagateLinear(int step, const Node& node, Launch* launch) {
  const AdjacencyShape shape = ShapeOf(node);
  VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, AdjacencyOf(node, shape));
  const SparseAggregateUpdateProblem problem = {node.reduce,       shape.weighted,    shape.rows,           shape.edges,
                                                node.weight->cols, node.weight->rows, request_.features.nnz};
  VICINAL_ASSIGN_OR_RETURN(auto* bound, Register(registry_.sparse_aggregate_update, problem, step, launch));
  bound->args.adjacency = adjacency;
  bound->args.self_scale = static_cast<float>(node.self_scale);
  VICINAL_ASSIGN_OR_RETURN(bound->args.weight, Pack(bound->kernel->kernel(), *node.weight));
  Tell(node, shape, launch);
  return OkStatus();
}

Status PlanBuilder::ChooseAttention(int step, const Node& node, Launch* launch) {
  const AdjacencyShape shape = ShapeOf(node);
  VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, AdjacencyOf(node, shape));
  const AttentionStep& attention = node.attention;
  const AttentionProblem problem = {attention.kind,  shape.rows,           shape.cols,      shape.edges,
                                    attention.heads, attention.head_width, attention.concat};
  const TuningWork work = {KeyOf(problem, EdgeWeights::kNone), node.adjacency};
  VICINAL_ASSIGN_OR_RETURN(auto* bound, Register(registry_.attention, problem, step, launch, &work));
  bound->args.adjacency = adjacency;
  bound->args.negative_slope = static_cast<float>(attention.negative_slope);
  bound->args.score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_width)));
  if (attention.kind == AttentionKind::kGatV2) {
    const std::vector<float>& att = attention.att_src->values;
    VICINAL_ASSIGN_OR_RETURN(const void* kept, Keep(att.data(), att.size() * sizeof(float)));
    bound->args.att = static_cast<const float*>(kept);
  }
  Tell(node, shape, launch);
  return OkStatus();
}

Status PlanBuilder::ChooseEdgeMlp(int step, const Node& node, Launch* launch) {
  static_assert(kMaxEdgeNetworkLayers == kMaxEdgeLayers + 1, "the first layer is multiplied per node");
  const AdjacencyShape shape = ShapeOf(node);
  VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, AdjacencyOf(node, shape));
  MessageReduceProblem problem;
  problem.message = Message::kAdd;
  problem.reduce = node.reduce;
  problem.weighted = shape.weighted;
  problem.rows = shape.rows;
  problem.cols = shape.cols;
  problem.edges = shape.edges;
  problem.width = WidthOf(node.inputs[0]);
  problem.num_layers = static_cast<int32_t>(node.edge_layers.size());
  for (int32_t l = 0; l < problem.num_layers; ++l) problem.out_widths[l] = node.edge_layers[l].weight->rows;
  VICINAL_ASSIGN_OR_RETURN(auto* bound, Register(registry_.message_reduce, problem, step, launch));
  bound->args.adjacency = adjacency;
  bound->args.activation = node.edge_activation;
  for (int32_t l = 0; l < problem.num_layers; ++l) {
    const EdgeLayer& layer = node.edge_layers[l];
    VICINAL_ASSIGN_OR_RETURN(bound->args.layers[l].weight, Pack(bound->kernel->kernel(), *layer.weight));
    VICINAL_ASSIGN_OR_RETURN(bound->args.layers[l].bias, KeepVector(layer.bias));
    bound->args.layers[l].activation = layer.activation;
  }
  Tell(node, shape, launch);
  return OkStatus();
}

Status PlanBuilder::ChooseRowwise(int step, const Node& node, Launch* launch) {
  const RowwiseProblem problem = {RowwiseKindOf(node.kind), node.reduce, RowsOf(node.output), WidthOf(node.output),
                                  program_.values[node.output].storage};
  VICINAL_ASSIGN_OR_RETURN(auto* bound, Register(registry_.rowwise, problem, step, launch));
  VICINAL_ASSIGN_OR_RETURN(bound->args.scale, KeepVector(node.scale));
  VICINAL_ASSIGN_OR_RETURN(bound->args.shift, KeepVector(node.shift));
  bound->args.eps = static_cast<float>(node.eps);
  if (node.kind == NodeKind::kGraphNorm || node.kind == NodeKind::kReadout) {
    VICINAL_ASSIGN_OR_RETURN(bound->args.segments, Segments());
    bound->args.num_segments = num_graphs_;
    bound->args.batched = !request_.graph->parts().segments.empty();
  }
  Tell(node, {}, launch);
  return OkStatus();
}

}  // namespace vicinal::internal
