// SPDX-License-Identifier: Apache-2.0
// Wires the engine's parts together. Members stand in the order they depend on each other, so that destruction
// (executor and preparation first) never pulls anything from under a running job.
#include "engine/api/engine.h"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/uuid.h"
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
#include "engine/execute/answers_ahead.h"
#include "engine/execute/describe.h"
#include "engine/execute/model_uploads.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/plan_runner.h"
#include "engine/execute/plans_ahead.h"
#include "engine/execute/receptive_field_memory.h"
#include "engine/execute/resolve.h"
#include "engine/kernels/open_device.h"
#include "engine/kernels/run_time_compilation.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepare/graph_uploads.h"
#include "engine/prepare/inline_graph.h"
#include "engine/prepared/graph_picture.h"
#include "engine/store/graph_evictor.h"
#include "engine/tuning/community_library.h"
#include "engine/tuning/graph_tuner.h"
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

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, RunMeter* meter, std::unique_ptr<KernelRegistry> registry,
             OpenedDevice opened, std::unique_ptr<durable::OpenState> state,
             std::unique_ptr<durable::ReadAhead> read_ahead, durable::ScratchDirectory scratch)
      : options_(options),
        compilation_(CompilationOf(options), options.logger),
        registry_(std::move(registry)),
        opened_(std::move(opened)),
        limited_(LimitOf(*opened_.device, options)),
        device_(limited_ != nullptr ? *limited_ : *opened_.device),
        state_(std::move(state)),
        read_ahead_(std::move(read_ahead)),
        scratch_(std::move(scratch)),
        incarnation_(state_ != nullptr ? state_->directory().incarnation() : MakeUuid()),
        budget_(options.memory_budget_bytes),
        graphs_({options.max_graphs, options.max_feature_sets, options.clock,
                 state_ != nullptr ? state_->graph_versions() : nullptr,
                 state_ != nullptr ? state_->feature_versions() : nullptr}),
        models_({options.max_models, options.clock, state_ != nullptr ? state_->model_versions() : nullptr}),
        plans_(options.max_cached_plans,
               [this](const PreparedGraph& graph, const std::string& name, const Model& model) {
                 return graphs_.IsServing(graph) && models_.IsServing(name, model);
               }),
        answers_(
            {AnswerBytes(options), &budget_, options.stats,
             [this](const AnswerKey& key) {
               return graphs_.Peek(key.graph.name, key.graph.version, key.feature_set, key.feature_set_version).ok() &&
                      models_.Find(key.model.name, key.model.version).ok();
             },
             [this](const AnswerKey& names, const AnswerVersions& versions) {
               return KeyOnceServing(names, versions);
             }}),
        receptive_field_memory_(&device_, &budget_, [this] { return graphs_.largest_graph(); }),
        side_memory_(&device_, &budget_, [this] { return graphs_.largest_graph(); }),
        inline_graphs_(&budget_, &device_, options.max_nodes),
        resolver_(&graphs_, &models_, &inline_graphs_, &budget_, &device_, incarnation_),
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
        graph_uploads_({&device_, registry_.get(), quarantine_.get(), &budget_, &graphs_, options.clock, options.stats,
                        options.logger,
                        [this](const std::shared_ptr<const PreparedGraph>& graph, const std::string& feature_set,
                               const std::shared_ptr<const FeatureMatrix>& features, const StopCheck& stop) {
                          if (!graphs_.IsServing(*graph)) SeedGraph(*graph);
                          plans_ahead_.BeforeGraph(graph, features);
                          answers_ahead_.BeforeGraph(graph, feature_set, features, stop);
                        },
                        [this](const std::string& graph) { GraphPublished(graph); }, options.max_preparations}),
        model_uploads_(
            {&models_, &graphs_, &inline_graphs_, &budget_, &executor_, options.clock, options.logger,
             [this](const std::string& name, const std::shared_ptr<const Model>& model, const StopCheck& stop) {
               plans_ahead_.BeforeModel(name, model);
               answers_ahead_.BeforeModel(name, model, stop);
             },
             [this](const ModelHandle& model, std::shared_ptr<const ModelDocument> document) {
               ModelPublished(model, std::move(document));
             },
             state_ != nullptr}) {
    // First what costs least to have again.
    budget_.AddEvictor(Account::kAnswers, [this](int64_t bytes) { return answers_.Evict(bytes) > 0; });
    budget_.AddEvictor(Account::kReceptiveFields,
                       [this](int64_t) { return receptive_field_memory_.Evict() || side_memory_.Evict(); });
    budget_.AddEvictor(Account::kPlans, [this](int64_t bytes) { return plans_.Evict(bytes) > 0; });
    if (state_ != nullptr) {
      tuning_keeper_ = std::make_unique<durable::TuningKeeper>(durable::TuningKeeper::Parts{
          &state_->directory(), registry_.get(), device_.kind(), KindOf(device_), options.logger,
          [this](const PreparedGraph& graph) {
            seeds_.Learn(graph.parts().name, graph.parts().profile, graph.tuning().Decided());
          },
          quarantine_.get(), options.state_read_only});
      layout_keeper_ = std::make_unique<durable::LayoutKeeper>(
          durable::LayoutKeeper::Parts{&state_->directory(), registry_.get(), &device_, KindOf(device_), &budget_,
                                       options.logger, options.state_read_only});
      durable_ = std::make_unique<durable::DurableStore>(durable::DurableStore::Parts{
          &state_->directory(), &graphs_, &models_, &device_, &budget_, options.logger, [this] { GraphsChanged(); },
          std::chrono::seconds(60), options_.clock, tuning_keeper_.get(), options_.stats, kLoaders, options_.max_queue,
          options_.state_read_only, options_.follow_period, options_.state_retry_period, layout_keeper_.get(),
          [this](const std::shared_ptr<const PreparedGraph>& graph, const std::vector<FeatureSet>& feature_sets,
                 bool waited_for) { GraphLoaded(graph, feature_sets, waited_for); }});
      for (const Account account : {Account::kGraphs, Account::kFeatures}) {
        budget_.AddEvictor(account, [this](int64_t bytes) { return evictor_->Evict(bytes); });
      }
    } else if (limited_ != nullptr) {
      loader_ = std::make_unique<durable::GraphLoader>(LoaderParts());
    }
    keeper_.Start(&executor_);
    answers_ahead_.Start(&executor_);
    tuning_.Start(&executor_);
  }
  ~EngineImpl() override {
    if (loader() != nullptr) loader()->Stop();  // what waits there would go to the executor
    tuning_.Stop();
  }

  // Loads what is in the state directory. Once, before any other call.
  Status Load() { return durable_ != nullptr ? durable_->Load() : OkStatus(); }

  Status CheckGraphFits(const GraphSizes& sizes, bool replace) override {
    return UnlessForGood(graph_uploads_.CheckGraphFits(sizes, replace));
  }
  Status CheckFeaturesFit(const FeatureSizes& sizes, bool replace) override {
    return UnlessForGood(graph_uploads_.CheckFeaturesFit(sizes, replace));
  }
  StatusOr<GraphResource> PutGraph(GraphSource source, Reservation memory) override {
    VICINAL_RETURN_IF_ERROR(CheckWritable());
    const StatusOr<GraphStatus> status = graph_uploads_.PutGraph(std::move(source), std::move(memory));
    if (!status.ok()) return WithRetry(status.status());
    return ResourceOf(*status);
  }
  StatusOr<GraphResource> GetGraph(const std::string& name) const override {
    VICINAL_ASSIGN_OR_RETURN(const GraphStatus status, graphs_.Get(name));
    return Described(ResourceOf(status));
  }
  std::vector<GraphResource> ListGraphs() const override { return Described(ResourcesOf(graphs_.List())); }
  Status DeleteGraph(const std::string& name, int64_t if_version) override;
  StatusOr<TuningReport> TuneGraph(const TuneGraphRequest& request) override {
    VICINAL_RETURN_IF_ERROR(CheckWritable());
    VICINAL_RETURN_IF_ERROR(BringIn(request.graph, request.limits));
    return tuner_.Tune(request);
  }
  StatusOr<TuningReport> GetTuning(const std::string& graph) const override {
    VICINAL_RETURN_IF_ERROR(BringIn(graph, {}));
    return tuner_.Report(graph);
  }
  StatusOr<std::string> ExportTuning(const std::string& graph) const override {
    VICINAL_RETURN_IF_ERROR(BringIn(graph, {}));
    return tuner_.Export(graph);
  }
  StatusOr<GraphPicture> Picture(const std::string& name, int side) const override {
    VICINAL_ASSIGN_OR_RETURN(const GraphStatus status, graphs_.Get(name));
    const std::shared_ptr<const PreparedGraph> graph = status.host != nullptr ? status.host->graph() : status.graph;
    if (graph == nullptr) return FailedPrecondition("GRAPH_NOT_READY", "graph '" + name + "' is not in memory");
    return PictureOf(*graph, side);
  }
  StatusOr<std::unique_ptr<Subscription>> WatchGraph(const std::string& name,
                                                     std::function<void()> on_change) override {
    VICINAL_RETURN_IF_ERROR(graphs_.Get(name).status());
    return graphs_.Watch(name, std::move(on_change));
  }
  StatusOr<FeatureSetResource> PutFeatures(const std::string& graph, const std::string& name,
                                           const FeatureTensors& tensors, bool replace, int64_t if_version,
                                           const GivenTensors& given) override {
    VICINAL_RETURN_IF_ERROR(CheckWritable());
    VICINAL_RETURN_IF_ERROR(BringIn(graph, {}));
    const StatusOr<FeatureSetHandle> set = graph_uploads_.PutFeatures(graph, name, tensors, replace, if_version, given);
    if (!set.ok()) {
      ForgetUnpublished();
      return WithRetry(set.status());
    }
    answers_.PurgeStale();
    if (durable_ != nullptr) durable_->FeaturesPublished(*set);
    return Described(ResourceOf(**set));
  }
  Status DeleteFeatures(const std::string& graph, const std::string& name) override;

  StatusOr<ModelResource> PutModel(ModelSource source, const WorkLimits& limits, Reservation memory) override {
    VICINAL_RETURN_IF_ERROR(CheckWritable());
    if (source.reference) VICINAL_RETURN_IF_ERROR(BringIn(source.reference->graph, limits));
    const StatusOr<ModelHandle> model = model_uploads_.Put(std::move(source), limits, std::move(memory));
    if (!model.ok()) {
      ForgetUnpublished();
      return WithRetry(model.status());
    }
    return Described(ResourceOf(**model));
  }
  StatusOr<ModelResource> GetModel(const std::string& name) const override {
    VICINAL_ASSIGN_OR_RETURN(const ModelHandle model, models_.Find(name, 0));
    return Described(ResourceOf(*model));
  }
  std::vector<ModelResource> ListModels() const override { return Described(ResourcesOf(models_.List())); }
  Status DeleteModel(const std::string& name, int64_t if_version) override;

  StatusOr<bool> HasReached(const UploadedVersion& version, WaitFor wait_for) const override {
    return durable::HasReached(graphs_, models_, durable_.get(), version, wait_for);
  }
  std::unique_ptr<Subscription> WatchVersion(const UploadedVersion& version, std::function<void()> on_change) override {
    return version.kind == UploadedVersion::Kind::kModel ? models_.Watch(version.name, std::move(on_change))
                                                         : graphs_.Watch(version.name, std::move(on_change));
  }

  Status Submit(InferenceRequest request, InferenceCallback done) override;
  Status SubmitBatch(GraphBatchRequest request, InferenceCallback done) override;
  StatusOr<Explanation> Explain(const InferenceRequest& request) override;
  MemoryBudget& memory() override { return budget_; }

  std::vector<DeviceInfo> Devices() const override {
    return {{device_.name(), device_.description(), device_.pci_address()}};
  }
  std::vector<KernelStatus> Kernels() const override { return KernelsOf(*registry_); }
  ResourceCounts Counts() const override {
    ResourceCounts counts = CountsOf(graphs_.List(), models_.List(), device_.kind());
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
  Status CheckWritable() const override;
  Status CheckUploads(int64_t bytes) const override {
    VICINAL_RETURN_IF_ERROR(CheckWritable());
    return durable_ != nullptr ? durable_->CheckSpace(bytes) : OkStatus();
  }
  bool loaded() const override { return durable_ == nullptr || durable_->loaded(); }
  bool durable() const override { return durable_ != nullptr; }
  std::string incarnation() const override { return incarnation_; }
  Status Advertise(const std::string& address) override {
    if (state_ == nullptr || options_.state_read_only) return OkStatus();
    return state_->directory().SetAddress(address);
  }
  bool Drain(MonotonicTime deadline) override {
    if (loader() != nullptr) loader()->Stop();
    const bool drained = executor_.Drain(deadline);
    if (durable_ != nullptr) durable_->Retry();  // the last chance of what waits for space
    return (durable_ == nullptr || durable_->Flush(deadline)) && drained;
  }

 private:
  // Who loads graphs from disk, or brings them back to the device; null: all are where they serve.
  durable::GraphLoader* loader() const { return durable_ != nullptr ? &durable_->loader() : loader_.get(); }
  // Loads the graph of that name if it has to be loaded, and waits.
  Status BringIn(const std::string& graph, const WorkLimits& limits) const {
    if (loader() == nullptr || graphs_.StoredVersion(graph) == 0) return OkStatus();
    return loader()->LoadAndWait(graph, limits, *options_.clock);
  }
  // Null on a device that has the host's memory.
  std::unique_ptr<LimitedDevice> LimitOf(Device& device, const EngineOptions& options) {
    if (device.kind() == DeviceKind::kCpu) return nullptr;
    return std::make_unique<LimitedDevice>(&device, options.device_memory_bytes,
                                           [this](int64_t bytes) { return EvictFromDevice(bytes); });
  }
  bool EvictFromDevice(int64_t bytes);
  // Of a loader for graphs that are on the host: without a state directory.
  durable::GraphLoader::Parts LoaderParts();
  Status SubmitResident(InferenceRequest request, InferenceCallback done);
  // Graphs that are loaded at once: one alone seldom keeps the disk and all processors busy.
  static constexpr int kLoaders = 2;
  std::unique_ptr<GraphEvictor> MakeEvictor();
  std::optional<StoredGraph> MayLeave(const std::string& name) const;
  bool WillBeOnDisk(const std::string& name) const;
  // A full budget is no reason to give up while uploads outrun the writer: graphs can leave once they are on disk.
  Status WithRetry(const Status& status) const;
  Status UnlessForGood(const Status& status) const {
    const auto detail = DetailOf(WithRetry(status));
    return detail && detail->retry_after ? OkStatus() : status;
  }

  // After a graph was deleted or replaced: what was kept for it goes.
  void GraphsChanged() {
    plans_.PurgeStale();
    answers_.PurgeStale();
    receptive_field_memory_.Fit();
    side_memory_.Fit();
  }
  // What was made for a version that was not published.
  void ForgetUnpublished() {
    plans_.PurgeStale();
    answers_.PurgeStale();
  }
  std::optional<AnswerKey> KeyOnceServing(const AnswerKey& names, const AnswerVersions& versions) const;
  // Called by preparations, which outlive the tuning service.
  void SeedGraph(const PreparedGraph& graph) const {
    if (options_.tuning_budget <= Nanoseconds::zero()) return;
    const std::vector<TuningEntry> seeds = seeds_.For(graph.parts().profile);
    if (seeds.empty()) return;
    graph.tuning().Seed(seeds);
    options_.logger->Log(LogLevel::kInfo, "graph seeded with the choices of similar ones",
                         {{"graph", graph.parts().name}, {"records", absl::StrCat(seeds.size())}});
  }
  void GraphPublished(const std::string& name) {
    GraphsChanged();
    if (durable_ != nullptr) durable_->GraphPublished(name);
  }
  // Called by loads, before the graph serves.
  void GraphLoaded(const std::shared_ptr<const PreparedGraph>& graph, const std::vector<FeatureSet>& feature_sets,
                   bool waited_for) {
    if (feature_sets.empty()) return;
    const auto usual = std::find_if(feature_sets.begin(), feature_sets.end(),
                                    [](const FeatureSet& set) { return set.name == "default"; });
    const FeatureSet& planned = usual != feature_sets.end() ? *usual : feature_sets.front();
    plans_ahead_.BeforeLoaded(graph, planned.matrix, waited_for);
  }
  void ModelsChanged() {
    plans_.PurgeStale();
    answers_.PurgeStale();
  }
  void ModelPublished(const ModelHandle& model, std::shared_ptr<const ModelDocument> document) {
    ModelsChanged();
    if (durable_ != nullptr) durable_->ModelPublished(model, std::move(document));
  }
  // With what the stores do not know.
  template <class Resource>
  Resource Described(Resource resource) const {
    if constexpr (requires { resource.incarnation; }) resource.incarnation = incarnation_;
    if constexpr (requires { resource.serving->tier; }) {
      const bool one_memory = device_.kind() == DeviceKind::kCpu;
      if (one_memory && resource.serving && resource.serving->in_memory()) resource.serving->tier = Tier::kHost;
    }
    if (durable_ != nullptr) durable_->Describe(&resource);
    return resource;
  }
  template <class Resource>
  std::vector<Resource> Described(std::vector<Resource> resources) const {
    for (Resource& resource : resources) resource = Described(std::move(resource));
    return resources;
  }
  std::unique_ptr<durable::KernelQuarantine> MakeQuarantine();
  // Graphs stop using the configuration at once.
  void Withdraw(const std::string& configuration);
  TuningService::Parts TuningParts(RunMeter* meter);
  PlanRunner::Parts RunnerParts(ReceptiveFieldMemory* memory) {
    return {&device_,
            registry_.get(),
            quarantine_.get(),
            &plans_,
            &budget_,
            memory,
            options_.clock,
            options_.stats,
            [this](const std::shared_ptr<const PreparedGraph>& graph) { tuning_.Consider(graph); },
            [this](const QueuedRequest& request, double share, double seconds) {
              keeper_.Computed(request, share, seconds);
            },
            [this] { return executor_.num_threads(); }};
  }

  const EngineOptions options_;
  const ScopedRunTimeCompilation compilation_;
  const std::unique_ptr<KernelRegistry> registry_;
  const OpenedDevice opened_;
  const std::unique_ptr<LimitedDevice> limited_;  // null: the device has no memory of its own
  Device& device_;
  const std::unique_ptr<durable::OpenState> state_;       // null: in memory only
  const std::unique_ptr<durable::ReadAhead> read_ahead_;  // null without state_
  const durable::ScratchDirectory scratch_;               // of replicas
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
  const std::unique_ptr<durable::KernelQuarantine> quarantine_;  // null without state_
  std::unique_ptr<durable::TuningKeeper> tuning_keeper_;         // null without state_
  std::unique_ptr<durable::LayoutKeeper> layout_keeper_;         // null without state_
  std::unique_ptr<durable::DurableStore> durable_;               // null without state_; outlives those who publish
  std::unique_ptr<durable::GraphLoader> loader_;                 // only without state_, and with limited_
  const std::unique_ptr<GraphEvictor> evictor_ = MakeEvictor();
  Mutex leaving_mutex_;   // held while plans and graphs leave the device; acquired before those of the stores
  TuningService tuning_;  // works on the executor, and hears of plans from it: begins after it and stops before
  GraphTuner tuner_;
  PlanRunner runner_, side_runner_;
  AnswerKeeper keeper_;
  AnswersAhead answers_ahead_;
  Executor executor_;
  PlansAhead plans_ahead_;
  GraphUploads graph_uploads_;
  ModelUploads model_uploads_;
};

