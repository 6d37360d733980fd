// SPDX-License-Identifier: Apache-2.0
// Wires the engine's parts together. Members stand in the order they depend on each other, so that destruction
// (executor and preparation first) never pulls anything from under a running job.
#include "engine/api/engine.h"

#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/uuid.h"
#include "engine/coordination/graph_tiers.h"
#include "engine/coordination/inference_calls.h"
#include "engine/coordination/resource_calls.h"
#include "engine/coordination/resource_descriptions.h"
#include "engine/coordination/serving_changes.h"
#include "engine/create_engine.h"
#include "engine/device/limited_device.h"
#include "engine/durable/code_id.h"
#include "engine/durable/durable_store.h"
#include "engine/durable/graph_loader.h"
#include "engine/durable/kernel_quarantine.h"
#include "engine/durable/layout_keeper.h"
#include "engine/durable/open_state.h"
#include "engine/durable/reached.h"
#include "engine/durable/read_ahead.h"
#include "engine/durable/scratch_directory.h"
#include "engine/durable/tuning_keeper.h"
#include "engine/execute/answer_cache.h"
#include "engine/execute/answer_keeper.h"
#include "engine/execute/answer_versions.h"
#include "engine/execute/answers_ahead.h"
#include "engine/execute/describe.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/plan_runner.h"
#include "engine/execute/plans_ahead.h"
#include "engine/execute/receptive_field_memory.h"
#include "engine/kernels/open_device.h"
#include "engine/kernels/run_time_compilation.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepare/inline_graph.h"
#include "engine/tuning/community_library.h"
#include "engine/tuning/tuning_service.h"

