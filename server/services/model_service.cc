// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/model_handler.h"
#include "server/services/reactors.h"
#include "server/services/services.h"
#include "server/services/upload_reactor.h"
#include "vicinal/v1/model.grpc.pb.h"

namespace vicinal::server {
namespace {

using Context = grpc::CallbackServerContext;

class ModelServiceImpl final : public v1::ModelService::CallbackService {
 public:
  ModelServiceImpl(Core& core, ModelHandler& handler) : core_(core), handler_(handler) {}

  grpc::ServerReadReactor<v1::UploadModelRequest>* UploadModel(Context* context,
                                                               v1::UploadModelResponse* response) override {
    return TakeUpload<v1::UploadModelRequest>(core_, context, Method::kUploadModel, response,
                                              [&](const Call& call) { return handler_.UploadModel(call); });
  }
  grpc::ServerUnaryReactor* GetModel(Context* context, const v1::GetModelRequest* request,
                                     v1::Model* response) override {
    return Answer(core_, context, Method::kGetModel, *request,
                  [&](Call& call) { return handler_.GetModel(call, *request, response); });
  }
  grpc::ServerUnaryReactor* ListModels(Context* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override {
    return Answer(core_, context, Method::kListModels, *request,
                  [&](Call& call) { return handler_.ListModels(call, *request, response); });
  }
  grpc::ServerUnaryReactor* DeleteModel(Context* context, const v1::DeleteModelRequest* request,
                                        v1::DeleteModelResponse* response) override {
    return Answer(core_, context, Method::kDeleteModel, *request,
                  [&](Call& call) { return handler_.DeleteModel(call, *request, response); });
  }

 private:
  Core& core_;
  ModelHandler& handler_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeModelService(Core& core, ModelHandler& handler) {
  return std::make_unique<ModelServiceImpl>(core, handler);
}

}  // namespace vicinal::server
