// SPDX-License-Identifier: Apache-2.0
#include "engine/base/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace vicinal {
namespace {

TEST(PrintableTest, OrdinaryTextStays) {
  EXPECT_EQ(Printable("a-graph 1~"), "a-graph 1~");
  EXPECT_EQ(Quoted("g"), "'g'");
  EXPECT_EQ(Quoted(""), "''");
}

TEST(PrintableTest, OtherBytesAreMarked) {
  EXPECT_EQ(Printable(std::string("a\x1b[2J\n\0\x7f\xc3\xa9", 10)), "a?[2J??\?\??");
  EXPECT_EQ(Quoted("\r"), "'?'");
}

TEST(PrintableTest, LongTextIsCut) {
  EXPECT_EQ(Printable(std::string(80, 'n')), std::string(80, 'n'));
  EXPECT_EQ(Printable(std::string(81, 'n')), std::string(80, 'n') + "...");
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
  EXPECT_EQ(Quoted(std::string(1000, 'n')), "'" + std::string(80, 'n') + "...'");
}

TEST(PrintableTest, EscapesTellWhichCharacterItIs) {
  using namespace std::string_view_literals;
  EXPECT_EQ(Escaped("a ~"), "a ~");
  EXPECT_EQ(Escaped("\0"sv), "\\x00");
  EXPECT_EQ(Escaped("\n\x1b\x7f"), "\\x0a\\x1b\\x7f");
  EXPECT_EQ(Escaped("\xc3\xa9"), "\\u00e9");
  EXPECT_EQ(Escaped("\xe2\x88\x92"), "\\u2212") << "a minus sign that is none";
  EXPECT_EQ(Escaped("\xf0\x9f\x98\x80"), "\\U0001f600");
  // Not UTF-8: cut off, longer than it need be, a surrogate, past the last character.
  EXPECT_EQ(Escaped("\xc3"), "\\xc3");
  EXPECT_EQ(Escaped("\xc0\x80"), "\\xc0\\x80");
  EXPECT_EQ(Escaped("\xe0\x80\x80"), "\\xe0\\x80\\x80");
  EXPECT_EQ(Escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(Escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace vicinal
