// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/resolve.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/execute/selection.h"
#include "engine/prepare/counted_features.h"

namespace vicinal {
namespace {

constexpr char kFeaturesSent[] = "the features sent";

Status CheckSelection(const NodeSelection& nodes, int64_t num_nodes) {
  if (nodes.all && !nodes.ids.empty()) {
    return InvalidArgument("BAD_SELECTION", "nodes", "nodes.all is set and nodes.ids are given; use one of them");
  }
  if (!nodes.all && nodes.ids.empty()) {
    return InvalidArgument("BAD_SELECTION", "nodes", "no nodes are asked for; give nodes.ids or set nodes.all");
  }
  return CheckNodeIds(nodes.ids, num_nodes, "nodes.ids");
}

}  // namespace

Status CheckEdgeWeights(const Model& model, const std::string& name, const PreparedGraph& graph) {
  if (!model.uses_edge_weight || graph.weighted() || graph.num_edges() == 0) return OkStatus();
  return FailedPrecondition(
      "EDGE_WEIGHT_MISSING",
      absl::StrCat("model '", name,
                   "' reads edge weights, but the graph was sent without; send it with edge_weight, "
                   "or leave edge_weight out of the model's layers"));
}

StatusOr<const NamedOutput*> FindOutput(const Model& model, const std::string& name) {
  const NamedOutput* output = model.FindOutput(name.empty() ? "logits" : name);
  if (output != nullptr) return output;
  std::string names;
  for (const NamedOutput& known : model.outputs) absl::StrAppend(&names, names.empty() ? "" : ", ", known.name);
  // Embed's own choice, which the client may never have typed.
  const char* why = name == "last_conv_input"
                        ? ", which Embed takes where none is named: no layer comes before its last convolution"
                        : "";
  return InvalidArgument("OUTPUT_UNKNOWN", "output",
                         absl::StrCat("the model has no output '", name, "'", why, "; there are: ", names));
}

StatusOr<std::shared_ptr<const FeatureMatrix>> RequestResolver::FeaturesOf(const RequestFeatures& features,
                                                                           const GraphHandle& handle,
                                                                           const Model& model) const {
  const PreparedGraph& graph = *handle.graph;
  const Permutation& permutation = graph.parts().permutation;
  const bool some = !features.rows.empty();
  if (some) {
    VICINAL_RETURN_IF_ERROR(CheckNodeIds(features.rows, graph.num_nodes(), "features.rows"));
    VICINAL_RETURN_IF_ERROR(CheckDistinct(features.rows, "features.rows"));
  }
  const int64_t expected = some ? static_cast<int64_t>(features.rows.size()) : graph.num_nodes();
  VICINAL_ASSIGN_OR_RETURN(const auto assembled,
                           ReserveLarge(AssembledBytesBound(features.tensors), kFeaturesSent, &budget_));
  VICINAL_ASSIGN_OR_RETURN(HostFeatures sent, AssembleFeatures(features.tensors, expected, "features"));
  VICINAL_RETURN_IF_ERROR(CheckFeatureWidth(sent.cols, model.feature_count));
  if (!some) {
    VICINAL_ASSIGN_OR_RETURN(auto memory, ReserveLarge(FeatureMatrix::BytesOn(sent, device_), kFeaturesSent, &budget_));
    if (!permutation.is_identity()) sent = PermuteRows(sent, permutation.new_of_old());
    return Counted(FeatureMatrix::Upload(sent, device_), std::move(memory));
  }
  const FeatureMatrix& stored = *handle.features->matrix;
  if (stored.cols() != sent.cols) {
    return FailedPrecondition("FEATURE_WIDTH",
                              absl::StrCat("feature set '", handle.features->name, "' has ", stored.cols(),
                                           " columns, but the rows sent have ", sent.cols));
  }
  VICINAL_ASSIGN_OR_RETURN(auto memory, ReserveLarge(stored.size_bytes(), "replacing rows of features", &budget_));
  std::vector<int64_t> positions = features.rows;
  for (int64_t& position : positions)
    position = permutation.is_identity() ? position : permutation.ToNew(static_cast<NodeId>(position));
  return Counted(WithRows(stored, sent, positions, device_), std::move(memory));
}

StatusOr<InferenceJob> RequestResolver::Resolve(InferenceRequest request) const {
  const bool all_features_sent = request.features.has_value() && request.features->rows.empty();
  const std::string set = request.feature_set.empty() ? std::string("default") : request.feature_set;
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle,
                           graphs_.Find(request.graph, request.graph_version, all_features_sent ? "" : set,
                                        all_features_sent ? 0 : request.feature_set_version));
  VICINAL_ASSIGN_OR_RETURN(const ModelHandle stored, models_.Find(request.model, request.model_version));
  const Model& model = *stored->model;
  if (model.graph_level) {
    return FailedPrecondition(
        "GRAPH_MODEL", absl::StrCat("model '", request.model, "' classifies graphs, not nodes; use ClassifyGraphs"));
  }
  VICINAL_ASSIGN_OR_RETURN(const NamedOutput* output, FindOutput(model, request.output));
  VICINAL_RETURN_IF_ERROR(CheckSelection(request.nodes, handle.graph->num_nodes()));
  VICINAL_RETURN_IF_ERROR(CheckEdgeWeights(model, request.model, *handle.graph));

