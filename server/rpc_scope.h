// SPDX-License-Identifier: Apache-2.0
// What every call shares, from its first byte to its status: the caller (token, role), request id and trace id,
// deadline and cancellation, in-flight counts, latency, the log line, and the status with its details. Handlers see
// none of it but Call.
#ifndef VICINAL_SERVER_RPC_SCOPE_H_
#define VICINAL_SERVER_RPC_SCOPE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <memory>

#include "engine/base/mutex.h"
#include "server/call.h"
#include "server/core.h"
#include "server/subject.h"

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
  // the scope ends; codes as MemoryBudget::Reserve. Once.
  Status Take(const google::protobuf::Message& message);
  Call& call() { return call_; }
  // Records what the call is about, taken from one of its messages, for the log. Any thread, before Finish.
  template <class Message>
  void About(const Message& message) {
    if (!logged_) return;
    MutexLock lock(&subject_mutex_);
    Tell(message, &subject_);
  }

  // The client went away, or its deadline passed: work stops at its next check.
  void Cancel() { cancel_->Cancel(); }
  // CANCELLED or DEADLINE_EXCEEDED, whichever it was.
  Status WhyCancelled() const;

  // Ends the call; exactly once. Never throws: without memory for more, RESOURCE_EXHAUSTED and no details.
  grpc::Status Finish(const Status& status);

 private:
  // Whether the call may go on.
  Status ReadMetadata();
  grpc::Status Report(const Status& status);

  Core& core_;
  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<CancelToken> cancel_;
  const bool logged_;
  Call call_;
  Mutex subject_mutex_;  // a drain may end a call whose first message is being read
  Subject subject_ VICINAL_GUARDED_BY(subject_mutex_);
  Status admitted_;
  Reservation message_memory_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_RPC_SCOPE_H_
