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

// Where the calls of one listener take their places: not those of the API, because anyone may call; and watches, which
// may stay for ever, not those of checks.
struct HealthPlaces {
  HealthPlaces(const OpenCalls::Options& each, Core& core)
      : checks(each, core.clock, &core.log), watches(each, core.clock, &core.log) {}
  void Sweep() { checks.Sweep(), watches.Sweep(); }

  OpenCalls checks, watches;
};

// All must outlive the service.
std::unique_ptr<grpc::Service> MakeHealthService(Core& core, HealthStates& states, HealthPlaces& places);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_HEALTH_SERVICE_H_
