// SPDX-License-Identifier: Apache-2.0
// Wires the engine's parts together. Members stand in the order they depend on each other, so that destruction
// (executor and preparation first) never pulls anything from under a running job.
#include "engine/api/engine.h"

#include <new>
#include <utility>

#include "engine/base/out_of_memory.h"
#include "engine/create_engine.h"
#include "engine/execute/describe.h"
#include "engine/execute/model_uploads.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/plan_runner.h"
#include "engine/execute/receptive_field_memory.h"
#include "engine/execute/resolve.h"
#include "engine/kernels/open_device.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepare/graph_uploads.h"
#include "engine/prepare/inline_graph.h"
#include "engine/tuning/graph_tuner.h"
#include "engine/tuning/tuning_service.h"

namespace vicinal {
namespace {

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, RunMeter* meter, std::unique_ptr<KernelRegistry> registry,
             OpenedDevice opened)
      : options_(options),
        registry_(std::move(registry)),
        opened_(std::move(opened)),
        device_(*opened_.device),
        budget_(options.memory_budget_bytes),
        graphs_({options.max_graphs, options.max_feature_sets, options.clock}),
        models_({options.max_models, options.clock}),
        plans_(options.max_cached_plans,
               [this](const PreparedGraph& graph, const std::string& name, const Model& model) {
                 return graphs_.IsServing(graph) && models_.IsServing(name, model);
               }),
        receptive_field_memory_(&device_, &budget_, [this] { return graphs_.largest_graph(); }),
        inline_graphs_(&budget_, &device_, options.max_nodes),
        resolver_(&graphs_, &models_, &inline_graphs_, &budget_, &device_),
        graph_uploads_({&device_, registry_.get(), &budget_, &graphs_, options.clock, options.stats, options.logger,
                        [this] { GraphsChanged(); }, options.max_preparations}),
        tuning_(TuningParts(meter)),
        tuner_(&graphs_, &tuning_),
        runner_({&device_, registry_.get(), &plans_, &budget_, &receptive_field_memory_, options.clock, options.stats,
                 [this](const std::shared_ptr<const PreparedGraph>& graph) { tuning_.Consider(graph); }}),
        executor_(device_, &runner_, {options.max_queue, options.clock, options.stats}),
        model_uploads_({&models_, &graphs_, &inline_graphs_, &budget_, &executor_, options.clock, options.logger,
                        [this] { plans_.PurgeStale(); }}) {
    // First what costs least to have again.
    budget_.AddEvictor(Account::kReceptiveFields, [this](int64_t) { return receptive_field_memory_.Evict(); });
    budget_.AddEvictor(Account::kPlans, [this](int64_t bytes) { return plans_.Evict(bytes) > 0; });
    tuning_.Start(&executor_);
  }
  ~EngineImpl() override { tuning_.Stop(); }

  StatusOr<GraphResource> PutGraph(GraphSource source, Reservation memory) override {
    VICINAL_ASSIGN_OR_RETURN(const GraphStatus status, graph_uploads_.PutGraph(std::move(source), std::move(memory)));
    return ResourceOf(status);
  }
  StatusOr<GraphResource> GetGraph(const std::string& name) const override {
    VICINAL_ASSIGN_OR_RETURN(const GraphStatus status, graphs_.Get(name));
    return ResourceOf(status);
  }
  std::vector<GraphResource> ListGraphs() const override { return ResourcesOf(graphs_.List()); }
  Status DeleteGraph(const std::string& name, int64_t if_version) override {
    VICINAL_RETURN_IF_ERROR(graphs_.Delete(name, if_version));
    GraphsChanged();
    return OkStatus();
  }
  StatusOr<TuningReport> TuneGraph(const TuneGraphRequest& request) override { return tuner_.Tune(request); }
  StatusOr<TuningReport> GetTuning(const std::string& graph) const override { return tuner_.Report(graph); }
  StatusOr<std::unique_ptr<Subscription>> WatchGraph(const std::string& name,
                                                     std::function<void()> on_change) override {
    VICINAL_RETURN_IF_ERROR(graphs_.Get(name).status());
    return graphs_.Watch(name, std::move(on_change));
  }
  StatusOr<FeatureSetResource> PutFeatures(const std::string& graph, const std::string& name,
                                           const FeatureTensors& tensors, bool replace, int64_t if_version,
                                           int64_t reserved_bytes) override {
    VICINAL_ASSIGN_OR_RETURN(const FeatureSetHandle set,
                             graph_uploads_.PutFeatures(graph, name, tensors, replace, if_version, reserved_bytes));
    return ResourceOf(*set);
  }
  Status DeleteFeatures(const std::string& graph, const std::string& name) override {
    return graphs_.DeleteFeatures(graph, name);
  }