std::optional<AnswerKey> EngineImpl::KeyOnceServing(const AnswerKey& names, const AnswerVersions& versions) const {
  const StatusOr<GraphHandle> handle = graphs_.Peek(names.graph.name, 0, names.feature_set, 0);
  const StatusOr<ModelHandle> model = models_.Find(names.model.name, 0);
  if (!handle.ok() || !model.ok() || handle->graph != versions.graph.lock() ||
      handle->features->matrix != versions.features.lock() || (*model)->model != versions.model.lock()) {
    return std::nullopt;
  }
  AnswerKey key = names;
  key.incarnation = incarnation_;
  key.graph.version = handle->graph->parts().version;
  key.feature_set_version = handle->features->version;
  key.model.version = (*model)->version;
  return key;
}

Status EngineImpl::CheckWritable() const {
  if (!options_.state_read_only) return OkStatus();
  const StatusOr<state::LockHolder> writer = state_->directory().ReadHolder();
  ErrorDetail detail;
  detail.reason = "READ_REPLICA";
  std::string where = "the server that writes its state directory";
  if (writer.ok() && !writer->address.empty()) {
    detail.metadata = {{"address", writer->address}};
    absl::StrAppend(&where, ", ", writer->address);
  }
  return MakeError(StatusCode::kFailedPrecondition,
                   absl::StrCat("this server is a read replica; upload, delete and tune at ", where), detail);
}

