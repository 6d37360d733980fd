// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/resolve.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/execute/links/link_query.h"
#include "engine/execute/selection.h"
#include "engine/graph/edge_features.h"
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

Status CheckIdsDigest(const std::string& required, const PreparedGraph& graph) {
  const PreparedGraph::Parts& parts = graph.parts();
  if (required.empty() || required == parts.ids_digest) return OkStatus();
  ErrorDetail detail;
  detail.reason = "IDS_DIGEST_MISMATCH";
  detail.resource_type = "graph";
  detail.resource_name = parts.name;
  detail.metadata = {{"idsDigest", parts.ids_digest}};
  const std::string has = parts.ids_digest.empty() ? "none" : absl::StrCat("'", parts.ids_digest, "'");
  return MakeError(StatusCode::kFailedPrecondition,
                   absl::StrCat("the request requires the ids digest '", Printable(required), "', but version ",
                                parts.version, " of graph '", parts.name, "' has ", has,
                                ": its nodes may be numbered differently; translate the ids with its own list"),
                   detail);
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

Status CheckEdges(const Model& model, const std::string& name, const PreparedGraph& graph, const FeatureSet* edges) {
  const int64_t edge_count = graph.num_edges(), read = model.edge_feature_width;
  if (edges == nullptr) {
    VICINAL_RETURN_IF_ERROR(CheckEdgeFeatureWidth(graph.edge_feature_width(), edge_count, read));
  } else if (const int64_t cols = edges->edges->cols(); cols != read) {
    const std::string what = absl::StrCat(TypeName(FeatureKind::kEdges), " '", edges->name, "'");
    VICINAL_RETURN_IF_ERROR(CheckEdgeFeatureWidth(cols, edge_count, read, what));
  }
  return CheckEdgeWeights(model, name, graph);
}

StatusOr<const NamedOutput*> FindOutput(const Model& model, const std::string& name) {
  const NamedOutput* output = model.FindOutput(name.empty() ? "logits" : name);
  if (output != nullptr) return output;
  std::string names;
  for (const NamedOutput& known : model.outputs) absl::StrAppend(&names, names.empty() ? "" : ", ", known.name);
  // Embed's default, which the client may not have named itself.
  const char* why = name == "last_conv_input"
                        ? ", which Embed takes where none is named: no layer comes before its last convolution"
                        : "";
  return InvalidArgument("OUTPUT_UNKNOWN", "output",
                         absl::StrCat("the model has no output '", Printable(name), "'", why, "; there are: ", names));
}

Status RequestResolver::TakeFeatures(const RequestFeatures& features, bool may_stay_apart, const GraphHandle& handle,
                                     const Model& model, QueuedRequest* request) const {
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
    VICINAL_ASSIGN_OR_RETURN(request->features, Counted(FeatureMatrix::Upload(sent, device_), std::move(memory)));
    return OkStatus();
  }
  const FeatureMatrix& stored = *handle.features->matrix;
  if (stored.cols() != sent.cols) {
    return FailedPrecondition("FEATURE_WIDTH",
                              absl::StrCat("feature set '", handle.features->name, "' has ", stored.cols(),
                                           " columns, but the rows sent have ", sent.cols));
  }
  std::vector<int64_t> positions = features.rows;
  for (int64_t& position : positions)
    position = permutation.is_identity() ? position : permutation.ToNew(static_cast<NodeId>(position));
  if (may_stay_apart && device_.kind() == DeviceKind::kCpu) {
    auto replaced = std::make_shared<const ReplacedRows>(InPlaceOfRows(stored, sent, std::move(positions)));
    VICINAL_ASSIGN_OR_RETURN(auto memory, ReserveLarge(replaced->rows.size_bytes(), kFeaturesSent, &budget_));
    request->features = handle.features->matrix;
    request->replaced = WithReservation(std::move(replaced), std::move(memory));
    return OkStatus();
  }
  VICINAL_ASSIGN_OR_RETURN(auto memory, ReserveLarge(stored.size_bytes(), "replacing rows of features", &budget_));
  VICINAL_ASSIGN_OR_RETURN(request->features, Counted(WithRows(stored, sent, positions, device_), std::move(memory)));
  return OkStatus();
}

Status RequestResolver::CheckIncarnation(const std::string& required) const {
  if (required.empty() || required == incarnation_) return OkStatus();
  ErrorDetail detail;
  detail.reason = "INCARNATION_MISMATCH";
  detail.metadata = {{"incarnation", std::string(incarnation_)}};
  return MakeError(StatusCode::kFailedPrecondition,
                   absl::StrCat("the request requires the incarnation '", Printable(required),
                                "', but this server's state is '", std::string(incarnation_),
                                "': versions mean something else here; read the resources again, then decide"),
                   detail);
}

