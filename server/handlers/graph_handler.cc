// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/graph_handler.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/api/edge_order.h"
#include "engine/base/budget_error.h"
#include "server/convert.h"
#include "server/convert_resources.h"
#include "server/convert_tuning.h"
#include "server/handlers/fit_reply.h"
#include "server/handlers/pages.h"
#include "server/handlers/versions.h"

namespace vicinal::server {
namespace {

Status CheckIfVersion(int64_t if_version) {
  if (if_version >= 0) return OkStatus();
  return InvalidArgument("BAD_VERSION", "if_version",
                         absl::StrCat("if_version is ", if_version, "; versions are not negative"));
}

// The error for a graph without a serving version.
Status NotReady(const GraphResource& graph) {
  const std::string name = absl::StrCat("graph '", graph.name, "' ");
  if (graph.state == GraphState::kFailed) {
    return FailedPrecondition(
        "GRAPH_NOT_READY", absl::StrCat(name, "could not be prepared: ", graph.error.message(), "; upload it again"));
  }
  return FailedPrecondition("GRAPH_NOT_READY",
                            absl::StrCat(name, "is being prepared; wait until it is READY (WatchGraph)"));
}

FeatureSizes FeatureSizesOf(const UploadManifest& manifest) {
  return {manifest.SizeOf("x"), manifest.SizeOf("x_indptr"), manifest.SizeOf("x_indices"), manifest.SizeOf("x_values")};
}

FeatureKind KindOf(const UploadManifest& manifest) {
  return manifest.Find("edge_attr") != nullptr ? FeatureKind::kEdges : FeatureKind::kNodes;
}

// REQUIRES: the manifest was made from the spec.
GraphSizes SizesOf(const v1::UploadGraphSpec& spec, const UploadManifest& manifest) {
  GraphSizes sizes;
  sizes.node_count = spec.node_count();
  sizes.edge_index = *manifest.SizeOf("edge_index");
  sizes.edge_weight = manifest.SizeOf("edge_weight");
  sizes.edge_attr = manifest.SizeOf("edge_attr");
  sizes.keep_edge_order = spec.keep_edge_order();
  sizes.features = FeatureSizesOf(manifest);
  sizes.order = *FromProto(spec.reorder());
  return sizes;
}

// The least that feature sets take in memory, in which numbers and indices have 32 bits.
int64_t LeastBytes(const FeatureSetResource& set) { return set.entry_count * int64_t{4}; }
int64_t LeastBytes(const FeatureSizes& sizes) {
  if (sizes.dense) return sizes.dense->bytes;
  return sizes.indices ? sizes.indices->bytes / 2 : 0;  // perhaps sent with 64 bits
}
int64_t LeastBytes(const EdgeFeatureSizes& sizes) { return sizes.edge_count * sizes.cols * int64_t{4}; }

// Of the tensors: numbers of 16 bits are stored with 32.
int64_t DiskBytesBound(const UploadManifest& manifest) { return 2 * manifest.size_bytes(); }

}  // namespace

std::unique_ptr<GraphHandler::GraphUpload> GraphHandler::UploadGraph(const Call& call) {
  const auto begin = [this, &call](const v1::UploadGraphSpec& spec) -> StatusOr<UploadStore::Hold> {
    VICINAL_RETURN_IF_ERROR(call.CheckGraph(spec.name()));
    VICINAL_ASSIGN_OR_RETURN(UploadManifest manifest, MakeUploadManifest(spec, limits_));
    const GraphSizes sizes = SizesOf(spec, manifest);
    // Per node a row's border, its place in the permutation, and a block's border.
    int64_t disk_bytes = DiskBytesBound(manifest) + spec.node_count() * int64_t{8 + 4 + 8};
    if (sizes.edge_attr || sizes.keep_edge_order) disk_bytes += 8 * manifest.Find("edge_index")->shape[1];
    return uploads_.Begin(std::move(manifest), [&] { return AdmitGraph(spec, sizes, disk_bytes); });
  };
  const auto make = [this](const v1::UploadGraphSpec& spec, UploadContent& content, v1::UploadGraphResponse* response) {
    return MakeGraph(spec, content, response);
  };
  const auto version_of = [](const v1::UploadGraphResponse& made) {
    return UploadedVersion{UploadedVersion::Kind::kGraph, made.graph().name(), "", made.graph().preparing_version()};
  };
  const auto refresh = [this](v1::UploadGraphResponse* response) -> Status {
    VICINAL_ASSIGN_OR_RETURN(const GraphResource graph, engine_.GetGraph(response->graph().name()));
    const int64_t version = response->graph().preparing_version();
    *response->mutable_graph() = ToProto(graph);
    response->mutable_graph()->set_preparing_version(version);
    return OkStatus();
  };
  return std::make_unique<GraphUpload>(GraphUpload::Parts{engine_, uploads_, metrics_}, UploadKind::kGraph,
                                       GraphUpload::Steps{begin, make, version_of, refresh});
}

// Rejects before the data is sent what finish would reject. The store checks again, because the name may change in the
// meantime.
Status GraphHandler::AdmitGraph(const v1::UploadGraphSpec& spec, const GraphSizes& sizes, int64_t disk_bytes) const {
  VICINAL_RETURN_IF_ERROR(engine_.CheckUploads(disk_bytes));
  const StatusOr<GraphResource> there = engine_.GetGraph(spec.name());
  if (!there.ok()) return engine_.CheckGraphFits(sizes, /*replace=*/false);
  if (!spec.replace() && there->state != GraphState::kFailed) {
    return AlreadyExists("graph", spec.name(), "set replace to replace it, or delete it first");
  }
  const int64_t version = there->serving ? there->serving->version : there->unloaded_version;
  VICINAL_RETURN_IF_ERROR(CheckVersion("graph", spec.name(), version, spec.if_version()));
  return engine_.CheckGraphFits(sizes, spec.replace());
}

Status GraphHandler::MakeGraph(const v1::UploadGraphSpec& spec, UploadContent& content,
                               v1::UploadGraphResponse* response) {
  GraphSource source;
  source.name = spec.name();
  source.node_count = spec.node_count();
  source.edge_index = *content.Take("edge_index");  // checked with the manifest
  source.edge_weight = content.Take("edge_weight");
  source.edge_attr = content.Take("edge_attr");
  source.x = content.Take("x");
  source.x_indptr = content.Take("x_indptr");
  source.x_indices = content.Take("x_indices");
  source.x_values = content.Take("x_values");
  source.feature_count = spec.feature_count();
  VICINAL_ASSIGN_OR_RETURN(source.order, FromProto(spec.reorder()));
  source.replace = spec.replace();
  source.if_version = spec.if_version();
  source.ids_digest = spec.ids_digest();
  source.source_digest = spec.source_digest();
  source.pinned = spec.pinned();
  source.keep_edge_order = spec.keep_edge_order();
  VICINAL_ASSIGN_OR_RETURN(const GraphResource graph, engine_.PutGraph(std::move(source), std::move(content.memory)));
  *response->mutable_graph() = ToProto(graph);
  return OkStatus();
}

// A graph on disk comes back to memory with all its feature sets. One more than fit together would keep it away for
// good, and its upload would hold the memory that loading the graph needs.
Status GraphHandler::CheckFitsBeside(const GraphResource& graph, int64_t set_bytes) const {
  const int64_t budget = engine_.memory().Snapshot().budget;
  if (budget == 0 || !engine_.durable()) return OkStatus();
  int64_t bytes = graph.serving->size_bytes + set_bytes;
  for (const FeatureSetResource& set : graph.feature_sets) bytes += LeastBytes(set);
  if (bytes <= budget) return OkStatus();
  return OverBudget(absl::StrCat("graph '", graph.name, "' with its ", graph.feature_sets.size(),
                                 " feature sets and this one, which enter memory together,"),
                    bytes, budget);
}

StatusOr<UploadStore::Hold> GraphHandler::BeginFeatures(const Call& call, const v1::UploadFeaturesSpec& spec) {
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(spec.graph()));
  VICINAL_RETURN_IF_ERROR(CheckName(spec.graph(), "spec.graph"));
  VICINAL_RETURN_IF_ERROR(CheckName(spec.name(), "spec.name"));
  VICINAL_ASSIGN_OR_RETURN(const GraphResource graph, engine_.GetGraph(spec.graph()));
  VICINAL_ASSIGN_OR_RETURN(UploadManifest manifest,
                           MakeUploadManifest(spec, graph.node_count, graph.edge_count, limits_));
  // A replacement may number nodes and edges in another way, with as many of both.
  if (graph.serving) manifest.graph_version = graph.serving->version;
  const FeatureKind kind = KindOf(manifest);
  const FeatureSizes sizes = FeatureSizesOf(manifest);
  EdgeFeatureSizes edge_sizes;
  if (const ManifestTensor* const edge_attr = manifest.Find("edge_attr")) {
    edge_sizes = {{edge_attr->dtype, edge_attr->size_bytes}, graph.node_count, graph.edge_count, edge_attr->shape[1]};
  }
  const int64_t disk_bytes = DiskBytesBound(manifest);
  return uploads_.Begin(std::move(manifest), [&]() -> Status {
    VICINAL_RETURN_IF_ERROR(engine_.CheckUploads(disk_bytes));
    if (!graph.serving) return NotReady(graph);
    if (kind == FeatureKind::kEdges && !graph.serving->edge_order_kept) return EdgeOrderMissing(graph.name);
    for (const FeatureSetResource& set : graph.feature_sets) {
      if (set.kind != kind || set.name != spec.name()) continue;
      if (!spec.replace())
        return AlreadyExists(TypeName(kind), spec.name(), "set replace to replace it, or delete it first");
      VICINAL_RETURN_IF_ERROR(CheckVersion(TypeName(kind), spec.name(), set.version, spec.if_version()));
    }
    VICINAL_RETURN_IF_ERROR(
        CheckFitsBeside(graph, kind == FeatureKind::kEdges ? LeastBytes(edge_sizes) : LeastBytes(sizes)));
    return kind == FeatureKind::kEdges ? engine_.CheckEdgeFeaturesFit(edge_sizes, spec.replace())
                                       : engine_.CheckFeaturesFit(sizes, spec.replace());
  });
}