// A deletion that is not durable would come back with the next start. It is therefore durable before it is
// acknowledged; a call that failed there can be repeated, when only the disk knows of the resource any more.

Status EngineImpl::DeleteGraph(const std::string& name, int64_t if_version) {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  Status deleted = graphs_.Delete(name, if_version);
  if (deleted.ok()) GraphsChanged();
  if (durable_ == nullptr || !(deleted.ok() || deleted.code() == StatusCode::kNotFound)) return deleted;
  const Status removed = durable_->RemoveGraph(name, deleted.ok() ? 0 : if_version);
  return removed.code() == StatusCode::kNotFound ? deleted : removed;
}

Status EngineImpl::DeleteFeatures(const std::string& graph, const std::string& name) {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  Status deleted = graphs_.DeleteFeatures(graph, name);
  if (deleted.ok()) answers_.PurgeStale();
  if (durable_ == nullptr || !(deleted.ok() || deleted.code() == StatusCode::kNotFound)) return deleted;
  const Status removed = durable_->RemoveFeatures(graph, name);
  return removed.code() == StatusCode::kNotFound ? deleted : removed;
}

Status EngineImpl::DeleteModel(const std::string& name, int64_t if_version) {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  Status deleted = models_.Delete(name, if_version);
  if (deleted.ok()) ModelsChanged();
  if (durable_ == nullptr || !(deleted.ok() || deleted.code() == StatusCode::kNotFound)) return deleted;
  const Status removed = durable_->RemoveModel(name, deleted.ok() ? 0 : if_version);
  return removed.code() == StatusCode::kNotFound ? deleted : removed;
}

