// SPDX-License-Identifier: Apache-2.0
// What every call shares, from its first byte to its status: who it is (token, role), request id and trace id, deadline
// and cancellation, in-flight counts, latency, the log line, and the status with its details. Handlers see none of it
// but Call.
#ifndef VICINAL_SERVER_RPC_SCOPE_H_
#define VICINAL_SERVER_RPC_SCOPE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <memory>

#include "server/call.h"
#include "server/core.h"

namespace grpc {
class CallbackServerContext;
}

namespace vicinal::server {

// One call's; lives from the call's begin until after Finish.
class RpcScope {
 public:
  // `core` must outlive the scope, `context` live until Finish.
  RpcScope(Core& core, grpc::CallbackServerContext* context, Method method);
  RpcScope(const RpcScope&) = delete;
  RpcScope& operator=(const RpcScope&) = delete;

  // Why the call must not go on (UNAUTHENTICATED, PERMISSION_DENIED, UNAVAILABLE while draining), or OK.
  const Status& admitted() const { return admitted_; }
  // INVALID_ARGUMENT when a message of that size is over --max_message_bytes.
  Status CheckSize(size_t bytes) const;
  // For the one message of a call that may wait: as CheckSize, and counts what it takes against the memory budget until
  // the scope ends; codes as Engine::Hold. Once.
  Status Take(const google::protobuf::Message& message);
  Call& call() { return call_; }

  // The client went away, or its deadline passed: work stops where it asks.
  void Cancel() { cancel_->Cancel(); }
  // CANCELLED or DEADLINE_EXCEEDED, whichever it was.
  Status WhyCancelled() const;

  // Ends the call; exactly once. Never throws: without memory for more, RESOURCE_EXHAUSTED and no details.
  grpc::Status Finish(const Status& status);

 private:
  // Whether the call may go on.
  Status ReadMetadata();
  grpc::Status Report(const Status& status);
  void LogEnd(const Status& status, double seconds) const;

  Core& core_;
  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<CancelToken> cancel_;
  Call call_;
  Status admitted_;
  std::shared_ptr<const void> message_held_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_RPC_SCOPE_H_