  StatusOr<ModelResource> PutModel(ModelSource source, const WorkLimits& limits, Reservation memory) override {
    VICINAL_ASSIGN_OR_RETURN(const ModelHandle model, model_uploads_.Put(std::move(source), limits, std::move(memory)));
    return ResourceOf(*model);
  }
  StatusOr<ModelResource> GetModel(const std::string& name) const override {
    VICINAL_ASSIGN_OR_RETURN(const ModelHandle model, models_.Find(name, 0));
    return ResourceOf(*model);
  }
  std::vector<ModelResource> ListModels() const override { return ResourcesOf(models_.List()); }
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
  std::vector<KernelStatus> Kernels() const override { return KernelsOf(*registry_); }
  ResourceCounts Counts() const override { return CountsOf(graphs_.List(), models_.List()); }
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
  TuningService::Parts TuningParts(RunMeter* meter);

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
  GraphUploads graph_uploads_;
  TuningService tuning_;  // works on the executor, and hears of plans from it: begins after it and stops before
  GraphTuner tuner_;
  PlanRunner runner_;
  Executor executor_;
  ModelUploads model_uploads_;
};

TuningService::Parts EngineImpl::TuningParts(RunMeter* meter) {
  TuningService::Parts parts;
  parts.device = &device_;
  parts.registry = registry_.get();
  parts.budget = &budget_;
  parts.clock = options_.clock;
  parts.stats = options_.stats;
  parts.logger = options_.logger;
  parts.meter = meter;
  parts.budget_per_key = options_.tuning_budget;
  parts.budget_per_graph = options_.max_tuning_per_graph;
  parts.is_current = [this](const PreparedGraph& graph) { return graphs_.IsServing(graph); };
  parts.on_change = [this] { plans_.PurgeStale(); };
  return parts;
}

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
  return ExplanationOf(resolved, *plan, device_.name());
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace

StatusOr<std::unique_ptr<Engine>> CreateEngineWithMeter(const EngineOptions& given, RunMeter* meter) {
  EngineOptions options = given;
  if (options.clock == nullptr) options.clock = &Clock::Real();
  if (options.stats == nullptr) options.stats = &StatsSink::Null();
  if (options.logger == nullptr) options.logger = &Logger::Null();
  auto registry = std::make_unique<KernelRegistry>();
  VICINAL_ASSIGN_OR_RETURN(OpenedDevice opened, OpenDevice(options.device, options.backend_path, options.num_threads,
                                                           *registry, *options.logger));
  options.logger->Log(LogLevel::kInfo, "engine device",
                      {{"device", opened.device->name()},
                       {"description", opened.device->description()},
                       {"simd", CpuInstructionSet()}});
  return std::unique_ptr<Engine>(std::make_unique<EngineImpl>(options, meter, std::move(registry), std::move(opened)));
}

StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  return CreateEngineWithMeter(options, &RunMeter::Real());
}

std::vector<OrderKind> Engine::AvailableOrders() {
  std::vector<OrderKind> orders;
  for (const OrderKind order : KnownOrders()) {
    if (IsAvailable(order)) orders.push_back(order);
  }
  return orders;
}

std::vector<LayerTypeInfo> Engine::LayerTypes() { return SupportedLayerTypes(); }

std::string Engine::InstructionSet() { return CpuInstructionSet(); }

}  // namespace vicinal