std::unique_ptr<durable::KernelQuarantine> EngineImpl::MakeQuarantine() {
  if (state_ == nullptr) return nullptr;
  durable::KernelQuarantine::Parts parts;
  parts.files = options_.state_read_only ? scratch_.files.get() : &state_->files();
  parts.followed = options_.state_read_only ? &state_->files() : nullptr;
  parts.device = KindOf(device_);
  parts.build = durable::CodeId();
  parts.logger = options_.logger;
  parts.stats = options_.stats;
  parts.on_quarantine = [this](const std::string& configuration) { Withdraw(configuration); };
  return std::make_unique<durable::KernelQuarantine>(std::move(parts));
}

void EngineImpl::Withdraw(const std::string& configuration) {
  for (const GraphStatus& status : graphs_.List()) {
    if (status.graph != nullptr) tuning_keeper_->Withdraw(*status.graph, configuration);
  }
  plans_.Evict(std::numeric_limits<int64_t>::max());  // none is found again: the quarantine's revision has risen
}

TuningService::Parts EngineImpl::TuningParts(RunMeter* meter) {
  TuningService::Parts parts;
  parts.first_runs = quarantine_.get();
  parts.device = &device_;
  parts.registry = registry_.get();
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
  if (state_ != nullptr) {
    parts.change = [this](const PreparedGraph& graph, const TuningChange& change) {
      return tuning_keeper_->Change(graph, change);
    };
  }
  return parts;
}

