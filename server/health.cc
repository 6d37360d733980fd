// SPDX-License-Identifier: Apache-2.0
#include "server/health.h"

#include <grpcpp/health_check_service_interface.h>

#include <utility>

namespace vicinal::server {

Health::Health(grpc::HealthCheckServiceInterface* health, std::vector<std::string> services)
    : health_(health), services_(std::move(services)) {
  health_->SetServingStatus("liveness", true);
  SetReady(false);
}

void Health::SetReady(bool ready) {
  health_->SetServingStatus("", ready);
  health_->SetServingStatus("readiness", ready);
  for (const std::string& service : services_) health_->SetServingStatus(service, ready);
}

}  // namespace vicinal::server
