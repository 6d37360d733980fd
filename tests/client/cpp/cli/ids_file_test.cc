// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/ids_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cpp/formats/files.h"
#include "client/cpp/formats/npy.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::client::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using Nodes = std::vector<int64_t>;

std::string Path(const std::string& name) {
  static const TemporaryDirectory folder;
  return folder / name;
}

std::string IdsFileError(const std::string& text, const std::optional<IdMap>& ids) {
  const auto nodes = ParseNodes(text, ids);
  return nodes.ok() ? "it was parsed" : std::string(nodes.status().message());
}

TEST(ParseNodesTest, Numbers) {
  EXPECT_EQ(*ParseNodes("all", std::nullopt), std::nullopt);
  EXPECT_EQ(**ParseNodes("0,5, 9", std::nullopt), (Nodes{0, 5, 9}));
  EXPECT_EQ(**ParseNodes("-1", std::nullopt), Nodes{-1});  // for the server to refuse
  EXPECT_THAT(IdsFileError("0,x", std::nullopt),
              HasSubstr("'x' is not a 64-bit integer; if the graph has ids of its own"));
  EXPECT_EQ(ParseNodes("0,x", std::nullopt, /*as_rows=*/true).status().message(),
            "--nodes: 'x' is not a 64-bit integer; with --ids none nodes are row numbers");
  EXPECT_THAT(IdsFileError(",", std::nullopt), HasSubstr("--nodes is empty"));
  EXPECT_EQ(ParseNodes("x", std::nullopt, true, "sources").status().message(),
            "--sources: 'x' is not a 64-bit integer; with --ids none nodes are row numbers");
}

TEST(ParseNodesTest, Files) {
  ASSERT_TRUE(WriteFile(Path("nodes.txt"), "3\r\n1 4\n\n1,5\n").ok());
  EXPECT_EQ(**ParseNodes("@" + Path("nodes.txt"), std::nullopt), (Nodes{3, 1, 4, 1, 5}));
  ASSERT_TRUE(WriteNpy(Path("nodes.npy"), MakeArray<int32_t>({2, 7}, {2})).ok());
  EXPECT_EQ(**ParseNodes("@" + Path("nodes.npy"), std::nullopt), (Nodes{2, 7}));
  EXPECT_THAT(IdsFileError("@/nonexistent", std::nullopt), HasSubstr("/nonexistent"));
  ASSERT_TRUE(WriteFile(Path("nodes.txt"), "3\n1 4x\n").ok());
  EXPECT_THAT(IdsFileError("@" + Path("nodes.txt"), std::nullopt),
              HasSubstr("nodes.txt:2: '4x' is not a 64-bit integer"));
  ASSERT_TRUE(WriteNpy(Path("nodes.npy"), MakeArray<float>({2, 7}, {2})).ok());
  EXPECT_THAT(IdsFileError("@" + Path("nodes.npy"), std::nullopt),
              HasSubstr("nodes.npy: must be integers, not float32"));
}

TEST(ParseNodesTest, OwnIds) {
  const std::optional<IdMap> ids = IdMap::FromIds({"New York", "7", "0"}).value();
  EXPECT_EQ(**ParseNodes("New York,0", ids), (Nodes{0, 2}));
  EXPECT_EQ(**ParseNodes("7", ids), Nodes{1});
  ASSERT_TRUE(WriteNpy(Path("own.npy"), MakeArray<int32_t>({0, 7}, {2})).ok());
  EXPECT_EQ(**ParseNodes("@" + Path("own.npy"), ids), (Nodes{2, 1}));
  ASSERT_TRUE(WriteNpy(Path("own.npy"), MakeArray<int32_t>({1}, {1})).ok());
  EXPECT_THAT(IdsFileError("@" + Path("own.npy"), ids), HasSubstr("'1' is not among the ids"));
  EXPECT_THAT(IdsFileError("Boston", ids), HasSubstr("'Boston' is not among the ids"));
  EXPECT_EQ(NodeName(ids, 1), "7");
  EXPECT_EQ(NodeName(ids, 3), "3");
  EXPECT_EQ(NodeName(std::nullopt, 3), "3");
}

TEST(ParseNodesTest, IdsWithCommasAndQuotes) {
  const std::optional<IdMap> ids = IdMap::FromIds({"Doe, John", "ann", "say \"hi\""}).value();
  EXPECT_EQ(**ParseNodes("\"Doe, John\",ann", ids), (Nodes{0, 1}));
  EXPECT_EQ(**ParseNodes("Doe, John", ids), Nodes{0});
  EXPECT_EQ(**ParseNodes("ann,\"say \"\"hi\"\"\"", ids), (Nodes{1, 2}));
  ASSERT_TRUE(WriteFile(Path("own.txt"), "say \"hi\"\r\nDoe, John\n\nann,ann\n").ok());
  EXPECT_EQ(**ParseNodes("@" + Path("own.txt"), ids), (Nodes{2, 0, 1, 1}));
  EXPECT_THAT(IdsFileError("ann,\"Doe, John", ids),
              HasSubstr("--nodes: the field that begins with '\"Doe, John' has no"));
  ASSERT_TRUE(WriteFile(Path("own.txt"), "ann\n\"Doe, John\nann\n").ok());
  EXPECT_THAT(IdsFileError("@" + Path("own.txt"), ids), HasSubstr("own.txt:2: the field that begins with"));
  ASSERT_TRUE(WriteFile(Path("own.txt"), "ann\rann\r").ok());
  EXPECT_THAT(IdsFileError("@" + Path("own.txt"), ids), HasSubstr("own.txt:1: contains a carriage return"));
  EXPECT_THAT(
      IdsFileError("Doe, John,ann", ids),
      HasSubstr("'Doe' is not among the ids of the graph; put an id that contains a comma in double quotes, as in "
                "\"Doe, John\",ann"));
  EXPECT_THAT(IdsFileError("\"Doe, Jim\",ann", ids), EndsWith("'Doe, Jim' is not among the ids of the graph"));
  EXPECT_THAT(IdsFileError("Doe", ids), EndsWith("'Doe' is not among the ids of the graph"));
}

TEST(IdsFileTest, NothingOfTheUsersIsOverwritten) {
  const std::string path = Path("keep.txt");
  ASSERT_TRUE(WriteFile(path, "my notes\n").ok());
  EXPECT_THAT(std::string(CheckIdsPath(path, true).message()), HasSubstr("--ids_out"));
  EXPECT_TRUE(CheckIdsPath(path, false).ok());
  EXPECT_EQ(*ReadFile(path), "my notes\n");
  ASSERT_TRUE(IdMap::FromIds({"a"})->Save(path, "older").ok());
  EXPECT_TRUE(CheckIdsPath(path, true).ok());
  EXPECT_FALSE(CheckIdsPath("/nonexistent/x", false).ok());
  EXPECT_EQ(CheckIdsPath("/nonexistent/x", true).message(),
            "/nonexistent/x: cannot write: No such file or directory; pass --ids_out FILE to write the graph's ids "
            "elsewhere");
  EXPECT_TRUE(CheckIdsPath(Path("new.txt"), false).ok());
  EXPECT_FALSE(ReadFile(Path("new.txt")).ok());
}

}  // namespace
}  // namespace vicinal::client::cli
