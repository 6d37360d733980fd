// SPDX-License-Identifier: Apache-2.0
// Gathers the inputs first, as their memory may be refused. Then one pass over the launches restores the arguments as
// built, sets the field's features, and cuts every view to the rows of its side of the step.
#include "engine/plan/receptive_field/subset_run.h"

#include "engine/base/check.h"
#include "engine/plan/build/kernel_choice.h"

namespace vicinal::internal {
namespace {

// The sizes and inputs of a launch in the current field.
struct Extent {
  int64_t targets = 0;  // rows that it computes
  int64_t sources = 0;  // rows that it reads for in-neighbours
  CsrView adjacency;
  const float* row_scale = nullptr;
  const float* inner_row_scale = nullptr;
  const float* src_scale = nullptr;
  const int64_t* feature_ends = nullptr;  // row_ptr of sparse features, on the host
  const NodeId* nodes = nullptr;          // of all rows, in memory of the device
};

void FitEpilogue(const Extent& extent, const float* row_scale, Epilogue* epilogue) {
  epilogue->row_scale = row_scale;
  epilogue->residual.rows = extent.targets;
}
void FitEpilogue(const Extent& extent, Epilogue* epilogue) { FitEpilogue(extent, extent.row_scale, epilogue); }

// Cuts compressed features to their first `rows` rows.
void FitSparse(const Extent& extent, int64_t rows, CsrView* csr, int64_t* nnz) {
  csr->rows = rows;
  csr->nnz = extent.feature_ends[rows];
  if (nnz != nullptr) *nnz = csr->nnz;
}

template <class Problem>
void FitEdges(const Extent& extent, Problem* problem) {
  problem->rows = extent.targets;
  problem->edges = extent.adjacency.nnz;
  if constexpr (requires { problem->cols; }) problem->cols = extent.sources;
}

void Fit(const Extent& extent, AggregateArgs* args) {
  FitEdges(extent, &args->problem);
  args->adjacency = extent.adjacency;
  args->layout = nullptr;
  args->src.rows = args->src16.rows = extent.sources;
  args->src_scale = extent.src_scale;
  args->dst.rows = extent.targets;
  FitEpilogue(extent, extent.inner_row_scale, &args->row_epilogue);
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, AttentionArgs* args) {
  FitEdges(extent, &args->problem);
  args->adjacency = extent.adjacency;
  args->edge.nodes = extent.nodes;
  args->value.rows = args->score_src.rows = args->key.rows = extent.sources;
  args->score_dst.rows = args->query.rows = args->dst.rows = extent.targets;
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, MessageReduceArgs* args) {
  FitEdges(extent, &args->problem);
  args->adjacency = extent.adjacency;
  args->edge.nodes = extent.nodes;
  args->src.rows = extent.sources;
  args->target.rows = args->dst.rows = extent.targets;
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, ExpressionArgs* args) {
  FitEdges(extent, &args->problem);
  args->adjacency = extent.adjacency;
  args->edge.nodes = extent.nodes;
  for (ConstMatrixView& view : args->sources) view.rows = extent.sources;
  for (ConstMatrixView& view : args->targets) view.rows = extent.targets;
  args->dst.rows = extent.targets;
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, DenseUpdateArgs* args) {
  args->problem.rows = args->src.rows = args->dst.rows = extent.targets;
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, SparseUpdateArgs* args) {
  args->problem.rows = args->dst.rows = extent.targets;
  FitSparse(extent, extent.targets, &args->src, &args->problem.nnz);
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, SparseAggregateUpdateArgs* args) {
  FitEdges(extent, &args->problem);
  args->adjacency = extent.adjacency;
  args->dst.rows = extent.targets;
  FitSparse(extent, extent.sources, &args->src, &args->problem.nnz);
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, RowwiseArgs* args) {
  args->problem.rows = args->a.rows = args->b.rows = args->dst.rows = args->dst16.rows = extent.targets;
  if (args->sparse.row_ptr != nullptr) FitSparse(extent, extent.targets, &args->sparse, nullptr);
  FitEpilogue(extent, &args->epilogue);
}

// The kernel that an untuned plan would use for an aggregation. Null for other operations, if it would add in another
// order, is quarantined, or would need scratch that the launch does not have.
const RegisteredKernel<AggregateKernel>* Untuned(const decltype(Launch::bound)& bound, const KernelRegistry& registry,
                                                 DeviceKind device, const PlanRequest& request) {
  const auto* aggregate = std::get_if<Bound<AggregateKernel>>(&bound);
  if (aggregate == nullptr) return nullptr;
  const AggregateProblem& problem = aggregate->args.problem;
  const auto choice = registry.aggregate.Choose(problem, device, {});
  if (!choice.ok() || choice->kernel->kernel().ScratchBytes(problem, {}, request.num_threads) > 0) return nullptr;
  if (!WhyQuarantined(request.first_runs, registry.aggregate, choice->kernel->kernel(), {}).empty()) return nullptr;
  // Weights are packed for the chosen kernel.
  if (problem.out_width > 0 && choice->kernel != aggregate->kernel) return nullptr;
  const int64_t reduction_order = aggregate->kernel->kernel().ReductionOrder(problem, aggregate->args.config);
  if (choice->kernel->kernel().ReductionOrder(problem, {}) != reduction_order) return nullptr;
  return choice->kernel;
}

}  // namespace

SubsetRun::SubsetRun(BuiltPlan* plan, const KernelRegistry& registry) : plan_(*plan) {
  for (const auto& launch : plan->launches) {
    full_.push_back(launch->bound);
    untuned_.push_back(launch->info.tuned ? Untuned(launch->bound, registry, plan->device, plan->request) : nullptr);
  }
}

Status SubsetRun::Bind(DeviceContext& context, const FeatureMatrix& features, const ReplacedRows* replaced,
                       ReceptiveFieldWorkspace* work) {
  VICINAL_CHECK(replaced == nullptr || plan_.gather_rows == nullptr);
  VICINAL_RETURN_IF_ERROR(plan_.gather_rows != nullptr
                              ? SendInputs(plan_.field, features, *plan_.gather_rows, context, work, &inputs_)
                              : GatherInputs(plan_.field, features, replaced, context.thread_pool(), work, &inputs_));
  Unbind();
  bound_ = true;
  for (ConstMatrixView* view : plan_.features.dense) *view = inputs_.dense;
  for (CsrView* view : plan_.features.sparse) *view = inputs_.sparse;
  const ReceptiveFieldFinder& field = work->finder;
  const auto vector = [this](int index) { return index >= 0 ? inputs_.vectors[index] : nullptr; };
  for (size_t i = 0; i < full_.size(); ++i) {
    const FieldStep& step = plan_.field.steps[i];
    Extent extent;
    extent.targets = extent.sources = field.rows(step.depth);
    if (step.adjacency >= 0) {
      const ReceptiveFieldInputs::Edges& edges = inputs_.adjacencies[step.adjacency];
      const CsrView found = field.Adjacency(step.adjacency, step.depth);
      extent.sources = found.cols;
      extent.adjacency = {found.rows, found.cols, found.nnz, edges.row_ptr, edges.col, edges.value};
    }
    extent.feature_ends = inputs_.sparse_ends;
    extent.nodes = inputs_.nodes;
    extent.row_scale = vector(step.row_scale);
    extent.inner_row_scale = vector(step.inner_row_scale);
    extent.src_scale = vector(step.src_scale);
    std::visit([&extent](auto& bound) { Fit(extent, &bound.args); }, plan_.launches[i]->bound);
    if (untuned_[i] != nullptr) {
      auto& aggregate = std::get<Bound<AggregateKernel>>(plan_.launches[i]->bound);
      aggregate.kernel = untuned_[i];
      aggregate.args.config = KernelConfig();
    }
  }
  return OkStatus();
}

void SubsetRun::Unbind() {
  for (size_t i = 0; i < full_.size(); ++i) plan_.launches[i]->bound = full_[i];
  bound_ = false;
}

}  // namespace vicinal::internal
