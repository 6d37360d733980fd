// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/formats/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace vicinal::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EXPECT_TRUE(SplitFields(line, separator, &fields).ok()) << line;
  return {fields.values.begin(), fields.values.end()};
}

// What is wrong with a line between commas.
std::string FieldsFault(std::string_view line) {
  LineFields fields;
  return std::string(SplitFields(line, ',', &fields).message());
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
  EXPECT_EQ(FieldsFault(R"(x,"y z)"),
            "the field that begins with '\"y z' has no closing double quote on this line: add it; if the field "
            "contains a line break, "
            "replace that with a space, because ids contain no line breaks");
  EXPECT_EQ(FieldsFault(R"("a" b,c)"),
            "a field in double quotes is followed by 'b,c' instead of a comma: write quotes within such a field "
            "twice (\"say \"\"hi\"\"\")");
  for (const char* open : {R"(")", R"("a)", R"("a"")"}) EXPECT_THAT(FieldsFault(open), HasSubstr("no closing")) << open;
  EXPECT_THAT(FieldsFault(R"("a"b")"), HasSubstr("instead of a comma"));
}

TEST(TextTest, FieldsAreQuotedWhereTheyMustBe) {
  for (const char* bare : {"ann", "New York", "b\"c", "#tag", "it's", "a;b"}) EXPECT_EQ(QuoteField(bare), bare);
  EXPECT_EQ(QuoteField("Doe, John"), "\"Doe, John\"");
  EXPECT_EQ(QuoteField("\"ann\""), "\"\"\"ann\"\"\"");
  for (const char* word : {"", " a", "a\t", "a,b", ",", "\"", "\",\"", "say \"hi\"", "\xC3\xA9"}) {
    EXPECT_THAT(Fields(QuoteField(word), ','), ElementsAre(word));
    EXPECT_THAT(Fields(QuoteField(word) + "," + QuoteField(word), ','), ElementsAre(word, word));
  }
}

TEST(TextTest, WhateverIsQuotedIsReadBack) {
  std::mt19937 random(7);
  const std::string alphabet("a\" ,\t'#\xC3;", 9);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> words(1 + random() % 3);
    std::string line;
    for (std::string& word : words) {
      for (size_t left = random() % 6; left > 0; --left) word += alphabet[random() % alphabet.size()];
      line += (line.empty() ? "" : ",") + QuoteField(word);
    }
    ASSERT_EQ(Fields(line, ','), words) << line;
  }
}

TEST(TextTest, WordsInMessagesAreShortAndHarmless) {
  EXPECT_EQ(Shown("ann"), "'ann'");
  EXPECT_EQ(Shown("a\x1B[2Jb\r\x7F"),
            "'a?[2Jb?"
            "?'");
  EXPECT_EQ(Shown(std::string(41, 'x')), "'" + std::string(40, 'x') + "...'");
  EXPECT_EQ(Shown(std::string(39, 'x') + "\xC3\xA9"), "'" + std::string(39, 'x') + "...'") << "a character stays whole";
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
