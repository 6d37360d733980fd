// SPDX-License-Identifier: Apache-2.0
// Files that are no text as the readers of lines take it.
#include "client/cpp/formats/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vicinal::client {
namespace {

using ::testing::HasSubstr;

std::string TextFault(std::string_view text) { return std::string(CheckText(text, "f.txt").message()); }

TEST(FilesTest, TextEndsItsLinesWithLfOrCrLf) {
  for (const char* good : {"", "a", "a\nb\n", "a\r\nb\r\n", "a\r\nb\r",
                           "\xEF\xBB\xBF"
                           "a\n",
                           "\xFF\n"}) {
    EXPECT_EQ(TextFault(good), "") << ::testing::PrintToString(good);
  }
  EXPECT_THAT(TextFault("a\rb\rc\r"), HasSubstr("f.txt:1: holds a carriage return (CR) without a line feed (LF)"));
  EXPECT_THAT(TextFault("a\rb"), HasSubstr("tr '\\r' '\\n'"));
  EXPECT_THAT(TextFault("a\r\nb\n# c\rd\n"), HasSubstr("f.txt:3: "));
}

TEST(FilesTest, BytesThatNoTextHas) {
  EXPECT_EQ(TextFault("\xFF\xFE"
                      "0"),
            "f.txt: is text in UTF-16: save it as UTF-8");
  EXPECT_EQ(TextFault("\xFE\xFF"
                      "0"),
            "f.txt: is text in UTF-16: save it as UTF-8");
  EXPECT_EQ(TextFault(std::string_view("0 1\n1 \0", 7)), "f.txt:2: holds a byte 0, so this is no text file");
}

TEST(FilesTest, WhatCannotBeReadSaysWhy) {
  EXPECT_EQ(ReadFile("/nonexistent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadFile(::testing::TempDir()).status().message()), HasSubstr("Is a directory"));
  EXPECT_THAT(std::string(ReadFile("/dev/zero").status().message()), HasSubstr("a device, not a file"));
}

TEST(FilesTest, WhatCannotBeWrittenIsKnownBefore) {
  const std::string path = ::testing::TempDir() + "/files_test_out";
  ASSERT_TRUE(WriteFile(path, "kept").ok());
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(*ReadFile(path), "kept");
  EXPECT_TRUE(CheckWritable(path + "_new").ok());
  EXPECT_FALSE(ReadFile(path + "_new").ok()) << "it is not left there";
  EXPECT_THAT(std::string(CheckWritable(path + "/under").message()), HasSubstr("cannot write"));
  EXPECT_THAT(std::string(CheckWritable(::testing::TempDir()).message()), HasSubstr("Is a directory"));
  EXPECT_TRUE(CheckWritable("/dev/null").ok());
}

}  // namespace
}  // namespace vicinal::client
