// SPDX-License-Identifier: Apache-2.0
// The composition root: owns everything in the order in which it outlives the rest, starts it, and brings it to rest.
#ifndef VICINAL_SERVER_SERVER_H_
#define VICINAL_SERVER_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "engine/api/engine.h"
#include "server/config.h"

namespace vicinal::server {

// What tests put in place of the real things; null: the real one. The clock is not owned.
struct Fakes {
  const Clock* clock = nullptr;
  std::unique_ptr<Engine> engine;
  int log_fd = 2;  // standard error
};

class Server {
 public:
  // Serves when it returns, and has written the ready file. INVALID_ARGUMENT: a setting that makes no sense.
  // FAILED_PRECONDITION: no such device, an address that is taken. `on_device_lost` is called once, on a thread of the
  // server's, when the device can be used no more (Engine::Health): by then readiness is gone and new calls are
  // refused; all that is left to do is to stop, and to start another process.
  static StatusOr<std::unique_ptr<Server>> Start(const Config& config, Fakes fakes = {},
                                                 std::function<void()> on_device_lost = {});
  // Stops at once, if Stop was not called.
  ~Server();

  // HOST:PORT as listened on; the metrics' is empty when none are served.
  const std::string& grpc_address() const;
  const std::string& metrics_address() const;

  // Health says NOT_SERVING, the drain delay passes (not after the device was lost), new calls are refused, calls under
  // way finish or the drain timeout passes; then nothing is served any more. Blocks. True when all calls under way
  // ended by themselves. Once.
  bool Stop();
  // Makes a Stop that is under way (or comes later) wait no more. Any thread.
  void Hurry();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVER_H_
