// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/server_handler.h"
#include "server/services/method_service.h"
#include "server/services/services.h"

namespace vicinal::server {

std::unique_ptr<grpc::Service> MakeServerService(Core& core, ServerHandler& handler) {
  auto service = std::make_unique<MethodService>(core);
  service->Add<AnswerReactor, v1::GetCapabilitiesRequest, v1::Capabilities>(
      Method::kGetCapabilities,
      [&handler](Call& call, const v1::GetCapabilitiesRequest& request, v1::Capabilities* response) {
        return handler.GetCapabilities(call, request, response);
      });
  service->Add<LaterReactor, v1::ExplainRequest, v1::ExplainResponse>(
      Method::kExplain,
      [&core, &handler](Call& call, const v1::ExplainRequest& request, v1::ExplainResponse* response, auto done) {
        const Status posted = core.workers.Post([&handler, &call, &request, response, done] {
          done(OrOutOfMemory([&] { return handler.Explain(call, request, response); }));
        });
        if (!posted.ok()) done(posted);
      });
  return service;
}

}  // namespace vicinal::server
