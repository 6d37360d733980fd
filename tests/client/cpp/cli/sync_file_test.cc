// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/sync_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vicinal::client::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

absl::StatusOr<SyncFile> Parse(const std::string& text) { return ParseSyncFile("dir/s.yaml", text); }

TEST(SyncFileTest, ReadsAllKindsWithPathsFromItsOwnFolder) {
  const auto file = Parse(R"(
servers: ["a:8500", "[::1]:8501"]
graphs:
  cora:
    file: cora.npz
    x: /abs/x.npy
    reorder: rcm
    undirected: true
    num_nodes: 7
    titles: yes
    keep_edge_order: true
    features:
      today: {file: t.npy}
    edge_features:
      today: {file: e.npy}
  other: {file: "o.txt"}
models:
  gcn: {architecture: g.json, weights: g.safetensors, reference: r.safetensors, reference_graph: cora, tolerance: 1e-3}
)");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->servers, ElementsAre("a:8500", "[::1]:8501"));
  ASSERT_EQ(file->graphs.size(), 2u);
  const DeclaredGraph& cora = file->graphs[0];
  EXPECT_EQ(cora.name, "cora");
  EXPECT_EQ(cora.line, 4);
  EXPECT_THAT(cora.files, ElementsAre(Pair("file", "dir/cora.npz"), Pair("x", "/abs/x.npy")));
  EXPECT_THAT(cora.options, ElementsAre(Pair("keep_edge_order", "true"), Pair("num_nodes", "7"), Pair("reorder", "rcm"),
                                        Pair("titles", "yes"), Pair("undirected", "true")));
  ASSERT_EQ(cora.feature_sets.size(), 1u);
  EXPECT_EQ(cora.feature_sets[0].name, "today");
  EXPECT_EQ(cora.feature_sets[0].line, 13);
  EXPECT_THAT(cora.feature_sets[0].files, ElementsAre(Pair("file", "dir/t.npy")));
  ASSERT_EQ(cora.edge_feature_sets.size(), 1u);
  EXPECT_EQ(cora.edge_feature_sets[0].name, "today");
  EXPECT_EQ(cora.edge_feature_sets[0].line, 15);
  EXPECT_THAT(cora.edge_feature_sets[0].files, ElementsAre(Pair("file", "dir/e.npy")));
  EXPECT_EQ(file->graphs[1].File("file"), "dir/o.txt");
  ASSERT_EQ(file->models.size(), 1u);
  EXPECT_THAT(file->models[0].options, ElementsAre(Pair("reference_graph", "cora"), Pair("tolerance", "1e-3")));
}

TEST(SyncFileTest, DefaultsThatAreWrittenDownChangeNothing) {
  const auto file = Parse(
      "graphs: {g: {file: f, reorder: auto, format: auto, mtx_rows: target, undirected: false, pinned: no, "
      "keep_edge_order: false}}");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->graphs[0].options, IsEmpty());
}

TEST(SyncFileTest, TakesJson) {
  const auto file = Parse(R"({"graphs": {"g": {"file": "f", "pinned": true}}, "models": {}})");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->graphs[0].Option("pinned", ""), "true");
}

struct Wrong {
  std::string text, error;
};

