// SPDX-License-Identifier: Apache-2.0
// `vicinal features ...`: upload, list, delete.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/feature_rows.h"
#include "client/cpp/cli/ids_file.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/cli/tensors.h"
#include "client/cpp/cli/wait_option.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

v1::FeatureKind KindOf(const Arguments& args) {
  return args.Has("edges") ? v1::FEATURE_KIND_EDGES : v1::FEATURE_KIND_NODES;
}

void Print(const std::vector<v1::FeatureSet>& sets, v1::FeatureKind kind, std::ostream& out) {
  if (kind == v1::FEATURE_KIND_EDGES) return PrintEdgeFeatureSets(sets, out);
  PrintFeatureSets(sets, out);
}

absl::Status UploadFeatures(const Context& context) {
  const Arguments& args = context.args;
  Features features;
  Array edge_attr;
  std::vector<UploadTensor> tensors;
  if (args.Has("edges")) {
    CLIENT_ASSIGN_OR_RETURN(edge_attr, ReadEdgeFeatures(args.Positional(0)));
    CLIENT_RETURN_IF_ERROR(CheckEdgesFinite(edge_attr, args.Positional(0)));
    tensors = {ToUploadTensor("edge_attr", edge_attr)};
  } else {
    CLIENT_ASSIGN_OR_RETURN(features, ReadFeatures(args.Positional(0)));
    if (!CheckFinite(features, args.Positional(0), {}).ok()) {
      return CheckFinite(features, args.Positional(0), KnownIds(context, args.Text("graph")));
    }
    tensors = FeatureTensors(features);
  }
  const int64_t rows = args.Has("edges") ? edge_attr.shape[0] : features.rows;
  CLIENT_RETURN_IF_ERROR(CheckFeatureRows(context.client, args.Text("graph"), KindOf(args), rows, args.Positional(0)));
  v1::UploadFeaturesSpec spec;
  spec.set_graph(args.Text("graph"));
  spec.set_name(args.Text("name"));
  spec.set_upload_id(args.Text("upload_id"));
  if (features.sparse) spec.set_feature_count(features.columns);
  spec.set_replace(args.Has("replace") || args.Has("if_version"));
  spec.set_if_version(args.Integer("if_version", 0));
  ProgressBar bar(context.err, context.terminal);
  UploadOptions options;
  options.progress = [&](const UploadProgress& progress) {
    bar.Show(static_cast<double>(progress.sent_bytes) / static_cast<double>(std::max<int64_t>(progress.total_bytes, 1)),
             absl::StrCat("uploading ", FormatBytes(progress.sent_bytes)));
  };
  CLIENT_RETURN_IF_ERROR(SetWait(context, &bar, &options));
  CLIENT_ASSIGN_OR_RETURN(const v1::FeatureSet set, context.client.UploadFeatures(spec, tensors, options));
  bar.Clear();
  if (context.json) {
    context.PrintJson(ToJson(set));
  } else {
    Print({set}, KindOf(args), context.out);
  }
  return absl::OkStatus();
}

absl::Status ListFeatures(const Context& context) {
  const std::string graph = context.args.Text("graph");
  CLIENT_ASSIGN_OR_RETURN(const std::vector<v1::FeatureSet> sets, context.client.ListFeatures(graph));
  CLIENT_ASSIGN_OR_RETURN(const std::vector<v1::FeatureSet> edge_sets,
                          context.client.ListFeatures(graph, v1::FEATURE_KIND_EDGES));
  if (!context.json) {
    PrintFeatureSets(sets, context.out);
    if (!edge_sets.empty()) context.out << '\n';
    PrintEdgeFeatureSets(edge_sets, context.out);
    return absl::OkStatus();
  }
  Json list = Json::array(), edge_list = Json::array();
  for (const v1::FeatureSet& set : sets) list.push_back(ToJson(set));
  for (const v1::FeatureSet& set : edge_sets) edge_list.push_back(ToJson(set));
  context.PrintJson(Json{{"feature_sets", list}, {"edge_feature_sets", edge_list}});
  return absl::OkStatus();
}

absl::Status DeleteFeatures(const Context& context) {
  const std::string graph = context.args.Text("graph"), name = context.args.Positional(0);
  CLIENT_RETURN_IF_ERROR(
      context.client.DeleteFeatures(graph, name, KindOf(context.args), context.args.Integer("if_version", 0)));
  if (context.json) {
    context.PrintJson(Json{{"deleted", name}, {"graph", graph}});
  } else {
    context.out << (context.args.Has("edges") ? "edge feature set '" : "feature set '") << name << "' of graph '"
                << graph << "' is deleted\n";
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Command> FeaturesCommands() {
  const Option graph = {"graph", OptionKind::kName, "GRAPH", "the graph", {}, true};
  const Option edges = {"edges", OptionKind::kFlag, "", "an edge feature set: features of edges, not of nodes"};
  return {
      {{"features upload",
        {"FILE"},
        "Uploads a feature matrix of a graph as a named set.",
        "FILE is an .npy [N, F], or an .npz with x [N, F] or x_indptr, x_indices, x_data and x_shape (CSR). Row i "
        "belongs to\n"
        "node i: line i of the graph's ids, if it has ids of its own. With --edges FILE is an .npy [E, A] or [E], or "
        "an .npz with\n"
        "edge_attr: row e belongs to edge e of the graph's upload.",
        {graph,
         edges,
         {"name", OptionKind::kName, "NAME", "name of the set", {}, true},
         {"replace", OptionKind::kFlag, "", "replace a set of this name"},
         AtLeast(1, {"if_version", OptionKind::kInteger, "V", "replace only version V"}),
         WaitOption(),
         {"upload_id", OptionKind::kText, "ID", "resume the upload with this id: [a-z0-9-]{8,64}"}}},
       UploadFeatures},
      {{"features list", {}, "Lists the feature sets of a graph.", "", {graph}}, ListFeatures},
      {{"features delete",
        {"NAME"},
        "Deletes a feature set of a graph.",
        "",
        {graph, edges, AtLeast(1, {"if_version", OptionKind::kInteger, "V", "only if the set has this version"})}},
       DeleteFeatures},
  };
}

}  // namespace vicinal::client::cli