std::unique_ptr<GraphHandler::FeaturesUpload> GraphHandler::UploadFeatures(const Call& call) {
  const auto begin = [this, &call](const v1::UploadFeaturesSpec& spec) { return BeginFeatures(call, spec); };
  const auto make = [this, &call](const v1::UploadFeaturesSpec& spec, UploadContent& content,
                                  v1::UploadFeaturesResponse* response) {
    return MakeFeatures(call, spec, content, response);
  };
  const auto version_of = [](const v1::UploadFeaturesResponse& made) {
    const v1::FeatureSet& set = made.feature_set();
    const bool edges = set.kind() == v1::FEATURE_KIND_EDGES;
    return UploadedVersion{edges ? UploadedVersion::Kind::kEdgeFeatures : UploadedVersion::Kind::kFeatures, set.graph(),
                           set.name(), set.version()};
  };
  const auto refresh = [this](v1::UploadFeaturesResponse* response) { return RefreshFeatures(response); };
  return std::make_unique<FeaturesUpload>(FeaturesUpload::Parts{engine_, uploads_, metrics_}, UploadKind::kFeatures,
                                          FeaturesUpload::Steps{begin, make, version_of, refresh});
}

Status GraphHandler::RefreshFeatures(v1::UploadFeaturesResponse* response) const {
  const std::string name = response->feature_set().name();
  const bool edges = response->feature_set().kind() == v1::FEATURE_KIND_EDGES;
  VICINAL_ASSIGN_OR_RETURN(const GraphResource graph, engine_.GetGraph(response->feature_set().graph()));
  for (const FeatureSetResource& set : graph.feature_sets) {
    if (set.name == name && (set.kind == FeatureKind::kEdges) == edges) *response->mutable_feature_set() = ToProto(set);
  }
  return OkStatus();
}

