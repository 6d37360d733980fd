// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/inference_handler.h"
#include "server/services/reactors.h"
#include "server/services/services.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::server {
namespace {

using Context = grpc::CallbackServerContext;

class InferenceServiceImpl final : public v1::InferenceService::CallbackService {
 public:
  InferenceServiceImpl(Core& core, InferenceHandler& handler) : core_(core), handler_(handler) {}

  grpc::ServerUnaryReactor* Classify(Context* context, const v1::ClassifyRequest* request,
                                     v1::ClassifyResponse* response) override {
    return AnswerLater(core_, context, Method::kClassify, *request,
                       [&](Call& call, auto done) { handler_.Classify(call, *request, response, done); });
  }
  grpc::ServerWriteReactor<v1::ClassifyResponse>* ClassifyStream(Context* context,
                                                                 const v1::ClassifyRequest* request) override {
    return AnswerInPieces<v1::ClassifyResponse>(
        core_, context, Method::kClassifyStream, *request,
        [&](Call& call, auto done) { handler_.ClassifyStream(call, *request, done); });
  }
  grpc::ServerUnaryReactor* Embed(Context* context, const v1::EmbedRequest* request,
                                  v1::EmbedResponse* response) override {
    return AnswerLater(core_, context, Method::kEmbed, *request,
                       [&](Call& call, auto done) { handler_.Embed(call, *request, response, done); });
  }
  grpc::ServerWriteReactor<v1::EmbedResponse>* EmbedStream(Context* context, const v1::EmbedRequest* request) override {
    return AnswerInPieces<v1::EmbedResponse>(
        core_, context, Method::kEmbedStream, *request,
        [&](Call& call, auto done) { handler_.EmbedStream(call, *request, done); });
  }
  grpc::ServerUnaryReactor* ClassifyGraphs(Context* context, const v1::ClassifyGraphsRequest* request,
                                           v1::ClassifyGraphsResponse* response) override {
    return AnswerLater(core_, context, Method::kClassifyGraphs, *request,
                       [&](Call& call, auto done) { handler_.ClassifyGraphs(call, *request, response, done); });
  }

 private:
  Core& core_;
  InferenceHandler& handler_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeInferenceService(Core& core, InferenceHandler& handler) {
  return std::make_unique<InferenceServiceImpl>(core, handler);
}

}  // namespace vicinal::server
