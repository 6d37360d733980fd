// SPDX-License-Identifier: Apache-2.0
// One function a resource; what is zero or unset is left out where it would say nothing.
#include "client/cpp/cli/describe.h"

#include <google/protobuf/util/time_util.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cli/output.h"

namespace vicinal::client::cli {
namespace {

using google::protobuf::util::TimeUtil;

std::string OrderOf(const v1::Graph& graph) {
  std::string asked = v1::Reorder_Name(graph.reorder());
  const std::string prefix = "REORDER_";
  if (asked.rfind(prefix, 0) == 0) asked = asked.substr(prefix.size());
  return absl::StrCat(graph.order(), " (requested: ", absl::AsciiStrToLower(asked), ")");
}

double PreparationSeconds(const v1::Graph& graph) {
  double total = 0;
  for (const v1::StageTime& stage : graph.stages()) total += stage.seconds();
  return total;
}

// Whether it survives a restart; nothing for a server without a state directory.
void PrintDurability(v1::Durability durability, const std::string& error, std::ostream& out) {
  if (durability == v1::DURABILITY_DURABLE) out << "durable: survives a restart\n";
  if (durability == v1::DURABILITY_WRITING) out << "not durable yet: the server is writing it\n";
  if (!error.empty()) out << "not durable: " << error << "\n";
}

// A version that cannot be loaded does not.
bool Serves(const v1::Graph& graph) { return graph.version() != 0 && graph.state() != v1::Graph::STATE_FAILED; }

// State, version, sizes, order; and what is wrong.
void PrintState(const v1::Graph& graph, std::ostream& out) {
  out << "graph '" << graph.name() << "' version " << graph.version() << " is " << StateName(graph.state()) << ": "
      << FormatCount(graph.node_count(), "node") << ", " << FormatCount(graph.edge_count(), "edge")
      << (graph.weighted() ? " with weights" : "");
  if (graph.edge_feature_width() > 0) out << ", " << FormatCount(graph.edge_feature_width(), "feature") << " per edge";
  if (graph.state() == v1::Graph::STATE_READY) {
    out << ", order " << OrderOf(graph) << ", " << FormatBytes(graph.size_bytes()) << ", numerics revision "
        << graph.numerics_revision();
  }
  out << '\n';
  if (!graph.ids_digest().empty()) out << "ids: own (" << graph.ids_digest() << "), not row numbers\n";
  PrintDurability(graph.durability(), graph.durability_error(), out);
  if (graph.pinned()) out << "pinned: stays in memory\n";
  if (Serves(graph) && !graph.resident()) out << "on disk only: the next request loads it\n";
  if (graph.tier() == v1::Graph::TIER_DEVICE) out << "on the GPU\n";
  if (graph.state() == v1::Graph::STATE_PREPARING) out << "progress: " << FormatShare(graph.progress()) << '\n';
  if (!graph.error_message().empty()) out << "error: " << graph.error_message() << '\n';
}

void PrintStages(const v1::Graph& graph, std::ostream& out) {
  Table stages({"stage", "time"});
  for (const v1::StageTime& stage : graph.stages()) stages.Add({stage.stage(), FormatSeconds(stage.seconds())});
  stages.Add({"in all", FormatSeconds(PreparationSeconds(graph))});
  stages.Print(out);
}

void PrintOwnFeatureSets(const v1::Graph& graph, std::ostream& out) {
  if (graph.feature_sets_size() > 0) {
    out << '\n';
    PrintFeatureSets({graph.feature_sets().begin(), graph.feature_sets().end()}, out);
  }
  if (graph.edge_feature_sets_size() == 0) return;
  out << '\n';
  PrintEdgeFeatureSets({graph.edge_feature_sets().begin(), graph.edge_feature_sets().end()}, out);
}

// Where the version is that serves, for tables.
std::string PlaceText(const v1::Graph& graph) {
  if (!Serves(graph)) return "-";
  const char* const place = !graph.resident() ? "disk" : graph.tier() == v1::Graph::TIER_DEVICE ? "GPU" : "memory";
  return absl::StrCat(place, graph.pinned() ? ", pinned" : "");
}

// A number of features per edge, for tables.
std::string WidthText(int64_t width) { return width > 0 ? absl::StrCat(width) : "-"; }

// What an answer is; a server that does not say it knows classes only.
const char* TargetText(const v1::Model& model) {
  if (model.target() == v1::MODEL_TARGET_REGRESSION) return "regression";
  return model.multi_label() ? "multi-label" : "multi-class";
}

// What answers belong to.
std::string SubjectText(const v1::Model& model) {
  if (model.graph_level()) return "graphs";
  return model.has_decoder() ? absl::StrCat("nodes, links (", model.decoder().type(), ")") : "nodes";
}

}  // namespace

std::string StateName(v1::Graph::State state) {
  const std::string name = v1::Graph::State_Name(state);
  const std::string prefix = "STATE_";
  return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : name;
}

void PrintGraph(const v1::Graph& graph, std::ostream& out) {
  PrintState(graph, out);
  if (graph.stages_size() > 0) {
    out << '\n';
    PrintStages(graph, out);
  }
  if (graph.has_profile()) {
    out << '\n';
    PrintProfile(graph, out);
  }
  PrintOwnFeatureSets(graph, out);
}

void PrintGraphSummary(const v1::Graph& graph, std::ostream& out) {
  PrintState(graph, out);
  if (graph.stages_size() > 0) {
    out << "prepared in " << FormatSeconds(PreparationSeconds(graph)) << "; 'vicinal graph get " << graph.name()
        << "' shows the stages and the graph's profile\n";
  }
  PrintOwnFeatureSets(graph, out);
}

void PrintGraphs(const std::vector<v1::Graph>& graphs, std::ostream& out) {
  if (graphs.empty()) {
    out << "no graphs\n";
    return;
  }
  Table table(
      {"graph", "version", "state", "nodes", "edges", "edge features", "order", "memory", "where", "feature sets"});
  for (const v1::Graph& graph : graphs) {
    std::vector<std::string> sets;
    for (const v1::FeatureSet& set : graph.feature_sets()) sets.push_back(set.name());
    for (const v1::FeatureSet& set : graph.edge_feature_sets()) sets.push_back(set.name() + " (edges)");
    table.Add({graph.name(), absl::StrCat(graph.version()), StateName(graph.state()), absl::StrCat(graph.node_count()),
               absl::StrCat(graph.edge_count()), WidthText(graph.edge_feature_width()), graph.order(),
               FormatBytes(graph.size_bytes()), PlaceText(graph), absl::StrJoin(sets, ", ")});
  }
  table.Print(out);
}

void PrintFeatureSets(const std::vector<v1::FeatureSet>& sets, std::ostream& out) {
  if (sets.empty()) {
    out << "no feature sets\n";
    return;
  }
  Table table({"feature set", "version", "nodes", "features", "kept as", "entries", "memory"});
  for (const v1::FeatureSet& set : sets) {
    table.Add({set.name(), absl::StrCat(set.version()), absl::StrCat(set.node_count()),
               absl::StrCat(set.feature_count()), set.sparse() ? "sparse" : "dense", absl::StrCat(set.entry_count()),
               FormatBytes(set.size_bytes())});
  }
  table.Print(out);
}

void PrintModel(const v1::Model& model, std::ostream& out) {
  out << "model '" << model.name() << "' version " << model.version() << ": " << model.feature_count()
      << " features -> " << model.class_count()
      << (model.target() == v1::MODEL_TARGET_REGRESSION ? " numbers of " : " classes of ")
      << (model.graph_level() ? "graphs" : "nodes") << " (" << TargetText(model) << "), " << model.parameter_count()
      << " weights, " << FormatBytes(model.size_bytes()) << (model.uses_edge_weight() ? ", uses edge weights" : "");
  if (model.edge_feature_width() > 0)
    out << ", reads " << FormatCount(model.edge_feature_width(), "feature") << " per edge";
  out << '\n';
  if (model.reference_checked()) {
    out << "matches its reference: largest difference " << FormatNumber(model.reference_error()) << '\n';
  }
  PrintDurability(model.durability(), model.durability_error(), out);
  out << '\n';
  Table layers({"layer", "type", "reads", "width", "locality", "arguments"});
  for (const v1::Layer& layer : model.layers()) {
    layers.Add({layer.name(), layer.type(), absl::StrJoin(layer.inputs(), ", "), absl::StrCat(layer.width()),
                layer.locality(), Shorten(layer.arguments_json())});
  }
  layers.Print(out);
  PrintLeftOut(model.layers_left_out(), "layers", out);
  out << "\noutputs for embed: " << absl::StrJoin(model.outputs(), ", ") << '\n';
  if (model.has_decoder()) {
    out << "decoder of links: " << model.decoder().type() << " on " << model.decoder().output() << ", "
        << FormatCount(model.decoder().relation_count(), "relation") << '\n';
  }
}

void PrintModels(const std::vector<v1::Model>& models, std::ostream& out) {
  if (models.empty()) {
    out << "no models\n";
    return;
  }
  Table table({"model", "version", "features", "edge features", "classes", "of", "target", "weights", "memory"});
  for (const v1::Model& model : models) {
    table.Add({model.name(), absl::StrCat(model.version()), absl::StrCat(model.feature_count()),
               WidthText(model.edge_feature_width()), absl::StrCat(model.class_count()), SubjectText(model),
               TargetText(model), absl::StrCat(model.parameter_count()), FormatBytes(model.size_bytes())});
  }
  table.Print(out);
}

void PrintEdgeFeatureSets(const std::vector<v1::FeatureSet>& sets, std::ostream& out) {
  if (sets.empty()) return;
  Table table({"edge feature set", "version", "edges", "features", "memory"});
  for (const v1::FeatureSet& set : sets) {
    table.Add({set.name(), absl::StrCat(set.version()), absl::StrCat(set.edge_count()),
               absl::StrCat(set.feature_count()), FormatBytes(set.size_bytes())});
  }
  table.Print(out);
}

std::string Served(const v1::ServedBy& served) {
  std::string text;
  if (!served.graph().empty()) absl::StrAppend(&text, served.graph(), " v", served.graph_version());
  if (!served.feature_set().empty()) {
    absl::StrAppend(&text, " (features ", served.feature_set(), " v", served.feature_set_version(), ")");
  }
  if (!served.edge_feature_set().empty()) {
    absl::StrAppend(&text, " (edge features ", served.edge_feature_set(), " v", served.edge_feature_set_version(), ")");
  }
  absl::StrAppend(&text, text.empty() ? "" : ", ", served.model(), " v", served.model_version());
  if (!served.graph().empty()) absl::StrAppend(&text, ", numerics revision ", served.numerics_revision());
  return text;
}

}  // namespace vicinal::client::cli
