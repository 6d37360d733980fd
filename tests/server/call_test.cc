// SPDX-License-Identifier: Apache-2.0
#include "server/call.h"

#include <gtest/gtest.h>

#include <set>

namespace vicinal::server {
namespace {

TEST(CallTest, AMessageOfAStreamHasTheStreamsCallerAndItsOwnTime) {
  Call stream;
  stream.method = Method::kModelStreamInfer;
  stream.request_id = "r";
  stream.principal = "web";
  stream.interactive = false;
  stream.RouteTo("g");
  stream.limits.deadline = MonotonicTime(std::chrono::seconds(9));
  stream.graph = "of another message";
  const Call one = stream.ForMessage(MonotonicTime(std::chrono::seconds(5)), 70);
  EXPECT_EQ(one.method, Method::kModelStreamInfer);
  EXPECT_EQ(one.request_id, "r");
  EXPECT_EQ(one.principal, "web");
  EXPECT_FALSE(one.interactive);
  EXPECT_TRUE(one.CheckGraph("g").ok());
  EXPECT_FALSE(one.CheckGraph("h").ok());
  EXPECT_EQ(one.limits.deadline, stream.limits.deadline);
  EXPECT_EQ(one.begin, MonotonicTime(std::chrono::seconds(5)));
  EXPECT_EQ(one.graph, "");
  EXPECT_EQ(one.message_bytes, 70);
}

TEST(CallTest, TraceIds) {
  const std::string id = "4bf92f3577b34da6a3ce929d0e0e4736";
  EXPECT_EQ(TraceIdOf("00-" + id + "-00f067aa0ba902b7-01"), id);
  EXPECT_EQ(TraceIdOf("01-" + id + "-00f067aa0ba902b7-01-more"), id);  // a later version may have more fields
  for (const std::string& bad :
       {std::string(), "00-" + id + "-00f067aa0ba902b7-01-more", "ff-" + id + "-00f067aa0ba902b7-01",
        "00-" + std::string(32, '0') + "-00f067aa0ba902b7-01", "00-" + std::string(32, 'G') + "-00f067aa0ba902b7-01",
        std::string(55, '-')}) {
    EXPECT_EQ(TraceIdOf(bad), "") << bad;
  }
}

TEST(CallTest, RequestIds) {
  EXPECT_TRUE(IsUsableRequestId("req-1"));
  EXPECT_FALSE(IsUsableRequestId(""));
  EXPECT_FALSE(IsUsableRequestId("a b"));
  EXPECT_FALSE(IsUsableRequestId(std::string(129, 'a')));
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(NewRequestId());
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(ids.begin()->size(), 16u);
}

// gRPC rounds a timeout of 1,234 ms up to 1,240 ms: the server's deadline, while the client cancels at its own.
TEST(CallTest, ACallThatEndsAboutWhenItsDeadlinePassesHasExpired) {
  using std::chrono::milliseconds;
  Call call;
  const MonotonicTime begin = call.begin = MonotonicTime(std::chrono::seconds(100));
  EXPECT_FALSE(call.EndedByDeadline(begin + std::chrono::hours(1))) << "it has none";
  call.limits.deadline = begin + milliseconds(1240);
  EXPECT_FALSE(call.EndedByDeadline(begin));
  EXPECT_FALSE(call.EndedByDeadline(begin + milliseconds(1180)));
  EXPECT_TRUE(call.EndedByDeadline(begin + milliseconds(1234)));
  EXPECT_TRUE(call.EndedByDeadline(begin + milliseconds(1240)));
  EXPECT_TRUE(call.EndedByDeadline(begin + milliseconds(5000)));
  call.limits.deadline = begin + milliseconds(20);
  EXPECT_FALSE(call.EndedByDeadline(begin + milliseconds(10)));
  EXPECT_TRUE(call.EndedByDeadline(begin + milliseconds(19)));
}

TEST(CallTest, RoutingMetadataMustAgree) {
  Call call;
  EXPECT_TRUE(call.CheckGraph("g").ok());
  call.routed_graph = "g";
  EXPECT_TRUE(call.CheckGraph("g").ok());
  EXPECT_EQ(call.CheckGraph("h").code(), StatusCode::kInvalidArgument);
}

TEST(CallTest, RoutingMetadataThatDiffersIsRefusedWhicheverCameFirst) {
  Call call;
  call.RouteTo("g");
  call.RouteTo("g");
  EXPECT_TRUE(call.CheckGraph("g").ok());
  call.RouteTo("h");
  EXPECT_EQ(call.CheckGraph("g").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(call.CheckGraph("h").code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace vicinal::server
