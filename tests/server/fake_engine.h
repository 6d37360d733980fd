// SPDX-License-Identifier: Apache-2.0
// An engine that keeps names and answers inference with rows that can be recognised: row i of the result holds id_i *
// 10 + column. What it was given last is kept for tests to look at. Thread-safe where the handlers' tests use threads.
#ifndef VICINAL_TESTS_SERVER_FAKE_ENGINE_H_
#define VICINAL_TESTS_SERVER_FAKE_ENGINE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/engine.h"
#include "engine/api/links.h"
#include "engine/base/error.h"
#include "engine/base/mutex.h"

namespace vicinal::testing {

class FakeEngine : public Engine {
 public:
  static constexpr int64_t kNodes = 100;
  static constexpr int64_t kEdges = 4;
  static constexpr int64_t kClasses = 4;

  FakeEngine() {
    ModelResource& model = models_["m"];
    model.name = "m";
    model.version = 1;
    model.feature_count = 3;
    model.class_count = kClasses;
    model.outputs = {"logits", "last_conv_input"};
    GraphResource graph;
    graph.name = "g";
    graph.state = GraphState::kReady;
    graph.node_count = kNodes;
    graphs_["g"] = graph;
  }

  Status CheckGraphFits(const GraphSizes& sizes, bool) override {
    MutexLock lock(&mutex_);
    last_graph_sizes = sizes;
    return fail_fit;
  }
  Status CheckFeaturesFit(const FeatureSizes& sizes, bool) override {
    MutexLock lock(&mutex_);
    last_feature_sizes = sizes;
    return fail_fit;
  }
  Status CheckEdgeFeaturesFit(const EdgeFeatureSizes&, bool) override {
    MutexLock lock(&mutex_);
    return fail_fit;
  }
  StatusOr<GraphResource> PutGraph(GraphSource source, Reservation) override {
    MutexLock lock(&mutex_);
    ++puts;
    if (!fail_put.ok()) return fail_put;
    GraphResource status;
    status.name = source.name;
    status.node_count = source.node_count;
    last_graph = std::move(source);
    graphs_[status.name] = status;
    return status;
  }
  StatusOr<GraphResource> GetGraph(const std::string& name) const override {
    MutexLock lock(&mutex_);
    const auto found = graphs_.find(name);
    if (found == graphs_.end()) return NotFound("graph", name);
    return found->second;
  }
  std::vector<GraphResource> ListGraphs() const override {
    MutexLock lock(&mutex_);
    std::vector<GraphResource> all;
    for (const auto& [name, status] : graphs_) all.push_back(status);
    return all;
  }
  Status DeleteGraph(const std::string& name, int64_t) override {
    MutexLock lock(&mutex_);
    return graphs_.erase(name) > 0 ? OkStatus() : NotFound("graph", name);
  }
  // From now on this version of the graph serves. It has kEdges edges, and keeps their order.
  void Serve(const std::string& name, int64_t version = 7) {
    MutexLock lock(&mutex_);
    GraphResource& graph = graphs_[name];
    graph.edge_count = kEdges;
    graph.serving.emplace().version = version;
    graph.serving->edge_order_kept = true;
  }
  // It has one more feature set of so many entries.
  void AddFeatures(const std::string& graph, int64_t entries) {
    MutexLock lock(&mutex_);
    graphs_[graph].feature_sets.emplace_back().entry_count = entries;
  }
  StatusOr<GraphPicture> Picture(const std::string& name, int) const override {
    MutexLock lock(&mutex_);
    if (graphs_.count(name) == 0) return NotFound("graph", name);
    return picture;
  }
  StatusOr<TuningReport> TuneGraph(const TuneGraphRequest& request) override {
    VICINAL_RETURN_IF_ERROR(request.limits.Check(Clock::Real()));
    MutexLock lock(&mutex_);
    last_tuning = request;
    return TuningReport{request.graph, 7, {tuning}};
  }
  StatusOr<TuningReport> GetTuning(const std::string& graph) const override {
    if (graph != "g") return NotFound("graph", graph);
    return TuningReport{graph, 7, {tuning, tuning}};
  }
  StatusOr<std::string> ExportTuning(const std::string&) const override { return exported; }
  StatusOr<std::unique_ptr<Subscription>> WatchGraph(const std::string& name, std::function<void()>) override {
    return NotFound("graph", name);
  }
  StatusOr<FeatureSetResource> PutFeatures(const std::string& graph, const std::string& name,
                                           const FeatureTensors& tensors, bool, int64_t, const GivenTensors&,
                                           const WorkLimits& limits) override {
    MutexLock lock(&mutex_);
    ++puts;
    put_limits = limits;
    features_are_of = tensors.graph_version;
    if (!fail_put.ok()) return fail_put;
    FeatureSetResource set;
    set.graph = graph;
    set.name = name;
    set.version = puts;
    return set;
  }
  StatusOr<FeatureSetResource> PutEdgeFeatures(const std::string& graph, const std::string& name,
                                               const EdgeFeatureTensors& tensors, bool replace, int64_t if_version,
                                               int64_t, const WorkLimits& limits) override {
    FeatureTensors same;
    same.graph_version = tensors.graph_version;
    VICINAL_ASSIGN_OR_RETURN(FeatureSetResource set, PutFeatures(graph, name, same, replace, if_version, {}, limits));
    set.kind = FeatureKind::kEdges;
    return set;
  }
  Status DeleteFeatures(const std::string&, const std::string& name, FeatureKind kind, int64_t) override {
    return NotFound(TypeName(kind), name);
  }
  StatusOr<ModelResource> PutModel(ModelSource source, const WorkLimits&, Reservation) override {
    return NotFound("model", source.name);
  }
  StatusOr<ModelResource> GetModel(const std::string& name) const override {
    MutexLock lock(&mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) return NotFound("model", name);
    return found->second;
  }
  std::vector<ModelResource> ListModels() const override { return {}; }
  Status DeleteModel(const std::string& name, int64_t) override { return NotFound("model", name); }

