// SPDX-License-Identifier: Apache-2.0
#include "server/subject.h"

namespace vicinal::server {
namespace {

// Longer than any name that is valid; a client may send megabytes.
std::string Shown(const std::string& text) {
  constexpr size_t kLongest = 64;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

void TellName(const v1::UploadGraphSpec& spec, Subject* subject) { subject->graph = Shown(spec.name()); }
void TellName(const v1::UploadModelSpec& spec, Subject* subject) { subject->model = Shown(spec.name()); }
void TellName(const v1::UploadFeaturesSpec& spec, Subject* subject) {
  subject->graph = Shown(spec.graph());
  subject->feature_set = Shown(spec.name());
}

template <class Request>
void TellFirst(const Request& request, Subject* subject) {
  if (request.has_spec()) {
    TellName(request.spec(), subject);
    subject->action = request.spec().replace() ? "replace" : "upload";
    subject->version = request.spec().if_version();
    subject->upload_id = Shown(request.spec().upload_id());
  } else if (request.message_case() == Request::kResumeUploadId) {
    subject->action = "resume";
    subject->upload_id = Shown(request.resume_upload_id());
  }
}

void TellEnd(const v1::Upload& upload, Subject* subject) {
  subject->upload = upload.state() == v1::Upload::STATE_FINISHED ? "finished" : "open";
}

void TellTarget(const v1::Target& target, Subject* subject) {
  subject->graph = Shown(target.graph());
  subject->model = Shown(target.model());
  subject->feature_set = Shown(target.feature_set());
}

// Of "GRAPH/MODEL", or "MODEL".
void TellPair(const std::string& name, Subject* subject) {
  const size_t slash = name.find('/');
  if (slash != std::string::npos) subject->graph = Shown(name.substr(0, slash));
  subject->model = Shown(slash == std::string::npos ? name : name.substr(slash + 1));
}

}  // namespace

void Tell(const v1::GetGraphRequest& request, Subject* subject) { subject->graph = Shown(request.name()); }
void Tell(const v1::WatchGraphRequest& request, Subject* subject) { subject->graph = Shown(request.name()); }
void Tell(const v1::GetTuningRequest& request, Subject* subject) { subject->graph = Shown(request.name()); }
void Tell(const v1::GetGraphPictureRequest& request, Subject* subject) { subject->graph = Shown(request.name()); }
void Tell(const v1::ListFeaturesRequest& request, Subject* subject) { subject->graph = Shown(request.graph()); }
void Tell(const v1::GetModelRequest& request, Subject* subject) { subject->model = Shown(request.name()); }
void Tell(const v1::ClassifyRequest& request, Subject* subject) { TellTarget(request.target(), subject); }
void Tell(const v1::EmbedRequest& request, Subject* subject) { TellTarget(request.target(), subject); }
void Tell(const v1::PredictLinksRequest& request, Subject* subject) { TellTarget(request.target(), subject); }
void Tell(const v1::TopLinksRequest& request, Subject* subject) { TellTarget(request.target(), subject); }
void Tell(const v1::InferStreamRequest& request, Subject* subject) {
  if (request.has_predict_links()) return TellTarget(request.predict_links().target(), subject);
  TellTarget(request.has_embed() ? request.embed().target() : request.classify().target(), subject);
}
void Tell(const v1::ExplainRequest& request, Subject* subject) { TellTarget(request.target(), subject); }
void Tell(const v1::ClassifyGraphsRequest& request, Subject* subject) { subject->model = Shown(request.model()); }
void Tell(const v1::GetUploadRequest& request, Subject* subject) { subject->upload_id = Shown(request.upload_id()); }

void Tell(const inference::ModelReadyRequest& request, Subject* subject) { TellPair(request.name(), subject); }
void Tell(const inference::ModelMetadataRequest& request, Subject* subject) { TellPair(request.name(), subject); }
void Tell(const inference::ModelInferRequest& request, Subject* subject) { TellPair(request.model_name(), subject); }
void Tell(const inference::ModelConfigRequest& request, Subject* subject) { TellPair(request.name(), subject); }
void Tell(const inference::ModelStatisticsRequest& request, Subject* subject) { TellPair(request.name(), subject); }

void Tell(const v1::DeleteGraphRequest& request, Subject* subject) {
  subject->action = "delete";
  subject->graph = Shown(request.name());
  subject->version = request.if_version();
}

void Tell(const v1::DeleteFeaturesRequest& request, Subject* subject) {
  subject->action = "delete";
  subject->graph = Shown(request.graph());
  subject->feature_set = Shown(request.name());
  subject->version = request.if_version();
}

void Tell(const v1::DeleteModelRequest& request, Subject* subject) {
  subject->action = "delete";
  subject->model = Shown(request.name());
  subject->version = request.if_version();
}

void Tell(const v1::TuneGraphRequest& request, Subject* subject) {
  subject->action = request.reset()             ? "reset"
                    : request.has_force()       ? "force"
                    : request.has_import_text() ? "import"
                                                : "tune";
  subject->graph = Shown(request.name());
  subject->version = request.version();
  subject->kernel = Shown(request.force().kernel());
}

void Tell(const v1::TuneGraphResponse& response, Subject* subject) { subject->version = response.version(); }

void Tell(const v1::UploadGraphRequest& request, Subject* subject) { TellFirst(request, subject); }
void Tell(const v1::UploadFeaturesRequest& request, Subject* subject) { TellFirst(request, subject); }
void Tell(const v1::UploadModelRequest& request, Subject* subject) { TellFirst(request, subject); }

void Tell(const v1::Upload& upload, Subject* subject) {
  const std::string& name = upload.resource_name();
  if (upload.resource_type() == "model") {
    subject->model = name;
    return;
  }
  const size_t slash = name.find('/');  // of a feature set "GRAPH/NAME"
  subject->graph = name.substr(0, slash);
  if (slash != std::string::npos) subject->feature_set = name.substr(slash + 1);
}

// A graph in preparation has no version yet: the response has that of the graph that still serves.
void Tell(const v1::UploadGraphResponse& response, Subject* subject) { TellEnd(response.upload(), subject); }
void Tell(const v1::UploadFeaturesResponse& response, Subject* subject) {
  TellEnd(response.upload(), subject);
  if (response.has_feature_set()) subject->version = response.feature_set().version();
}
void Tell(const v1::UploadModelResponse& response, Subject* subject) {
  TellEnd(response.upload(), subject);
  if (response.has_model()) subject->version = response.model().version();
}

}  // namespace vicinal::server