namespace vicinal {
namespace {

// What tuning decisions hold for: one kind of processor or GPU.
std::string KindOf(const Device& device) {
  if (device.kind() != DeviceKind::kCpu) return device.description();
  return absl::StrCat(device.description(), ", ", CpuInstructionSet());
}

// What EngineOptions::max_answer_bytes says.
int64_t AnswerBytes(const EngineOptions& options) {
  if (options.max_answer_bytes > 0) return options.max_answer_bytes;
  return options.memory_budget_bytes > 0 ? options.memory_budget_bytes / 4 : int64_t{1} << 30;
}

// From how long on a run does not keep small queries waiting. On a CPU they take cores from it; a GPU has room for
// both.
Nanoseconds LongRunOn(DeviceKind device) {
  return device == DeviceKind::kCpu ? std::chrono::milliseconds(2) : std::chrono::microseconds(500);
}

// Kernels that a backend compiles are kept beside what they serve, in the only directory that this process writes.
RunTimeCompilation CompilationOf(const EngineOptions& options) {
  RunTimeCompilation setting;
  const std::string& directory = options.state_read_only ? options.scratch_dir : options.state_dir;
  if (!directory.empty()) setting.directory = directory + "/compiled";
  return setting;
}

// What has to be opened before the engine can be put together.
struct OpenedParts {
  std::unique_ptr<KernelRegistry> registry = std::make_unique<KernelRegistry>();
  OpenedDevice device;
  std::unique_ptr<durable::OpenState> state;       // null: in memory only
  std::unique_ptr<durable::ReadAhead> read_ahead;  // null without `state`
  durable::ScratchDirectory scratch;               // of replicas
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, RunMeter* meter, OpenedParts opened)
      : options_(options),
        compilation_(CompilationOf(options), options.logger, options.stats),
        opened_(std::move(opened)),
        limited_(LimitOf(*opened_.device.device, options)),
        device_(limited_ != nullptr ? *limited_ : *opened_.device.device),
        incarnation_(state() != nullptr ? state()->directory().incarnation() : MakeUuid()),
        budget_(options.memory_budget_bytes),
        graphs_({options.max_graphs, options.max_feature_sets, options.clock,
                 state() != nullptr ? state()->graph_versions() : nullptr,
                 state() != nullptr ? state()->feature_versions() : nullptr}),
        models_({options.max_models, options.clock, state() != nullptr ? state()->model_versions() : nullptr}),
        plans_(options.max_cached_plans,
               [this](const PreparedGraph& graph, const std::string& name, const Model& model) {
                 return graphs_.IsServing(graph) && models_.IsServing(name, model);
               }),
        answers_({AnswerBytes(options), &budget_, options.stats,
                  [this](const AnswerKey& key) { return IsCurrent(key, graphs_, models_); },
                  [this](const AnswerKey& names, const AnswerVersions& versions) {
                    return KeyOnceServing(names, versions, graphs_, models_, incarnation_);
                  }}),
        receptive_field_memory_(&device_, &budget_, [this] { return graphs_.largest_graph(); }),
        side_memory_(&device_, &budget_, [this] { return graphs_.largest_graph(); }),
        inline_graphs_(&budget_, &device_, options.max_nodes),
        resolver_(&graphs_, &models_, &inline_graphs_, &budget_, &device_, incarnation_),
        descriptions_(incarnation_, device_.kind()),
        tiers_({&graphs_, &plans_, &receptive_field_memory_, &side_memory_, &budget_, &device_, options.clock,
                options.stats, options.logger, &descriptions_, state() != nullptr}),
        changes_({&graphs_, options.tuning_budget > Nanoseconds::zero() ? &seeds_ : nullptr, &plans_, &answers_,
                  &receptive_field_memory_, &side_memory_, &plans_ahead_, &answers_ahead_, options.logger}),
        quarantine_(MakeQuarantine()),
        tuning_(TuningParts(meter)),
        tuner_(&graphs_, &tuning_),
        runner_(RunnerParts(&receptive_field_memory_)),
        side_runner_(RunnerParts(&side_memory_)),
        keeper_({options.keep_answers, &answers_, &runner_, &budget_, options.clock, options.stats, options.logger,
                 options.run_elsewhere}),
        answers_ahead_({&answers_, &runner_, &graphs_, &models_, options.clock, options.stats, options.logger}),
        executor_(device_, &runner_,
                  {options.max_queue, options.clock, options.stats, options.max_queue_per_client,
                   options.max_batch_delay, LongRunOn(device_.kind())},
                  &side_runner_),
        plans_ahead_({&runner_, &plans_, &graphs_, &models_, options.logger, options.clock}),
        graph_uploads_({&device_, opened_.registry.get(), quarantine_.get(), &budget_, &graphs_, options.clock,
                        options.stats, options.logger,
                        [this](const std::shared_ptr<const PreparedGraph>& graph, const std::string& feature_set,
                               const std::shared_ptr<const FeatureMatrix>& features,
                               const StopCheck& stop) { changes_.BeforeGraph(graph, feature_set, features, stop); },
                        [this](const std::shared_ptr<const PreparedGraph>& graph, const std::string& feature_set,
                               const std::shared_ptr<const EdgeMatrix>& edges,
                               const StopCheck& stop) { changes_.BeforeEdges(graph, feature_set, edges, stop); },
                        [this](const std::string& graph) {
                          changes_.GraphsChanged();
                          if (durable_ != nullptr) durable_->GraphPublished(graph);
                        },
                        options.max_preparations}),
        model_uploads_({&models_, &graphs_, &inline_graphs_, &budget_, &executor_, options.clock, options.logger,
                        [this](const std::string& name, const std::shared_ptr<const Model>& model,
                               const StopCheck& stop) { changes_.BeforeModel(name, model, stop); },
                        [this](const ModelHandle& model, std::shared_ptr<const ModelDocument> document) {
                          changes_.DropStale();
                          if (durable_ != nullptr) durable_->ModelPublished(model, std::move(document));
                        },
                        state() != nullptr}) {
    keeper_.Start(&executor_);
    answers_ahead_.Start(&executor_);
    AddEvictors();
    if (state() != nullptr) {
      OpenDurable();
    } else if (limited_ != nullptr) {
      loader_ = std::make_unique<durable::GraphLoader>(LoaderParts());
    }
    descriptions_.Start(durable_.get());
    tiers_.Start(loader());
    resource_calls_ = std::make_unique<ResourceCalls>(ResourceCalls::Parts{
        &graphs_, &models_, &graph_uploads_, &model_uploads_, &tuner_, &tiers_, &changes_, &descriptions_,
        durable_.get(), options.state_read_only ? &state()->directory() : nullptr});
    tuning_.Start(&executor_);
  }
  ~EngineImpl() override {
    if (loader() != nullptr) loader()->Stop();           // what waits there would go to the executor
    if (durable_ != nullptr) durable_->StopFollowing();  // it waits for passes of the executor
    tuning_.Stop();
  }

  // Loads what is in the state directory. Once, before any other call.
  Status Load() { return durable_ != nullptr ? durable_->Load() : OkStatus(); }

