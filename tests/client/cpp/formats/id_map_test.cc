// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/formats/id_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cpp/formats/files.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::client {
namespace {

using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  static const TemporaryDirectory folder;
  return folder / name;
}

// What is wrong with a file of ids.
std::string LoadFault(const std::string& text) {
  const std::string path = Path("bad.txt");
  EXPECT_TRUE(WriteFile(path, text).ok());
  const auto map = IdMap::Load(path);
  return map.ok() ? "it was read" : std::string(map.status().message());
}

TEST(IdMapTest, ThereAndBack) {
  const auto map = IdMap::FromIds({"alice", "42", "New York", "\xC3\xA9tienne"});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->size(), 4);
  EXPECT_EQ(map->NodeOf("New York"), 2);
  EXPECT_EQ(map->NodeOf("new york"), std::nullopt);
  EXPECT_EQ(map->IdOf(3), "\xC3\xA9tienne");

  const std::string path = Path("back.txt");
  ASSERT_TRUE(map->Save(path, "graph g, version 1").ok());
  const auto loaded = IdMap::Load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->header(), "graph g, version 1");
  EXPECT_EQ(loaded->size(), 4);
  EXPECT_EQ(loaded->NodeOf("42"), 1);
}

TEST(IdMapTest, FilesOfOthersHaveNoHeader) {
  const std::string path = Path("plain.txt");
  ASSERT_TRUE(WriteFile(path, "# first\r\nsecond\r\n").ok());
  const auto map = IdMap::Load(path);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->header(), "");
  EXPECT_EQ(map->NodeOf("# first"), 0);
  EXPECT_EQ(map->NodeOf("second"), 1);
}

TEST(IdMapTest, IdsAreQuotedAsInEdgeLists) {
  const std::string path = Path("quoted.txt");
  ASSERT_TRUE(WriteFile(path, "\"Doe, John\"\r\n\"say \"\"hi\"\"\"\n  ann \n\" ann \"\nb\"c\n").ok());
  const auto map = IdMap::Load(path);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->NodeOf("Doe, John"), 0);
  EXPECT_EQ(map->NodeOf("say \"hi\""), 1);
  EXPECT_EQ(map->NodeOf("ann"), 2);
  EXPECT_EQ(map->NodeOf(" ann "), 3);
  EXPECT_EQ(map->NodeOf("b\"c"), 4);
}

TEST(IdMapTest, WhateverAnIdHoldsComesBack) {
  const std::vector<std::string> ids = {"# vicinal ids: ", "Doe, John", "\"ann\"", "\"", " a", "a\t", ",", "it's"};
  const std::string path = Path("odd.txt");
  ASSERT_TRUE(IdMap::FromIds(ids)->Save(path, "a header").ok());
  const auto map = IdMap::Load(path);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->size(), static_cast<int64_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(map->IdOf(static_cast<int64_t>(i)), ids[i]);
  EXPECT_EQ(map->Digest(), IdMap::FromIds(ids)->Digest());
}

// The figures were made bit by bit by another program, from the texts "10\n20\n" and "20\n10\n".
TEST(IdMapTest, TheDigestIsOfTheIdsInTheirOrder) {
  EXPECT_EQ(IdMap::FromIds({"10", "20"})->Digest(), "crc32c:d56e4beb");
  EXPECT_EQ(IdMap::FromIds({"20", "10"})->Digest(), "crc32c:0bfc4042");
  const std::string path = Path("digest.txt");
  ASSERT_TRUE(IdMap::FromIds({"10", "20"})->Save(path, "a header").ok());
  EXPECT_EQ(IdMap::Load(path)->Digest(), "crc32c:d56e4beb");
}

TEST(IdMapTest, RefusesWhatWouldNotComeBack) {
  EXPECT_THAT(std::string(IdMap::FromIds({"a", "b", "a"}).status().message()), HasSubstr("'a' occurs twice"));
  EXPECT_FALSE(IdMap::FromIds({"a", ""}).ok());
  EXPECT_FALSE(IdMap::FromIds({"a\nb"}).ok());
  EXPECT_THAT(LoadFault("a\n\nb\n"), HasSubstr(":2: an empty line instead of an id"));
  EXPECT_THAT(LoadFault("a\n\"\"\n"), HasSubstr(":2: an id is empty"));
  EXPECT_THAT(LoadFault("a\nb\n\"a\"\n"), HasSubstr(":3: the id 'a' is already on line 1"));
  EXPECT_THAT(LoadFault("# vicinal ids: of g\na\na\n"), HasSubstr(":3: the id 'a' is already on line 2"));
  EXPECT_THAT(LoadFault("a\nDoe, John\n"),
              HasSubstr(":2: 2 columns separated by commas instead of one id; put an id that"));
  EXPECT_THAT(LoadFault("a,\n"), HasSubstr(":1: 2 columns separated by commas instead of one id: remove the comma"));
  EXPECT_THAT(LoadFault("a\n\"New\nYork\"\n"), HasSubstr(":2: the field that begins with '\"New' has no closing"));
  EXPECT_THAT(LoadFault("a\n\"b\"c\n"), HasSubstr(":2: a field in double quotes is followed by 'c'"));
  EXPECT_THAT(LoadFault("a\rb\r"), HasSubstr(":1: contains a carriage return (CR) without a line feed (LF)"));
  EXPECT_THAT(LoadFault(std::string("a\n\0\n", 4)), HasSubstr(":2: contains a zero byte"));
  EXPECT_THAT(LoadFault(""), HasSubstr("contains no ids"));
  EXPECT_EQ(IdMap::Load(Path("missing.txt")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace vicinal::client
