// SPDX-License-Identifier: Apache-2.0
// ModelService without gRPC. Thread-safe; all methods but the upload's finish return at once.
#ifndef VICINAL_SERVER_HANDLERS_MODEL_HANDLER_H_
#define VICINAL_SERVER_HANDLERS_MODEL_HANDLER_H_

#include <memory>

#include "engine/api/engine.h"
#include "server/call.h"
#include "server/config.h"
#include "server/handlers/upload_stream.h"
#include "vicinal/v1/model.pb.h"

namespace vicinal::server {

class ModelHandler {
 public:
  using ModelUpload = UploadStream<v1::UploadModelRequest, v1::UploadModelResponse>;

  // All must outlive the handler.
  ModelHandler(Engine& engine, UploadStore& uploads, Metrics& metrics, const Limits& limits)
      : engine_(engine), uploads_(uploads), metrics_(metrics), limits_(limits) {}

  // `call` must outlive the stream.
  std::unique_ptr<ModelUpload> UploadModel(const Call& call);
  Status GetModel(const Call& call, const v1::GetModelRequest& request, v1::Model* response);
  Status ListModels(const Call& call, const v1::ListModelsRequest& request, v1::ListModelsResponse* response);
  Status DeleteModel(const Call& call, const v1::DeleteModelRequest& request, v1::DeleteModelResponse* response);

 private:
  Status AdmitModel(const v1::UploadModelSpec& spec, int64_t bytes) const;
  Status MakeModel(const Call& call, const v1::UploadModelSpec& spec, UploadContent& content,
                   v1::UploadModelResponse* response);
  // The model as a message, shortened to fit a reply (fit_reply.h).
  v1::Model Described(const ModelResource& model) const;

  Engine& engine_;
  UploadStore& uploads_;
  Metrics& metrics_;
  const Limits& limits_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_MODEL_HANDLER_H_
