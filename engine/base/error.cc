// SPDX-License-Identifier: Apache-2.0
#include "engine/base/error.h"

#include <nlohmann/json.hpp>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace vicinal {
namespace {

constexpr char kPayloadUrl[] = "vicinal.dev/error-detail";

// Debian's absl::string_view is not std::string_view; StrCat takes only the former.
absl::string_view Abs(std::string_view s) { return absl::string_view(s.data(), s.size()); }

}  // namespace

Status MakeError(StatusCode code, std::string_view message, const ErrorDetail& detail) {
  Status status(code, Abs(message));
  nlohmann::json json = {{"reason", detail.reason},
                         {"field", detail.field},
                         {"resource_type", detail.resource_type},
                         {"resource_name", detail.resource_name},
                         {"metadata", detail.metadata}};
  if (detail.retry_after) json["retry_after_ms"] = detail.retry_after->count();
  // Names come from clients and need not be UTF-8; a detail must never throw.
  status.SetPayload(kPayloadUrl, absl::Cord(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return status;
}

std::optional<ErrorDetail> DetailOf(const Status& status) {
  auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return std::nullopt;
  nlohmann::json json = nlohmann::json::parse(std::string(*payload), nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  ErrorDetail detail;
  detail.reason = json.value("reason", "");
  detail.field = json.value("field", "");
  detail.resource_type = json.value("resource_type", "");
  detail.resource_name = json.value("resource_name", "");
  detail.metadata = json.value("metadata", std::map<std::string, std::string>());
  if (json.contains("retry_after_ms"))
    detail.retry_after = std::chrono::milliseconds(json["retry_after_ms"].get<int64_t>());
  return detail;
}

Status Annotate(const Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  Status annotated(status.code(), absl::StrCat(Abs(prefix), ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

Status WithMetadata(const Status& status, const std::string& key, const std::string& value) {
  ErrorDetail detail = DetailOf(status).value_or(ErrorDetail());
  detail.metadata[key] = value;
  return MakeError(status.code(), {status.message().data(), status.message().size()}, detail);
}

Status InvalidArgument(std::string_view reason, std::string_view field, std::string_view message) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  detail.field = std::string(field);
  return MakeError(StatusCode::kInvalidArgument, message, detail);
}

Status OverLimit(std::string_view limit_flag, std::string_view field, int64_t value, int64_t maximum,
                 std::string_view message) {
  ErrorDetail detail;
  detail.reason = "LIMIT_EXCEEDED";
  detail.field = std::string(field);
  detail.metadata = {
      {"limit", std::string(limit_flag)}, {"value", absl::StrCat(value)}, {"maximum", absl::StrCat(maximum)}};
  if (!message.empty()) return MakeError(StatusCode::kInvalidArgument, message, detail);
  // Limits end in what they count: max_edges, max_upload_bytes.
  const std::string_view counted = limit_flag.substr(limit_flag.rfind('_') + 1);
  return MakeError(StatusCode::kInvalidArgument,
                   absl::StrCat(field.empty() ? "the request" : Abs(field), ": ", value, " ", Abs(counted),
                                ", over this server's limit of ", maximum, " (--", Abs(limit_flag),
                                "); send less, or raise the limit on the server"),
                   detail);
}

Status NotFound(std::string_view resource_type, std::string_view resource_name, std::string_view hint) {
  ErrorDetail detail;
  detail.reason = "NOT_FOUND";
  detail.resource_type = std::string(resource_type);
  detail.resource_name = std::string(resource_name);
  return MakeError(StatusCode::kNotFound,
                   absl::StrCat(Abs(resource_type), " '", Abs(resource_name), "' does not exist",
                                hint.empty() ? "" : "; ", Abs(hint)),
                   detail);
}

Status AlreadyExists(std::string_view resource_type, std::string_view resource_name, std::string_view hint) {
  ErrorDetail detail;
  detail.reason = "ALREADY_EXISTS";
  detail.resource_type = std::string(resource_type);
  detail.resource_name = std::string(resource_name);
  return MakeError(StatusCode::kAlreadyExists,
                   absl::StrCat(Abs(resource_type), " '", Abs(resource_name), "' exists already",
                                hint.empty() ? "" : "; ", Abs(hint)),
                   detail);
}

Status FailedPrecondition(std::string_view reason, std::string_view message) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  return MakeError(StatusCode::kFailedPrecondition, message, detail);
}

Status Internal(std::string_view message) {
  ErrorDetail detail;
  detail.reason = "INTERNAL";
  return MakeError(StatusCode::kInternal, message, detail);
}

Status Unavailable(std::string_view reason, std::string_view message, std::chrono::milliseconds retry_after) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  detail.retry_after = retry_after;
  return MakeError(StatusCode::kUnavailable, message, detail);
}

Status DeadlineExceeded(std::string_view reason, std::string_view message) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  return MakeError(StatusCode::kDeadlineExceeded, message, detail);
}

Status ResourceExhausted(std::string_view reason, std::string_view message, std::chrono::milliseconds retry_after) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  detail.retry_after = retry_after;
  return MakeError(StatusCode::kResourceExhausted, message, detail);
}

}  // namespace vicinal
