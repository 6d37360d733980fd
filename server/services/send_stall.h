// SPDX-License-Identifier: Apache-2.0
// Ends a stream of replies whose client reads none for --send_timeout. What has been written waits for the client, so
// a status behind it would never be sent: the call is cancelled with the status, which overtakes what waits.
#ifndef VICINAL_SERVER_SERVICES_SEND_STALL_H_
#define VICINAL_SERVER_SERVICES_SEND_STALL_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>

#include "server/core.h"

struct grpc_call;

namespace vicinal::server {

// One per call. Thread-safe but for construction, Begin and destruction.
class SendStall {
 public:
  // `core` must outlive it; `context` must live until Begin has returned.
  SendStall(Core& core, grpc::CallbackServerContext* context) : core_(core), context_(context) {}
  SendStall(const SendStall&) = delete;
  SendStall& operator=(const SendStall&) = delete;
  // Waits for a running end of the call: not on a thread of gRPC.
  ~SendStall();

  // At most once. Nothing waits for the client yet.
  void Begin();
  bool begun() const { return id_ != 0; }
  // A message waits for the client from now on.
  void Sending() { core_.stalls.Heard(id_); }
  // None does.
  void Sent() { core_.stalls.Pause(id_); }
  // Whether it has ended the call: then a write has failed because of it.
  bool ended() const { return ended_.load(); }
  // DEADLINE_EXCEEDED (REPLY_NOT_READ).
  Status Why() const;

 private:
  void End();

  Core& core_;
  grpc::CallbackServerContext* const context_;
  grpc_call* call_ = nullptr;  // held, so that it can be cancelled until the end of this object
  int64_t id_ = 0;
  std::atomic<bool> ended_{false};
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_SEND_STALL_H_
