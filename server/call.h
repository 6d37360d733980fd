// SPDX-License-Identifier: Apache-2.0
// One call, as the handlers see it: who asked, until when, and what is said about it in metrics and logs. Free of gRPC,
// so that handlers can be tested without a socket; rpc_scope.h fills it from a gRPC context.
#ifndef VICINAL_SERVER_CALL_H_
#define VICINAL_SERVER_CALL_H_

#include <memory>
#include <string>
#include <string_view>

#include "engine/api/engine.h"
#include "server/methods.h"

namespace vicinal::server {

struct Call {
  Method method = Method::kGetCapabilities;
  std::string request_id;     // the client's, or one of ours
  std::string trace_id;       // of the W3C traceparent; empty when none came
  std::string routed_graph;   // metadata `vicinal-graph`; empty when none came
  bool routed_twice = false;  // it came with values that differ
  // For the log; empty where the call will leave no line.
  std::string peer;       // HOST:PORT that the call came from; a proxy's, where there is one
  std::string_view role;  // Auth::Check's
  MonotonicTime begin{};
  WorkLimits limits;
  // Set by handlers of inference: what the metrics are labelled with.
  std::string graph;
  std::string model;
  // Set by handlers of inference: the memory of a large reply, until it was sent.
  Reservation reply_memory;

  // Notes one value of the metadata `vicinal-graph`.
  void RouteTo(std::string_view graph);
  // INVALID_ARGUMENT when the metadata `vicinal-graph` came and is not `name`, or came with values that differ.
  Status CheckGraph(std::string_view name) const;
};

// The trace id of a W3C traceparent ("00-<32 hex digits>-<16 hex digits>-<2 hex digits>"), or empty when it is not one.
std::string_view TraceIdOf(std::string_view traceparent);

// A caller's request id, when it can stand in a log and a header: 1 to 128 printable characters without blanks.
bool IsUsableRequestId(std::string_view id);

// 16 hex digits, unlikely to come twice.
std::string NewRequestId();

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CALL_H_
