// SPDX-License-Identifier: Apache-2.0
// Errors carry their details through every seam.
#include "engine/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vicinal {
namespace {

using ::testing::HasSubstr;

TEST(Error, DetailSurvivesTheStatus) {
  ErrorDetail detail;
  detail.reason = "SOME_REASON";
  detail.field = "nodes.ids[3]";
  detail.resource_type = "graph";
  detail.resource_name = "cora";
  detail.retry_after = std::chrono::milliseconds(250);
  detail.metadata = {{"offset", "4096"}, {"limit", "100"}};
  const Status status = MakeError(StatusCode::kAborted, "went wrong", detail);
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_EQ(status.message(), "went wrong");
  EXPECT_EQ(DetailOf(status), detail);
}

TEST(Error, MetadataIsAdded) {
  ErrorDetail detail;
  detail.reason = "SOME_REASON";
  detail.metadata = {{"limit", "100"}};
  const Status status = WithMetadata(MakeError(StatusCode::kAborted, "went wrong", detail), "node", "7");
  EXPECT_EQ(status.message(), "went wrong");
  detail.metadata["node"] = "7";
  EXPECT_EQ(DetailOf(status), detail);
  EXPECT_EQ(DetailOf(WithMetadata(Status(StatusCode::kInternal, "plain"), "node", "7"))->metadata.size(), 1u);
}

TEST(Error, NamesThatAreNotUtf8DoNotThrow) {
  const std::string name = "caf\xe9 \xff\xfe \"quoted\" \n";
  const Status status = NotFound("graph", name);
  ASSERT_TRUE(DetailOf(status).has_value());
  EXPECT_THAT(DetailOf(status)->resource_name, HasSubstr("caf"));
}

TEST(Error, StatusWithoutDetailHasNone) {
  EXPECT_FALSE(DetailOf(OkStatus()).has_value());
  EXPECT_FALSE(DetailOf(Status(StatusCode::kInternal, "plain")).has_value());
}

TEST(Error, AnnotateKeepsCodeAndDetail) {
  const Status status = Annotate(InvalidArgument("BAD_SHAPE", "x", "x is bent"), "layer 'conv1'");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "layer 'conv1': x is bent");
  EXPECT_EQ(DetailOf(status)->reason, "BAD_SHAPE");
  EXPECT_EQ(DetailOf(status)->field, "x");
  EXPECT_TRUE(Annotate(OkStatus(), "prefix").ok());
}

TEST(Error, CodesOfTheCommonOnes) {
  EXPECT_EQ(InvalidArgument("R", "f", "m").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(NotFound("graph", "g").code(), StatusCode::kNotFound);
  EXPECT_EQ(AlreadyExists("graph", "g", "set replace").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(FailedPrecondition("R", "m").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Internal("m").code(), StatusCode::kInternal);
  EXPECT_EQ(Unavailable("R", "m", std::chrono::milliseconds(5)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(DeadlineExceeded("R", "m").code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(DetailOf(DeadlineExceeded("R", "m"))->reason, "R");
  EXPECT_EQ(ResourceExhausted("R", "m", std::chrono::milliseconds(5)).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(Unavailable("R", "m", std::chrono::milliseconds(5)))->retry_after, std::chrono::milliseconds(5));
}

TEST(Error, OverLimitNamesTheFlagAndBothNumbers) {
  const Status status = OverLimit("max_nodes", "graph.num_nodes", 12, 10);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--max_nodes"));
  const ErrorDetail detail = *DetailOf(status);
  EXPECT_EQ(detail.reason, "LIMIT_EXCEEDED");
  EXPECT_EQ(detail.metadata.at("limit"), "max_nodes");
  EXPECT_EQ(detail.metadata.at("value"), "12");
  EXPECT_EQ(detail.metadata.at("maximum"), "10");
}

TEST(Error, HintsSayHowToMend) {
  EXPECT_THAT(std::string(NotFound("graph", "g", "upload it first").message()), HasSubstr("upload it first"));
  EXPECT_THAT(std::string(AlreadyExists("model", "m", "set replace").message()), HasSubstr("set replace"));
}

}  // namespace
}  // namespace vicinal
