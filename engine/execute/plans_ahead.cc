// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/plans_ahead.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/execute/resolve.h"

namespace vicinal {
namespace {

// First what a request reads that names no edge feature set, then what those read that name one of `sets`.
std::vector<int64_t> EdgeWidthsOf(const Model& model, const std::vector<FeatureSetHandle>& sets) {
  int64_t usual = 0;
  bool named = false;
  for (const FeatureSetHandle& set : sets) {
    if (set->kind != FeatureKind::kEdges || model.edge_feature_width == 0) continue;
    if (set->name == kDefaultFeatureSet) usual = set->edges->cols();
    named = named || set->edges->cols() == model.edge_feature_width;
  }
  std::vector<int64_t> widths = {usual};
  if (named && usual != model.edge_feature_width) widths.push_back(model.edge_feature_width);
  return widths;
}

}  // namespace

// The plans to be made, without duplicates.
class PlansAhead::Wanted {
 public:
  // As somebody used one: for another graph, model or feature set. Forced kernels are the requests' own affair.
  void AddLike(const PlanCache::Built& used, PlanRequest request, const std::string& model_name) {
    request.precision = used.request.precision;
    request.products = used.request.products;
    const NamedOutput* const output = OutputLike(used, *request.model);
    if (output == nullptr || !used.request.forced.empty()) return;
    request.output = output->value;
    Add(std::move(request), model_name);
  }
  // As a request without options uses one.
  void AddPlain(PlanRequest request, const std::string& model_name) {
    const StatusOr<const NamedOutput*> output = FindOutput(*request.model, "");
    if (!output.ok()) return;
    request.output = (*output)->value;
    Add(std::move(request), model_name);
  }

  const std::vector<PlanCache::Built>& all() const { return all_; }

 private:
  // The output of `model` that has the name of the used one.
  static const NamedOutput* OutputLike(const PlanCache::Built& used, const Model& model) {
    for (const NamedOutput& output : used.request.model->outputs) {
      if (output.value == used.request.output) return model.FindOutput(output.name);
    }
    return nullptr;
  }
  static bool Fits(const PlanRequest& request, const std::string& model_name) {
    const Model& model = *request.model;
    if (model.graph_level || model.feature_count != request.features.cols) return false;
    if (request.edge_set_cols == 0) return CheckEdges(model, model_name, *request.graph).ok();
    return request.edge_set_cols == model.edge_feature_width &&
           CheckEdgeWeights(model, model_name, *request.graph).ok();
  }
  void Add(PlanRequest request, const std::string& model_name) {
    if (all_.size() == kMost || !Fits(request, model_name)) return;
    const PlanKey key = PlanKey::Of(request);
    const bool known = std::any_of(all_.begin(), all_.end(),
                                   [&key](const PlanCache::Built& other) { return PlanKey::Of(other.request) == key; });
    if (!known) all_.push_back({std::move(request), model_name});
  }

