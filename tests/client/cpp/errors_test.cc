// SPDX-License-Identifier: Apache-2.0
// Details as the server packs them, damaged ones, and what a person reads.
#include "client/cpp/errors.h"

#include <gmock/gmock.h>
#include <google/protobuf/any.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "vicinal/v1/error_details.pb.h"

namespace vicinal::client {
namespace {

using ::testing::HasSubstr;

template <class T>
void Pack(const T& message, const std::string& url, v1::details::Status* status) {
  google::protobuf::Any* any = status->add_details();
  any->set_type_url(url);
  any->set_value(message.SerializeAsString());
}

grpc::Status FullStatus() {
  v1::details::Status details;
  v1::details::ErrorInfo info;
  info.set_reason("LIMIT_EXCEEDED");
  (*info.mutable_metadata())["limit"] = "max_nodes";
  Pack(info, "type.googleapis.com/google.rpc.ErrorInfo", &details);
  v1::details::BadRequest bad;
  bad.add_field_violations()->set_field("spec.node_count");
  bad.mutable_field_violations(0)->set_description("is above 100");
  Pack(bad, "type.googleapis.com/google.rpc.BadRequest", &details);
  v1::details::ResourceInfo resource;
  resource.set_resource_type("graph");
  resource.set_resource_name("g");
  Pack(resource, "type.googleapis.com/google.rpc.ResourceInfo", &details);
  v1::details::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  Pack(retry, "type.googleapis.com/google.rpc.RetryInfo", &details);
  Pack(info, "type.googleapis.com/google.rpc.Unheard", &details);
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many nodes", details.SerializeAsString()};
}

TEST(ErrorsTest, DetailsComeThrough) {
  const absl::Status status = FromGrpcStatus(FullStatus(), "host:1");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(IsCallError(status));
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, "LIMIT_EXCEEDED");
  EXPECT_EQ(details.metadata.at("limit"), "max_nodes");
  ASSERT_EQ(details.violations.size(), 1u);
  EXPECT_EQ(details.violations[0].first, "spec.node_count");
  EXPECT_EQ(details.resource_name, "g");
  EXPECT_EQ(details.retry_after_seconds, 1.5);
  EXPECT_EQ(Describe(status),
            "RESOURCE_EXHAUSTED: too many nodes\n  reason: LIMIT_EXCEEDED\n  field: spec.node_count: is above 100\n"
            "  limit: max_nodes\n  retry after: 1.5 s");
}

TEST(ErrorsTest, StatusWithoutOrWithDamagedDetails) {
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK, "host:1").ok());
  const absl::Status plain = FromGrpcStatus({grpc::StatusCode::NOT_FOUND, "gone"}, "host:1");
  EXPECT_TRUE(IsCallError(plain));
  EXPECT_EQ(Describe(plain), "NOT_FOUND: gone");
  const absl::Status damaged = FromGrpcStatus({grpc::StatusCode::INTERNAL, "m", "\xFF\xFF\xFF"}, "host:1");
  EXPECT_EQ(DetailsOf(damaged).reason, "");
  EXPECT_EQ(Describe(damaged), "INTERNAL: m");
}

TEST(ErrorsTest, ErrorsOfThisSideAreTold) {
  const absl::Status local = absl::InvalidArgumentError("f.txt:3: no");
  EXPECT_FALSE(IsCallError(local));
  EXPECT_EQ(Describe(local), "f.txt:3: no");
}

TEST(ErrorsTest, WhatIsBrokenOffIsNotRefused) {
  using grpc::StatusCode;
  EXPECT_TRUE(IsBrokenOff(FromGrpcStatus({StatusCode::UNAVAILABLE, "GOAWAY received"}, "")));
  EXPECT_TRUE(IsBrokenOff(FromGrpcStatus({StatusCode::RESOURCE_EXHAUSTED, "Received RST_STREAM"}, "")));
  EXPECT_FALSE(IsBrokenOff(FromGrpcStatus(FullStatus(), "")));
  EXPECT_FALSE(IsBrokenOff(FromGrpcStatus({StatusCode::ABORTED, ""}, "")));
  EXPECT_FALSE(IsBrokenOff(absl::OkStatus()));
}

TEST(ErrorsTest, AnUploadsIdStaysWithItsError) {
  const absl::Status refused = FromGrpcStatus(FullStatus(), "");
  EXPECT_EQ(UploadIdOf(refused), "");
  EXPECT_EQ(UploadIdOf(absl::OkStatus()), "");
  const absl::Status longer = AddToMessage(WithUploadId(refused, "upload-7"), "; node 3 is 'ann'");
  EXPECT_EQ(UploadIdOf(longer), "upload-7");
  EXPECT_EQ(DetailsOf(longer).reason, "LIMIT_EXCEEDED");
  EXPECT_EQ(longer.message(), "too many nodes; node 3 is 'ann'");
}

TEST(ErrorsTest, AnUnreachableServerIsNamed) {
  const absl::Status status =
      FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, "failed to connect to all addresses"}, "h:1");
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot reach the server at h:1"));
  const absl::Status busy = FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, "the queue is full"}, "h:1");
  EXPECT_EQ(busy.message(), "the queue is full");
  const auto told = [](grpc::StatusCode code, const char* message, const char* details = "") {
    return std::string(FromGrpcStatus({code, message, details}, "h:1").message());
  };
  EXPECT_THAT(told(grpc::StatusCode::UNAVAILABLE, "DNS resolution failed for h:1"),
              HasSubstr("the server at h:1: DNS"));
  EXPECT_THAT(told(grpc::StatusCode::UNAVAILABLE, "failed to connect: Connection refused"),
              HasSubstr("is vicinal-server running, and on this address?"));
  EXPECT_THAT(told(grpc::StatusCode::UNAVAILABLE, "failed to connect: Failed parsing HTTP/2"),
              HasSubstr("does not speak gRPC (the server's default port is 8500; 8502 is that of its metrics)"));
  EXPECT_EQ(told(grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"),
            "the server at h:1 did not answer in time: Deadline Exceeded");
  EXPECT_EQ(told(grpc::StatusCode::DEADLINE_EXCEEDED, "it waited", "details"), "it waited") << "the server's own words";
  EXPECT_EQ(told(grpc::StatusCode::UNIMPLEMENTED, ""),
            "the program that listens at h:1 does not know this call; is it a vicinal-server of this version?");
}

}  // namespace
}  // namespace vicinal::client
