// SPDX-License-Identifier: Apache-2.0
// `vicinal features ...`: upload, list, delete.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/ids_file.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/cli/tensors.h"
#include "client/cpp/cli/wait_option.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

// Checks that the numbers of rows and nodes are equal before a large matrix is sent, with the message of `graph
// upload`.
absl::Status CheckRows(const Context& context, const Features& features) {
  CLIENT_ASSIGN_OR_RETURN(const v1::Graph graph, context.client.GetGraph(context.args.Text("graph")));
  if (graph.state() != v1::Graph::STATE_READY || features.rows == graph.node_count()) return absl::OkStatus();
  return FileError(context.args.Positional(0), 0,
                   absl::StrCat("the features have ", features.rows, " rows, but graph '", graph.name(), "' has ",
                                graph.node_count(), " nodes"));
}

absl::Status UploadFeatures(const Context& context) {
  const Arguments& args = context.args;
  CLIENT_ASSIGN_OR_RETURN(const Features features, ReadFeatures(args.Positional(0)));
  if (!CheckFinite(features, args.Positional(0), {}).ok()) {
    return CheckFinite(features, args.Positional(0), KnownIds(context, args.Text("graph")));
  }
  CLIENT_RETURN_IF_ERROR(CheckRows(context, features));
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
  CLIENT_ASSIGN_OR_RETURN(const v1::FeatureSet set,
                          context.client.UploadFeatures(spec, FeatureTensors(features), options));
  bar.Clear();
  if (context.json) {
    context.PrintJson(ToJson(set));
  } else {
    PrintFeatureSets({set}, context.out);
  }
  return absl::OkStatus();
}

absl::Status ListFeatures(const Context& context) {
  CLIENT_ASSIGN_OR_RETURN(const std::vector<v1::FeatureSet> sets,
                          context.client.ListFeatures(context.args.Text("graph")));
  if (!context.json) {
    PrintFeatureSets(sets, context.out);
    return absl::OkStatus();
  }
  Json list = Json::array();
  for (const v1::FeatureSet& set : sets) list.push_back(ToJson(set));
  context.PrintJson(Json{{"feature_sets", list}});
  return absl::OkStatus();
}

absl::Status DeleteFeatures(const Context& context) {
  const std::string graph = context.args.Text("graph"), name = context.args.Positional(0);
  CLIENT_RETURN_IF_ERROR(context.client.DeleteFeatures(graph, name));
  if (context.json) {
    context.PrintJson(Json{{"deleted", name}, {"graph", graph}});
  } else {
    context.out << "feature set '" << name << "' of graph '" << graph << "' is deleted\n";
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Command> FeaturesCommands() {
  const Option graph = {"graph", OptionKind::kName, "GRAPH", "the graph", {}, true};
  return {
      {{"features upload",
        {"FILE"},
        "Uploads a feature matrix of a graph as a named set.",
        "FILE is an .npy [N, F], or an .npz with x [N, F] or x_indptr, x_indices, x_data and x_shape (CSR). Row i "
        "belongs to\n"
        "node i: line i of the graph's ids, if it has ids of its own.",
        {graph,
         {"name", OptionKind::kName, "NAME", "name of the set", {}, true},
         {"replace", OptionKind::kFlag, "", "replace a set of this name"},
         AtLeast(1, {"if_version", OptionKind::kInteger, "V", "replace only version V"}),
         WaitOption(),
         {"upload_id", OptionKind::kText, "ID", "resume the upload with this id: [a-z0-9-]{8,64}"}}},
       UploadFeatures},
      {{"features list", {}, "Lists the feature sets of a graph.", "", {graph}}, ListFeatures},
      {{"features delete", {"NAME"}, "Deletes a feature set of a graph.", "", {graph}}, DeleteFeatures},
  };
}

}  // namespace vicinal::client::cli
