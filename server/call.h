// SPDX-License-Identifier: Apache-2.0
// One call for the handlers: the caller, the deadline, and its labels in metrics and logs. Independent of gRPC, so that
// handlers can be tested without a socket; rpc_scope.h fills it from a gRPC context.
#ifndef VICINAL_SERVER_CALL_H_
#define VICINAL_SERVER_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/api/engine.h"
#include "server/methods.h"

namespace vicinal::server {

struct Call {
  Method method = Method::kGetCapabilities;
  std::string request_id;     // the client's, or generated
  std::string trace_id;       // from the W3C traceparent; empty if there was none
  std::string routed_graph;   // metadata `vicinal-graph`; empty if there was none
  bool routed_twice = false;  // it had several different values
  // Who calls: the name of a principal, else a name in the client's certificate, else the address without the port.
  // Never empty. Fair shares are by this name.
  std::string principal;
  bool interactive = true;  // the caller may send interactive requests
  std::string_view role;    // Auth::Check's, for the log
  std::string peer;         // HOST:PORT of the caller, or of the proxy in between; empty if the call will not be logged
  MonotonicTime begin{};
  WorkLimits limits;
  // Set by inference handlers: labels of the metrics.
  std::string graph;
  std::string model;
  // Set by inference handlers: the memory of a large reply, until it has been sent.
  Reservation reply_memory;
  std::shared_ptr<const void> reply_share;  // of the principal; see ReplyShares
  // Of one message of a stream: its bytes, which count towards the principal's share of streams with those of its
  // answer; and, where set, who is told both together, once, before the answer is computed, on any thread.
  std::optional<int64_t> message_bytes;
  std::function<void(int64_t bytes)> on_bytes;

  // A call of its own for one message, of `bytes` bytes, of a stream that begins now: same caller, same limits.
  Call ForMessage(MonotonicTime now, int64_t bytes) const;
  // Whether a call that its client ended at `now` ended because of its deadline. Clients round the timeout that they
  // send up, so theirs may pass a little before `limits.deadline`.
  bool EndedByDeadline(MonotonicTime now) const;
  // Records one value of the metadata `vicinal-graph`.
  void RouteTo(std::string_view graph);
  // INVALID_ARGUMENT if the metadata `vicinal-graph` is set and is not `name`, or has several different values.
  Status CheckGraph(std::string_view name) const;
};

// The trace id of a W3C traceparent ("00-<32 hex digits>-<16 hex digits>-<2 hex digits>"), or empty if it is not valid.
std::string_view TraceIdOf(std::string_view traceparent);

// A caller's request id, if it is safe in logs and headers: 1 to 128 printable characters without blanks.
bool IsUsableRequestId(std::string_view id);

// 16 random hex digits.
std::string NewRequestId();

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CALL_H_
