// SPDX-License-Identifier: Apache-2.0
// Errors carry their details through every seam.
#include "engine/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

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

// Expected texts from the table of well-formed sequences of the Unicode standard (3-7).
TEST(Error, WhatIsNotUtf8IsReplacedByteByByte) {
  const std::string bad = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> cases[] = {
      {"plain", "plain"},
      {"caf\xC3\xA9", "caf\xC3\xA9"},
      {"\xE2\x82\xAC\xF0\x9F\x98\x80", "\xE2\x82\xAC\xF0\x9F\x98\x80"},
      {"\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF", "\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"},
      {"caf\xE9 ", "caf" + bad + " "},
      {"\xC3", bad},                                // cut
      {"\xE2\x82", bad + bad},                      // cut
      {"\xC0\xAF", bad + bad},                      // overlong
      {"\xE0\x9F\xBF", bad + bad + bad},            // overlong
      {"\xF0\x8F\xBF\xBF", bad + bad + bad + bad},  // overlong
      {"\xED\xA0\x80", bad + bad + bad},            // a surrogate
      {"\xF4\x90\x80\x80", bad + bad + bad + bad},  // beyond the last character
      {"\xF5\xFF", bad + bad},
      {std::string("a\0b", 3), std::string("a\0b", 3)},
  };
  for (const auto& [given, expected] : cases) {
    const ErrorDetail detail = *DetailOf(WithMetadata(NotFound("graph", given), given, given));
    EXPECT_EQ(detail.resource_name, expected);
    EXPECT_EQ(detail.metadata, (std::map<std::string, std::string>{{expected, expected}}));
  }
}

TEST(Error, EmptyAndOddDetailsSurvive) {
  ErrorDetail detail;
  EXPECT_EQ(DetailOf(MakeError(StatusCode::kAborted, "", detail)), detail);
  detail.retry_after = std::chrono::milliseconds(0);
  detail.metadata = {{"", ""}, {"a", std::string(5000, 'x')}, {std::string(300, 'k'), "vicinal.dev/error-detail"}};
  EXPECT_EQ(DetailOf(MakeError(StatusCode::kAborted, "", detail)), detail);
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