  InferenceJob job;
  if (request.features) {
    VICINAL_ASSIGN_OR_RETURN(job.features, FeaturesOf(*request.features, handle, model));
  } else {
    job.features = handle.features->matrix;
  }
  const bool forced = !request.forced.empty();
  job.plan = {
      stored->model,     handle.graph,    FeatureShape::Of(*job.features), output->value, std::move(request.forced),
      request.precision, request.products};
  job.model_name = stored->name;
  job.all_rows = request.nodes.all;
  job.ids = std::move(request.nodes.ids);
  job.receptive_field = request.receptive_field;
  job.served_by.graph = std::move(request.graph);
  job.served_by.graph_version = handle.graph->parts().version;
  job.served_by.model = stored->name;
  job.served_by.model_version = stored->version;
  if (!all_features_sent) {
    job.served_by.feature_set = handle.features->name;
    job.served_by.feature_set_version = handle.features->version;
  }
  job.served_by.numerics_revision = forced ? 0 : handle.graph->parts().numerics_revision;
  job.limits = std::move(request.limits);
  return job;
}

StatusOr<InferenceJob> RequestResolver::ResolveBatch(GraphBatchRequest request) const {
  VICINAL_ASSIGN_OR_RETURN(const ModelHandle stored, models_.Find(request.model, request.model_version));
  if (!stored->model->graph_level) {
    return FailedPrecondition(
        "NODE_MODEL",
        absl::StrCat("model '", request.model, "' classifies nodes, not graphs; upload the graph and use Classify"));
  }
  VICINAL_ASSIGN_OR_RETURN(const InlineGraph made,
                           inline_graphs_.MakeBatch({request.ptr, request.edge_index, request.edge_weight},
                                                    request.features, "graphs.features", stored->model->feature_count));
  VICINAL_RETURN_IF_ERROR(CheckEdgeWeights(*stored->model, request.model, *made.graph));
  VICINAL_ASSIGN_OR_RETURN(const NamedOutput* output, FindOutput(*stored->model, ""));
  InferenceJob job;
  job.features = made.features;
  const bool forced = !request.forced.empty();
  job.plan = {
      stored->model,     made.graph,      FeatureShape::Of(*job.features), output->value, std::move(request.forced),
      request.precision, request.products};
  job.model_name = stored->name;
  job.served_by.model = stored->name;
  job.served_by.model_version = stored->version;
  job.served_by.numerics_revision = forced ? 0 : made.graph->parts().numerics_revision;
  job.limits = std::move(request.limits);
  job.keep_plan = false;
  return job;
}

}  // namespace vicinal
