// SPDX-License-Identifier: Apache-2.0
// Gathering first (it may be refused), then one pass over the launches: copy the arguments as built, put in the field's
// features, cut every view to the rows that its side of the step has.
#include "engine/plan/subset_run.h"

#include <algorithm>
#include <utility>

namespace vicinal::internal {
namespace {

// Copies from memory that is read for the first time; less than this is not worth waking another thread.
constexpr int64_t kGatherFloats = int64_t{1} << 16;

// What a launch works on in the field that was found.
struct Extent {
  int64_t targets = 0;  // rows it makes
  int64_t sources = 0;  // rows it reads for in-neighbours
  CsrView adjacency;
  const float* row_scale = nullptr;
  const float* src_scale = nullptr;
};

void FitEpilogue(const Extent& extent, Epilogue* epilogue) {
  epilogue->row_scale = extent.row_scale;
  epilogue->addend.rows = extent.targets;
}

// The first `rows` rows of features in compressed form.
void FitSparse(int64_t rows, CsrView* csr, int64_t* nnz) {
  csr->rows = rows;
  csr->nnz = csr->row_ptr[rows];
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
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, AttentionArgs* args) {
  FitEdges(extent, &args->problem);
  args->adjacency = extent.adjacency;
  args->value.rows = args->score_src.rows = args->key.rows = extent.sources;
  args->score_dst.rows = args->query.rows = args->dst.rows = extent.targets;
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, MessageReduceArgs* args) {
  FitEdges(extent, &args->problem);
  args->adjacency = extent.adjacency;
  args->src.rows = extent.sources;
  args->target.rows = args->dst.rows = extent.targets;
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, DenseUpdateArgs* args) {
  args->problem.rows = args->src.rows = args->dst.rows = extent.targets;
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, SparseUpdateArgs* args) {
  args->problem.rows = args->dst.rows = extent.targets;
  FitSparse(extent.targets, &args->src, &args->problem.nnz);
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, SparseAggregateUpdateArgs* args) {
  FitEdges(extent, &args->problem);
  args->adjacency = extent.adjacency;
  args->dst.rows = extent.targets;
  FitSparse(extent.sources, &args->src, &args->problem.nnz);
  FitEpilogue(extent, &args->epilogue);
}

void Fit(const Extent& extent, RowwiseArgs* args) {
  args->problem.rows = args->a.rows = args->b.rows = args->dst.rows = args->dst16.rows = extent.targets;
  if (args->sparse.row_ptr != nullptr) FitSparse(extent.targets, &args->sparse, nullptr);
  FitEpilogue(extent, &args->epilogue);
}

// The kernel that an untuned plan would take for an aggregation; null for other operations, where it would add in
// another order, and where it would need scratch that the launch does not have.
const RegisteredKernel<AggregateKernel>* Untuned(const decltype(Launch::bound)& bound, const KernelRegistry& registry,
                                                 int num_threads) {
  const auto* aggregate = std::get_if<Bound<AggregateKernel>>(&bound);
  if (aggregate == nullptr) return nullptr;
  const AggregateProblem& problem = aggregate->args.problem;
  const auto choice = registry.aggregate.Choose(problem, DeviceKind::kCpu, {});
  if (!choice.ok() || choice->kernel->kernel().ScratchBytes(problem, {}, num_threads) > 0) return nullptr;
  const int64_t evaluation = aggregate->kernel->kernel().Evaluation(problem, aggregate->args.config);
  if (choice->kernel->kernel().Evaluation(problem, {}) != evaluation) return nullptr;
  return choice->kernel;
}

}  // namespace

SubsetRun::SubsetRun(BuiltPlan* plan, const KernelRegistry& registry) : plan_(*plan) {
  for (const auto& launch : plan->launches) {
    full_.push_back(launch->bound);
    untuned_.push_back(launch->info.tuned ? Untuned(launch->bound, registry, plan->request.num_threads) : nullptr);
  }
}

Status SubsetRun::Bind(const FeatureMatrix& features, FieldWorkspace* work, ThreadPool* pool) {
  VICINAL_RETURN_IF_ERROR(features.sparse() ? GatherSparse(features.csr(), work)
                                            : GatherDense(features.dense(), work, pool));
  VICINAL_RETURN_IF_ERROR(GatherVectors(work));
  Unbind();
  bound_ = true;
  BindFeatures(features, *work);
  const FieldFinder& field = work->finder;
  const auto vector = [work](int index) { return index >= 0 ? work->vectors[index].data() : nullptr; };
  for (size_t i = 0; i < full_.size(); ++i) {
    const FieldStep& step = plan_.field.steps[i];
    Extent extent;
    extent.targets = extent.sources = field.rows(step.depth);
    if (step.adjacency >= 0) {
      extent.sources = field.rows(step.depth + 1);
      extent.adjacency = field.Adjacency(step.adjacency, step.depth);
    }
    extent.row_scale = vector(step.row_scale);
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

void SubsetRun::BindFeatures(const FeatureMatrix& features, const FieldWorkspace& work) const {
  const int64_t rows = work.finder.rows(plan_.field.input_depth), cols = features.cols();
  if (!features.sparse()) {
    for (ConstMatrixView* view : plan_.dense_inputs) *view = {work.dense.data(), rows, cols, cols};
    return;
  }
  const int64_t* row_ptr = work.row_ptr.data();
  const float* value = features.csr().value != nullptr ? work.value.data() : nullptr;
  for (CsrView* view : plan_.sparse_inputs) *view = {rows, cols, row_ptr[rows], row_ptr, work.col.data(), value};
}

Status SubsetRun::GatherDense(ConstMatrixView features, FieldWorkspace* work, ThreadPool* pool) const {
  const int64_t rows = work->finder.rows(plan_.field.input_depth), cols = features.cols;
  VICINAL_RETURN_IF_ERROR(work->dense.Reserve(rows * cols));
  const NodeId* nodes = work->finder.nodes();
  float* dense = work->dense.data();
  const auto copy = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) std::copy_n(features.row(nodes[r]), cols, dense + r * cols);
  };
  if (pool == nullptr || rows * cols < 2 * kGatherFloats) {
    copy(0, rows);
    return OkStatus();
  }
  const int64_t block = std::max<int64_t>(1, kGatherFloats / cols);
  pool->ParallelFor((rows + block - 1) / block,
                    [&](int64_t task, int) { copy(task * block, std::min(rows, (task + 1) * block)); });
  return OkStatus();
}

Status SubsetRun::GatherSparse(const CsrView& features, FieldWorkspace* work) const {
  const int64_t rows = work->finder.rows(plan_.field.input_depth);
  const NodeId* nodes = work->finder.nodes();
  VICINAL_RETURN_IF_ERROR(work->row_ptr.Reserve(rows + 1));
  int64_t* row_ptr = work->row_ptr.data();
  row_ptr[0] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    row_ptr[r + 1] = row_ptr[r] + features.row_ptr[nodes[r] + 1] - features.row_ptr[nodes[r]];
  }
  VICINAL_RETURN_IF_ERROR(work->col.Reserve(row_ptr[rows]));
  if (features.value != nullptr) VICINAL_RETURN_IF_ERROR(work->value.Reserve(row_ptr[rows]));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = features.row_ptr[nodes[r]], count = row_ptr[r + 1] - row_ptr[r];
    std::copy_n(features.col + begin, count, work->col.data() + row_ptr[r]);
    if (features.value != nullptr) std::copy_n(features.value + begin, count, work->value.data() + row_ptr[r]);
  }
  return OkStatus();
}

Status SubsetRun::GatherVectors(FieldWorkspace* work) const {
  const std::vector<NodeVector>& vectors = plan_.field.vectors;
  while (work->vectors.size() < vectors.size()) work->vectors.emplace_back(work->device, work->account);
  const NodeId* nodes = work->finder.nodes();
  for (size_t v = 0; v < vectors.size(); ++v) {
    const int64_t rows = work->finder.rows(vectors[v].depth);
    VICINAL_RETURN_IF_ERROR(work->vectors[v].Reserve(rows));
    for (int64_t r = 0; r < rows; ++r) work->vectors[v].data()[r] = vectors[v].values[nodes[r]];
  }
  return OkStatus();
}

}  // namespace vicinal::internal
