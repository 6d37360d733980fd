// SPDX-License-Identifier: Apache-2.0
// The states of grpc.health.v1: the empty name, `liveness`, `readiness` and each service. Live from the start to the
// end, ready while requests are accepted.
#ifndef VICINAL_SERVER_HEALTH_H_
#define VICINAL_SERVER_HEALTH_H_

#include <string>
#include <vector>

namespace grpc {
class HealthCheckServiceInterface;
}

namespace vicinal::server {

class Health {
 public:
  // `health` must outlive it.
  Health(grpc::HealthCheckServiceInterface* health, std::vector<std::string> services);
  void SetReady(bool ready);

 private:
  grpc::HealthCheckServiceInterface* const health_;
  const std::vector<std::string> services_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HEALTH_H_
