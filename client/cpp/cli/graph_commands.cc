// SPDX-License-Identifier: Apache-2.0
// `vicinal graph ...`: upload, list, get, delete. (explain, tune and plot have files of their own.)
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/graph_options.h"
#include "client/cpp/cli/ids_file.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/cli/wait_option.h"
#include "client/cpp/formats/status_macros.h"
#include "proto/wire/names.h"

namespace vicinal::client::cli {
namespace {

GraphFileOptions FileOptions(const Arguments& args) {
  GraphFileOptions options;
  options.format = ParseFormat(args.Text("format", "auto"));
  options.features_path = args.Text("x");
  options.edge_features_path = args.Text("edge_attr");
  options.ids_path = args.Text("ids");
  options.titles = ParseChoice<Titles>(args.Text("titles"));
  options.ids_title = ParseChoice<Titles>(args.Text("ids_title"));
  options.comments = ParseChoice<Comments>(args.Text("comments"));
  if (args.Has("num_nodes")) options.node_count = args.Integer("num_nodes", 0);
  options.undirected = args.Has("undirected");
  options.matrix_rows = ParseRows(args.Text("mtx_rows", "target"));
  return options;
}

v1::UploadGraphSpec MakeSpec(const Arguments& args, const GraphData& graph) {
  v1::UploadGraphSpec spec;
  spec.set_name(args.Text("name"));
  spec.set_upload_id(args.Text("upload_id"));
  spec.set_node_count(graph.node_count);
  if (graph.features && graph.features->sparse) spec.set_feature_count(graph.features->columns);
  spec.set_reorder(ParseReorder(args.Text("reorder", "auto")));
  spec.set_replace(args.Has("replace") || args.Has("if_version"));
  spec.set_if_version(args.Integer("if_version", 0));
  if (graph.ids) spec.set_ids_digest(graph.ids->Digest());
  spec.set_pinned(args.Has("pinned"));
  spec.set_keep_edge_order(args.Has("keep_edge_order"));
  return spec;
}

void PrintFile(const Context& context, const GraphData& graph) {
  context.out << context.args.Positional(0) << ": " << FormatCount(graph.node_count, "node") << ", "
              << FormatCount(graph.edge_index.element_count() / 2, "edge")
              << (graph.edge_weight ? ", with weights" : "");
  if (graph.edge_attr) context.out << ", " << FormatCount(graph.edge_attr->shape[1], "feature") << " per edge";
  if (graph.features) {
    context.out << ", features " << graph.features->rows << " x " << graph.features->columns
                << (graph.features->sparse ? " (sparse)" : "");
  }
  context.out << '\n';
  for (const std::string& note : graph.notes) context.out << "  note: " << note << '\n';
}

// "feature set 'a'", "feature sets 'a', 'b'"
std::string SetsOf(const std::vector<std::string>& quoted) {
  return absl::StrCat(quoted.size() == 1 ? "feature set " : "feature sets ", absl::StrJoin(quoted, ", "));
}

// What goes with the version that an upload replaces: its feature sets, but for the one that comes along.
struct Replaced {
  int64_t version = 0;
  std::vector<std::string> sets;  // names in single quotes
};

absl::StatusOr<Replaced> FindReplaced(const Context& context, bool brings_features) {
  const std::string name = context.args.Text("name");
  const absl::StatusOr<v1::Graph> there = context.client.GetGraph(name);
  if (absl::IsNotFound(there.status())) return Replaced();
  if (!there.ok()) return there.status();
  Replaced replaced;
  replaced.version = there->version();
  for (const v1::FeatureSet& set : there->feature_sets()) {
    if (!brings_features || set.name() != wire::kDefaultFeatureSet)
      replaced.sets.push_back(absl::StrCat("'", set.name(), "'"));
  }
  if (replaced.sets.empty() || brings_features || context.args.Has("drop_features")) {
    for (const v1::FeatureSet& set : there->edge_feature_sets())
      replaced.sets.push_back(absl::StrCat("'", set.name(), "' (edges)"));
    return replaced;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("graph '", name, "' has ", SetsOf(replaced.sets),
                   ", which a replacement drops, and this upload contains no features: ",
                   "queries with stored features would fail until you upload some. Pass --x FILE "
                   "to upload features, or --drop_features to continue without"));
}

absl::Status UploadGraph(const Context& context) {
  const Arguments& args = context.args;
  const bool replaces = args.Has("replace") || args.Has("if_version");
  if (args.Has("drop_features") && !replaces) {
    return absl::InvalidArgumentError("--drop_features needs --replace or --if_version");
  }
  // What it means to classify and embed. A file of that name would not be found there either.
  if (args.Text("ids") == "none") {
    return absl::InvalidArgumentError(
        "--ids none is for classify and embed; here --ids FILE lists the ids of an edge list, or is left out");
  }
  CLIENT_ASSIGN_OR_RETURN(GraphData graph, ReadGraphFile(args.Positional(0), FileOptions(args)));
  if (graph.features) {
    CLIENT_RETURN_IF_ERROR(CheckFinite(*graph.features, args.Text("x", args.Positional(0)), graph.ids));
  }
  CLIENT_RETURN_IF_ERROR(CheckEdgesFinite(graph, args.Positional(0), args.Text("edge_attr")));
  Replaced replaced;
  if (replaces) {
    CLIENT_ASSIGN_OR_RETURN(replaced, FindReplaced(context, graph.features.has_value()));
  }
  if (!context.json) PrintFile(context, graph);
  const std::string ids_path = args.Text("ids_out", DefaultIdsPath(args.Text("name")));
  std::optional<StagedIds> staged;
  if (graph.ids) {
    CLIENT_RETURN_IF_ERROR(CheckIdsPath(ids_path, !args.Has("ids_out")));
    CLIENT_ASSIGN_OR_RETURN(StagedIds ids, StagedIds::Write(*graph.ids, ids_path, args.Text("name")));
    staged.emplace(std::move(ids));
  }

  UploadOptions options;
  ProgressBar bar(context.err, context.terminal);
  options.progress = [&](const UploadProgress& progress) {
    bar.Show(static_cast<double>(progress.sent_bytes) / static_cast<double>(std::max<int64_t>(progress.total_bytes, 1)),
             absl::StrCat("uploading ", FormatBytes(progress.sent_bytes)));
  };
  options.watch = [&](const v1::Graph& state) { bar.Show(state.progress(), "preparing"); };
  CLIENT_RETURN_IF_ERROR(SetWait(context, &bar, &options));
  CLIENT_ASSIGN_OR_RETURN(const v1::Graph ready,
                          context.client.UploadGraph(MakeSpec(args, graph), GraphTensors(graph), options));
  bar.Clear();
  if (staged) CLIENT_RETURN_IF_ERROR(staged->Keep(*graph.ids, ids_path, ready));
  const std::string gone =
      replaced.sets.empty() ? "" : absl::StrCat("dropped ", SetsOf(replaced.sets), " of version ", replaced.version);
  if (context.json) {
    if (!gone.empty()) graph.notes.push_back(gone);
    Json result = {{"graph", ToJson(ready)}, {"notes", graph.notes}};
    if (graph.ids) result["ids_file"] = ids_path;
    context.PrintJson(result);
    return absl::OkStatus();
  }
  PrintGraphSummary(ready, context.out);
  if (!gone.empty()) context.out << "note: " << gone << '\n';
  if (graph.ids) {
    context.out << "ids: the map of the file's ids is in " << ids_path
                << "; classify and embed use it in this folder (elsewhere: --ids FILE)\n";
  } else if (args.Has("ids_out")) {
    context.out << "ids: 0.." << graph.node_count - 1 << ", the row numbers, so no map was written to " << ids_path
                << '\n';
  }
  return absl::OkStatus();
}

absl::Status ListGraphs(const Context& context) {
  CLIENT_ASSIGN_OR_RETURN(const std::vector<v1::Graph> graphs, context.client.ListGraphs());
  if (context.json) {
    Json list = Json::array();
    for (const v1::Graph& graph : graphs) list.push_back(ToJson(graph));
    context.PrintJson(Json{{"graphs", list}});
    return absl::OkStatus();
  }
  PrintGraphs(graphs, context.out);
  return absl::OkStatus();
}

absl::Status GetGraph(const Context& context) {
  CLIENT_ASSIGN_OR_RETURN(const v1::Graph graph, context.client.GetGraph(context.args.Positional(0)));
  if (context.json) {
    context.PrintJson(ToJson(graph));
  } else {
    PrintGraph(graph, context.out);
  }
  return absl::OkStatus();
}

absl::Status DeleteGraph(const Context& context) {
  const std::string& name = context.args.Positional(0);
  CLIENT_RETURN_IF_ERROR(context.client.DeleteGraph(name, context.args.Integer("if_version", 0)));
  if (context.json) {
    context.PrintJson(Json{{"deleted", name}});
  } else {
    context.out << "graph '" << name << "' is deleted\n";
  }
  return absl::OkStatus();
}

constexpr char kUploadDetails[] =
    "FILE is an .npz (edge_index [2, E], optionally edge_weight, edge_attr, x or\n"
    "x_indptr/x_indices/x_data/x_shape), a text edge list (one \"source target [weight]\" per line, separated by "
    "spaces\n"
    "or commas; '#' and '%' begin comments) or a MatrixMarket coordinate file. In files with commas and in --ids, put "
    "ids that contain commas in double quotes:\n"
    "\"Doe, John\". Features become the graph's feature set 'default'. A replacement drops all feature sets of the "
    "old\n"
    "version. If it has any and the upload has no features, it is rejected unless --drop_features is given.\n"
    "\n"
    "Edge lists may use ids of any kind. Ids that are exactly 0..N-1 stay (N is --num_nodes, or the rows of --x, or "
    "the\n"
    "largest plus one). Others are mapped: numbers in ascending order, text in order of first appearance, or in the "
    "order\n"
    "of --ids. The map is written to GRAPH.ids.txt in the current folder, or to --ids_out FILE; classify and embed "
    "then\n"
    "use those ids.";

Syntax UploadSyntax() {
  return {
      "graph upload",
      {"FILE"},
      "Uploads a graph and waits until it is prepared and, where the server keeps a state directory, on disk.",
      kUploadDetails,
      {{"name", OptionKind::kName, "NAME", "name of the graph: [a-z0-9][a-z0-9._-]{0,62}", {}, true},
       {"reorder", OptionKind::kText, "ORDER", "auto (default), none, degree, rcm, community or metis", ReorderWords()},
       {"replace", OptionKind::kFlag, "", "replace a graph of this name; drops its feature sets"},
       {"pinned", OptionKind::kFlag, "", "the server keeps it in memory, even if others need that"},
       {"drop_features", OptionKind::kFlag, "", "replace it even if this upload has no features"},
       AtLeast(1, {"if_version", OptionKind::kInteger, "V", "replace only version V"}),
       {"format", OptionKind::kText, "FORMAT", "auto (default), npz, edgelist or mtx", FormatWords()},
       {"x", OptionKind::kText, "FILE.npy", "features [N, F] (.npy, or .npz with x), instead of the file's own"},
       {"edge_attr", OptionKind::kText, "FILE.npy", "features of edges [E, A], in the order of FILE's edges"},
       {"keep_edge_order", OptionKind::kFlag, "",
        "edge feature sets can be uploaded later (features upload --edges); implied by features of edges"},
       {"undirected", OptionKind::kFlag, "",
        "add missing reverse edges, with the same weights and features; duplicates stay"},
       AtLeast(1, {"num_nodes", OptionKind::kInteger, "N", "number of nodes; ids are then 0..N-1"}),
       {"titles", OptionKind::kText, "WORD", "edge list: is the first line titles? auto (default), yes or no",
        ChoiceWords()},
       {"comments", OptionKind::kText, "WORD",
        "edge list: are lines that begin with '#' or '%' comments? auto (default), yes or no", ChoiceWords()},
       {"mtx_rows", OptionKind::kText, "END", "MatrixMarket: rows are target (default) or source", RowsWords()},
       {"ids", OptionKind::kText, "FILE", "edge list: the ids in node order (the rows of --x), one per line"},
       {"ids_title", OptionKind::kText, "WORD",
        "is the first line of --ids a title? auto (default: no, but an error if it may be one), yes or no",
        ChoiceWords()},
       {"ids_out", OptionKind::kText, "FILE", "file for the map of ids; default: GRAPH.ids.txt"},
       WaitOption(),
       {"upload_id", OptionKind::kText, "ID", "resume the upload with this id: [a-z0-9-]{8,64}"}}};
}

}  // namespace

std::vector<Command> GraphCommands() {
  return {
      {UploadSyntax(), UploadGraph},
      {{"graph list", {}, "Lists the graphs.", "", {}}, ListGraphs},
      {{"graph get", {"NAME"}, "Shows a graph: state, stages, profile, feature sets.", "", {}}, GetGraph},
      {{"graph delete",
        {"NAME"},
        "Deletes a graph and its feature sets.",
        "",
        {AtLeast(1, {"if_version", OptionKind::kInteger, "V", "only if the graph has this version"})}},
       DeleteGraph},
      ExplainCommand(),
      TuneCommand(),
      PlotCommand(),
  };
}

}  // namespace vicinal::client::cli