// First what costs least to have again, as where the budget is short. Nothing goes if all of it would not suffice.
bool EngineImpl::EvictFromDevice(int64_t bytes) {
  MutexLock lock(&leaving_mutex_);  // who looks at a graph keeps it from leaving
  if (budget_.Snapshot().plans + evictor_->DeviceBytes() < bytes) return false;
  int64_t freed = plans_.Evict(bytes);
  if (freed < bytes) freed += evictor_->EvictFromDevice(bytes - freed);
  return freed > 0 || receptive_field_memory_.Evict() || side_memory_.Evict();
}

std::unique_ptr<GraphEvictor> EngineImpl::MakeEvictor() {
  return std::make_unique<GraphEvictor>(GraphEvictor::Parts{
      &graphs_, options_.logger, options_.stats, [this](const std::string& name) { return MayLeave(name); },
      [this](const std::string& name) { return WillBeOnDisk(name); },
      [this](const std::string& name, int64_t version) { plans_.Release(name, version); }, &device_});
}

durable::GraphLoader::Parts EngineImpl::LoaderParts() {
  durable::GraphLoader::Parts parts;
  parts.graphs = &graphs_;
  parts.device = &device_;
  parts.budget = &budget_;
  parts.logger = options_.logger;
  parts.stats = options_.stats;
  parts.on_load = [this] { GraphsChanged(); };
  parts.num_threads = kLoaders;
  parts.max_waiting = options_.max_queue;
  return parts;
}

