// SPDX-License-Identifier: Apache-2.0
// Shared by all calls, from first byte to status: the caller (token, role), request id and trace id, deadline and
// cancellation, in-flight counts, latency, the log line, and the status with its details. Handlers see only Call.
#ifndef VICINAL_SERVER_RPC_SCOPE_H_
#define VICINAL_SERVER_RPC_SCOPE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/mutex.h"
#include "server/call.h"
#include "server/core.h"
#include "server/open_calls.h"
#include "server/subject.h"

namespace grpc {
class CallbackServerContext;
}

namespace vicinal::server {

// How a message of the client came.
struct Arrival {
  enum class Kind { kMessage, kMalformed, kNoMemory };
  Kind kind = Kind::kMessage;
  size_t bytes = 0;  // as it was sent, decompressed
};

// One per call; lives from its start until after Finish.
class RpcScope {
 public:
  // `core` must outlive the scope, `context` live until Finish.
  RpcScope(Core& core, grpc::CallbackServerContext* context, Method method);
  RpcScope(const RpcScope&) = delete;
  RpcScope& operator=(const RpcScope&) = delete;
  // The reply has been sent: until then the call has a part of its place among the open ones, so that replies which
  // nobody reads are bounded, too.
  ~RpcScope();

  // OK, or why the call must not proceed (UNAUTHENTICATED, PERMISSION_DENIED; UNAVAILABLE while draining, or where too
  // many calls are open).
  const Status& admitted() const { return admitted_; }
  // The wait for the call's first message (OpenCalls::Await); MessageArrived must follow, once. False: `end` was
  // called.
  void AwaitMessage(OpenCalls::End end) { ticket_ = core_.open_calls.Await(std::move(end)); }
  bool MessageArrived() { return core_.open_calls.Arrived(ticket_); }
  // For a stream of requests, when its first one came (OpenCalls::EnterStream).
  Status TakeStreamPlace();
  // Why no message came, of a method that needs one: WhyCancelled, or INVALID_ARGUMENT (BAD_MESSAGE).
  Status WhyNoMessage() const;
  // Once for each message that came, in their order. INVALID_ARGUMENT (BAD_MESSAGE, with the message's number): it does
  // not parse. RESOURCE_EXHAUSTED (OUT_OF_MEMORY).
  Status CheckArrival(const Arrival& arrival);
  // INVALID_ARGUMENT if a message of that size exceeds --max_message_bytes.
  Status CheckSize(size_t bytes) const;
  // For a message of a call that may wait: like CheckSize, and reserves its bytes in the memory budget until
  // the scope ends, or the next message is taken; errors of MemoryBudget::Reserve.
  Status Take(const google::protobuf::Message& message);
  // The same for a message among others of the call: the reservation, empty for a small one, is the caller's.
  StatusOr<Reservation> Reserve(const google::protobuf::Message& message);
  Call& call() { return call_; }
  // Records what the call is about, taken from one of its messages, for the log. Any thread, before Finish.
  template <class Message>
  void About(const Message& message) {
    if (!logged_) return;
    MutexLock lock(&subject_mutex_);
    Tell(message, &subject_);
  }

  // Records a request of a stream that has its answer, or an error, now. `one`: its call (Call::ForMessage). Any
  // thread, before Finish. Never throws.
  void EndRequest(const Call& one, StatusCode code);

  // Called if the client cancelled, or its deadline passed: work stops at its next check.
  void Cancel();
  // CANCELLED or DEADLINE_EXCEEDED, according to the cause.
  Status WhyCancelled() const;

  // Ends the call; call exactly once. Never throws: out of memory, it sends RESOURCE_EXHAUSTED without details.
  grpc::Status Finish(const Status& status);

 private:
  // Whether the call may proceed.
  Status ReadMetadata();
  // What the proxy at the unix socket says about the client.
  Status ReadEdge(Caller* caller);
  grpc::Status Report(const Status& status);
  void CountCall(StatusCode code, double seconds);

  Core& core_;
  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<CancelToken> cancel_;
  const bool logged_;
  Call call_;
  Mutex subject_mutex_;  // a drain may end a call whose first message is being read
  Subject subject_ VICINAL_GUARDED_BY(subject_mutex_);
  OpenCalls::Ticket ticket_;
  bool has_place_ = false;  // among the open calls
  bool has_stream_place_ = false;
  bool answered_ = false;     // Finish was called
  std::string edge_address_;  // of the client, as the proxy says; empty: there is no proxy
  Status admitted_;
  Reservation message_memory_;
  int64_t messages_ = 0;  // that came
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_RPC_SCOPE_H_
