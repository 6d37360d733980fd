// SPDX-License-Identifier: Apache-2.0
// ServerService without gRPC. Thread-safe.
#ifndef VICINAL_SERVER_HANDLERS_SERVER_HANDLER_H_
#define VICINAL_SERVER_HANDLERS_SERVER_HANDLER_H_

#include <string>
#include <vector>

#include "engine/api/engine.h"
#include "server/call.h"
#include "server/config.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::server {

class ServerHandler {
 public:
  // `engine` must outlive the handler. `warnings`: as Capabilities has them. `clock` null: the real one.
  ServerHandler(Engine& engine, const Limits& limits, std::vector<std::string> warnings, const Clock* clock);

  // Copies the constant part of the reply and adds launch counts. The cheapest of all calls.
  Status GetCapabilities(const Call& call, const v1::GetCapabilitiesRequest& request, v1::Capabilities* response) const;
  // May build a plan on the calling thread.
  Status Explain(Call& call, const v1::ExplainRequest& request, v1::ExplainResponse* response) const;

 private:
  Engine& engine_;
  const Clock& clock_;
  const MonotonicTime begin_;
  const int64_t max_response_bytes_;
  v1::Capabilities fixed_;
};

// This build's version, "0.1.0".
const char* Version();

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_SERVER_HANDLER_H_