// How the version in memory is described once it has left; nothing unless it may. With a state directory all of it must
// be on disk: the writer needs what it writes.
std::optional<StoredGraph> EngineImpl::MayLeave(const std::string& name) const {
  const StatusOr<GraphStatus> status = graphs_.Get(name);
  if (!status.ok() || status->graph == nullptr) return std::nullopt;
  const GraphResource resource = Described(ResourceOf(*status));
  if (!resource.serving) return std::nullopt;
  const auto stays = [&](Durability durability) { return durable_ != nullptr && durability != Durability::kDurable; };
  if (stays(resource.serving->durability)) return std::nullopt;
  for (const FeatureSetResource& set : resource.feature_sets) {
    if (stays(set.durability)) return std::nullopt;
  }
  return StoredGraph{*resource.serving, resource.node_count, resource.edge_count, resource.feature_sets};
}

// Whether the version in memory is being written, or waits for that, and nothing of it has failed.
bool EngineImpl::WillBeOnDisk(const std::string& name) const {
  const StatusOr<GraphStatus> status = graphs_.Get(name);
  if (!status.ok() || status->graph == nullptr) return false;
  const GraphResource resource = Described(ResourceOf(*status));
  const auto lost = [](Durability durability) { return durability == Durability::kMemory; };
  if (!resource.serving || lost(resource.serving->durability)) return false;
  return std::none_of(resource.feature_sets.begin(), resource.feature_sets.end(),
                      [&](const FeatureSetResource& set) { return lost(set.durability); });
}

