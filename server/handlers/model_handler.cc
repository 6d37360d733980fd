// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/model_handler.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/convert.h"
#include "server/convert_resources.h"
#include "server/handlers/fit_reply.h"
#include "server/handlers/pages.h"
#include "server/handlers/versions.h"

namespace vicinal::server {

std::unique_ptr<ModelHandler::ModelUpload> ModelHandler::UploadModel(const Call& call) {
  const auto begin = [this](const v1::UploadModelSpec& spec) -> StatusOr<UploadStore::Hold> {
    VICINAL_ASSIGN_OR_RETURN(UploadManifest manifest, MakeUploadManifest(spec, limits_));
    const auto bytes = manifest.size_bytes() + static_cast<int64_t>(spec.architecture_json().size());
    return uploads_.Begin(std::move(manifest), [&] { return AdmitModel(spec, bytes); });
  };
  const auto make = [this, &call](const v1::UploadModelSpec& spec, UploadContent& content,
                                  v1::UploadModelResponse* response) {
    return MakeModel(call, spec, content, response);
  };
  const auto version_of = [](const v1::UploadModelResponse& made) {
    return UploadedVersion{UploadedVersion::Kind::kModel, made.model().name(), "", made.model().version()};
  };
  const auto refresh = [this](v1::UploadModelResponse* response) -> Status {
    VICINAL_ASSIGN_OR_RETURN(const ModelResource model, engine_.GetModel(response->model().name()));
    *response->mutable_model() = Described(model);
    return OkStatus();
  };
  return std::make_unique<ModelUpload>(ModelUpload::Parts{engine_, uploads_, metrics_}, UploadKind::kModel,
                                       ModelUpload::Steps{begin, make, version_of, refresh});
}

// As for graphs: rejects before the data is sent; the store checks again.
Status ModelHandler::AdmitModel(const v1::UploadModelSpec& spec, int64_t bytes) const {
  VICINAL_RETURN_IF_ERROR(engine_.CheckUploads(bytes));
  const StatusOr<ModelResource> there = engine_.GetModel(spec.name());
  if (!there.ok()) return OkStatus();
  if (!spec.replace()) return AlreadyExists("model", spec.name(), "set replace to replace it, or delete it first");
  return CheckVersion("model", spec.name(), there->version, spec.if_version());
}

Status ModelHandler::MakeModel(const Call& call, const v1::UploadModelSpec& spec, UploadContent& content,
                               v1::UploadModelResponse* response) {
  ModelSource source;
  source.name = spec.name();
  source.architecture_json = spec.architecture_json();
  source.source_digest = spec.source_digest();
  source.weights_file = std::move(content.Take("weights")->bytes);  // checked with the manifest
  source.replace = spec.replace();
  source.if_version = spec.if_version();
  if (std::optional<HostTensor> reference = content.Take("reference")) {
    ModelReference& described = source.reference.emplace();
    described.graph = spec.reference().graph();
    described.graph_version = spec.reference().graph_version();
    if (!spec.reference().feature_set().empty()) described.feature_set = spec.reference().feature_set();
    described.edge_feature_set = spec.reference().edge_feature_set();
    described.tolerance = spec.reference().tolerance();
    described.file = std::move(reference->bytes);
  }
  VICINAL_ASSIGN_OR_RETURN(const ModelResource model,
                           engine_.PutModel(std::move(source), call.limits, std::move(content.memory)));
  *response->mutable_model() = Described(model);
  return OkStatus();
}

v1::Model ModelHandler::Described(const ModelResource& model) const {
  v1::Model described = ToProto(model);
  FitReply(limits_.max_response_bytes, &described);
  return described;
}

Status ModelHandler::GetModel(const Call&, const v1::GetModelRequest& request, v1::Model* response) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.name(), "name"));
  VICINAL_ASSIGN_OR_RETURN(const ModelResource model, engine_.GetModel(request.name()));
  *response = Described(model);
  return OkStatus();
}

Status ModelHandler::ListModels(const Call&, const v1::ListModelsRequest& request, v1::ListModelsResponse* response) {
  const std::vector<ModelResource> models = engine_.ListModels();
  std::vector<std::string> names;
  names.reserve(models.size());
  for (const ModelResource& model : models) names.push_back(model.name);
  VICINAL_ASSIGN_OR_RETURN(const Page page, PageOf(names, request.page_size(), request.page_token()));
  const auto make = [&](size_t i) { return Described(models[i]); };
  response->set_next_page_token(FillPage(page, names, limits_.max_response_bytes, make, response->mutable_models()));
  return OkStatus();
}

Status ModelHandler::DeleteModel(const Call&, const v1::DeleteModelRequest& request, v1::DeleteModelResponse*) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.name(), "name"));
  if (request.if_version() < 0) {
    return InvalidArgument("BAD_VERSION", "if_version",
                           absl::StrCat("if_version is ", request.if_version(), "; versions are not negative"));
  }
  return engine_.DeleteModel(request.name(), request.if_version());
}

}  // namespace vicinal::server
