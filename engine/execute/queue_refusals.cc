// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/queue_refusals.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

// Bounds of what refused clients are told to wait.
constexpr double kMinRetrySeconds = 0.01, kMaxRetrySeconds = 10.0;
constexpr std::chrono::milliseconds kRetryFull{100};

int64_t Milliseconds(double seconds) { return static_cast<int64_t>(std::ceil(seconds * 1e3)); }

// Of an estimate, rounded up, and of time that is left, rounded down, in tenths of a millisecond.
int64_t TenthsNeeded(double seconds) { return static_cast<int64_t>(std::ceil(seconds * 1e4 - 1e-4)); }
int64_t TenthsLeft(double seconds) { return static_cast<int64_t>(std::floor(std::max(0.0, seconds) * 1e4 + 1e-4)); }

// "5.3 ms"
std::string FromTenths(int64_t tenths) { return absl::StrCat(tenths / 10, ".", tenths % 10, " ms"); }

}  // namespace

Status DrainingRefusal() {
  return Unavailable("DRAINING", "this server is shutting down and takes no new requests; retry on another",
                     std::chrono::seconds(1));
}

Status QueueFull(int64_t max_requests) {
  return Unavailable("QUEUE_FULL",
                     absl::StrCat(max_requests, " requests are waiting, the maximum (--max_queue); retry later"),
                     kRetryFull);
}

Status ClientQueueFull(const std::string& principal, int64_t max_requests) {
  return Unavailable("CLIENT_QUEUE_FULL",
                     absl::StrCat(max_requests, " requests of '", principal,
                                  "' are waiting, the maximum for one client (--max_queue_per_client); retry later"),
                     kRetryFull);
}

Status Overloaded(double before, double run) {
  return Unavailable("SERVER_OVERLOADED",
                     absl::StrCat("the deadline would pass first: about ", FromTenths(TenthsNeeded(before)),
                                  " of work come before this request, which takes ", FromTenths(TenthsNeeded(run)),
                                  "; retry later, or allow more time"),
                     std::chrono::milliseconds(Milliseconds(std::clamp(before, kMinRetrySeconds, kMaxRetrySeconds))));
}

Status DeadlineTooShort(double left, double run) {
  // Less is left than a run takes, by less than a tenth perhaps.
  const int64_t tenths_left = TenthsLeft(left), tenths_needed = std::max(TenthsNeeded(run), tenths_left + 1);
  return DeadlineExceeded("DEADLINE_TOO_SHORT",
                          absl::StrCat("the deadline is in ", FromTenths(tenths_left), ", but this request takes ",
                                       FromTenths(tenths_needed), "; allow more time or ask for less"));
}

std::string_view DropReason(const Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  const std::string reason = detail ? detail->reason : std::string();
  if (reason == "QUEUE_FULL") return "queue_full";
  if (reason == "CLIENT_QUEUE_FULL") return "client_full";
  if (reason == "SERVER_OVERLOADED") return "overloaded";
  if (reason == "DEADLINE_TOO_SHORT") return "deadline_too_short";
  if (reason == "CANCELLED") return "cancelled";
  return reason == "DEADLINE_EXCEEDED" ? "expired" : "draining";
}

}  // namespace vicinal
