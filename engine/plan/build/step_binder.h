// SPDX-License-Identifier: Apache-2.0
// Builds the launch of one node, for NodeTraits::bind. A kind chooses its kernel, fills in the arguments, and states
// the value of each view; views are set once the arena exists. The bias, the rest of the epilogue and dst are the same
// for all kinds and done here.
#ifndef VICINAL_ENGINE_PLAN_BUILD_STEP_BINDER_H_
#define VICINAL_ENGINE_PLAN_BUILD_STEP_BINDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "engine/plan/build/kernel_choice.h"
#include "engine/plan/build/plan_layout.h"
#include "engine/tune/work.h"

namespace vicinal::internal {

class StepBinder {
 public:
  // `layout` must outlive it, and has a launch for `step`.
  StepBinder(PlanLayout* layout, int step)
      : layout_(*layout),
        context_(layout->context_),
        step_(step),
        node_(context_.program.nodes[step]),
        launch_(*layout->launches_[step]) {}

  // The whole binding; calls the node kind's bind.
  Status Bind();

  // --- for node kinds ---

  const Node& node() const { return node_; }
  const Program& program() const { return context_.program; }
  const PlanRequest& request() const { return context_.request; }
  const KernelRegistry& registry() const { return context_.registry; }
  DeviceKind device() const { return context_.device.kind(); }
  int64_t RowsOf(ValueId value) const { return context_.RowsOf(value); }
  int64_t WidthOf(ValueId value) const { return program().values[value].width; }
  bool IsSparseInput(ValueId value) const { return value == kInputValue && program().sparse_input; }
  // Of the node's adjacency.
  AdjacencyShape ShapeOfAdjacency() { return context_.shapes.Of(node_.adjacency); }
  StatusOr<CsrView> Adjacency() { return layout_.allocator_.Adjacency(node_.adjacency, ShapeOfAdjacency()); }
  // Row offsets of the graphs of a batch, or of the one graph [num_graphs + 1].
  StatusOr<const int64_t*> Segments() { return layout_.Segments(); }
  int64_t num_graphs() const { return context_.num_graphs; }

  // Chooses the launch's kernel and reserves its scratch. The arguments keep their address until the plan ends. `work`:
  // the step's key in the graph's tuning table; null for operations that are not tuned.
  template <class K>
  StatusOr<Bound<K>*> Choose(const OperationKernels<K>& operation, const typename K::Problem& problem,
                             const TuningWork* work = nullptr);
  // Beside the chosen kernel's own: the plan's bits depend on `id` (kernels/reduction_order.h).
  void NoteReductionOrder(int64_t id) { layout_.NoteReductionOrder(step_, id); }
  // `weight` packed for the chosen kernel; shared by all nodes that multiply by the same weights of the model.
  template <class K>
  StatusOr<const void*> Pack(const Bound<K>& bound, const ProductWeight& weight);
  StatusOr<const float*> Copy(const std::vector<float>& vector);
  StatusOr<const float*> CopyTransposed(const Weight& matrix);                // [rows, cols] as [cols, rows]
  StatusOr<const float*> Copy(const ParametersRef& vector);                   // rounded to float32; null for null
  StatusOr<const float*> DegreeScale(const std::optional<SelfLoops>& loops);  // null for none
  // `view` becomes `width` features of each edge of the node's adjacency, in memory of the plan's device; those that
  // come with runs are set then. `added`: of loops that the adjacency adds. FAILED_PRECONDITION (EDGE_ATTR_MISSING,
  // EDGE_ATTR_WIDTH): the graph's own are others.
  Status EdgeFeatures(int64_t width, const LoopFeatures& added, EdgeFeaturesView* view);
  StatusOr<CsrView> AdjacencyAsSent();  // without values

  // `view` becomes a view of `value`: of the arena, or of the features of each run.
  void Input(ValueId value, ConstMatrixView* view);
  void Input(ValueId value, ConstMatrixView16* view);
  // Of `count` columns from `first` on. REQUIRES: `value` is not the model's input.
  void InputColumns(ValueId value, int64_t first, int64_t count, ConstMatrixView* view);
  // The model's sparse input; `nnz`, which may be null, becomes the number of its nonzeros in each run.
  void SparseInput(CsrView* view, int64_t* nnz);
  void Output(MatrixView* view);
  void Output(MatrixView16* view);
  // `spec` without its bias and degree scale, which Copy and DegreeScale return.
  void SetEpilogue(const EpilogueSpec& spec, Epilogue* epilogue);

