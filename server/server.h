// SPDX-License-Identifier: Apache-2.0
// The composition root: owns all components in order of lifetime, starts and stops them.
#ifndef VICINAL_SERVER_SERVER_H_
#define VICINAL_SERVER_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "engine/api/engine.h"
#include "server/config.h"

namespace vicinal::server {

// Replacements for tests; null: the real ones. The clock is not owned.
struct Fakes {
  const Clock* clock = nullptr;
  std::unique_ptr<Engine> engine;
  int log_fd = 2;  // standard error
};

class Server {
 public:
  // Serves and has written the ready file when it returns. INVALID_ARGUMENT: an invalid setting.
  // FAILED_PRECONDITION: no such device, or an address in use. `on_device_lost` is called once, on a thread of the
  // server, when the device can no longer be used (Engine::Health): by then the server is not ready and rejects new
  // calls; the caller must stop it and start another process.
  static StatusOr<std::unique_ptr<Server>> Start(const Config& config, Fakes fakes = {},
                                                 std::function<void()> on_device_lost = {});
  // Stops at once if Stop was not called.
  ~Server();

  // HOST:PORT of the listeners; that of the metrics is empty if they are not served.
  const std::string& grpc_address() const;
  const std::string& metrics_address() const;

  // Sets health to NOT_SERVING, waits for the drain delay (unless the device was lost), rejects new calls, and waits
  // until calls in progress finish or the drain timeout passes; then stops serving. Blocks. Returns true if all calls
  // in progress ended by themselves. Call once.
  bool Stop();
  // Makes a current or later Stop skip its waits. Any thread.
  void Hurry();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVER_H_
