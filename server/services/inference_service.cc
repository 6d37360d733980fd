// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/inference_handler.h"
#include "server/services/method_service.h"
#include "server/services/query_stream_reactor.h"
#include "server/services/services.h"

namespace vicinal::server {

std::unique_ptr<grpc::Service> MakeInferenceService(Core& core, InferenceHandler& handler) {
  using std::placeholders::_1, std::placeholders::_2, std::placeholders::_3, std::placeholders::_4;
  auto service = std::make_unique<MethodService>(core);
  service->Add<LaterReactor, v1::ClassifyRequest, v1::ClassifyResponse>(
      Method::kClassify, std::bind(&InferenceHandler::Classify, &handler, _1, _2, _3, _4));
  service->Add<PiecesReactor, v1::ClassifyRequest, v1::ClassifyResponse>(
      Method::kClassifyStream, std::bind(&InferenceHandler::ClassifyStream, &handler, _1, _2, _3));
  service->Add<LaterReactor, v1::EmbedRequest, v1::EmbedResponse>(
      Method::kEmbed, std::bind(&InferenceHandler::Embed, &handler, _1, _2, _3, _4));
  service->Add<PiecesReactor, v1::EmbedRequest, v1::EmbedResponse>(
      Method::kEmbedStream, std::bind(&InferenceHandler::EmbedStream, &handler, _1, _2, _3));
  service->Add<LaterReactor, v1::ClassifyGraphsRequest, v1::ClassifyGraphsResponse>(
      Method::kClassifyGraphs, std::bind(&InferenceHandler::ClassifyGraphs, &handler, _1, _2, _3, _4));
  service->Add<LaterReactor, v1::PredictLinksRequest, v1::PredictLinksResponse>(
      Method::kPredictLinks, std::bind(&InferenceHandler::PredictLinks, &handler, _1, _2, _3, _4));
  service->Add<PiecesReactor, v1::PredictLinksRequest, v1::PredictLinksResponse>(
      Method::kPredictLinksStream, std::bind(&InferenceHandler::PredictLinksStream, &handler, _1, _2, _3));
  service->Add<LaterReactor, v1::TopLinksRequest, v1::TopLinksResponse>(
      Method::kTopLinks, std::bind(&InferenceHandler::TopLinks, &handler, _1, _2, _3, _4));
  service->Add<PiecesReactor, v1::TopLinksRequest, v1::TopLinksResponse>(
      Method::kTopLinksStream, std::bind(&InferenceHandler::TopLinksStream, &handler, _1, _2, _3));
  service->AddStream<v1::InferStreamRequest, v1::InferStreamResponse>(
      InfoOf(Method::kInferStream).name, [&core, &handler](grpc::CallbackServerContext* context) {
        return new QueryStreamReactor(core, context, handler);
      });
  return service;
}

}  // namespace vicinal::server
