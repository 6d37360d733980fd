// SPDX-License-Identifier: Apache-2.0
// Calls at random, and what their outcomes say about durability.
#include <limits>

#include "absl/strings/str_cat.h"
#include "client/cpp/errors.h"
#include "tests/integration/fixture.h"
#include "tests/integration/kill_loop/kill_loop.h"

namespace vicinal::testing {

void KillLoop::Drive(int64_t max_calls) {
  for (int64_t call = 0; call < max_calls && !killed_.load() && problems_.empty(); ++call) {
    const std::string graph = absl::StrCat("g", Uniform(3)), model = absl::StrCat("m", Uniform(2));
    const int64_t draw = Uniform(100);
    if (draw < 35)
      UploadGraph(graph);
    else if (draw < 45)
      DeleteGraph(graph);
    else if (draw < 60)
      UploadExtraFeatures(graph);
    else if (draw < 72)
      UploadModel(model);
    else if (draw < 76)
      DeleteModel(model);
    else if (draw < 86)
      Tune(graph);
    else
      Query(graph);
  }
}

// Whether the server says by itself that a call has no effect.
static bool IsRefusal(const absl::Status& status) {
  return status.code() == absl::StatusCode::kNotFound || status.code() == absl::StatusCode::kAborted ||
         status.code() == absl::StatusCode::kFailedPrecondition;
}

void KillLoop::UploadGraph(const std::string& name) {
  const int64_t seed = next_seed_++;
  const SeededGraph graph = MakeGraph(seed);
  std::vector<int64_t> edges = graph.sources;
  edges.insert(edges.end(), graph.targets.begin(), graph.targets.end());
  const OwnedTensor edge_index = Ints("edge_index", {2, static_cast<int64_t>(graph.sources.size())}, edges);
  const OwnedTensor x = Floats("x", {graph.nodes, kFeatures}, graph.x);
  v1::UploadGraphSpec spec;
  spec.set_name(name);
  spec.set_node_count(graph.nodes);
  spec.set_ids_digest(absl::StrCat(seed));
  spec.set_replace(true);
  client::UploadOptions options;
  const bool waits = name == kProbe || OneIn(2);
  options.wait_for = waits ? v1::WAIT_FOR_READY : v1::WAIT_FOR_ACCEPTED;
  History& history = graphs_[name];
  history.Asked(seed);
  const auto uploaded = client_->UploadGraph(spec, {edge_index.view(), x.view()}, options);
  if (IsRefusal(uploaded.status())) return history.Refused();  // another preparation of the name goes on
  if (!Went(uploaded.status(), "UploadGraph")) return;
  ++counts_.uploads;
  if (!waits) return;
  history.Serves();
  if (!graph_versions_.Note(uploaded->version(), seed)) Problem(absl::StrCat(name, ": a version number came back"));
  if (OneIn(2)) AwaitDurableGraph(name);
}

void KillLoop::AwaitDurableGraph(const std::string& name) {
  while (!killed_.load()) {
    const auto graph = client_->GetGraph(name);
    if (!Went(graph.status(), "GetGraph")) return;
    if (!graph->durability_error().empty()) return Problem(absl::StrCat(name, ": ", graph->durability_error()));
    if (graph->durability() != v1::DURABILITY_DURABLE) continue;
    ++counts_.durable_reports;
    return graphs_[name].Durable();
  }
}

void KillLoop::DeleteGraph(const std::string& name) {
  History& history = graphs_[name];
  history.Asked({});
  const absl::Status deleted = client_->DeleteGraph(name);
  if (!deleted.ok() && deleted.code() != absl::StatusCode::kNotFound) {
    Went(deleted, "DeleteGraph");
    return;
  }
  ++counts_.deletions;
  history.Durable();
}

void KillLoop::UploadExtraFeatures(const std::string& graph) {
  const auto now = client_->GetGraph(graph);
  if (IsRefusal(now.status()) || !Went(now.status(), "GetGraph") || now->state() != v1::Graph::STATE_READY) return;
  const int64_t seed = next_seed_++;
  const OwnedTensor x = Floats("x", {now->node_count(), kFeatures}, MakeFeatures(seed, now->node_count()));
  v1::UploadFeaturesSpec spec;
  spec.set_graph(graph);
  spec.set_name(kExtra);
  spec.set_replace(true);
  History& history = extra_[{graph, std::stoll(now->ids_digest())}];
  history.Asked(seed);
  const auto uploaded = client_->UploadFeatures(spec, {x.view()});
  if (IsRefusal(uploaded.status())) return history.Refused();
  if (!Went(uploaded.status(), "UploadFeatures")) return;
  ++counts_.uploads;
  history.Serves();
}

void KillLoop::UploadModel(const std::string& name) {
  const int64_t seed = next_seed_++;
  const OwnedTensor weights = Bytes("weights", WeightsOf(MakeModel(seed)));
  v1::UploadModelSpec spec;
  spec.set_name(name);
  spec.set_architecture_json(Architecture());
  spec.set_replace(true);
  models_[name].Asked(seed);
  known_models_.erase(name);
  const auto uploaded = client_->UploadModel(spec, {weights.view()});
  if (!Went(uploaded.status(), "UploadModel")) return;
  ++counts_.uploads;
  models_[name].Serves();
  if (!model_versions_.Note(uploaded->version(), seed)) Problem(absl::StrCat(name, ": a version number came back"));
  known_models_[name] = seed;
  if (OneIn(2)) AwaitDurableModel(name);
}

void KillLoop::AwaitDurableModel(const std::string& name) {
  while (!killed_.load()) {
    const auto model = client_->GetModel(name);
    if (!Went(model.status(), "GetModel")) return;
    if (!model->durability_error().empty()) return Problem(absl::StrCat(name, ": ", model->durability_error()));
    if (model->durability() != v1::DURABILITY_DURABLE) continue;
    ++counts_.durable_reports;
    return models_[name].Durable();
  }
}

void KillLoop::DeleteModel(const std::string& name) {
  models_[name].Asked({});
  known_models_.erase(name);
  const absl::Status deleted = client_->DeleteModel(name);
  if (!deleted.ok() && deleted.code() != absl::StatusCode::kNotFound) {
    Went(deleted, "DeleteModel");
    return;
  }
  ++counts_.deletions;
  models_[name].Durable();
}

void KillLoop::Tune(const std::string& graph) {
  v1::TuneGraphRequest request;
  request.set_name(graph);
  request.add_widths(kFeatures);
  request.set_no_wait(true);
  const auto tuned = client_->TuneGraph(request);
  if (!IsRefusal(tuned.status()) && Went(tuned.status(), "TuneGraph")) ++counts_.tunings;
}

void KillLoop::Query(const std::string& graph) {
  if (KnownModel().empty()) return;
  const auto now = client_->GetGraph(graph);
  if (!now.ok() || now->version() == 0) return;
  const auto logits = Ask(graph, KnownModel(), "default");
  if (!logits) return;
  const SeededModel model = MakeModel(known_models_[KnownModel()]);
  if (!Recognise(graphs_[graph], *logits, [&](int64_t seed) { return Answer(MakeGraph(seed), model); })) {
    Problem(absl::StrCat("wrong answer of ", graph, "; ", graphs_[graph].Describe()));
  }
}

}  // namespace vicinal::testing
