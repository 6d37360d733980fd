// SPDX-License-Identifier: Apache-2.0
// What a call is about, as the log names it: read off the messages of each method here, so that no handler has to say
// it, and calls that never reach a handler (a wrong token) are named too. A message without an overload names nothing.
#ifndef VICINAL_SERVER_SUBJECT_H_
#define VICINAL_SERVER_SUBJECT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"
#include "vicinal/v1/model.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::server {

// Empty, or 0, where it is not known. Texts are the client's, unchecked and shortened to what a log bears.
struct Subject {
  std::string graph, feature_set, model;
  int64_t version = 0;  // of what is changed: asked for (if_version), then made
  std::string action;   // "upload", "replace", "resume", "delete", "tune", "force", "reset"
  std::string kernel;   // that is forced
  std::string upload_id;
  std::string upload;  // "open", "finished": what became of it
};

inline void Tell(const google::protobuf::Message&, Subject*) {}
void Tell(const v1::GetGraphRequest& request, Subject* subject);
void Tell(const v1::WatchGraphRequest& request, Subject* subject);
void Tell(const v1::DeleteGraphRequest& request, Subject* subject);
void Tell(const v1::TuneGraphRequest& request, Subject* subject);
void Tell(const v1::TuneGraphResponse& response, Subject* subject);
void Tell(const v1::GetTuningRequest& request, Subject* subject);
void Tell(const v1::ListFeaturesRequest& request, Subject* subject);
void Tell(const v1::DeleteFeaturesRequest& request, Subject* subject);
void Tell(const v1::GetModelRequest& request, Subject* subject);
void Tell(const v1::DeleteModelRequest& request, Subject* subject);
void Tell(const v1::ClassifyRequest& request, Subject* subject);
void Tell(const v1::EmbedRequest& request, Subject* subject);
void Tell(const v1::ClassifyGraphsRequest& request, Subject* subject);
void Tell(const v1::ExplainRequest& request, Subject* subject);
void Tell(const v1::GetUploadRequest& request, Subject* subject);
// Uploads: the first message of a stream (others name nothing), the upload that it goes on with, and the answer.
void Tell(const v1::UploadGraphRequest& request, Subject* subject);
void Tell(const v1::UploadFeaturesRequest& request, Subject* subject);
void Tell(const v1::UploadModelRequest& request, Subject* subject);
void Tell(const v1::Upload& upload, Subject* subject);
void Tell(const v1::UploadGraphResponse& response, Subject* subject);
void Tell(const v1::UploadFeaturesResponse& response, Subject* subject);
void Tell(const v1::UploadModelResponse& response, Subject* subject);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SUBJECT_H_
