// SPDX-License-Identifier: Apache-2.0
// The facade: it hands requests to the resolver and the executor, and tells the cached plans of new versions. Members
// stand in the order they depend on each other, so that destruction (executor and preparation first) never pulls
// anything from under a running job.
#include "engine/api/engine.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/with_field.h"
#include "engine/execute/model_reference.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/plan_runner.h"
#include "engine/execute/receptive_field_memory.h"
#include "engine/execute/reference_check.h"
#include "engine/execute/resolve.h"
#include "engine/execute/selection.h"
#include "engine/kernels/open_device.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepare/inline_graph.h"
#include "engine/prepare/measure_orders.h"
#include "engine/prepare/preparation_queue.h"
#include "engine/profile/host_caches.h"
#include "engine/tuning/forced_setting.h"
#include "engine/tuning/tuning_request.h"
#include "engine/tuning/tuning_service.h"

namespace vicinal {
namespace {

// Grows `memory` to `bytes` where it is smaller: the bounds that were reserved cover what is kept, unless they are
// wrong.
Status Cover(int64_t bytes, std::string_view what, Reservation* memory) {
  return bytes <= memory->bytes() ? OkStatus() : memory->Grow(bytes - memory->bytes(), what);
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, std::unique_ptr<KernelRegistry> registry, OpenedDevice opened)
      : options_(options),
        registry_(std::move(registry)),
        opened_(std::move(opened)),
        device_(*opened_.device),
        budget_(options.memory_budget_bytes),
        graphs_({options.max_graphs, options.max_feature_sets, options.clock}),
        models_({options.max_models, options.clock}),
        plans_(options.max_cached_plans, [this](const PreparedGraph& graph, const std::string& name,
                                                const Model& model) { return IsCurrent(graph, name, model); }),
        receptive_field_memory_(&device_, &budget_, [this] { return graphs_.largest_graph(); }),
        inline_graphs_(&budget_, &device_, options.max_nodes),
        resolver_(&graphs_, &models_, &inline_graphs_, &budget_, &device_),
        preparation_context_(device_.CreateContext()),
        preparation_(options.max_preparations),
        tuning_(TuningParts()),
        runner_({&device_, registry_.get(), &plans_, &budget_, &receptive_field_memory_, options.clock, options.stats,
                 [this](const std::shared_ptr<const PreparedGraph>& graph) { tuning_.Consider(graph); }}),
        executor_(device_, &runner_, {options.max_queue, options.clock, options.stats}) {
    // First what costs least to have again.
    budget_.AddEvictor(Account::kReceptiveFields, [this](int64_t) { return receptive_field_memory_.Evict(); });
    budget_.AddEvictor(Account::kPlans, [this](int64_t bytes) { return plans_.Evict(bytes) > 0; });
    tuning_.Start(&executor_);
  }
  ~EngineImpl() override { tuning_.Stop(); }

  StatusOr<GraphStatus> PutGraph(GraphSource source, Reservation memory) override;
  StatusOr<GraphStatus> GetGraph(const std::string& name) const override { return graphs_.Get(name); }
  std::vector<GraphStatus> ListGraphs() const override { return graphs_.List(); }
  Status DeleteGraph(const std::string& name, int64_t if_version) override {
    VICINAL_RETURN_IF_ERROR(graphs_.Delete(name, if_version));
    GraphsChanged();
    return OkStatus();
  }
  StatusOr<TuningReport> TuneGraph(const TuneGraphRequest& request) override;
  StatusOr<TuningReport> GetTuning(const std::string& graph) const override;
  StatusOr<std::unique_ptr<GraphStore::Subscription>> WatchGraph(const std::string& name,
                                                                 std::function<void()> on_change) override {
    VICINAL_RETURN_IF_ERROR(graphs_.Get(name).status());
    return graphs_.Watch(name, std::move(on_change));
  }
  StatusOr<FeatureSetHandle> PutFeatures(const std::string& graph, const std::string& name,
                                         const FeatureTensors& tensors, bool replace, int64_t if_version,
                                         int64_t reserved_bytes) override;
  Status DeleteFeatures(const std::string& graph, const std::string& name) override {
    return graphs_.DeleteFeatures(graph, name);
  }

  StatusOr<ModelHandle> PutModel(ModelSource source, const WorkLimits& limits, Reservation memory) override;
  StatusOr<ModelHandle> GetModel(const std::string& name) const override { return models_.Find(name, 0); }
  std::vector<ModelHandle> ListModels() const override { return models_.List(); }
  Status DeleteModel(const std::string& name, int64_t if_version) override {
    VICINAL_RETURN_IF_ERROR(models_.Delete(name, if_version));
    plans_.PurgeStale();
    return OkStatus();
  }