class WrongSyncFile : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongSyncFile, IsRefusedWithLineAndReason) {
  const auto file = Parse(GetParam().text);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file.status().message(), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongSyncFile,
    ::testing::Values(
        Wrong{"graphs:\n  g: [1\n", "dir/s.yaml:3: this is not YAML: end of sequence flow not found"},
        Wrong{"- a\n", "dir/s.yaml:1: the file must be a map, 'key: value' on lines of its own"},
        Wrong{"graphs: {}\n---\ngraphs: {}\n", "dir/s.yaml:3: a second document ('---'); one file declares one state"},
        Wrong{"graphs: {}\ngraph: {}\n", "dir/s.yaml:2: the file has no key 'graph'; did you mean 'graphs'?"},
        Wrong{"graphs:\n  g: {file: f}\n  g: {file: h}\n", "dir/s.yaml:3: 'g' stands twice in graphs"},
        Wrong{"graphs:\n  G: {file: f}\n", "dir/s.yaml:2: 'G' is no name; names match [a-z0-9][a-z0-9._-]{0,62}"},
        Wrong{"graphs:\n  g:\n    x: f\n", "dir/s.yaml:2: graph 'g' needs file: FILE"},
        Wrong{"graphs:\n  g: f\n", "dir/s.yaml:2: graph 'g' must be a map, 'key: value' on lines of its own"},
        Wrong{"graphs:\n  g:\n    file: f\n    reordr: rcm\n",
              "dir/s.yaml:4: graph 'g' has no key 'reordr'; did you mean 'reorder'?"},
        Wrong{"graphs: {g: {file: f, reorder: best}}",
              "dir/s.yaml:1: reorder is 'best'; it must be one of auto, none, degree, rcm, community, metis"},
        Wrong{"graphs: {g: {file: f, num_nodes: 0}}", "dir/s.yaml:1: num_nodes is '0'; it must be an integer above 0"},
        Wrong{"graphs: {g: {file: f, undirected: 3}}", "dir/s.yaml:1: undirected is '3'; it must be true or false"},
        Wrong{"graphs: {g: {file: [f]}}", "dir/s.yaml:1: file must be the path of a file"},
        Wrong{"graphs: {g: {file: f, features: {s: {}}}}", "dir/s.yaml:1: feature set 's' needs file: FILE"},
        Wrong{"graphs: {g: {file: f, edge_features: {s: {}}}}", "dir/s.yaml:1: edge feature set 's' needs file: FILE"},
        Wrong{"graphs: {g: {file: f, edge_features: [s]}}",
              "dir/s.yaml:1: edge_features must be a map, 'key: value' on lines of its own"},
        Wrong{"graphs:\n  g:\n    file: f\n    edge_features:\n      s: {file: x, kind: y}\n",
              "dir/s.yaml:5: edge feature set 's' has no key 'kind'; there are file"},
        Wrong{"graphs: {g: {file: f, edge_feature: {}}}",
              "dir/s.yaml:1: graph 'g' has no key 'edge_feature'; did you mean 'edge_features'?"},
        Wrong{"graphs: {g: {file: f, keep_edge_order: 3}}",
              "dir/s.yaml:1: keep_edge_order is '3'; it must be true or false"},
        Wrong{"models: {m: {architecture: a, weights: w, tolerance: 1}}",
              "dir/s.yaml:1: model 'm': tolerance needs reference: FILE.safetensors"},
        Wrong{"models: {m: {architecture: a, weights: w, reference: r, tolerance: -1}}",
              "dir/s.yaml:1: tolerance is '-1'; it must be a number, at least 0"},
        Wrong{"graphs: {g: {file: \"a\\0b\"}}",
              "dir/s.yaml:1: file is 'a?b', a path with a zero byte, which no file has"},
        Wrong{"graphs: {\"g\\0\": {file: f}}", "dir/s.yaml:1: 'g?' is no name; names match [a-z0-9][a-z0-9._-]{0,62}"},
        Wrong{"graphs: {g: {fil: f}}", "dir/s.yaml:1: graph 'g' has no key 'fil'; did you mean 'file'?"},
        Wrong{"models: {m: {z: f}}",
              "dir/s.yaml:1: model 'm' has no key 'z'; there are architecture, weights, reference, reference_graph, "
              "reference_features, reference_edge_features, tolerance"},
        Wrong{"servers: a:8500\n",
              "dir/s.yaml:1: servers must be a list of addresses, such as [\"a:8500\", \"b:8500\"]"}));

// 400 graphs, each with the same 400 feature sets: 160,000 sets in a few kilobytes.
TEST(SyncFileTest, AliasesCountAsWhatTheyStandFor) {
  std::string text = "graphs:\n  first:\n    file: f\n    features: &sets\n";
  for (int i = 0; i < 400; ++i) text += "      s" + std::to_string(i) + ": {file: f}\n";
  const std::string few = text + "  second: {file: f, features: *sets}\n";
  const auto file = Parse(few);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->graphs[1].feature_sets.size(), 400u);
  for (int i = 0; i < 400; ++i) text += "  g" + std::to_string(i) + ": {file: f, features: *sets}\n";
  const auto many = Parse(text);
  ASSERT_FALSE(many.ok());
  EXPECT_THAT(std::string(many.status().message()),
              ::testing::HasSubstr("the file has more than 100000 entries, with what its aliases (*) stand for"));
}

// An anchor within itself, and lists in lists: neither is followed without end.
TEST(SyncFileTest, DepthIsBounded) {
  EXPECT_FALSE(Parse("graphs: &a\n  g: *a\n").ok());
  EXPECT_FALSE(Parse("graphs: " + std::string(100'000, '[')).ok());
}

}  // namespace
}  // namespace vicinal::client::cli