 private:
  template <class K>
  StatusOr<const AdjacencyLayout*> LayoutFor(const K& kernel, const typename K::Problem& problem,
                                             const KernelConfig& config, const TuningWork& work);
  // The setting that tuning found for `work`, unless it cannot be used.
  std::optional<KernelSetting> FindSetting(const TuningWork& work);
  // Called after the kernel of a tuned setting did not support the adjacency.
  void NoteUnfit(const TuningKey& key, std::string_view kernel, const Status& refusal);
  static PlanLayout::PackedKey KeyOfPacked(const void* kernel, const ProductWeight& weight);
  StatusOr<const void*> PackOnce(const void* kernel, const ProductWeight& weight, size_t bytes,
                                 const PlanAllocator::WeightPacker& pack);
  // Rounded rows have other sums, with any kernel.
  static int64_t StorageReductionOrder(Storage storage) {
    return ReductionOrderId("gathered_storage", {ToString(storage), 1});
  }
  void Describe();

  PlanLayout& layout_;
  BuildContext& context_;
  const int step_;
  const Node& node_;
  Launch& launch_;
};

template <class K>
StatusOr<Bound<K>*> StepBinder::Choose(const OperationKernels<K>& operation, const typename K::Problem& problem,
                                       const TuningWork* work) {
  Bound<K> bound;
  const std::optional<KernelSetting> setting = work != nullptr ? FindSetting(*work) : std::nullopt;
  VICINAL_ASSIGN_OR_RETURN(KernelChoice<K> choice, ChooseKernel(operation, problem, context_.device.kind(), request(),
                                                                setting, &launch_.info.tuned));
  if (launch_.info.tuned) bound.args.config = setting->config;
  bound.kernel = choice.kernel;
  bound.args.problem = problem;
  const K& kernel = choice.kernel->kernel();
  if (const std::string_view parameters = ForcedParameters(request().forced, operation.operation());
      !parameters.empty()) {
    VICINAL_ASSIGN_OR_RETURN(bound.args.config, ParseParameters(ParametersOf(operation, kernel), parameters));
    const std::string why = WhyQuarantined(request().first_runs, operation, kernel, bound.args.config);
    if (!why.empty()) return FailedPrecondition("KERNEL_QUARANTINED", why);
  }
  if constexpr (requires { bound.args.layout; }) {
    const auto layout = LayoutFor(kernel, problem, bound.args.config, *work);
    const bool forced = !ForcedName(request().forced, operation.operation()).empty();
    if (layout.status().code() == StatusCode::kFailedPrecondition && launch_.info.tuned && !forced) {
      NoteUnfit(work->key, kernel.name(), layout.status());
    }
    VICINAL_ASSIGN_OR_RETURN(bound.args.layout, layout);
  }
  layout_.NoteReductionOrder(step_, kernel.ReductionOrder(problem, bound.args.config));
  if constexpr (std::is_same_v<typename K::Problem, AggregateProblem>) {
    if (problem.storage != Storage::kFloat32) layout_.NoteReductionOrder(step_, StorageReductionOrder(problem.storage));
  }
  const size_t scratch = kernel.ScratchBytes(problem, bound.args.config, request().num_threads);
  layout_.BookScratch(step_, scratch);
  launch_.info.operation = std::string(operation.operation());
  launch_.info.kernel = std::string(kernel.name());
  launch_.info.parameters = NameParameters(kernel, bound.args.config);
  launch_.info.refusals.insert(launch_.info.refusals.end(), choice.refusals.begin(), choice.refusals.end());
  launch_.bound = std::move(bound);
  return &std::get<Bound<K>>(launch_.bound);
}

template <class K>
StatusOr<const AdjacencyLayout*> StepBinder::LayoutFor(const K& kernel, const typename K::Problem& problem,
                                                       const KernelConfig& config, const TuningWork& work) {
  LayoutRequest request;
  request.kernel = kernel.name();
  request.name = kernel.LayoutName(problem, config);
  if (request.name.empty()) return nullptr;
  request.bytes_bound = kernel.LayoutBytesBound(problem.rows, problem.edges);
  request.make = [&](LayoutSource& source) { return kernel.MakeLayout(problem, config, source); };
  return layout_.allocator_.Layout(work.adjacency, request);
}

template <class K>
StatusOr<const void*> StepBinder::Pack(const Bound<K>& bound, const ProductWeight& weight) {
  const K& kernel = bound.kernel->kernel();
  return PackOnce(&kernel, weight, kernel.PackedBytes(weight.rows, weight.cols),
                  [&kernel](ConstMatrixView view, void* to) { kernel.Pack(view, to); });
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_STEP_BINDER_H_