  // --- graphs, feature sets and models ---
  Status CheckGraphFits(const GraphSizes& sizes, bool replace) override {
    return resource_calls_->CheckGraphFits(sizes, replace);
  }
  Status CheckFeaturesFit(const FeatureSizes& sizes, bool replace) override {
    return resource_calls_->CheckFeaturesFit(sizes, replace);
  }
  Status CheckEdgeFeaturesFit(const EdgeFeatureSizes& sizes, bool replace) override {
    return resource_calls_->CheckEdgeFeaturesFit(sizes, replace);
  }
  StatusOr<GraphResource> PutGraph(GraphSource source, Reservation memory) override {
    return resource_calls_->PutGraph(std::move(source), std::move(memory));
  }
  StatusOr<GraphResource> GetGraph(const std::string& name) const override { return resource_calls_->GetGraph(name); }
  std::vector<GraphResource> ListGraphs() const override { return resource_calls_->ListGraphs(); }
  Status DeleteGraph(const std::string& name, int64_t if_version) override {
    return resource_calls_->DeleteGraph(name, if_version);
  }
  StatusOr<TuningReport> TuneGraph(const TuneGraphRequest& request) override {
    return resource_calls_->TuneGraph(request);
  }
  StatusOr<TuningReport> GetTuning(const std::string& graph) const override {
    return resource_calls_->GetTuning(graph);
  }
  StatusOr<std::string> ExportTuning(const std::string& graph) const override {
    return resource_calls_->ExportTuning(graph);
  }
  StatusOr<GraphPicture> Picture(const std::string& graph, int side) const override {
    return resource_calls_->Picture(graph, side);
  }
  StatusOr<std::unique_ptr<Subscription>> WatchGraph(const std::string& name,
                                                     std::function<void()> on_change) override {
    VICINAL_RETURN_IF_ERROR(graphs_.Get(name).status());
    return graphs_.Watch(name, std::move(on_change));
  }
  StatusOr<FeatureSetResource> PutFeatures(const std::string& graph, const std::string& name,
                                           const FeatureTensors& tensors, bool replace, int64_t if_version,
                                           const GivenTensors& given, const WorkLimits& limits) override {
    return resource_calls_->PutFeatures(graph, name, tensors, replace, if_version, given, limits);
  }
  StatusOr<FeatureSetResource> PutEdgeFeatures(const std::string& graph, const std::string& name,
                                               const EdgeFeatureTensors& tensors, bool replace, int64_t if_version,
                                               int64_t reserved_bytes, const WorkLimits& limits) override {
    return resource_calls_->PutEdgeFeatures(graph, name, tensors, replace, if_version, reserved_bytes, limits);
  }
  Status DeleteFeatures(const std::string& graph, const std::string& name, FeatureKind kind,
                        int64_t if_version) override {
    return resource_calls_->DeleteFeatures(graph, name, kind, if_version);
  }
  StatusOr<ModelResource> PutModel(ModelSource source, const WorkLimits& limits, Reservation memory) override {
    return resource_calls_->PutModel(std::move(source), limits, std::move(memory));
  }
  StatusOr<ModelResource> GetModel(const std::string& name) const override { return resource_calls_->GetModel(name); }
  std::vector<ModelResource> ListModels() const override { return resource_calls_->ListModels(); }
  Status DeleteModel(const std::string& name, int64_t if_version) override {
    return resource_calls_->DeleteModel(name, if_version);
  }
  StatusOr<bool> HasReached(const UploadedVersion& version, WaitFor wait_for) const override {
    return durable::HasReached(graphs_, models_, durable_.get(), version, wait_for);
  }
  std::unique_ptr<Subscription> WatchVersion(const UploadedVersion& version, std::function<void()> on_change) override {
    return version.kind == UploadedVersion::Kind::kModel ? models_.Watch(version.name, std::move(on_change))
                                                         : graphs_.Watch(version.name, std::move(on_change));
  }

  // --- inference ---
  Status Submit(InferenceRequest request, InferenceCallback done) override {
    return inference_calls_.Submit(std::move(request), std::move(done));
  }
  Status SubmitBatch(GraphBatchRequest request, InferenceCallback done) override {
    return inference_calls_.SubmitBatch(std::move(request), std::move(done));
  }
  StatusOr<Explanation> Explain(const InferenceRequest& request) override { return inference_calls_.Explain(request); }
  MemoryBudget& memory() override { return budget_; }

