// SPDX-License-Identifier: Apache-2.0
// The subject of a call for the log, read from the messages of each method here, so that handlers need not set it, and
// calls that never reach a handler (a wrong token) are covered, too. A message without an overload has no subject.
#ifndef VICINAL_SERVER_SUBJECT_H_
#define VICINAL_SERVER_SUBJECT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "inference/grpc_inference.pb.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"
#include "vicinal/v1/model.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::server {

// Empty or 0 if unknown. Strings come from the client, unchecked but shortened for the log.
struct Subject {
  std::string graph, feature_set, model;
  int64_t version = 0;  // of the changed resource: requested (if_version), then created
  std::string action;   // "upload", "replace", "resume", "delete", "tune", "force", "reset"
  std::string kernel;   // the forced kernel
  std::string upload_id;
  std::string upload;  // "open" or "finished"
};

inline void Tell(const google::protobuf::Message&, Subject*) {}
void Tell(const v1::GetGraphRequest& request, Subject* subject);
void Tell(const v1::WatchGraphRequest& request, Subject* subject);
void Tell(const v1::DeleteGraphRequest& request, Subject* subject);
void Tell(const v1::TuneGraphRequest& request, Subject* subject);
void Tell(const v1::TuneGraphResponse& response, Subject* subject);
void Tell(const v1::GetTuningRequest& request, Subject* subject);
void Tell(const v1::GetGraphPictureRequest& request, Subject* subject);
void Tell(const v1::ListFeaturesRequest& request, Subject* subject);
void Tell(const v1::DeleteFeaturesRequest& request, Subject* subject);
void Tell(const v1::GetModelRequest& request, Subject* subject);
void Tell(const v1::DeleteModelRequest& request, Subject* subject);
void Tell(const v1::ClassifyRequest& request, Subject* subject);
void Tell(const v1::EmbedRequest& request, Subject* subject);
void Tell(const v1::PredictLinksRequest& request, Subject* subject);
void Tell(const v1::TopLinksRequest& request, Subject* subject);
void Tell(const v1::ClassifyGraphsRequest& request, Subject* subject);
void Tell(const v1::InferStreamRequest& request, Subject* subject);
void Tell(const v1::ExplainRequest& request, Subject* subject);
void Tell(const v1::GetUploadRequest& request, Subject* subject);
void Tell(const inference::ModelReadyRequest& request, Subject* subject);
void Tell(const inference::ModelMetadataRequest& request, Subject* subject);
void Tell(const inference::ModelInferRequest& request, Subject* subject);
void Tell(const inference::ModelConfigRequest& request, Subject* subject);
void Tell(const inference::ModelStatisticsRequest& request, Subject* subject);
// Uploads: the first message of a stream (others have no subject), the resumed upload, and the answer.
void Tell(const v1::UploadGraphRequest& request, Subject* subject);
void Tell(const v1::UploadFeaturesRequest& request, Subject* subject);
void Tell(const v1::UploadModelRequest& request, Subject* subject);
void Tell(const v1::Upload& upload, Subject* subject);
void Tell(const v1::UploadGraphResponse& response, Subject* subject);
void Tell(const v1::UploadFeaturesResponse& response, Subject* subject);
void Tell(const v1::UploadModelResponse& response, Subject* subject);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SUBJECT_H_
