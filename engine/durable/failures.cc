// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/failures.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::durable {
namespace {

struct Failure {
  std::string_view reason, kind;
  bool can_pass = false;         // for writers
  bool may_be_readable = false;  // for readers
};

constexpr Failure kFailures[] = {
    {"STATE_DISK_FULL", "disk_full", true, false},        {"STATE_TOO_MANY_FILES", "too_many_files", true, true},
    {"STATE_ACCESS_DENIED", "access_denied", true, true}, {"STATE_DIRECTORY_GONE", "gone", true, true},
    {"STATE_IO_ERROR", "io_error", false, true},          {"STATE_SYNC_FAILED", "sync_failed", false, false},
    {"STATE_DAMAGED", "damaged", false, false},           {"STATE_FILE_MISSING", "missing", false, false},
    {"STATE_FORMAT_TOO_NEW", "format", false, false},
};
constexpr Failure kOther = {"", "other", false, false};

const Failure& FailureOf(const Status& error) {
  const auto detail = DetailOf(error);
  const std::string reason = detail ? detail->reason : "";
  for (const Failure& failure : kFailures) {
    if (failure.reason == reason) return failure;
  }
  return kOther;
}

}  // namespace

std::string_view FailureKind(const Status& error) { return FailureOf(error).kind; }
bool CanPass(const Status& error) { return FailureOf(error).can_pass; }
bool MayBeReadable(const Status& error) { return FailureOf(error).may_be_readable; }
bool IsDiskFull(const Status& error) { return FailureKind(error) == "disk_full"; }

Status LostError(const state::LostVersion& lost) {
  ErrorDetail detail;
  detail.reason = "STATE_DAMAGED";
  detail.metadata = {{"quarantine", lost.quarantine}};
  return MakeError(StatusCode::kDataLoss,
                   absl::StrCat(lost.reason, "; its files are in '", lost.quarantine,
                                "' of the state directory; upload it again, or delete it"),
                   detail);
}

}  // namespace vicinal::durable
