// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/server_handler.h"
#include "server/services/reactors.h"
#include "server/services/services.h"
#include "vicinal/v1/server.grpc.pb.h"

namespace vicinal::server {
namespace {

using Context = grpc::CallbackServerContext;

class ServerServiceImpl final : public v1::ServerService::CallbackService {
 public:
  ServerServiceImpl(Core& core, ServerHandler& handler) : core_(core), handler_(handler) {}

  grpc::ServerUnaryReactor* GetCapabilities(Context* context, const v1::GetCapabilitiesRequest* request,
                                            v1::Capabilities* response) override {
    return Answer(core_, context, Method::kGetCapabilities, *request,
                  [&](Call& call) { return handler_.GetCapabilities(call, *request, response); });
  }
  grpc::ServerUnaryReactor* Explain(Context* context, const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override {
    return AnswerLater(core_, context, Method::kExplain, *request, [this, request, response](Call& call, auto done) {
      const Status posted = core_.workers.Post(
          [this, &call, request, response, done] { done(handler_.Explain(call, *request, response)); });
      if (!posted.ok()) done(posted);
    });
  }

 private:
  Core& core_;
  ServerHandler& handler_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeServerService(Core& core, ServerHandler& handler) {
  return std::make_unique<ServerServiceImpl>(core, handler);
}

}  // namespace vicinal::server