  Status Submit(InferenceRequest request, InferenceCallback done) override;
  Status SubmitBatch(GraphBatchRequest request, InferenceCallback done) override;
  StatusOr<Explanation> Explain(const InferenceRequest& request) override;
  MemoryBudget& memory() override { return budget_; }

  std::vector<DeviceInfo> Devices() const override { return {{device_.name(), device_.description()}}; }
  std::vector<KernelStatus> Kernels() const override;
  int64_t queue_depth() const override { return executor_.queue_depth(); }
  double busy_seconds() const override { return executor_.busy_seconds(); }
  Status Health() override { return device_.Health(); }
  bool Drain(MonotonicTime deadline) override { return executor_.Drain(deadline); }

 private:
  // After a graph was deleted or replaced: what was kept for it goes.
  void GraphsChanged() {
    plans_.PurgeStale();
    receptive_field_memory_.Fit();
  }
  bool IsCurrent(const PreparedGraph& graph) const;
  bool IsCurrent(const PreparedGraph& graph, const std::string& model_name, const Model& model) const;
  TuningService::Parts TuningParts();
  Status ForceSetting(const PreparedGraph& graph, const std::vector<TuningWork>& works,
                      const ForcedConfiguration& forced);
  void Prepare(GraphSource source, Reservation memory, int64_t version, bool stopping);
  StatusOr<double> CheckModel(const std::shared_ptr<const Model>& model, const ModelReference& reference,
                              const std::string& name, const WorkLimits& limits);

