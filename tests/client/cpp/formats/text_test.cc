// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/formats/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vicinal::client {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  LineReader reader(text);
  std::string_view line;
  while (reader.Next(&line)) lines.emplace_back(line);
  EXPECT_EQ(reader.number(), static_cast<int64_t>(lines.size()));
  return lines;
}

std::vector<std::string> Fields(std::string_view line, char separator) {
  LineFields fields;
  EXPECT_TRUE(SplitFields(line, separator, &fields)) << line;
  return {fields.values.begin(), fields.values.end()};
}

TEST(TextTest, LinesEndInAnyUsualWay) {
  EXPECT_THAT(Lines("a\nb\r\n\nc"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(Lines("a\n"), ElementsAre("a"));
  EXPECT_TRUE(Lines("").empty());
  EXPECT_THAT(Lines("\xEF\xBB\xBF"
                    "0 1\n\xEF\xBB\xBF"),
              ElementsAre("0 1", "\xEF\xBB\xBF"));  // only at the start
}

TEST(TextTest, Fields) {
  EXPECT_THAT(Fields("  a \t b  ", ' '), ElementsAre("a", "b"));
  EXPECT_THAT(Fields("a, b c ,\"d\",,", ','), ElementsAre("a", "b c", "d", "", ""));
  EXPECT_TRUE(Fields("   ", ' ').empty());
}

TEST(TextTest, QuotedFields) {
  EXPECT_THAT(Fields(R"("Doe, John",ann)", ','), ElementsAre("Doe, John", "ann"));
  EXPECT_THAT(Fields(R"("say ""hi""","""",2)", ','), ElementsAre("say \"hi\"", "\"", "2"));
  EXPECT_THAT(Fields(R"( " a " , b"c ,"")", ','), ElementsAre(" a ", "b\"c", ""));
  EXPECT_THAT(Fields(R"("a""","b""c""d")", ','), ElementsAre("a\"", "b\"c\"d"));
  EXPECT_THAT(Fields(R"("a, b" c)", ' '), ElementsAre("\"a,", "b\"", "c")) << "between spaces a quote is no mark";
  LineFields fields;
  for (const char* bad : {R"(")", R"("a)", R"("a"b,c)", R"("a"")", R"(x,"y)", R"("a"b")"}) {
    EXPECT_FALSE(SplitFields(bad, ',', &fields)) << bad;
  }
}

TEST(TextTest, NumbersAreWholeFields) {
  int64_t integer = 0;
  float number = 0;
  EXPECT_TRUE(ParseInt("-12", &integer) && integer == -12);
  EXPECT_TRUE(ParseInt("+7", &integer) && integer == 7);
  for (const char* bad : {"", "+", "12x", "1.0", "0x10", "9223372036854775808", " 1", "--1"}) {
    EXPECT_FALSE(ParseInt(bad, &integer)) << bad;
  }
  EXPECT_TRUE(ParseFloat("1e-3", &number) && number == 1e-3f);
  for (const char* bad : {"", "1,5", "1e", "one", "1e999"}) EXPECT_FALSE(ParseFloat(bad, &number)) << bad;
}

TEST(TextTest, CanonicalIntegersHaveOneForm) {
  int64_t value = 0;
  EXPECT_TRUE(IsCanonicalInt("0", &value));
  EXPECT_TRUE(IsCanonicalInt("-5", &value) && value == -5);
  for (const char* bad : {"", "-", "-0", "00", "01", "+1", "1 ", "a"}) EXPECT_FALSE(IsCanonicalInt(bad, &value)) << bad;
}

TEST(TextTest, Utf8) {
  for (const char* good : {"", "ascii", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xC3", "\xC3(", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                          "\xF8\x88\x80\x80\x80", "\xFF", "a\xE2\x82"}) {
    EXPECT_FALSE(IsUtf8(bad)) << ::testing::PrintToString(bad);
  }
}

}  // namespace
}  // namespace vicinal::client
