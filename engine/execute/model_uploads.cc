// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/model_uploads.h"

#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/with_field.h"
#include "engine/execute/links/link_query.h"
#include "engine/execute/reference_check.h"
#include "engine/execute/resolve.h"
#include "engine/execute/selection.h"

namespace vicinal {

StatusOr<ModelHandle> ModelUploads::Put(ModelSource source, const WorkLimits& limits, Reservation memory) const try {
  VICINAL_RETURN_IF_ERROR(parts_.models->CheckPut(source.name, source.replace, source.if_version));
  StoredModel stored;
  stored.name = source.name;
  stored.source_digest = std::move(source.source_digest);
  VICINAL_ASSIGN_OR_RETURN(stored.model, LoadModel(source.architecture_json, source.weights_file));
  const auto weights_bytes = static_cast<int64_t>(source.weights_file.size());
  int64_t own_bytes = memory.bytes() - std::min(memory.bytes(), weights_bytes);
  Reservation freed;
  std::shared_ptr<ModelDocument> document;
  if (parts_.keep_documents) {
    document = std::make_shared<ModelDocument>();
    document->architecture_json = std::move(source.architecture_json);
    document->weights_file = std::move(source.weights_file);
    document->memory = memory.Split(weights_bytes);
    own_bytes += document->memory.bytes();
  } else {
    freed = memory.Split(weights_bytes);
  }
  std::string().swap(source.weights_file);
  VICINAL_ASSIGN_OR_RETURN(
      Reservation kept,
      parts_.budget->Reserve(Account::kPreparing, stored.model->size_bytes, absl::StrCat("model '", source.name, "'"),
                             {.replace = source.replace, .own_bytes = own_bytes, .consumed = &freed}));
  stored.memory = std::make_shared<Reservation>(std::move(kept));
  if (source.reference) {
    VICINAL_ASSIGN_OR_RETURN(stored.reference_error, Check(stored.model, *source.reference, source.name, limits));
    stored.reference_checked = true;
  }
  parts_.before_publish(stored.name, stored.model, [&] { return limits.Check(*parts_.clock); });
  VICINAL_ASSIGN_OR_RETURN(ModelHandle handle,
                           parts_.models->Put(std::move(stored), source.replace, source.if_version));
  parts_.on_publish(handle, std::move(document));
  parts_.logger->Log(LogLevel::kInfo, "model ready",
                     {{"model", handle->name}, {"version", absl::StrCat(handle->version)}});
  return handle;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

StatusOr<ModelUploads::ReferenceGraph> ModelUploads::GraphOf(const ModelReference& reference, const Safetensors& file,
                                                             const Model& model) const {
  if (reference.graph.empty()) {
    VICINAL_ASSIGN_OR_RETURN(InlineGraph graph, ReadInlineGraph(file, model, *parts_.inline_graphs, *parts_.clock));
    return ReferenceGraph{std::move(graph), nullptr};
  }
  if (model.graph_level) {
    return FailedPrecondition(
        "GRAPH_MODEL",
        "a model of graphs cannot be checked on a stored graph; leave reference.graph empty and send the graphs in "
        "line: edge_index, x and ptr in the reference file");
  }
  const std::string& feature_set = reference.feature_set.empty() ? "default" : reference.feature_set;
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle,
                           parts_.graphs->Find(reference.graph, reference.graph_version, feature_set, 0,
                                               {.name = reference.edge_feature_set}));
  if (model.edge_feature_width == 0 && reference.edge_feature_set.empty())
    return ReferenceGraph{{handle.graph, handle.features->matrix}, nullptr};
  // As in a request: a set that is named has to be there, even if the model reads none.
  VICINAL_ASSIGN_OR_RETURN(FeatureSetHandle edges, handle.edges);
  if (model.edge_feature_width == 0) edges = nullptr;
  return ReferenceGraph{{handle.graph, handle.features->matrix}, edges};
}

StatusOr<double> ModelUploads::Check(const std::shared_ptr<const Model>& model, const ModelReference& reference,
                                     const std::string& name, const WorkLimits& limits) const {
  if (!(reference.tolerance >= 0.0 && reference.tolerance < 1.0)) {
    return InvalidArgument("BAD_REFERENCE", "reference.tolerance",
                           "the tolerance must be at least 0 and below 1; 0 means 1e-4");
  }
  const StatusOr<Safetensors> parsed = Safetensors::Parse(reference.file);
  if (!parsed.ok()) return WithField(parsed.status(), "reference");
  const Safetensors& file = *parsed;
  VICINAL_ASSIGN_OR_RETURN(const ReferenceAnswers answers, ReadReferenceAnswers(file, *model));
  VICINAL_ASSIGN_OR_RETURN(const ReferenceGraph graph, GraphOf(reference, file, *model));
  VICINAL_RETURN_IF_ERROR(CheckEdges(*model, name, *graph.graph, graph.edges.get()));
  VICINAL_ASSIGN_OR_RETURN(const NamedOutput* output, FindOutput(*model, ""));
  QueuedRequest request;
  request.key = {{}, {name}, {}, NewPrivateId()};
  request.graph = graph.graph;
  request.model = model;
  request.features = graph.features;
  if (graph.edges != nullptr) request.edges = graph.edges->edges;
  request.output = output->value;
  request.limits = limits;
  request.nodes.all = !answers.nodes.has_value();
  if (answers.nodes) {
    VICINAL_RETURN_IF_ERROR(CheckNodeIds(*answers.nodes, graph.graph->num_nodes(), "reference.nodes"));
    request.nodes.ids = *answers.nodes;
  }
  VICINAL_ASSIGN_OR_RETURN(const InferenceResult result, parts_.executor->SubmitAndWait(std::move(request)));
  if (result.rows != answers.rows) {
    return InvalidArgument(
        "BAD_REFERENCE", "reference",
        absl::StrCat("the reference has ", answers.rows, " rows, but the model gives ", result.rows, " on its graph"));
  }
  const ReferenceRows rows = {&answers.values, &result.values,  answers.nodes ? &*answers.nodes : nullptr,
                              answers.rows,    answers.classes, model->graph_level ? "graph" : "node"};
  const double tolerance = reference.tolerance > 0 ? reference.tolerance : kDefaultReferenceTolerance;
  VICINAL_ASSIGN_OR_RETURN(const double of_rows, CheckReference(rows, tolerance));
  VICINAL_ASSIGN_OR_RETURN(const std::optional<ReferenceLinks> links, ReadReferenceLinks(file, *model));
  if (!links) return of_rows;
  VICINAL_ASSIGN_OR_RETURN(const double of_links, CheckLinks(model, *links, graph, {name, tolerance, &limits}));
  return std::max(of_rows, of_links);
}

StatusOr<double> ModelUploads::CheckLinks(const std::shared_ptr<const Model>& model, const ReferenceLinks& links,
                                          const ReferenceGraph& graph, const LinkCheck& how) const {
  WantedLinks wanted;
  wanted.decoder = LinkDecoder::kModel;
  wanted.pairs = links.pairs;
  QueuedRequest request;
  request.key = {{}, {how.model}, {}, NewPrivateId()};
  StatusOr<std::shared_ptr<const LinkQuery>> query =
      ResolveLinks(wanted, *model, *graph.graph, /*check=*/{}, &request.key.options.output, &request.nodes);
  if (!query.ok()) return WithField(query.status(), "reference");
  request.links = *std::move(query);
  request.graph = graph.graph;
  request.model = model;
  request.features = graph.features;
  if (graph.edges != nullptr) request.edges = graph.edges->edges;
  VICINAL_ASSIGN_OR_RETURN(const NamedOutput* output, FindOutput(*model, request.key.options.output));
  request.output = output->value;
  request.limits = *how.limits;
  VICINAL_ASSIGN_OR_RETURN(const InferenceResult result, parts_.executor->SubmitAndWait(std::move(request)));
  return CheckReference({&links.scores, &result.values, nullptr, result.rows, 1, "link"}, how.tolerance);
}

}  // namespace vicinal