  const EngineOptions options_;
  const std::unique_ptr<KernelRegistry> registry_;
  const OpenedDevice opened_;
  Device& device_;
  MemoryBudget budget_;
  GraphStore graphs_;
  ModelStore models_;
  PlanCache plans_;
  ReceptiveFieldMemory receptive_field_memory_;
  InlineGraphMaker inline_graphs_;
  RequestResolver resolver_;
  const std::unique_ptr<DeviceContext> preparation_context_;  // used by the one thread of preparation_
  PreparationQueue preparation_;
  TuningService tuning_;  // works on the executor, and hears of plans from it: begins after it and stops before
  PlanRunner runner_;
  Executor executor_;
};

bool EngineImpl::IsCurrent(const PreparedGraph& graph) const {
  const StatusOr<GraphHandle> current = graphs_.Find(graph.parts().name, 0, "", 0);
  return current.ok() && current->graph.get() == &graph;
}

bool EngineImpl::IsCurrent(const PreparedGraph& graph, const std::string& model_name, const Model& model) const {
  if (!IsCurrent(graph)) return false;
  const StatusOr<ModelHandle> stored = models_.Find(model_name, 0);
  return stored.ok() && (*stored)->model.get() == &model;
}

// --- graphs ---

StatusOr<GraphStatus> EngineImpl::PutGraph(GraphSource source, Reservation memory) {
  const int64_t edges = source.edge_index.shape.size() == 2 ? source.edge_index.shape[1] : 0;
  const int64_t bound = PreparationBytesBound(source);
  const std::string name = source.name;
  VICINAL_RETURN_IF_ERROR(preparation_.Reserve());
  StatusOr<Reservation> reserved =
      budget_.Reserve(Account::kPreparing, bound, absl::StrCat("preparing graph '", name, "'"),
                      {.replace = source.replace, .consumed = &memory});
  StatusOr<int64_t> version =
      reserved.ok() ? graphs_.BeginPrepare(name, source.replace, source.if_version, source.node_count, edges)
                    : reserved.status();
  if (!version.ok()) {
    preparation_.Release();
    return version.status();
  }
  auto shared = std::make_shared<std::pair<GraphSource, Reservation>>(std::move(source), *std::move(reserved));
  preparation_.Push([this, shared, v = *version](bool stopping) {
    Prepare(std::move(shared->first), std::move(shared->second), v, stopping);
  });
  return graphs_.Get(name);
}

void EngineImpl::Prepare(GraphSource source, Reservation memory, int64_t version, bool stopping) {
  const std::string name = source.name;
  StatusOr<PreparedUpload> prepared =
      Unavailable("DRAINING", "the server stopped before the graph was prepared", std::chrono::seconds(1));
  PrepareContext context;
  context.device = &device_;
  context.clock = options_.clock;
  context.stats = options_.stats;
  context.choose = {HostCaches(), preparation_context_->thread_pool(),
                    MakeOrderMeasurer(*registry_, *preparation_context_, *options_.clock),
                    [&] { return preparation_.stopping() || !graphs_.IsPreparing(name, version); }};
  context.on_progress = [&](double progress, std::string_view stage) {
    graphs_.SetProgress(name, version, progress, stage);
  };
  try {
    if (!stopping) prepared = PrepareGraph(std::move(source), version, context);
  } catch (const std::bad_alloc&) {
    prepared = OutOfMemory();
  }
  if (prepared.ok()) {
    const int64_t kept =
        prepared->graph->size_bytes() + (prepared->features != nullptr ? prepared->features->size_bytes() : 0);
    if (Status covered = Cover(kept, absl::StrCat("graph '", name, "'"), &memory); !covered.ok()) prepared = covered;
  }
  if (!prepared.ok()) {
    options_.logger->Log(LogLevel::kWarning, "graph not prepared",
                         {{"graph", name}, {"error", std::string(prepared.status().message())}});
    return graphs_.FinishPrepare(name, version, prepared.status(), nullptr);
  }
  options_.logger->Log(LogLevel::kInfo, "graph ready", {{"graph", name}, {"version", absl::StrCat(version)}});
  prepared->graph->AddReservation(memory.Split(prepared->graph->size_bytes()));
  std::shared_ptr<Reservation> features_memory;
  if (prepared->features) {
    features_memory = std::make_shared<Reservation>(memory.Split(prepared->features->size_bytes()));
  }
  memory.Release();
  graphs_.FinishPrepare(name, version, std::move(prepared->graph), std::move(prepared->features),
                        std::move(features_memory));
  GraphsChanged();
}

StatusOr<FeatureSetHandle> EngineImpl::PutFeatures(const std::string& graph, const std::string& name,
                                                   const FeatureTensors& tensors, bool replace, int64_t if_version,
                                                   int64_t reserved_bytes) try {
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle, graphs_.Find(graph, 0, "", 0));
  const std::string what = absl::StrCat("feature set '", name, "'");
  VICINAL_ASSIGN_OR_RETURN(Reservation memory,
                           budget_.Reserve(Account::kPreparing, FeaturePreparationBytesBound(tensors), what,
                                           {.replace = replace, .own_bytes = reserved_bytes}));
  VICINAL_ASSIGN_OR_RETURN(auto matrix, PrepareFeatures(tensors, *handle.graph, device_));
  VICINAL_RETURN_IF_ERROR(Cover(matrix->size_bytes(), what, &memory));
  memory.Shrink(matrix->size_bytes());
  return graphs_.PutFeatures(graph, name, handle.graph->parts().version, std::move(matrix), replace, if_version,
                             std::make_shared<Reservation>(std::move(memory)));
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// --- tuning ---

TuningService::Parts EngineImpl::TuningParts() {
  TuningService::Parts parts;
  parts.device = &device_;
  parts.registry = registry_.get();
  parts.budget = &budget_;
  parts.clock = options_.clock;
  parts.stats = options_.stats;
  parts.logger = options_.logger;
  parts.meter = options_.run_meter;
  parts.budget_per_key = options_.tuning_budget;
  parts.budget_per_graph = options_.max_tuning_per_graph;
  parts.is_current = [this](const PreparedGraph& graph) { return IsCurrent(graph); };
  parts.on_change = [this] { plans_.PurgeStale(); };
  return parts;
}

Status EngineImpl::ForceSetting(const PreparedGraph& graph, const std::vector<TuningWork>& works,
                                const ForcedConfiguration& forced) {
  static constexpr char kLayouts[] = "what the forced kernel prepares";
  VICINAL_ASSIGN_OR_RETURN(Reservation memory, budget_.Reserve(Account::kTuning, 0, kLayouts));
  const auto admit = [&memory](int64_t bytes) { return memory.Grow(bytes, kLayouts); };
  StatusOr<std::vector<TuningRecord>> made =
      ForcedRecords({registry_.get(), device_.kind(), options_.clock, admit}, graph, works, forced);
  graph.SettleReservation(&memory);
  VICINAL_ASSIGN_OR_RETURN(std::vector<TuningRecord> records, std::move(made));
  for (size_t i = 0; i < works.size(); ++i) {
    graph.tuning().Note(works[i]);
    graph.tuning().Put(std::move(records[i]));
    options_.stats->TuningRun("forced", 0.0, 0, 0);
  }
  return OkStatus();
}

StatusOr<TuningReport> EngineImpl::TuneGraph(const TuneGraphRequest& request) try {
  if (request.reset && request.force.has_value()) {
    return InvalidArgument("RESET_AND_FORCE", "reset", "a request resets or forces, not both");
  }
  if (request.budget < Nanoseconds::zero()) {
    return InvalidArgument("BAD_BUDGET", "budget", "a budget is not negative; 0 means the server's own");
  }
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle, graphs_.Find(request.graph, request.graph_version, "", 0));
  const PreparedGraph& graph = *handle.graph;
  VICINAL_ASSIGN_OR_RETURN(const std::vector<TuningWork> works, WorksOf(request, graph, *registry_, device_.kind()));
  if (request.force.has_value()) {
    VICINAL_RETURN_IF_ERROR(ForceSetting(graph, works, *request.force));
    plans_.PurgeStale();
  } else if (request.reset) {
    for (const TuningWork& work : works) graph.tuning().Note(work), graph.tuning().Reset(work.key);
    plans_.PurgeStale();
  } else {
    for (const TuningWork& work : works) graph.tuning().Note(work);
    constexpr Nanoseconds kOrdered = std::chrono::milliseconds(500);
    const Nanoseconds own = options_.tuning_budget > Nanoseconds::zero() ? options_.tuning_budget : kOrdered;
    const Nanoseconds budget = request.budget > Nanoseconds::zero() ? request.budget : own;
    VICINAL_RETURN_IF_ERROR(tuning_.Order(handle.graph, works, budget, request.wait, request.limits));
  }
  TuningReport report = {request.graph, graph.parts().version, {}};
  for (const TuningWork& work : works) report.records.push_back(*graph.tuning().Record(work.key));
  return report;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

StatusOr<TuningReport> EngineImpl::GetTuning(const std::string& graph) const {
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle, graphs_.Find(graph, 0, "", 0));
  return TuningReport{graph, handle.graph->parts().version, handle.graph->tuning().Records()};
}

