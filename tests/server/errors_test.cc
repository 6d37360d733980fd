// SPDX-License-Identifier: Apache-2.0
#include "server/errors.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/base/error.h"
#include "vicinal/v1/error_details.pb.h"

namespace vicinal::server {
namespace {

std::map<std::string, std::string> DetailsOf(const grpc::Status& status) {
  v1::details::Status message;
  EXPECT_TRUE(message.ParseFromString(status.error_details()));
  EXPECT_EQ(message.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(message.message(), status.error_message());
  std::map<std::string, std::string> details;
  for (const auto& any : message.details()) details[any.type_url()] = any.value();
  return details;
}

TEST(ErrorsTest, EachPartBecomesItsMessage) {
  ErrorDetail detail;
  detail.reason = "REASON";
  detail.field = "nodes.ids[3]";
  detail.resource_type = "graph";
  detail.resource_name = "g";
  detail.retry_after = std::chrono::milliseconds(1500);
  detail.metadata = {{"limit", "max_nodes"}};
  const grpc::Status status = ToGrpc(MakeError(StatusCode::kResourceExhausted, "no room", detail));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto details = DetailsOf(status);
  v1::details::ErrorInfo info;
  ASSERT_TRUE(info.ParseFromString(details.at("type.googleapis.com/google.rpc.ErrorInfo")));
  EXPECT_EQ(info.reason(), "REASON");
  EXPECT_EQ(info.domain(), "vicinal.dev");
  EXPECT_EQ(info.metadata().at("limit"), "max_nodes");
  v1::details::BadRequest bad;
  ASSERT_TRUE(bad.ParseFromString(details.at("type.googleapis.com/google.rpc.BadRequest")));
  EXPECT_EQ(bad.field_violations(0).field(), "nodes.ids[3]");
  v1::details::ResourceInfo resource;
  ASSERT_TRUE(resource.ParseFromString(details.at("type.googleapis.com/google.rpc.ResourceInfo")));
  EXPECT_EQ(resource.resource_name(), "g");
  v1::details::RetryInfo retry;
  ASSERT_TRUE(retry.ParseFromString(details.at("type.googleapis.com/google.rpc.RetryInfo")));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

TEST(ErrorsTest, PushbackIsForUnavailableOnly) {
  EXPECT_EQ(PushbackOf(Unavailable("QUEUE_FULL", "full", std::chrono::milliseconds(20)))->count(), 20);
  EXPECT_FALSE(PushbackOf(ResourceExhausted("BUDGET_FULL", "full", std::chrono::milliseconds(20))).has_value());
  EXPECT_FALSE(PushbackOf(OkStatus()).has_value());
}

TEST(ErrorsTest, LongMessagesAreCutBetweenCharacters) {
  std::string text;
  while (text.size() < 5000) text += "\xc3\xa9";
  const grpc::Status status = ToGrpc(InvalidArgument("LONG", "x", "a" + text));
  EXPECT_LT(status.error_message().size(), 1600u);
  EXPECT_LT(status.error_details().size(), 4096u);
  EXPECT_EQ(status.error_message().substr(status.error_message().size() - 4), " ...");
  EXPECT_EQ((status.error_message().size() - 5) % 2, 0u);
  EXPECT_TRUE(ToGrpc(OkStatus()).ok());
}

// What the trailers of the worst messages take on the wire: percent-encoded (gRPC over HTTP2, "Status-Message") and in
// base64, as clients that take 8 KiB of headers count them.
TEST(ErrorsTest, TrailersFitTheHeadersOfEveryClient) {
  for (const std::string piece : {"\xc3\xa9", "\xe5\x90\x8d", "\x01", "%", "a"}) {
    std::string text;
    while (text.size() < 5000) text += piece;
    ErrorDetail detail;
    detail.reason = "LONG";
    detail.field = text;
    detail.resource_type = "graph";
    detail.resource_name = text;
    const grpc::Status status = ToGrpc(MakeError(StatusCode::kInvalidArgument, text, detail));
    size_t encoded = 0;
    for (const unsigned char c : status.error_message()) encoded += c >= 0x20 && c <= 0x7e && c != '%' ? 1 : 3;
    EXPECT_LT(encoded + status.error_details().size() * 4 / 3, 7500u) << piece;
    EXPECT_GT(status.error_message().size(), 600u) << piece;
  }
}

}  // namespace
}  // namespace vicinal::server