  StatusOr<bool> HasReached(const UploadedVersion& version, WaitFor wait_for) const override {
    MutexLock lock(&mutex_);
    last_waited = version;
    if (wait_for == WaitFor::kDurable) return FailedPrecondition("NO_STATE_DIRECTORY", "nothing is kept");
    return !prepares;
  }
  std::unique_ptr<Subscription> WatchVersion(const UploadedVersion&, std::function<void()>) override {
    return std::make_unique<Subscription>();
  }

  Status Submit(InferenceRequest request, InferenceCallback done) override {
    if (!refuse_submit.ok()) return refuse_submit;
    if (const Status stop = request.limits.Check(Clock::Real()); !stop.ok()) {
      done(stop);
      return OkStatus();
    }
    // Of attention one edge each, a loop.
    const bool attention = request.links != nullptr && request.links->attention.has_value();
    const NodeSelection& nodes = attention ? request.links->attention->nodes : request.nodes;
    std::vector<int64_t> ids = nodes.ids;
    for (int64_t i = 0; nodes.all && i < kNodes; ++i) ids.push_back(i);
    InferenceResult result;
    for (const int64_t id : attention ? ids : std::vector<int64_t>()) result.links.insert(result.links.end(), {id, id});
    result.served_by.graph = request.graph;
    result.served_by.model = request.model;
    result.rows = static_cast<int64_t>(ids.size());
    result.receptive_field = request.options.receptive_field == ReceptiveField::kAlways;
    result.computed_nodes = result.receptive_field ? result.rows : kNodes;
    const std::string& output = request.options.output;
    result.width = output.empty() || output == "logits" ? kClasses : 16;
    if (request.check_answer) VICINAL_RETURN_IF_ERROR(request.check_answer({result.rows, result.width}));
    for (const int64_t id : ids) {
      for (int64_t c = 0; c < result.width; ++c) result.values.push_back(static_cast<float>(id * 10 + c));
    }
    {
      MutexLock lock(&mutex_);
      last_request = std::move(request);
    }
    done(std::move(result));
    return OkStatus();
  }
  // One row for each graph of the batch, as Submit's.
  Status SubmitBatch(GraphBatchRequest request, InferenceCallback done) override {
    InferenceRequest rows;
    rows.model = request.model;
    rows.options = request.options;
    rows.check_answer = request.check_answer;
    for (int64_t i = 0; i + 1 < request.ptr.shape[0]; ++i) rows.nodes.ids.push_back(i);
    return Submit(std::move(rows), std::move(done));
  }
  StatusOr<Explanation> Explain(const InferenceRequest& request) override { return NotFound("graph", request.graph); }

  MemoryBudget& memory() override { return budget; }

  std::vector<DeviceInfo> Devices() const override { return {{"cpu", "a fake", ""}}; }
  std::vector<KernelStatus> Kernels() const override {
    return {{"aggregate", "reference", "cpu", 5, {"feature_tile"}}};
  }
  ResourceCounts Counts() const override { return {static_cast<int64_t>(graphs_.size()), 0, 1}; }
  int64_t quarantined_kernels() const override { return 0; }
  int64_t queue_depth() const override { return 0; }
  double busy_seconds() const override { return 0.0; }
  bool Drain(MonotonicTime, const StopCheck&) override { return true; }
  bool durable() const override { return keeps; }

  Status fail_put, fail_fit, refuse_submit;
  GraphSizes last_graph_sizes;
  FeatureSizes last_feature_sizes;
  MemoryBudget budget{int64_t{1} << 30};
  WorkLimits put_limits;  // of the last feature set
  int puts = 0;
  int64_t features_are_of = -1;  // the graph's version that came with the last ones
  bool keeps = false;            // has a state directory
  std::optional<GraphSource> last_graph;
  bool prepares = false;  // nothing that was put is READY
  mutable UploadedVersion last_waited;
  std::optional<InferenceRequest> last_request;
  std::optional<TuneGraphRequest> last_tuning;
  std::string exported = "decisions";
  TuningRecord tuning;   // what TuneGraph and GetTuning answer
  GraphPicture picture;  // what Picture answers

 private:
  mutable Mutex mutex_;
  std::map<std::string, GraphResource> graphs_;
  std::map<std::string, ModelResource> models_;
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_SERVER_FAKE_ENGINE_H_