// --- models ---

StatusOr<ModelHandle> EngineImpl::PutModel(ModelSource source, const WorkLimits& limits, Reservation memory) try {
  VICINAL_RETURN_IF_ERROR(models_.CheckPut(source.name, source.replace, source.if_version));
  StoredModel stored;
  stored.name = source.name;
  VICINAL_ASSIGN_OR_RETURN(stored.model, LoadModel(source.architecture_json, source.weights_file));
  Reservation weights = memory.Split(static_cast<int64_t>(source.weights_file.size()));
  std::string().swap(source.weights_file);
  VICINAL_ASSIGN_OR_RETURN(
      Reservation kept,
      budget_.Reserve(Account::kPreparing, stored.model->size_bytes, absl::StrCat("model '", source.name, "'"),
                      {.replace = source.replace, .own_bytes = memory.bytes(), .consumed = &weights}));
  stored.memory = std::make_shared<Reservation>(std::move(kept));
  if (source.reference) {
    VICINAL_ASSIGN_OR_RETURN(stored.reference_error, CheckModel(stored.model, *source.reference, source.name, limits));
    stored.reference_checked = true;
  }
  VICINAL_ASSIGN_OR_RETURN(ModelHandle handle, models_.Put(std::move(stored), source.replace, source.if_version));
  plans_.PurgeStale();
  options_.logger->Log(LogLevel::kInfo, "model ready",
                       {{"model", handle->name}, {"version", absl::StrCat(handle->version)}});
  return handle;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

StatusOr<double> EngineImpl::CheckModel(const std::shared_ptr<const Model>& model, const ModelReference& reference,
                                        const std::string& name, const WorkLimits& limits) {
  if (!(reference.tolerance >= 0.0 && reference.tolerance < 1.0)) {
    return InvalidArgument("BAD_REFERENCE", "reference.tolerance",
                           "the tolerance must be at least 0 and below 1; 0 means 1e-4");
  }
  const StatusOr<Safetensors> parsed = Safetensors::Parse(reference.file);
  if (!parsed.ok()) return WithField(parsed.status(), "reference");
  const Safetensors& file = *parsed;
  VICINAL_ASSIGN_OR_RETURN(const ReferenceAnswers answers, ReadReferenceAnswers(file, *model));
  InlineGraph graph;
  if (reference.graph.empty()) {
    VICINAL_ASSIGN_OR_RETURN(graph, ReadInlineGraph(file, *model, inline_graphs_, *options_.clock));
  } else {
    if (model->graph_level) {
      return FailedPrecondition(
          "GRAPH_MODEL",
          "a model of graphs cannot be checked on a stored graph; leave reference.graph empty and send the graphs in "
          "line: edge_index, x and ptr in the reference file");
    }
    VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle,
                             graphs_.Find(reference.graph, reference.graph_version,
                                          reference.feature_set.empty() ? "default" : reference.feature_set, 0));
    graph = {handle.graph, handle.features->matrix};
  }
  VICINAL_RETURN_IF_ERROR(CheckEdgeWeights(*model, name, *graph.graph));
  VICINAL_ASSIGN_OR_RETURN(const NamedOutput* output, FindOutput(*model, ""));
  QueuedRequest request;
  request.key = {{}, {name}, {}, NewPrivateId()};
  request.graph = graph.graph;
  request.model = model;
  request.features = graph.features;
  request.output = output->value;
  request.limits = limits;
  request.nodes.all = !answers.nodes.has_value();
  if (answers.nodes) {
    VICINAL_RETURN_IF_ERROR(CheckNodeIds(*answers.nodes, graph.graph->num_nodes(), "reference.nodes"));
    request.nodes.ids = *answers.nodes;
  }
  VICINAL_ASSIGN_OR_RETURN(const InferenceResult result, executor_.SubmitAndWait(std::move(request)));
  if (result.rows != answers.rows) {
    return InvalidArgument(
        "BAD_REFERENCE", "reference",
        absl::StrCat("the reference has ", answers.rows, " rows, but the model gives ", result.rows, " on its graph"));
  }
  const ReferenceRows rows = {&answers.values, &result.values,  answers.nodes ? &*answers.nodes : nullptr,
                              answers.rows,    answers.classes, model->graph_level ? "graph" : "node"};
  return CheckReference(rows, reference.tolerance > 0 ? reference.tolerance : kDefaultReferenceTolerance);
}

