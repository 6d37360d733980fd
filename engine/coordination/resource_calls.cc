// SPDX-License-Identifier: Apache-2.0
#include "engine/coordination/resource_calls.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/execute/describe.h"
#include "engine/prepared/graph_picture.h"

namespace vicinal {

Status ResourceCalls::CheckWritable() const {
  if (parts_.followed == nullptr) return OkStatus();
  const StatusOr<state::LockHolder> writer = parts_.followed->ReadHolder();
  ErrorDetail detail;
  detail.reason = "READ_REPLICA";
  std::string where = "the server that writes its state directory";
  if (writer.ok() && !writer->address.empty()) {
    detail.metadata = {{"address", writer->address}};
    absl::StrAppend(&where, ", ", writer->address);
  }
  return MakeError(StatusCode::kFailedPrecondition,
                   absl::StrCat("this server is a read replica; upload, delete and tune at ", where), detail);
}

template <class Remove>
Status ResourceCalls::MakeDurable(const Status& deleted, const Remove& remove) const {
  if (parts_.durable == nullptr || !(deleted.ok() || deleted.code() == StatusCode::kNotFound)) return deleted;
  const Status removed = remove(*parts_.durable);
  return removed.code() == StatusCode::kNotFound ? deleted : removed;
}

// --- graphs ---

Status ResourceCalls::CheckGraphFits(const GraphSizes& sizes, bool replace) const {
  return parts_.tiers->UnlessForGood(parts_.graph_uploads->CheckGraphFits(sizes, replace));
}

StatusOr<GraphResource> ResourceCalls::PutGraph(GraphSource source, Reservation memory) const {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  const StatusOr<GraphStatus> status = parts_.graph_uploads->PutGraph(std::move(source), std::move(memory));
  if (!status.ok()) return parts_.tiers->WithRetry(status.status());
  return ResourceOf(*status);
}

StatusOr<GraphResource> ResourceCalls::GetGraph(const std::string& name) const {
  VICINAL_ASSIGN_OR_RETURN(const GraphStatus status, parts_.graphs->Get(name));
  return parts_.descriptions->Of(status);
}

std::vector<GraphResource> ResourceCalls::ListGraphs() const {
  std::vector<GraphResource> graphs;
  parts_.graphs->ForEach([&](const GraphStatus& graph) { graphs.push_back(parts_.descriptions->Of(graph)); });
  return graphs;
}

Status ResourceCalls::DeleteGraph(const std::string& name, int64_t if_version) const {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  const Status deleted = parts_.graphs->Delete(name, if_version);
  if (deleted.ok()) parts_.changes->GraphsChanged();
  return MakeDurable(deleted, [&](durable::DurableStore& durable) {
    return durable.RemoveGraph(name, deleted.ok() ? 0 : if_version);
  });
}

StatusOr<GraphPicture> ResourceCalls::Picture(const std::string& name, int side) const {
  VICINAL_ASSIGN_OR_RETURN(const GraphStatus status, parts_.graphs->Get(name));
  const std::shared_ptr<const PreparedGraph> graph = status.host != nullptr ? status.host->graph() : status.graph;
  if (graph == nullptr) return FailedPrecondition("GRAPH_NOT_READY", "graph '" + name + "' is not in memory");
  return PictureOf(*graph, side);
}

// --- tuning ---

StatusOr<TuningReport> ResourceCalls::TuneGraph(const TuneGraphRequest& request) const {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  VICINAL_RETURN_IF_ERROR(parts_.tiers->BringIn(request.graph, request.limits));
  return parts_.tuner->Tune(request);
}

StatusOr<TuningReport> ResourceCalls::GetTuning(const std::string& graph) const {
  VICINAL_RETURN_IF_ERROR(parts_.tiers->BringIn(graph, {}));
  return parts_.tuner->Report(graph);
}

StatusOr<std::string> ResourceCalls::ExportTuning(const std::string& graph) const {
  VICINAL_RETURN_IF_ERROR(parts_.tiers->BringIn(graph, {}));
  return parts_.tuner->Export(graph);
}

// --- feature sets ---

Status ResourceCalls::CheckFeaturesFit(const FeatureSizes& sizes, bool replace) const {
  return parts_.tiers->UnlessForGood(parts_.graph_uploads->CheckFeaturesFit(sizes, replace));
}

StatusOr<FeatureSetResource> ResourceCalls::PutFeatures(const std::string& graph, const std::string& name,
                                                        const FeatureTensors& tensors, bool replace, int64_t if_version,
                                                        const GivenTensors& given, const WorkLimits& limits) const {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  VICINAL_RETURN_IF_ERROR(parts_.tiers->BringIn(graph, {}));
  return Published(parts_.graph_uploads->PutFeatures(graph, name, tensors, replace, if_version, given, limits));
}

Status ResourceCalls::CheckEdgeFeaturesFit(const EdgeFeatureSizes& sizes, bool replace) const {
  return parts_.tiers->UnlessForGood(parts_.graph_uploads->CheckEdgeFeaturesFit(sizes, replace));
}

StatusOr<FeatureSetResource> ResourceCalls::PutEdgeFeatures(const std::string& graph, const std::string& name,
                                                            const EdgeFeatureTensors& tensors, bool replace,
                                                            int64_t if_version, int64_t reserved_bytes,
                                                            const WorkLimits& limits) const {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  VICINAL_RETURN_IF_ERROR(parts_.tiers->BringIn(graph, {}));
  return Published(
      parts_.graph_uploads->PutEdgeFeatures(graph, name, tensors, replace, if_version, reserved_bytes, limits));
}

StatusOr<FeatureSetResource> ResourceCalls::Published(const StatusOr<FeatureSetHandle>& set) const {
  if (!set.ok()) {
    parts_.changes->DropStale();
    return parts_.tiers->WithRetry(set.status());
  }
  parts_.changes->FeaturesChanged();
  if (parts_.durable != nullptr) parts_.durable->FeaturesPublished(*set);
  return parts_.descriptions->Of(**set);
}

Status ResourceCalls::DeleteFeatures(const std::string& graph, const std::string& name, FeatureKind kind,
                                     int64_t if_version) const {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  const Status deleted = parts_.graphs->DeleteFeatures(graph, name, kind, if_version);
  if (deleted.ok()) parts_.changes->FeaturesChanged();
  return MakeDurable(deleted, [&](durable::DurableStore& durable) {
    return durable.RemoveFeatures(graph, name, kind, deleted.ok() ? 0 : if_version);
  });
}

// --- models ---

StatusOr<ModelResource> ResourceCalls::PutModel(ModelSource source, const WorkLimits& limits,
                                                Reservation memory) const {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  if (source.reference) VICINAL_RETURN_IF_ERROR(parts_.tiers->BringIn(source.reference->graph, limits));
  const StatusOr<ModelHandle> model = parts_.model_uploads->Put(std::move(source), limits, std::move(memory));
  if (!model.ok()) {
    parts_.changes->DropStale();
    return parts_.tiers->WithRetry(model.status());
  }
  return parts_.descriptions->Of(**model);
}

StatusOr<ModelResource> ResourceCalls::GetModel(const std::string& name) const {
  VICINAL_ASSIGN_OR_RETURN(const ModelHandle model, parts_.models->Find(name, 0));
  return parts_.descriptions->Of(*model);
}

std::vector<ModelResource> ResourceCalls::ListModels() const { return parts_.descriptions->Of(parts_.models->List()); }

Status ResourceCalls::DeleteModel(const std::string& name, int64_t if_version) const {
  VICINAL_RETURN_IF_ERROR(CheckWritable());
  const Status deleted = parts_.models->Delete(name, if_version);
  if (deleted.ok()) parts_.changes->DropStale();
  return MakeDurable(deleted, [&](durable::DurableStore& durable) {
    return durable.RemoveModel(name, deleted.ok() ? 0 : if_version);
  });
}

}  // namespace vicinal
