// SPDX-License-Identifier: Apache-2.0
#include "server/call.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {
namespace {

// How much earlier than the server's deadline that of a client may pass, which allows `time`. gRPC rounds what it sends
// up by at most a hundredth. Beside that the call may have arrived later than its cancellation does, by more where
// client or server have much to do.
Nanoseconds EarlyBy(Nanoseconds time) {
  constexpr Nanoseconds kMostDelay = std::chrono::milliseconds(25);
  return time / 50 + std::min(time / 5, kMostDelay);
}

bool IsLowerHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool AllZero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

Call Call::ForMessage(MonotonicTime now, int64_t bytes) const {
  Call one;
  one.method = method;
  one.request_id = request_id;
  one.trace_id = trace_id;
  one.routed_graph = routed_graph;
  one.routed_twice = routed_twice;
  one.principal = principal;
  one.interactive = interactive;
  one.role = role;
  one.peer = peer;
  one.begin = now;
  one.message_bytes = bytes;
  one.limits = limits;
  return one;
}

bool Call::EndedByDeadline(MonotonicTime now) const {
  if (!limits.deadline) return false;
  return now + EarlyBy(*limits.deadline - begin) >= *limits.deadline;
}

void Call::RouteTo(std::string_view graph) {
  routed_twice = routed_twice || (!routed_graph.empty() && routed_graph != graph);
  routed_graph = std::string(graph);
}

Status Call::CheckGraph(std::string_view name) const {
  if (routed_twice) {
    return InvalidArgument("ROUTED_ELSEWHERE", "vicinal-graph",
                           "the metadata vicinal-graph has several different values; send one, the request's graph");
  }
  if (routed_graph.empty() || routed_graph == name) return OkStatus();
  return InvalidArgument("ROUTED_ELSEWHERE", "vicinal-graph",
                         absl::StrCat("the metadata vicinal-graph is '", routed_graph, "', but the request is about '",
                                      std::string(name), "'; send the same name in both, or omit the metadata"));
}

std::string_view TraceIdOf(std::string_view traceparent) {
  constexpr size_t kLength = 55;
  if (traceparent.size() < kLength || traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-')
    return {};
  const std::string_view version = traceparent.substr(0, 2), trace = traceparent.substr(3, 32);
  if (!IsLowerHex(version) || version == "ff" || !IsLowerHex(trace) || AllZero(trace)) return {};
  // Version 00 has exactly this length; later versions may add fields.
  if (version == "00" && traceparent.size() != kLength) return {};
  return trace;
}

bool IsUsableRequestId(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string NewRequestId() {
  static const uint64_t start = [] {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32) ^ device();
  }();
  static std::atomic<uint64_t> count{0};
  // A bijection of the counter (splitmix64's finaliser), so that ids of one process never repeat and look random.
  uint64_t x = start + count.fetch_add(1, std::memory_order_relaxed) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  std::string id(16, '0');
  for (int i = 15; i >= 0; --i, x >>= 4) id[i] = "0123456789abcdef"[x & 15];
  return id;
}

}  // namespace vicinal::server