Status GraphHandler::MakeFeatures(const Call& call, const v1::UploadFeaturesSpec& spec, UploadContent& content,
                                  v1::UploadFeaturesResponse* response) {
  if (const std::optional<TensorView> edge_attr = content.Look("edge_attr")) {
    VICINAL_ASSIGN_OR_RETURN(
        const FeatureSetResource set,
        engine_.PutEdgeFeatures(spec.graph(), spec.name(), {*edge_attr, spec.source_digest(), content.graph_version},
                                spec.replace(), spec.if_version(), content.memory.bytes(), call.limits));
    *response->mutable_feature_set() = ToProto(set);
    return OkStatus();
  }
  FeatureTensors tensors;
  tensors.dense = content.Look("x");
  tensors.indptr = content.Look("x_indptr");
  tensors.indices = content.Look("x_indices");
  tensors.values = content.Look("x_values");
  tensors.feature_count = spec.feature_count();
  tensors.source_digest = spec.source_digest();
  tensors.graph_version = content.graph_version;
  // Tensors that are not taken stay in the upload until the features are made, so that a client may try again.
  VICINAL_ASSIGN_OR_RETURN(const FeatureSetResource set,
                           engine_.PutFeatures(spec.graph(), spec.name(), tensors, spec.replace(), spec.if_version(),
                                               {&content.memory, &content.taken}, call.limits));
  *response->mutable_feature_set() = ToProto(set);
  return OkStatus();
}

