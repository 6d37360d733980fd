// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/open_inference_handler.h"
#include "server/services/infer_stream_reactor.h"
#include "server/services/method_service.h"
#include "server/services/services.h"

namespace vicinal::server {

std::unique_ptr<grpc::Service> MakeOpenInferenceService(Core& core, OpenInferenceHandler& handler) {
  using std::placeholders::_1, std::placeholders::_2, std::placeholders::_3, std::placeholders::_4;
  auto service = std::make_unique<MethodService>(core);
  service->AddAnswer(Method::kServerLive, handler, &OpenInferenceHandler::ServerLive);
  service->AddAnswer(Method::kServerReady, handler, &OpenInferenceHandler::ServerReady);
  service->AddAnswer(Method::kModelReady, handler, &OpenInferenceHandler::ModelReady);
  service->AddAnswer(Method::kServerMetadata, handler, &OpenInferenceHandler::ServerMetadata);
  service->AddAnswer(Method::kModelMetadata, handler, &OpenInferenceHandler::ModelMetadata);
  service->AddAnswer(Method::kModelConfig, handler, &OpenInferenceHandler::ModelConfig);
  service->AddAnswer(Method::kModelStatistics, handler, &OpenInferenceHandler::ModelStatistics);
  service->AddAnswer(Method::kRepositoryIndex, handler, &OpenInferenceHandler::RepositoryIndex);
  service->Add<LaterReactor, inference::ModelInferRequest, inference::ModelInferResponse>(
      Method::kModelInfer, std::bind(&OpenInferenceHandler::ModelInfer, &handler, _1, _2, _3, _4));
  service->AddStream<inference::ModelInferRequest, inference::ModelStreamInferResponse>(
      InfoOf(Method::kModelStreamInfer).name, [&core, &handler](grpc::CallbackServerContext* context) {
        return new InferStreamReactor(core, context, handler);
      });
  return service;
}

}  // namespace vicinal::server