  std::vector<PlanCache::Built> all_;
};

std::vector<PlanCache::Built> PlansAhead::WantedFor(const std::shared_ptr<const PreparedGraph>& graph,
                                                    const FeatureMatrix& features, const EdgeWidths& widths) const {
  const auto request_for = [&](std::shared_ptr<const Model> model, int64_t edge_set_cols) {
    PlanRequest request;
    request.graph = graph;
    request.features = FeatureShape::Of(features);
    request.model = std::move(model);
    request.edge_set_cols = edge_set_cols;
    return request;
  };
  Wanted wanted;
  const auto is_of_graph = [&graph](const PlanCache::Built& used) {
    return used.request.graph->parts().name == graph->parts().name;
  };
  std::vector<PlanCache::Built> in_use = parts_.plans->InUse();
  std::stable_partition(in_use.begin(), in_use.end(), is_of_graph);
  for (const PlanCache::Built& used : in_use) {
    const std::shared_ptr<const Model>& model = used.request.model;
    for (const int64_t cols : widths(*model)) wanted.AddLike(used, request_for(model, cols), used.model_name);
    // The set that it reads may follow the graph.
    if (used.request.edge_set_cols > 0 && is_of_graph(used) && graph->has_edge_order())
      wanted.AddLike(used, request_for(model, used.request.edge_set_cols), used.model_name);
  }
  for (const ModelHandle& model : parts_.models->List()) {
    for (const int64_t cols : widths(*model->model)) wanted.AddPlain(request_for(model->model, cols), model->name);
  }
  return wanted.all();
}

void PlansAhead::BeforeGraph(const std::shared_ptr<const PreparedGraph>& graph,
                             const std::shared_ptr<const FeatureMatrix>& features,
                             const std::vector<FeatureSetHandle>& coming, const StopCheck& stop) const {
  if (features == nullptr) return;
  const StatusOr<GraphStatus> there = parts_.graphs->Get(graph->parts().name);
  const auto& sets = there.ok() && there->graph == graph ? there->feature_sets : coming;
  Make(WantedFor(graph, *features, [&sets](const Model& model) { return EdgeWidthsOf(model, sets); }), stop);
}

void PlansAhead::BeforeEdges(const std::shared_ptr<const PreparedGraph>& graph, const EdgeMatrix& edges,
                             const StopCheck& stop) const {
  const StatusOr<GraphHandle> there = parts_.graphs->Peek(graph->parts().name, 0, kDefaultFeatureSet, 0);
  if (!there.ok() || there->graph != graph) return;
  const auto widths = [&edges](const Model& model) {
    return model.edge_feature_width > 0 ? std::vector<int64_t>{edges.cols()} : std::vector<int64_t>();
  };
  Make(WantedFor(graph, *there->features->matrix, widths), stop);
}

void PlansAhead::BeforeLoaded(const std::shared_ptr<const PreparedGraph>& graph,
                              const std::shared_ptr<const FeatureMatrix>& features,
                              const std::vector<FeatureSetHandle>& sets) const {
  if (features == nullptr) return;
  const MonotonicTime end = parts_.clock->Now() + kWhileWaitedFor;
  const auto widths = [&sets](const Model& model) { return EdgeWidthsOf(model, sets); };
  Make(WantedFor(graph, *features, widths), [&]() -> Status {
    if (parts_.clock->Now() < end) return OkStatus();
    return DeadlineExceeded("PLANS_LATE", "the graph serves before further plans are made");
  });
}

void PlansAhead::BeforeModel(const std::string& name, const std::shared_ptr<const Model>& model,
                             const StopCheck& stop) const {
  Wanted wanted;
  for (const PlanCache::Built& used : parts_.plans->InUse()) {
    if (used.model_name != name) continue;
    PlanRequest request = used.request;
    request.model = model;
    if (model->edge_feature_width == 0) request.edge_set_cols = 0;
    wanted.AddLike(used, std::move(request), name);
  }
  for (const std::string& graph : parts_.graphs->ByUse()) {
    const StatusOr<GraphHandle> handle = parts_.graphs->Peek(graph, 0, kDefaultFeatureSet, 0);
    const StatusOr<GraphStatus> status = parts_.graphs->Get(graph);
    if (!handle.ok() || !status.ok()) continue;  // on disk only, or without features
    PlanRequest request;
    request.graph = handle->graph;
    request.features = FeatureShape::Of(*handle->features->matrix);
    request.model = model;
    for (const int64_t cols : EdgeWidthsOf(*model, status->feature_sets)) {
      request.edge_set_cols = cols;
      wanted.AddPlain(request, name);
    }
  }
  Make(wanted.all(), stop);
}

void PlansAhead::AfterTuning() const {
  Make(parts_.plans->Outdated());
  parts_.plans->PurgeOutdated();
  parts_.plans->PurgeStale();
}

void PlansAhead::Make(const std::vector<PlanCache::Built>& wanted, const StopCheck& stop) const {
  for (const PlanCache::Built& plan : wanted) {
    if (stop && !stop().ok()) return;
    MakeOne(plan);
  }
}

void PlansAhead::MakeOne(const PlanCache::Built& wanted) const {
  const Status made =
      OrOutOfMemory([&] { return parts_.runner->MakeAhead(wanted.request, wanted.model_name).status(); });
  if (made.ok()) return;
  parts_.logger->Log(LogLevel::kDebug, "plan not made ahead",
                     {{"graph", wanted.request.graph->parts().name},
                      {"model", wanted.model_name},
                      {"error", std::string(made.message())}});
}

}  // namespace vicinal