  // --- about ---
  std::vector<DeviceInfo> Devices() const override {
    return {{device_.name(), device_.description(), device_.pci_address()}};
  }
  std::vector<KernelStatus> Kernels() const override { return KernelsOf(*opened_.registry); }
  ResourceCounts Counts() const override {
    ResourceCounts counts;
    graphs_.ForEach([&](const GraphStatus& graph) { AddTo(&counts, graph, device_.kind()); });
    for (const ModelHandle& model : models_.List()) AddTo(&counts, *model, device_.kind());
    if (limited_ != nullptr) {
      counts.device_allocated_bytes = limited_->allocated_bytes();
      counts.device_limit_bytes = limited_->limit();
    }
    if (durable_ == nullptr) return counts;
    const durable::DurableStore::WriteState written = durable_->write_state();
    counts.not_durable = written.not_durable;
    counts.last_state_write = written.last_write;
    counts.on_disk = durable_->on_disk();
    return counts;
  }
  int64_t quarantined_kernels() const override { return quarantine_ != nullptr ? quarantine_->count() : 0; }
  int64_t queue_depth() const override { return executor_.queue_depth(); }
  int64_t kept_answers() const override { return answers_.count(); }
  double busy_seconds() const override { return executor_.busy_seconds(); }
  Status Health() override {
    VICINAL_RETURN_IF_ERROR(device_.Health());
    return durable_ != nullptr ? durable_->health() : OkStatus();
  }
  Status CheckWritable() const override { return resource_calls_->CheckWritable(); }
  Status CheckUploads(int64_t bytes) const override {
    VICINAL_RETURN_IF_ERROR(CheckWritable());
    return durable_ != nullptr ? durable_->CheckSpace(bytes) : OkStatus();
  }
  bool loaded() const override { return durable_ == nullptr || durable_->loaded(); }
  bool durable() const override { return durable_ != nullptr; }
  std::string incarnation() const override { return incarnation_; }
  Status Advertise(const std::string& address) override {
    if (state() == nullptr || options_.state_read_only) return OkStatus();
    return state()->directory().SetAddress(address);
  }
  bool Drain(MonotonicTime deadline, const StopCheck& hurry) override {
    if (loader() != nullptr) loader()->Stop();
    const bool drained = executor_.Drain(deadline);
    graph_uploads_.AwaitPublished();             // then what clients have seen READY is queued to be written
    if (durable_ != nullptr) durable_->Retry();  // the last chance of what waits for space
    return (durable_ == nullptr || durable_->Flush(deadline, hurry)) && drained;
  }

 private:
  // Graphs that are loaded at once: one alone seldom keeps the disk and all processors busy.
  static constexpr int kLoaders = 2;

  durable::OpenState* state() const { return opened_.state.get(); }
  // Who loads graphs from disk, or brings them back to the device; null: all are where they serve.
  durable::GraphLoader* loader() const { return durable_ != nullptr ? &durable_->loader() : loader_.get(); }
  // Null on a device that has the host's memory.
  std::unique_ptr<LimitedDevice> LimitOf(Device& device, const EngineOptions& options) {
    if (device.kind() == DeviceKind::kCpu) return nullptr;
    return std::make_unique<LimitedDevice>(&device, options.device_memory_bytes,
                                           [this](int64_t bytes) { return tiers_.EvictFromDevice(bytes); });
  }
  void AddEvictors();
  // What keeps things in the state directory.
  void OpenDurable();
  // Of a loader for graphs that are on the host: without a state directory.
  durable::GraphLoader::Parts LoaderParts();
  std::unique_ptr<durable::KernelQuarantine> MakeQuarantine();
  // Graphs stop using the configuration at once.
  void Withdraw(const std::string& configuration);
  TuningService::Parts TuningParts(RunMeter* meter);
  PlanRunner::Parts RunnerParts(ReceptiveFieldMemory* memory);

