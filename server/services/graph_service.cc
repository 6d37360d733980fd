// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/graph_handler.h"
#include "server/services/method_service.h"
#include "server/services/services.h"
#include "server/services/tune_reactor.h"
#include "server/services/watch_reactor.h"

namespace vicinal::server {

std::unique_ptr<grpc::Service> MakeGraphService(Core& core, GraphHandler& handler) {
  auto service = std::make_unique<MethodService>(core);
  service->AddUpload<v1::UploadGraphRequest, v1::UploadGraphResponse>(
      Method::kUploadGraph, [&handler](const Call& call) { return handler.UploadGraph(call); });
  service->AddAnswer(Method::kGetUpload, handler, &GraphHandler::GetUpload);
  service->AddAnswer(Method::kGetGraph, handler, &GraphHandler::GetGraph);
  service->AddAnswer(Method::kListGraphs, handler, &GraphHandler::ListGraphs);
  service->AddStream<v1::WatchGraphRequest, v1::Graph>(
      InfoOf(Method::kWatchGraph).name,
      [&core, &handler](grpc::CallbackServerContext* context) { return new WatchReactor(core, context, handler); });
  service->AddAnswer(Method::kDeleteGraph, handler, &GraphHandler::DeleteGraph);
  service->AddStream<v1::TuneGraphRequest, v1::TuneGraphResponse>(
      InfoOf(Method::kTuneGraph).name,
      [&core, &handler](grpc::CallbackServerContext* context) { return new TuneReactor(core, context, handler); });
  service->AddAnswer(Method::kGetTuning, handler, &GraphHandler::GetTuning);
  service->Add<LaterReactor, v1::GetGraphPictureRequest, v1::GraphPicture>(
      Method::kGetGraphPicture,
      [&core, &handler](Call& call, const v1::GetGraphPictureRequest& request, v1::GraphPicture* response, auto done) {
        const Status posted = core.workers.Post([&handler, &call, &request, response, done] {
          done(OrOutOfMemory([&] { return handler.GetGraphPicture(call, request, response); }));
        });
        if (!posted.ok()) done(posted);
      });
  service->AddUpload<v1::UploadFeaturesRequest, v1::UploadFeaturesResponse>(
      Method::kUploadFeatures, [&handler](const Call& call) { return handler.UploadFeatures(call); });
  service->AddAnswer(Method::kListFeatures, handler, &GraphHandler::ListFeatures);
  service->AddAnswer(Method::kDeleteFeatures, handler, &GraphHandler::DeleteFeatures);
  return service;
}

}  // namespace vicinal::server