Status GraphHandler::GetUpload(const Call&, const v1::GetUploadRequest& request, v1::Upload* response) {
  VICINAL_RETURN_IF_ERROR(CheckUploadId(request.upload_id(), "upload_id"));
  VICINAL_ASSIGN_OR_RETURN(*response, uploads_.Get(request.upload_id()));
  return OkStatus();
}

Status GraphHandler::GetGraph(const Call& call, const v1::GetGraphRequest& request, v1::Graph* response) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.name(), "name"));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(request.name()));
  VICINAL_ASSIGN_OR_RETURN(const GraphResource graph, engine_.GetGraph(request.name()));
  *response = ToProto(graph);
  return OkStatus();
}

Status GraphHandler::ListGraphs(const Call&, const v1::ListGraphsRequest& request, v1::ListGraphsResponse* response) {
  const std::vector<GraphResource> graphs = engine_.ListGraphs();
  std::vector<std::string> names;
  names.reserve(graphs.size());
  for (const GraphResource& graph : graphs) names.push_back(graph.name);
  VICINAL_ASSIGN_OR_RETURN(const Page page, PageOf(names, request.page_size(), request.page_token()));
  const auto make = [&](size_t i) { return ToProto(graphs[i]); };
  response->set_next_page_token(FillPage(page, names, limits_.max_response_bytes, make, response->mutable_graphs()));
  return OkStatus();
}

Status GraphHandler::DeleteGraph(const Call& call, const v1::DeleteGraphRequest& request, v1::DeleteGraphResponse*) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.name(), "name"));
  VICINAL_RETURN_IF_ERROR(CheckIfVersion(request.if_version()));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(request.name()));
  return engine_.DeleteGraph(request.name(), request.if_version());
}

Status GraphHandler::TuneGraph(Call& call, const v1::TuneGraphRequest& request, v1::TuneGraphResponse* response) {
  VICINAL_ASSIGN_OR_RETURN(TuneGraphRequest out, FromProto(request));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(out.graph));
  call.graph = out.graph;
  out.limits = call.limits;
  VICINAL_ASSIGN_OR_RETURN(const TuningReport report, engine_.TuneGraph(out));
  SetReport(report, response);
  FitReply(limits_.max_response_bytes, response);
  return OkStatus();
}