Status EngineImpl::WithRetry(const Status& status) const {
  std::optional<ErrorDetail> detail = DetailOf(status);
  if (durable_ == nullptr || !detail || detail->reason != "BUDGET_FULL") return status;
  const auto missing = detail->metadata.find("missingBytes");
  int64_t bytes = 0;
  if (missing == detail->metadata.end() || !absl::SimpleAtoi(missing->second, &bytes)) return status;
  if (evictor_->PendingBytes() < bytes) return status;
  detail->metadata.erase(missing);
  detail->retry_after = std::chrono::seconds(1);
  return MakeError(status.code(), absl::StrCat(status.message(), ", or retry once graphs are written to disk"),
                   *detail);
}

// A request for a graph that has to be loaded waits until that is done.
Status EngineImpl::Submit(InferenceRequest request, InferenceCallback done) {
  if (loader() == nullptr || graphs_.StoredVersion(request.graph) == 0) {
    return SubmitResident(std::move(request), std::move(done));
  }
  VICINAL_RETURN_IF_ERROR(request.limits.Check(*options_.clock));
  const std::string graph = request.graph;
  return loader()->Load(graph, [this, request = std::move(request), done = std::move(done)](const Status& loaded) {
    const Status submitted = loaded.ok() ? SubmitResident(request, done) : loaded;
    if (!submitted.ok()) done(submitted);
  });
}

