// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/graph_handler.h"
#include "server/services/reactors.h"
#include "server/services/services.h"
#include "server/services/tune_reactor.h"
#include "server/services/upload_reactor.h"
#include "server/services/watch_reactor.h"
#include "vicinal/v1/graph.grpc.pb.h"

namespace vicinal::server {
namespace {

using Context = grpc::CallbackServerContext;

class GraphServiceImpl final : public v1::GraphService::CallbackService {
 public:
  GraphServiceImpl(Core& core, GraphHandler& handler) : core_(core), handler_(handler) {}

  grpc::ServerReadReactor<v1::UploadGraphRequest>* UploadGraph(Context* context,
                                                               v1::UploadGraphResponse* response) override {
    return TakeUpload<v1::UploadGraphRequest>(core_, context, Method::kUploadGraph, response,
                                              [&](const Call& call) { return handler_.UploadGraph(call); });
  }
  grpc::ServerUnaryReactor* GetUpload(Context* context, const v1::GetUploadRequest* request,
                                      v1::Upload* response) override {
    return Answer(core_, context, Method::kGetUpload, *request,
                  [&](Call& call) { return handler_.GetUpload(call, *request, response); });
  }
  grpc::ServerUnaryReactor* GetGraph(Context* context, const v1::GetGraphRequest* request,
                                     v1::Graph* response) override {
    return Answer(core_, context, Method::kGetGraph, *request,
                  [&](Call& call) { return handler_.GetGraph(call, *request, response); });
  }
  grpc::ServerUnaryReactor* ListGraphs(Context* context, const v1::ListGraphsRequest* request,
                                       v1::ListGraphsResponse* response) override {
    return Answer(core_, context, Method::kListGraphs, *request,
                  [&](Call& call) { return handler_.ListGraphs(call, *request, response); });
  }
  grpc::ServerWriteReactor<v1::Graph>* WatchGraph(Context* context, const v1::WatchGraphRequest* request) override {
    return new WatchReactor(core_, context, handler_, *request);
  }
  grpc::ServerUnaryReactor* DeleteGraph(Context* context, const v1::DeleteGraphRequest* request,
                                        v1::DeleteGraphResponse* response) override {
    return Answer(core_, context, Method::kDeleteGraph, *request,
                  [&](Call& call) { return handler_.DeleteGraph(call, *request, response); });
  }
  grpc::ServerUnaryReactor* TuneGraph(Context* context, const v1::TuneGraphRequest* request,
                                      v1::TuneGraphResponse* response) override {
    return new TuneReactor(core_, context, handler_, *request, response);
  }
  grpc::ServerUnaryReactor* GetTuning(Context* context, const v1::GetTuningRequest* request,
                                      v1::GetTuningResponse* response) override {
    return Answer(core_, context, Method::kGetTuning, *request,
                  [&](Call& call) { return handler_.GetTuning(call, *request, response); });
  }
  grpc::ServerReadReactor<v1::UploadFeaturesRequest>* UploadFeatures(Context* context,
                                                                     v1::UploadFeaturesResponse* response) override {
    return TakeUpload<v1::UploadFeaturesRequest>(core_, context, Method::kUploadFeatures, response,
                                                 [&](const Call& call) { return handler_.UploadFeatures(call); });
  }
  grpc::ServerUnaryReactor* ListFeatures(Context* context, const v1::ListFeaturesRequest* request,
                                         v1::ListFeaturesResponse* response) override {
    return Answer(core_, context, Method::kListFeatures, *request,
                  [&](Call& call) { return handler_.ListFeatures(call, *request, response); });
  }
  grpc::ServerUnaryReactor* DeleteFeatures(Context* context, const v1::DeleteFeaturesRequest* request,
                                           v1::DeleteFeaturesResponse* response) override {
    return Answer(core_, context, Method::kDeleteFeatures, *request,
                  [&](Call& call) { return handler_.DeleteFeatures(call, *request, response); });
  }

 private:
  Core& core_;
  GraphHandler& handler_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGraphService(Core& core, GraphHandler& handler) {
  return std::make_unique<GraphServiceImpl>(core, handler);
}

}  // namespace vicinal::server