  const EngineOptions options_;
  const ScopedRunTimeCompilation compilation_;
  const OpenedParts opened_;
  const std::unique_ptr<LimitedDevice> limited_;  // null: the device has no memory of its own
  Device& device_;
  const std::string incarnation_;
  MemoryBudget budget_;
  GraphStore graphs_;
  ModelStore models_;
  PlanCache plans_;
  AnswerCache answers_;
  ReceptiveFieldMemory receptive_field_memory_, side_memory_;
  InlineGraphMaker inline_graphs_;
  RequestResolver resolver_;
  SeedLibrary seeds_;
  CommunityLibrary communities_;
  ResourceDescriptions descriptions_;
  GraphTiers tiers_;
  const ServingChanges changes_;
  const std::unique_ptr<durable::KernelQuarantine> quarantine_;  // null without a state directory
  std::unique_ptr<durable::TuningKeeper> tuning_keeper_;         // likewise
  std::unique_ptr<durable::LayoutKeeper> layout_keeper_;         // likewise
  std::unique_ptr<durable::DurableStore> durable_;               // likewise; outlives those who publish
  std::unique_ptr<durable::GraphLoader> loader_;                 // only without a state directory, and with limited_
  TuningService tuning_;  // works on the executor, and hears of plans from it: begins after it and stops before
  GraphTuner tuner_;
  PlanRunner runner_, side_runner_;
  AnswerKeeper keeper_;
  AnswersAhead answers_ahead_;
  Executor executor_;
  PlansAhead plans_ahead_;
  GraphUploads graph_uploads_;
  ModelUploads model_uploads_;
  std::unique_ptr<const ResourceCalls> resource_calls_;
  const InferenceCalls inference_calls_{{&graphs_, &tiers_, &resolver_, &keeper_, &executor_, &runner_,
                                         opened_.registry.get(), &device_, options_.clock}};
};

void EngineImpl::AddEvictors() {
  // First what costs least to have again.
  budget_.AddEvictor(Account::kAnswers, [this](int64_t bytes) { return answers_.Evict(bytes) > 0; });
  budget_.AddEvictor(Account::kReceptiveFields,
                     [this](int64_t) { return receptive_field_memory_.Evict() || side_memory_.Evict(); });
  budget_.AddEvictor(Account::kPlans, [this](int64_t bytes) { return plans_.Evict(bytes) > 0; });
  if (state() == nullptr) return;
  for (const Account account : {Account::kGraphs, Account::kFeatures}) {
    budget_.AddEvictor(account, [this](int64_t bytes) { return tiers_.Evict(bytes); });
  }
}

void EngineImpl::OpenDurable() {
  tuning_keeper_ = std::make_unique<durable::TuningKeeper>(durable::TuningKeeper::Parts{
      &state()->directory(), opened_.registry.get(), device_.kind(), KindOf(device_), options_.logger,
      [this](const PreparedGraph& graph) {
        seeds_.Learn(graph.parts().name, graph.parts().profile, graph.tuning().Decided());
      },
      quarantine_.get(), options_.state_read_only});
  layout_keeper_ = std::make_unique<durable::LayoutKeeper>(
      durable::LayoutKeeper::Parts{&state()->directory(), opened_.registry.get(), &device_, KindOf(device_), &budget_,
                                   options_.logger, options_.state_read_only});
  durable_ = std::make_unique<durable::DurableStore>(durable::DurableStore::Parts{
      &state()->directory(),
      &graphs_,
      &models_,
      &device_,
      &budget_,
      options_.logger,
      [this] { changes_.GraphsChanged(); },
      std::chrono::seconds(60),
      options_.clock,
      tuning_keeper_.get(),
      options_.stats,
      kLoaders,
      options_.max_queue,
      options_.state_read_only,
      options_.follow_period,
      options_.state_retry_period,
      layout_keeper_.get(),
      [this](const std::shared_ptr<const PreparedGraph>& graph, const std::vector<FeatureSet>& feature_sets) {
        changes_.BeforeLoaded(graph, feature_sets);
      },
      [this](const std::string& name, const StopCheck& stop) { changes_.AfterStart(name, stop); },
      [this](const std::shared_ptr<const PreparedGraph>& graph, const std::vector<FeatureSet>& feature_sets,
             const StopCheck& stop) { changes_.BeforeFollowingGraph(graph, feature_sets, stop); },
      [this](const std::string& name, const std::shared_ptr<const Model>& model, const StopCheck& stop) {
        changes_.BeforeModel(name, model, stop);
      }});
}

durable::GraphLoader::Parts EngineImpl::LoaderParts() {
  durable::GraphLoader::Parts parts;
  parts.graphs = &graphs_;
  parts.device = &device_;
  parts.budget = &budget_;
  parts.logger = options_.logger;
  parts.stats = options_.stats;
  parts.on_load = [this] { changes_.GraphsChanged(); };
  parts.num_threads = kLoaders;
  parts.max_waiting = options_.max_queue;
  parts.clock = options_.clock;
  return parts;
}

std::unique_ptr<durable::KernelQuarantine> EngineImpl::MakeQuarantine() {
  if (state() == nullptr) return nullptr;
  durable::KernelQuarantine::Parts parts;
  parts.files = options_.state_read_only ? opened_.scratch.files.get() : &state()->files();
  parts.followed = options_.state_read_only ? &state()->files() : nullptr;
  parts.device = KindOf(device_);
  parts.build = durable::CodeId();
  parts.logger = options_.logger;
  parts.stats = options_.stats;
  parts.on_quarantine = [this](const std::string& configuration) { Withdraw(configuration); };
  return std::make_unique<durable::KernelQuarantine>(std::move(parts));
}

void EngineImpl::Withdraw(const std::string& configuration) {
  graphs_.ForEach([&](const GraphStatus& status) {
    if (status.graph != nullptr) tuning_keeper_->Withdraw(*status.graph, configuration);
  });
  plans_.Evict(std::numeric_limits<int64_t>::max());  // none is found again: the quarantine's revision has risen
}

TuningService::Parts EngineImpl::TuningParts(RunMeter* meter) {
  TuningService::Parts parts;
  parts.first_runs = quarantine_.get();
  parts.device = &device_;
  parts.registry = opened_.registry.get();
  parts.budget = &budget_;
  parts.clock = options_.clock;
  parts.stats = options_.stats;
  parts.logger = options_.logger;
  parts.meter = meter;
  parts.device_kind = KindOf(device_);
  parts.seeds = &seeds_;
  parts.budget_per_key = options_.tuning_budget;
  parts.budget_per_graph = options_.max_tuning_per_graph;
  parts.strategy = options_.tuning_strategy;
  parts.communities = &communities_;
  parts.random = std::mt19937_64();
  parts.is_current = [this](const PreparedGraph& graph) { return graphs_.IsServing(graph); };
  parts.on_change = [this] { plans_ahead_.AfterTuning(); };
  if (state() != nullptr) {
    parts.change = [this](const PreparedGraph& graph, const TuningChange& change) {
      return tuning_keeper_->Change(graph, change);
    };
  }
  return parts;
}

PlanRunner::Parts EngineImpl::RunnerParts(ReceptiveFieldMemory* memory) {
  return {
      &device_,
      opened_.registry.get(),
      quarantine_.get(),
      &plans_,
      &budget_,
      memory,
      options_.clock,
      options_.stats,
      [this](const std::shared_ptr<const PreparedGraph>& graph) { tuning_.Consider(graph); },
      [this](const QueuedRequest& request, double share, double seconds) { keeper_.Computed(request, share, seconds); },
      [this] { return executor_.num_threads(); }};
}

}  // namespace