Status EngineImpl::SubmitResident(InferenceRequest request, InferenceCallback done) try {
  VICINAL_ASSIGN_OR_RETURN(
      QueuedRequest resolved,
      resolver_.Resolve(std::move(request), [this](const QueuedRequest& coming) { return executor_.Check(coming); }));
  resolved.done = std::move(done);
  if (const std::optional<Status> answered = keeper_.Answer(&resolved)) return *answered;
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
  const int64_t away = graphs_.StoredVersion(request.graph);
  const bool on_host = graphs_.HostCopyOf(request.graph, away) != nullptr;
  VICINAL_RETURN_IF_ERROR(BringIn(request.graph, request.limits));
  InferenceRequest asked = request;
  if (asked.nodes.ids.empty()) asked.nodes.all = true;
  VICINAL_ASSIGN_OR_RETURN(const QueuedRequest resolved, resolver_.Resolve(std::move(asked)));
  VICINAL_ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan, runner_.PlanFor(resolved, executor_.num_threads()));
  Explanation explanation = ExplanationOf(resolved, *plan, *registry_, device_);
  if (away != 0) {
    explanation.decisions.push_back(absl::StrCat("the graph was on ", on_host ? "the host" : "disk",
                                                 " only: this call has brought it to ", device_.name()));
  }
  return explanation;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace

StatusOr<std::unique_ptr<Engine>> CreateEngineWithMeter(const EngineOptions& given, RunMeter* meter) {
  EngineOptions options = given;
  if (options.clock == nullptr) options.clock = &Clock::Real();
  if (options.stats == nullptr) options.stats = &StatsSink::Null();
  if (options.logger == nullptr) options.logger = &Logger::Null();
  if (options.state_read_only) options.tuning_budget = Nanoseconds::zero();  // the writer's decisions serve
  auto registry = std::make_unique<KernelRegistry>();
  std::unique_ptr<durable::OpenState> state;
  std::unique_ptr<durable::ReadAhead> read_ahead;  // null without a state directory
  if (!options.state_dir.empty()) {
    VICINAL_ASSIGN_OR_RETURN(
        state, durable::OpenState::Open(
                   options.state_dir,
                   options.state_read_only ? durable::OpenState::Access::kRead : durable::OpenState::Access::kWrite,
                   options.state_address, *options.clock, *options.logger, *options.stats));
    // The disk reads while the device is opened, which takes a GPU a third of a second.
    const bool limited = options.memory_budget_bytes > 0;
    read_ahead = std::make_unique<durable::ReadAhead>(
        state->directory(), limited ? options.memory_budget_bytes : std::numeric_limits<int64_t>::max());
  }
  VICINAL_ASSIGN_OR_RETURN(OpenedDevice opened, OpenDevice(options.device, options.backend_path, options.num_threads,
                                                           *registry, *options.logger));
  options.logger->Log(LogLevel::kInfo, "engine device",
                      {{"device", opened.device->name()},
                       {"description", opened.device->description()},
                       {"simd", CpuInstructionSet()}});
  durable::ScratchDirectory scratch;
  if (!options.scratch_dir.empty()) {
    VICINAL_ASSIGN_OR_RETURN(scratch, durable::OpenScratch(options.scratch_dir));
  }
  auto engine = std::make_unique<EngineImpl>(options, meter, std::move(registry), std::move(opened), std::move(state),
                                             std::move(read_ahead), std::move(scratch));
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
