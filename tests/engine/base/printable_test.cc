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

}  // namespace
}  // namespace vicinal
