// SPDX-License-Identifier: Apache-2.0
#include "engine/store/version_errors.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::internal {
namespace {

// After this time another client may have deleted something.
constexpr std::chrono::milliseconds kRetryAfter{5000};

}  // namespace

std::string Quoted(const char* type, const std::string& name) { return absl::StrCat(type, " '", name, "'"); }

Status Aborted(const char* reason, const char* type, const std::string& name, const std::string& message,
               int64_t version) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.resource_type = type;
  detail.resource_name = name;
  detail.metadata = {{"version", absl::StrCat(version)}};
  return MakeError(StatusCode::kAborted, message, detail);
}

Status GraphReplaced(const std::string& graph, int64_t version) {
  return Aborted("GRAPH_REPLACED", "graph", graph,
                 absl::StrCat(Quoted("graph", graph), " was replaced by version ", version,
                              " in the meantime; send the features again"),
                 version);
}

Status VersionDiffers(const char* type, const std::string& name, int64_t version, int64_t wanted) {
  return Aborted(
      "VERSION_MISMATCH", type, name,
      absl::StrCat(Quoted(type, name), version == 0 ? " has no version yet" : absl::StrCat(" is at version ", version),
                   ", but if_version is ", wanted, "; read the current version and decide again"),
      version);
}

Status VersionNotFound(const char* type, const std::string& name, int64_t version, int64_t wanted) {
  ErrorDetail detail;
  detail.reason = "VERSION_NOT_FOUND";
  detail.resource_type = type;
  detail.resource_name = name;
  detail.metadata = {{"version", absl::StrCat(version)}};
  const std::string why = wanted > version ? absl::StrCat(" yet: its latest is ", version)
                                           : absl::StrCat(": only its latest is kept, ", version);
  return MakeError(StatusCode::kNotFound,
                   absl::StrCat(Quoted(type, name), " has no version ", wanted, why, "; request ", version,
                                ", or 0 for whichever is the latest"),
                   detail);
}

Status TooMany(const char* type, const char* flag, int64_t maximum) {
  ErrorDetail detail;
  detail.reason = "TOO_MANY";
  detail.resource_type = type;
  detail.retry_after = kRetryAfter;
  detail.metadata = {{"limit", flag}, {"maximum", absl::StrCat(maximum)}};
  return MakeError(StatusCode::kResourceExhausted,
                   absl::StrCat("this server keeps at most ", maximum, " ", type, "s (--", flag, "); delete one first"),
                   detail);
}

}  // namespace vicinal::internal
