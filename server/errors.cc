// SPDX-License-Identifier: Apache-2.0
#include "server/errors.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {
namespace {

// Trailers are HTTP/2 headers, of which clients accept 8 KiB in total. They contain the message three times: once by
// itself, where bytes other than printable ASCII take three, and twice in the details, in base64.
constexpr size_t kMaxMessage = 1500;
constexpr size_t kMaxEncodedMessage = 2000;
// Names of fields and resources, which clients choose and which may be long.
constexpr size_t kMaxName = 200;

std::string Shortened(absl::string_view message, size_t max) {
  std::string text(message.substr(0, max));
  if (text.size() == message.size()) return text;
  // Not in the middle of a character.
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.pop_back();
  return text + " ...";
}

// Like Shortened, and at most kMaxEncodedMessage bytes in a header.
std::string ShortenedMessage(absl::string_view message) {
  size_t encoded = 0, most = 0;
  while (most < message.size() && encoded <= kMaxEncodedMessage) {
    const char c = message[most++];
    encoded += c < ' ' || c > '~' || c == '%' ? 3 : 1;
  }
  return Shortened(message, std::min(most, kMaxMessage));
}

template <class T>
void Pack(const T& message, const char* name, v1::details::Status* status) {
  google::protobuf::Any* any = status->add_details();
  any->set_type_url(std::string("type.googleapis.com/google.rpc.") + name);
  any->set_value(message.SerializeAsString());
}

void AddDetails(const ErrorDetail& detail, const std::string& message, v1::details::Status* out) {
  v1::details::ErrorInfo info;
  info.set_reason(detail.reason);
  info.set_domain("vicinal.dev");
  for (const auto& [key, value] : detail.metadata) (*info.mutable_metadata())[key] = Shortened(value, kMaxName);
  if (!detail.reason.empty()) Pack(info, "ErrorInfo", out);
  if (!detail.field.empty()) {
    v1::details::BadRequest bad_request;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(Shortened(detail.field, kMaxName));
    violation->set_description(message);
    Pack(bad_request, "BadRequest", out);
  }
  if (!detail.resource_type.empty()) {
    v1::details::ResourceInfo resource;
    resource.set_resource_type(detail.resource_type);
    resource.set_resource_name(Shortened(detail.resource_name, kMaxName));
    Pack(resource, "ResourceInfo", out);
  }
  if (detail.retry_after) {
    v1::details::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(detail.retry_after->count() / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(detail.retry_after->count() % 1000 * 1'000'000));
    Pack(retry, "RetryInfo", out);
  }
}

}  // namespace

v1::details::Status ToDetails(const Status& status) {
  v1::details::Status details;
  details.set_code(static_cast<int32_t>(status.code()));
  details.set_message(ShortenedMessage(status.message()));
  if (const auto detail = DetailOf(status)) AddDetails(*detail, details.message(), &details);
  return details;
}

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const v1::details::Status details = ToDetails(status);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), details.message(), details.SerializeAsString());
}

Status NoMessage(std::string_view method) {
  return InvalidArgument("BAD_MESSAGE", "", absl::StrCat("no message came; ", std::string(method), " needs one"));
}

Status BadMessage(std::string_view method, int64_t number, size_t bytes) {
  return InvalidArgument(
      "BAD_MESSAGE", "",
      absl::StrCat("message ", number, " of the call (", bytes, " bytes) is not valid Protobuf of the type of ",
                   std::string(method),
                   "; is it truncated, of another method, or generated from another .proto than the server's?"));
}

std::optional<std::chrono::milliseconds> PushbackOf(const Status& status) {
  if (status.code() != StatusCode::kUnavailable) return std::nullopt;
  const auto detail = DetailOf(status);
  return detail ? detail->retry_after : std::nullopt;
}

}  // namespace vicinal::server