// --- inference ---

Status EngineImpl::Submit(InferenceRequest request, InferenceCallback done) try {
  VICINAL_ASSIGN_OR_RETURN(QueuedRequest resolved, resolver_.Resolve(std::move(request)));
  resolved.done = std::move(done);
  return executor_.Submit(std::move(resolved));
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status EngineImpl::SubmitBatch(GraphBatchRequest request, InferenceCallback done) try {
  VICINAL_ASSIGN_OR_RETURN(QueuedRequest resolved, resolver_.ResolveBatch(std::move(request)));
  resolved.done = std::move(done);
  return executor_.Submit(std::move(resolved));
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

StatusOr<Explanation> EngineImpl::Explain(const InferenceRequest& request) try {
  InferenceRequest asked = request;
  if (asked.nodes.ids.empty()) asked.nodes.all = true;
  VICINAL_ASSIGN_OR_RETURN(const QueuedRequest resolved, resolver_.Resolve(std::move(asked)));
  VICINAL_ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan, runner_.PlanFor(resolved, executor_.num_threads()));
  const PreparedGraph::Parts& parts = resolved.graph->parts();
  Explanation explanation;
  explanation.served_by = ServedByOf(resolved);
  explanation.steps = plan->Steps();
  for (const PlanStepInfo& step : explanation.steps) {
    explanation.tuning.push_back(step.tuning_key ? resolved.graph->tuning().Record(*step.tuning_key) : std::nullopt);
  }
  explanation.decisions = plan->Decisions();
  explanation.scratch_bytes = plan->scratch_bytes();
  explanation.order = absl::StrCat(std::string(ToString(parts.order)), ": ", parts.order_reason);
  explanation.device = device_.name();
  return explanation;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// --- about ---

std::vector<KernelStatus> EngineImpl::Kernels() const {
  std::vector<KernelStatus> kernels;
  registry_->ForEachOperation([&](const auto& operation) {
    for (const auto& entry : operation.kernels()) {
      kernels.push_back({std::string(operation.operation()), std::string(entry->kernel().name()),
                         entry->kernel().device() == DeviceKind::kCpu ? "cpu" : "cuda", entry->launches()});
      for (const std::string_view name : entry->kernel().ParameterNames()) kernels.back().parameters.emplace_back(name);
    }
  });
  return kernels;
}

}  // namespace

StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& given) {
  EngineOptions options = given;
  if (options.clock == nullptr) options.clock = &Clock::Real();
  if (options.stats == nullptr) options.stats = &StatsSink::Null();
  if (options.logger == nullptr) options.logger = &Logger::Null();
  if (options.run_meter == nullptr) options.run_meter = &RunMeter::Real();
  auto registry = std::make_unique<KernelRegistry>();
  VICINAL_ASSIGN_OR_RETURN(OpenedDevice opened, OpenDevice(options.device, options.backend_path, options.num_threads,
                                                           *registry, *options.logger));
  options.logger->Log(LogLevel::kInfo, "engine device",
                      {{"device", opened.device->name()},
                       {"description", opened.device->description()},
                       {"simd", CpuInstructionSet()}});
  return std::unique_ptr<Engine>(std::make_unique<EngineImpl>(options, std::move(registry), std::move(opened)));
}

}  // namespace vicinal
