// SPDX-License-Identifier: Apache-2.0
#include "server/errors.h"

#include <google/protobuf/arena.h>

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

// Many small messages and strings are made for each error, and under overload ten thousand errors a second: they share
// one block, which lies on the stack unless names are long.
class DetailsArena {
 public:
  template <class T>
  T* Make() {
    return google::protobuf::Arena::CreateMessage<T>(&arena_);
  }

 private:
  static google::protobuf::ArenaOptions WithBlock(char* block) {
    google::protobuf::ArenaOptions options;
    options.initial_block = block;
    options.initial_block_size = kBytes;
    return options;
  }
  static constexpr size_t kBytes = 2048;
  alignas(8) char block_[kBytes];
  google::protobuf::Arena arena_{WithBlock(block_)};
};

template <class T>
void Pack(const T& message, const char* type_url, v1::details::Status* status) {
  google::protobuf::Any* any = status->add_details();
  any->set_type_url(type_url);
  message.SerializeToString(any->mutable_value());
}

void AddDetails(const ErrorDetail& detail, DetailsArena* arena, v1::details::Status* out) {
  if (!detail.reason.empty()) {
    auto* info = arena->Make<v1::details::ErrorInfo>();
    info->set_reason(detail.reason);
    info->set_domain("vicinal.dev");
    for (const auto& [key, value] : detail.metadata) (*info->mutable_metadata())[key] = Shortened(value, kMaxName);
    Pack(*info, "type.googleapis.com/google.rpc.ErrorInfo", out);
  }
  if (!detail.field.empty()) {
    auto* bad_request = arena->Make<v1::details::BadRequest>();
    auto* violation = bad_request->add_field_violations();
    violation->set_field(Shortened(detail.field, kMaxName));
    violation->set_description(out->message());
    Pack(*bad_request, "type.googleapis.com/google.rpc.BadRequest", out);
  }
  if (!detail.resource_type.empty()) {
    auto* resource = arena->Make<v1::details::ResourceInfo>();
    resource->set_resource_type(detail.resource_type);
    resource->set_resource_name(Shortened(detail.resource_name, kMaxName));
    Pack(*resource, "type.googleapis.com/google.rpc.ResourceInfo", out);
  }
  if (detail.retry_after) {
    auto* retry = arena->Make<v1::details::RetryInfo>();
    retry->mutable_retry_delay()->set_seconds(detail.retry_after->count() / 1000);
    retry->mutable_retry_delay()->set_nanos(static_cast<int32_t>(detail.retry_after->count() % 1000 * 1'000'000));
    Pack(*retry, "type.googleapis.com/google.rpc.RetryInfo", out);
  }
}

void FillDetails(const Status& status, DetailsArena* arena, v1::details::Status* details) {
  details->set_code(static_cast<int32_t>(status.code()));
  details->set_message(ShortenedMessage(status.message()));
  if (const auto detail = DetailOf(status)) AddDetails(*detail, arena, details);
}

}  // namespace

v1::details::Status ToDetails(const Status& status) {
  DetailsArena arena;
  v1::details::Status details;
  FillDetails(status, &arena, &details);
  return details;
}

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  DetailsArena arena;
  auto* const details = arena.Make<v1::details::Status>();
  FillDetails(status, &arena, details);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), details->message(), details->SerializeAsString());
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