Status GraphHandler::GetTuning(const Call& call, const v1::GetTuningRequest& request, v1::GetTuningResponse* response) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.name(), "name"));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(request.name()));
  VICINAL_ASSIGN_OR_RETURN(TuningReport report, engine_.GetTuning(request.name()));
  if (request.export_text()) {
    VICINAL_ASSIGN_OR_RETURN(std::string text, engine_.ExportTuning(request.name()));
    if (static_cast<int64_t>(text.size()) > limits_.max_response_bytes) {
      return OverLimit("max_response_bytes", "export_text", static_cast<int64_t>(text.size()),
                       limits_.max_response_bytes);
    }
    *response->mutable_text() = std::move(text);
    report.records.clear();
  }
  SetReport(report, response);
  FitReply(limits_.max_response_bytes, response);
  return OkStatus();
}

Status GraphHandler::GetGraphPicture(const Call& call, const v1::GetGraphPictureRequest& request,
                                     v1::GraphPicture* response) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.name(), "name"));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(request.name()));
  if (request.tiles() < 0 || request.tiles() > kMaxPictureSide) {
    return InvalidArgument(
        "BAD_PICTURE", "tiles",
        absl::StrCat("tiles is ", request.tiles(), "; it must be 1 to ", kMaxPictureSide, ", or 0 for ", kPictureSide));
  }
  VICINAL_ASSIGN_OR_RETURN(const GraphPicture picture,
                           engine_.Picture(request.name(), request.tiles() == 0 ? kPictureSide : request.tiles()));
  *response = ToProto(picture);
  if (const auto bytes = static_cast<int64_t>(response->ByteSizeLong()); bytes > limits_.max_response_bytes) {
    return OverLimit("max_response_bytes", "tiles", bytes, limits_.max_response_bytes);
  }
  return OkStatus();
}

Status GraphHandler::ListFeatures(const Call& call, const v1::ListFeaturesRequest& request,
                                  v1::ListFeaturesResponse* response) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.graph(), "graph"));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(request.graph()));
  VICINAL_ASSIGN_OR_RETURN(const GraphResource graph, engine_.GetGraph(request.graph()));
  for (const FeatureSetResource& set : graph.feature_sets) {
    *(set.kind == FeatureKind::kEdges ? response->add_edge_feature_sets() : response->add_feature_sets()) =
        ToProto(set);
  }
  return OkStatus();
}

Status GraphHandler::DeleteFeatures(const Call& call, const v1::DeleteFeaturesRequest& request,
                                    v1::DeleteFeaturesResponse*) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.graph(), "graph"));
  VICINAL_RETURN_IF_ERROR(CheckName(request.name(), "name"));
  VICINAL_RETURN_IF_ERROR(CheckIfVersion(request.if_version()));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(request.graph()));
  switch (request.kind()) {
    case v1::FEATURE_KIND_UNSPECIFIED:
    case v1::FEATURE_KIND_NODES:
      return engine_.DeleteFeatures(request.graph(), request.name(), FeatureKind::kNodes, request.if_version());
    case v1::FEATURE_KIND_EDGES:
      return engine_.DeleteFeatures(request.graph(), request.name(), FeatureKind::kEdges, request.if_version());
    default:
      return InvalidArgument("BAD_FEATURES", "kind",
                             absl::StrCat("kind is ", static_cast<int>(request.kind()),
                                          ", which this server does not know; send NODES or EDGES"));
  }
}

StatusOr<std::unique_ptr<Subscription>> GraphHandler::Watch(const Call& call, const v1::WatchGraphRequest& request,
                                                            std::function<void()> on_change) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.name(), "name"));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(request.name()));
  return engine_.WatchGraph(request.name(), std::move(on_change));
}

StatusOr<GraphHandler::GraphSnapshot> GraphHandler::Look(const std::string& name) const {
  VICINAL_ASSIGN_OR_RETURN(const GraphResource graph, engine_.GetGraph(name));
  return GraphSnapshot{ToProto(graph), graph.state != GraphState::kPreparing && graph.state != GraphState::kLoading};
}

}  // namespace vicinal::server
