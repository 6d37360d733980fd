// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/model_handler.h"
#include "server/services/method_service.h"
#include "server/services/services.h"

namespace vicinal::server {

std::unique_ptr<grpc::Service> MakeModelService(Core& core, ModelHandler& handler) {
  auto service = std::make_unique<MethodService>(core);
  service->AddUpload<v1::UploadModelRequest, v1::UploadModelResponse>(
      Method::kUploadModel, [&handler](const Call& call) { return handler.UploadModel(call); });
  service->AddAnswer(Method::kGetModel, handler, &ModelHandler::GetModel);
  service->AddAnswer(Method::kListModels, handler, &ModelHandler::ListModels);
  service->AddAnswer(Method::kDeleteModel, handler, &ModelHandler::DeleteModel);
  return service;
}

}  // namespace vicinal::server
