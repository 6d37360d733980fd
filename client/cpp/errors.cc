// SPDX-License-Identifier: Apache-2.0
// The trailer grpc-status-details-bin holds a google.rpc.Status; its details are packed under google.rpc type URLs, of
// which only the part after the slash counts. Unknown ones are passed over.
#include "client/cpp/errors.h"

#include <grpcpp/support/status.h>

#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/printable.h"
#include "vicinal/v1/error_details.pb.h"

namespace vicinal::client {
namespace {

constexpr char kPayload[] = "vicinal.dev/call";
constexpr char kUploadPayload[] = "vicinal.dev/upload";
constexpr char kLocalPayload[] = "vicinal.dev/local";

// Reads `any` into `message` when it holds the google.rpc message of that name.
template <class T>
bool Unpack(const google::protobuf::Any& any, std::string_view name, T* message) {
  const std::string_view url = any.type_url();
  const size_t slash = url.rfind('/');
  return slash != std::string_view::npos && url.substr(slash + 1) == name && message->ParseFromString(any.value());
}

void AddDetail(const google::protobuf::Any& any, ErrorDetails* details) {
  v1::details::ErrorInfo info;
  v1::details::BadRequest bad_request;
  v1::details::ResourceInfo resource;
  v1::details::RetryInfo retry;
  if (Unpack(any, "google.rpc.ErrorInfo", &info)) {
    details->reason = Printable(info.reason());
    for (const auto& [key, value] : info.metadata()) details->metadata[Printable(key)] = Printable(value);
  } else if (Unpack(any, "google.rpc.BadRequest", &bad_request)) {
    for (const auto& violation : bad_request.field_violations()) {
      details->violations.emplace_back(Printable(violation.field()), Printable(violation.description()));
    }
  } else if (Unpack(any, "google.rpc.ResourceInfo", &resource)) {
    details->resource_type = Printable(resource.resource_type());
    details->resource_name = Printable(resource.resource_name());
  } else if (Unpack(any, "google.rpc.RetryInfo", &retry)) {
    details->retry_after_seconds =
        static_cast<double>(retry.retry_delay().seconds()) + retry.retry_delay().nanos() * 1e-9;
  }
}

absl::Status WithPayload(absl::StatusCode code, const std::string& message, const std::string& details) {
  // A code outside gRPC's, or OK inside a failed reply, would make no error.
  const bool known = code > absl::StatusCode::kOk && code <= absl::StatusCode::kUnauthenticated;
  absl::Status status(known ? code : absl::StatusCode::kUnknown, Printable(message));
  status.SetPayload(kPayload, absl::Cord(details));
  return status;
}

// gRPC's words for a reply over the limit of this end.
constexpr char kTooLarge[] = "Received message larger than max";

bool Holds(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// What the connection's error means, after a semicolon; empty if it says so itself.
const char* WhyNotReached(const std::string& message) {
  constexpr std::pair<const char*, const char*> kMeanings[] = {
      {"Connection refused", "; nothing listens there: is vicinal-server running, and on this address?"},
      {"parsing HTTP/2",
       "; the program that listens there does not speak gRPC (the server's default port is 8500; 8502 is that of its "
       "metrics)"},
      {"certificate verify failed",
       "; the server's certificate is not signed by an authority that this client trusts, or is not valid now"},
      {"is not in peer certificate", "; the server's certificate is for other names: connect to one of them"},
      {"wrong version number", "; does the server use TLS?"},
      {"Socket closed",
       "; the server closed the connection: does it use TLS, or want a client certificate, or another one?"}};
  for (const auto& [part, meaning] : kMeanings) {
    if (Holds(message, part)) return meaning;
  }
  return "";
}

// gRPC's own words, which do not say where, nor what to look at.
std::string InContext(grpc::StatusCode code, const std::string& message, const std::string& target) {
  const std::string said = message.empty() ? "" : ": " + message;
  if (code == grpc::StatusCode::UNAVAILABLE && (Holds(message, "connect") || Holds(message, "DNS"))) {
    return absl::StrCat("cannot reach the server at ", target, said, WhyNotReached(message));
  }
  if (code == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::StrCat("the server at ", target, " did not answer in time", said);
  }
  if (code == grpc::StatusCode::RESOURCE_EXHAUSTED && Holds(message, kTooLarge)) {
    return absl::StrCat("the server at ", target, " sent a reply that is larger than this client accepts", said);
  }
  if (code == grpc::StatusCode::UNIMPLEMENTED) {
    return absl::StrCat("the program that listens at ", target, " does not know this call", said,
                        "; is it a vicinal-server of this version?");
  }
  return message;
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& target) {
  if (status.ok()) return absl::OkStatus();
  std::string message = status.error_message();
  // What a server of ours says has details.
  if (status.error_details().empty()) message = InContext(status.error_code(), message, target);
  return WithPayload(static_cast<absl::StatusCode>(status.error_code()), message, status.error_details());
}

absl::Status CallError(absl::StatusCode code, const std::string& message) { return WithPayload(code, message, ""); }

absl::Status LocalError(const absl::Status& status, const std::string& reason,
                        const std::map<std::string, std::string>& metadata) {
  v1::details::ErrorInfo info;
  info.set_reason(reason);
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  absl::Status local(status.code(), status.message());
  local.SetPayload(kLocalPayload, absl::Cord(info.SerializeAsString()));
  return local;
}

absl::Status AddToMessage(const absl::Status& status, const std::string& addition) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), addition));
  status.ForEachPayload(
      [&longer](absl::string_view type, const absl::Cord& payload) { longer.SetPayload(type, payload); });
  return longer;
}

bool IsCallError(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

bool IsBrokenOff(const absl::Status& status) {
  if (absl::IsUnavailable(status)) return true;
  if (Holds(std::string(status.message()), kTooLarge)) return false;
  return absl::IsResourceExhausted(status) && DetailsOf(status).reason.empty();
}

absl::Status WithUploadId(const absl::Status& status, const std::string& upload_id) {
  absl::Status with = status;
  with.SetPayload(kUploadPayload, absl::Cord(upload_id));
  return with;
}

std::string UploadIdOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kUploadPayload);
  return payload ? std::string(*payload) : std::string();
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  v1::details::ErrorInfo info;
  if (const auto local = status.GetPayload(kLocalPayload); local && info.ParseFromString(std::string(*local))) {
    details.reason = info.reason();
    for (const auto& [key, value] : info.metadata()) details.metadata[key] = value;
  }
  const auto payload = status.GetPayload(kPayload);
  v1::details::Status message;
  if (!payload || !message.ParseFromString(std::string(*payload))) return details;
  for (const google::protobuf::Any& any : message.details()) AddDetail(any, &details);
  return details;
}

std::string Describe(const absl::Status& status) {
  const std::string message(status.message());
  std::string text = IsCallError(status) ? absl::StrCat(CodeName(status.code()), ": ", message) : message;
  const ErrorDetails details = DetailsOf(status);
  if (!details.reason.empty() && details.reason != CodeName(status.code())) {
    absl::StrAppend(&text, "\n  reason: ", details.reason);
  }
  for (const auto& [field, description] : details.violations) {
    absl::StrAppend(&text, "\n  field: ", field);
    if (message.find(description) == std::string::npos) absl::StrAppend(&text, ": ", description);
  }
  for (const auto& [key, value] : details.metadata) absl::StrAppend(&text, "\n  ", key, ": ", value);
  if (details.retry_after_seconds) absl::StrAppend(&text, "\n  retry after: ", *details.retry_after_seconds, " s");
  return text;
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace vicinal::client