StatusOr<QueuedRequest> RequestResolver::Resolve(InferenceRequest request, const MayCome& may_come) const {
  VICINAL_RETURN_IF_ERROR(CheckIncarnation(request.incarnation));
  const bool all_features_sent = request.features.has_value() && request.features->rows.empty();
  const std::string set = request.feature_set.empty() ? std::string("default") : request.feature_set;
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle,
                           graphs_.Find(request.graph, request.graph_version, all_features_sent ? "" : set,
                                        all_features_sent ? 0 : request.feature_set_version,
                                        {request.edge_feature_set, request.edge_feature_set_version}));
  VICINAL_RETURN_IF_ERROR(CheckIdsDigest(request.ids_digest, *handle.graph));
  VICINAL_ASSIGN_OR_RETURN(const ModelHandle stored, models_.Find(request.model, request.model_version));
  const Model& model = *stored->model;
  if (model.graph_level) {
    return FailedPrecondition(
        "GRAPH_MODEL", absl::StrCat("model '", request.model, "' classifies graphs, not nodes; use ClassifyGraphs"));
  }
  QueuedRequest resolved;
  if (request.links != nullptr) {
    VICINAL_ASSIGN_OR_RETURN(resolved.links, ResolveLinks(*request.links, model, *handle.graph, request.check_answer,
                                                          &request.options.output, &request.nodes));
  }
  const NamedOutput* output = nullptr;
  if (resolved.links != nullptr && resolved.links->attention != nullptr) {
    output = &resolved.links->attention->terms;
  } else {
    VICINAL_ASSIGN_OR_RETURN(output, FindOutput(model, request.options.output));
  }
  VICINAL_RETURN_IF_ERROR(CheckSelection(request.nodes, handle.graph->num_nodes()));
  // A set that is named must be there, also where the model reads none.
  const bool names_edges = !request.edge_feature_set.empty() || request.edge_feature_set_version != 0;
  if (names_edges || model.edge_feature_width > 0) VICINAL_RETURN_IF_ERROR(handle.edges.status());
  const FeatureSetHandle edges = model.edge_feature_width > 0 ? *handle.edges : nullptr;
  VICINAL_RETURN_IF_ERROR(CheckEdges(model, request.model, *handle.graph, edges.get()));
  request.options.output = output->name;  // requests with and without the name have equal keys
  resolved.answer.rows = request.nodes.all ? handle.graph->num_nodes() : static_cast<int64_t>(request.nodes.ids.size());
  resolved.answer.width = output->width;
  resolved.answer.regression = model.regression;
  if (request.check_answer && resolved.links == nullptr) VICINAL_RETURN_IF_ERROR(request.check_answer(resolved.answer));
  resolved.incarnation = incarnation_;
  resolved.key = {{std::move(request.graph), handle.graph->parts().version},
                  {stored->name, stored->version},
                  std::move(request.options)};
  resolved.graph = handle.graph;
  resolved.model = stored->model;
  if (!all_features_sent) {
    resolved.feature_set = handle.features->name;
    resolved.feature_set_version = handle.features->version;
  }
  if (edges != nullptr) {
    resolved.edges = edges->edges;
    resolved.edge_feature_set = edges->name;
    resolved.edge_feature_set_version = edges->version;
  }
  resolved.output = output->value;
  resolved.nodes = std::move(request.nodes);
  if (request.classes && request.classes->top_k <= resolved.answer.width) resolved.classes = request.classes;
  resolved.requester = std::move(request.requester);
  resolved.limits = std::move(request.limits);
  if (!request.features) {
    resolved.features = handle.features->matrix;
    return resolved;
  }
  resolved.brings_features = true;
  if (may_come) VICINAL_RETURN_IF_ERROR(may_come(resolved));
  // A run over the full graph needs all rows in one matrix; where it is certain, it is made here, not by the executor.
  const bool some = !resolved.nodes.all && resolved.key.options.receptive_field != ReceptiveField::kNever;
  VICINAL_RETURN_IF_ERROR(TakeFeatures(*request.features, some, handle, model, &resolved));
  return resolved;
}

StatusOr<QueuedRequest> RequestResolver::ResolveBatch(GraphBatchRequest request) const {
  VICINAL_RETURN_IF_ERROR(CheckIncarnation(request.incarnation));
  VICINAL_ASSIGN_OR_RETURN(const ModelHandle stored, models_.Find(request.model, request.model_version));
  const Model& model = *stored->model;
  if (!model.graph_level) {
    return FailedPrecondition(
        "NODE_MODEL",
        absl::StrCat("model '", request.model, "' classifies nodes, not graphs; upload the graph and use Classify"));
  }
  VICINAL_ASSIGN_OR_RETURN(const NamedOutput* output, FindOutput(model, request.options.output));
  request.options.output = output->name;  // requests with and without the name have equal keys
  QueuedRequest resolved;
  // 0 if `ptr` is malformed, which MakeBatch will report.
  resolved.answer.rows = request.ptr.shape.size() == 1 ? std::max<int64_t>(1, request.ptr.shape[0]) - 1 : 0;
  resolved.answer.width = output->width;
  resolved.answer.regression = model.regression;
  if (request.check_answer) VICINAL_RETURN_IF_ERROR(request.check_answer(resolved.answer));
  VICINAL_ASSIGN_OR_RETURN(
      InlineGraph made,
      inline_graphs_.MakeBatch({request.ptr, request.edge_index, request.edge_weight, request.edge_attr},
                               request.features, "graphs.features", model.feature_count));
  VICINAL_RETURN_IF_ERROR(CheckEdges(model, request.model, *made.graph));
  resolved.incarnation = incarnation_;
  resolved.key = {{}, {stored->name, stored->version}, std::move(request.options), NewPrivateId()};
  resolved.graph = std::move(made.graph);
  resolved.model = stored->model;
  resolved.features = std::move(made.features);
  resolved.output = output->value;
  resolved.nodes.all = true;
  resolved.requester = std::move(request.requester);
  resolved.limits = std::move(request.limits);
  return resolved;
}

}  // namespace vicinal