StatusOr<std::unique_ptr<Engine>> CreateEngineWithMeter(const EngineOptions& given, RunMeter* meter) {
  EngineOptions options = given;
  if (options.clock == nullptr) options.clock = &Clock::Real();
  if (options.stats == nullptr) options.stats = &StatsSink::Null();
  if (options.logger == nullptr) options.logger = &Logger::Null();
  if (options.state_read_only) options.tuning_budget = Nanoseconds::zero();  // the writer's decisions serve
  OpenedParts opened;
  if (!options.state_dir.empty()) {
    VICINAL_ASSIGN_OR_RETURN(
        opened.state, durable::OpenState::Open(options.state_dir,
                                               options.state_read_only ? durable::OpenState::Access::kRead
                                                                       : durable::OpenState::Access::kWrite,
                                               options.state_address, *options.clock, *options.logger, *options.stats));
    // The disk reads while the device is opened, which takes a GPU a third of a second.
    const bool limited = options.memory_budget_bytes > 0;
    opened.read_ahead = std::make_unique<durable::ReadAhead>(
        opened.state->directory(), limited ? options.memory_budget_bytes : std::numeric_limits<int64_t>::max());
  }
  VICINAL_ASSIGN_OR_RETURN(opened.device, OpenDevice(options.device, options.backend_path, options.num_threads,
                                                     *opened.registry, *options.logger));
  options.logger->Log(LogLevel::kInfo, "engine device",
                      {{"device", opened.device.device->name()},
                       {"description", opened.device.device->description()},
                       {"simd", CpuInstructionSet()}});
  if (!options.scratch_dir.empty()) {
    VICINAL_ASSIGN_OR_RETURN(opened.scratch, durable::OpenScratch(options.scratch_dir));
  }
  auto engine = std::make_unique<EngineImpl>(options, meter, std::move(opened));
  VICINAL_RETURN_IF_ERROR(engine->Load());
  return std::unique_ptr<Engine>(std::move(engine));
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
