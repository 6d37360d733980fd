// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/formats/id_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cpp/formats/files.h"

namespace vicinal::client {
namespace {

using ::testing::HasSubstr;

std::string Path(const std::string& name) { return ::testing::TempDir() + "/id_map_test_" + name; }

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

// The figures were made bit by bit by another program, from the texts "10\n20\n" and "20\n10\n".
TEST(IdMapTest, TheDigestIsOfTheIdsInTheirOrder) {
  EXPECT_EQ(IdMap::FromIds({"10", "20"})->Digest(), "crc32c:d56e4beb");
  EXPECT_EQ(IdMap::FromIds({"20", "10"})->Digest(), "crc32c:0bfc4042");
  const std::string path = Path("digest.txt");
  ASSERT_TRUE(IdMap::FromIds({"10", "20"})->Save(path, "a header").ok());
  EXPECT_EQ(IdMap::Load(path)->Digest(), "crc32c:d56e4beb");
}

TEST(IdMapTest, RefusesWhatWouldNotComeBack) {
  EXPECT_THAT(std::string(IdMap::FromIds({"a", "b", "a"}).status().message()), HasSubstr("'a' stands twice"));
  EXPECT_FALSE(IdMap::FromIds({"a", ""}).ok());
  EXPECT_FALSE(IdMap::FromIds({"a\nb"}).ok());
  const std::string path = Path("bad.txt");
  ASSERT_TRUE(WriteFile(path, "a\n\nb\n").ok());
  EXPECT_THAT(std::string(IdMap::Load(path).status().message()), HasSubstr(path + ":2:"));
  ASSERT_TRUE(WriteFile(path, "").ok());
  EXPECT_FALSE(IdMap::Load(path).ok());
  EXPECT_EQ(IdMap::Load(Path("missing.txt")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace vicinal::client
