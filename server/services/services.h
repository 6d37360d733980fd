// SPDX-License-Identifier: Apache-2.0
// The services of the API: reactors over the handlers, without logic of their own.
#ifndef VICINAL_SERVER_SERVICES_SERVICES_H_
#define VICINAL_SERVER_SERVICES_SERVICES_H_

#include <memory>

#include "server/core.h"

namespace grpc {
class Service;
}

namespace vicinal::server {

class GraphHandler;
class InferenceHandler;
class ModelHandler;
class OpenInferenceHandler;
class ServerHandler;

// Core and handler must outlive the service.
std::unique_ptr<grpc::Service> MakeGraphService(Core& core, GraphHandler& handler);
std::unique_ptr<grpc::Service> MakeModelService(Core& core, ModelHandler& handler);
std::unique_ptr<grpc::Service> MakeInferenceService(Core& core, InferenceHandler& handler);
std::unique_ptr<grpc::Service> MakeServerService(Core& core, ServerHandler& handler);
std::unique_ptr<grpc::Service> MakeOpenInferenceService(Core& core, OpenInferenceHandler& handler);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_SERVICES_H_
