// SPDX-License-Identifier: Apache-2.0
// gRPC's side of the server: the listener of the API, with its limits and credentials, and the plaintext listener that
// serves nothing but the health service.
#ifndef VICINAL_SERVER_RPC_SERVER_H_
#define VICINAL_SERVER_RPC_SERVER_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "server/acceptor.h"
#include "server/certificate_files.h"
#include "server/config.h"
#include "server/core.h"
#include "server/health_states.h"
#include "server/services/health_service.h"
#include "server/services/unknown_methods.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace vicinal::server {

// Thread-safe, but for Start and Shutdown.
class RpcServer {
 public:
  using Services = std::vector<std::unique_ptr<grpc::Service>>;

  // Serves when it returns; health is live, but not ready. `edge_services` are those of --edge_listen: a service
  // belongs to one of gRPC's servers, and the bound on metadata does, too. `core`, both services and `certificates`
  // (null: no TLS) must outlive the server. FAILED_PRECONDITION (CANNOT_LISTEN): an address is in use or not this
  // machine's.
  static StatusOr<std::unique_ptr<RpcServer>> Start(const Config& config, Core& core,
                                                    const CertificateFiles* certificates, const Services& services,
                                                    const Services& edge_services);
  ~RpcServer();

  // HOST:PORT; that of health is empty without --health_listen.
  const std::string& address() const { return address_; }
  const std::string& health_address() const { return health_address_; }

  // Health is SERVING while this was set and there is room for connections.
  void SetReady(bool ready);
  bool has_room() const;
  // Ends calls for health whose message has not come.
  void SweepHealth() { health_places_.Sweep(), health_only_places_.Sweep(); }
  // Of the API, the unix socket included.
  ConnectionCounts Connections() const { return door_->Counts(); }

  // Closes all listeners, waits for calls in progress until `deadline`, and cancels the rest. Blocks.
  void Shutdown(std::chrono::system_clock::time_point deadline);

 private:
  RpcServer(const Config& config, Core& core);
  Status ListenForHealth(const Config& config, JsonLog* log);
  Status ListenForCalls(const Config& config, Core& core, const CertificateFiles* certificates,
                        const Services& services, const Services& edge_services);
  void SetFull(bool full);

  HealthStates health_;
  HealthPlaces health_places_, health_only_places_;  // of the API's listeners, and of that with nothing else
  const std::unique_ptr<grpc::Service> health_service_, edge_health_service_, health_only_service_;
  UnknownMethods unknown_methods_, edge_unknown_methods_;
  std::unique_ptr<grpc::Server> calls_, edge_calls_, health_only_;
  std::unique_ptr<Acceptor> door_, health_door_;
  std::string address_, health_address_;
  mutable Mutex mutex_;
  bool ready_ VICINAL_GUARDED_BY(mutex_) = false;
  bool full_ VICINAL_GUARDED_BY(mutex_) = false;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_RPC_SERVER_H_
