// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health, which needs no token. gRPC's own bounds neither calls that wait for their message nor watches.
#ifndef VICINAL_SERVER_SERVICES_HEALTH_SERVICE_H_
#define VICINAL_SERVER_SERVICES_HEALTH_SERVICE_H_

#include <memory>

#include "server/core.h"
#include "server/health_states.h"
#include "server/open_calls.h"

namespace grpc {
class Service;
}

namespace vicinal::server {

// All must outlive the service. `calls`: where its calls take their places.
std::unique_ptr<grpc::Service> MakeHealthService(Core& core, HealthStates& states, OpenCalls& calls);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_HEALTH_SERVICE_H_
