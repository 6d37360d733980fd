// SPDX-License-Identifier: Apache-2.0
#include "engine/base/work_limits.h"

#include "engine/base/error.h"

namespace vicinal {
namespace {

Status Stopped(StatusCode code, const char* reason, const char* message) {
  ErrorDetail detail;
  detail.reason = reason;
  return MakeError(code, message, detail);
}

}  // namespace

Status WorkLimits::Check(const Clock& clock) const {
  const bool expired = cancel != nullptr && cancel->expired();
  if (cancel != nullptr && cancel->cancelled() && !expired) {
    return Stopped(StatusCode::kCancelled, "CANCELLED", "the client cancelled the request");
  }
  if (expired || (deadline.has_value() && clock.Now() >= *deadline)) {
    return Stopped(StatusCode::kDeadlineExceeded, "DEADLINE_EXCEEDED",
                   default_deadline
                       ? "the request came without a deadline, and took longer than --default_deadline; set one"
                       : "the request's deadline passed before its work was done; allow more time or ask "
                         "for less");
  }
  return OkStatus();
}

}  // namespace vicinal
