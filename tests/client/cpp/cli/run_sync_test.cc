// SPDX-License-Identifier: Apache-2.0
// `vicinal sync` against fake servers: what is sent, what is not, what is said. tests/client/sync_test.py runs it
// against vicinal-server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>
#include <string>
#include <vector>

#include "client/cpp/formats/files.h"
#include "client/cpp/formats/npy.h"
#include "tests/client/cpp/cli/run_testing.h"

namespace vicinal::client::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RunSyncTest : public RunTest {
 protected:
  RunSyncTest() {
    Write("edges.txt", "0 1\n1 2\n");
    Write("m.json", "{}");
    Write("m.safetensors", "weights");
    Write("s.yaml",
          "graphs:\n  g: {file: edges.txt, reorder: none}\nmodels:\n  m: {architecture: m.json, weights: "
          "m.safetensors}\n");
  }
  static void Write(const std::string& path, const std::string& text) { ASSERT_TRUE(WriteFile(path, text).ok()); }
};

TEST_F(RunSyncTest, BringsAServerToTheStateOnceAndThenSendsNothing) {
  ASSERT_EQ(Vicinal("sync s.yaml --dry_run"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("create  graph 'g'  planned"));
  EXPECT_EQ(server_.seen().finishes, 0) << "a dry run sends nothing";
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("create  graph 'g'  done"));
  EXPECT_THAT(out(), HasSubstr("create  model 'm'  done"));
  EXPECT_EQ(server_.seen().graph_spec.reorder(), v1::REORDER_NONE);
  EXPECT_EQ(server_.seen().graph_spec.node_count(), 3);
  EXPECT_EQ(server_.Uploaded("weights"), "weights");
  const int finishes = server_.seen().finishes;
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr(": 2 unchanged\n"));
  EXPECT_THAT(out(), Not(HasSubstr("create")));
  EXPECT_EQ(server_.seen().finishes, finishes);
}

TEST_F(RunSyncTest, AChangedFileAndOnlyThatIsReplaced) {
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  Write("m.safetensors", "others!");
  ASSERT_EQ(Vicinal("sync s.yaml --json"), kExitOk) << err();
  const auto steps = Json()["servers"][0]["steps"];
  ASSERT_EQ(steps.size(), 2u) << out();
  EXPECT_EQ(steps[0]["action"], "keep");
  EXPECT_EQ(steps[1]["action"], "replace");
  EXPECT_EQ(steps[1]["result"], "done");
  EXPECT_TRUE(server_.seen().model_spec.replace());
  EXPECT_EQ(server_.seen().model_spec.if_version(), 1);
  EXPECT_EQ(server_.Uploaded("weights"), "others!");
}

TEST_F(RunSyncTest, OneServerThatFailsDoesNotStopTheOthers) {
  FakeServer other;
  server_.faults().fail_preparation = true;
  EXPECT_EQ(Vicinal({"sync", "s.yaml", "--to", server_.target(), "--to", other.target()}), kExitRefused);
  EXPECT_THAT(err(), HasSubstr(server_.target() + ": s.yaml:2: graph 'g': "));
  EXPECT_THAT(err(), HasSubstr("edge 7 points to node 99"));
  EXPECT_THAT(out(), HasSubstr("create  graph 'g'  failed"));
  EXPECT_THAT(out(), HasSubstr("create  model 'm'  not done"));
  EXPECT_EQ(other.Uploaded("weights"), "weights");
  server_.faults().fail_preparation = false;
  ASSERT_EQ(Vicinal({"sync", "s.yaml", "--to", server_.target(), "--to", other.target()}), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr(other.target() + ": 2 unchanged\n"));
}

TEST_F(RunSyncTest, TheFileMayNameTheServers) {
  Write("both.yaml", "servers: ['" + server_.target() + "']\ngraphs: {g: {file: edges.txt}}\n");
  ASSERT_EQ(Vicinal(std::vector<std::string>{"sync", "both.yaml"}), kExitOk) << err();
  EXPECT_EQ(server_.seen().graph_spec.name(), "g");
}

TEST_F(RunSyncTest, PruningDeletesWhatIsNotDeclared) {
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  Write("less.yaml", "graphs: {g: {file: edges.txt, reorder: none}}\n");
  ASSERT_EQ(Vicinal("sync less.yaml"), kExitOk) << err();
  EXPECT_THAT(out(), Not(HasSubstr("delete")));
  ASSERT_EQ(Vicinal("sync less.yaml --prune"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("delete  model 'm'  done"));
  ASSERT_EQ(Vicinal("model list --json"), kExitOk) << err();
  EXPECT_EQ(Json()["models"].size(), 0u);
}

TEST_F(RunSyncTest, AFileThatIsMissingIsNamedWithItsLine) {
  Write("s.yaml", "graphs:\n  g: {file: edges.txt}\n  h:\n    file: none.txt\n");
  EXPECT_EQ(Vicinal("sync s.yaml --prune"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("s.yaml:3: graph 'h': none.txt"));
  EXPECT_EQ(server_.seen().finishes, 0) << "files are read before anything is sent";
}

TEST_F(RunSyncTest, OwnIdsAreKeptWhereTheFileSays) {
  Write("edges.txt", "ann bob\nbob cid\n");
  Write("s.yaml", "graphs: {g: {file: edges.txt, ids_out: map.txt}}\n");
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  EXPECT_THAT(*ReadFile("map.txt"), HasSubstr("\nann\nbob\ncid\n"));
  EXPECT_THAT(server_.seen().graph_spec.ids_digest(), HasSubstr("crc32c:"));
}

TEST_F(RunSyncTest, APipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(mkfifo("pipe.txt", 0600), 0);
  Write("s.yaml", "graphs:\n  g: {file: pipe.txt}\n");
  EXPECT_EQ(Vicinal("sync s.yaml"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("s.yaml:2: graph 'g': pipe.txt: cannot read: a pipe"));
  EXPECT_EQ(Vicinal("sync pipe.txt"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("pipe.txt: cannot read: a pipe"));
}

TEST_F(RunSyncTest, FeaturesOfEdgesAreSentAndBelongToTheDigest) {
  ASSERT_TRUE(WriteNpy("a.npy", MakeArray<float>({1, 2, 3, 4}, {2, 2})).ok());
  Write("s.yaml", "graphs:\n  g: {file: edges.txt, edge_attr: a.npy}\n");
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  EXPECT_EQ(server_.Uploaded("edge_attr").size(), 4 * sizeof(float));
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr(": 1 unchanged\n"));
  ASSERT_TRUE(WriteNpy("a.npy", MakeArray<float>({1, 2, 3, 5}, {2, 2})).ok());
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("replace  graph 'g'  done"));
  ASSERT_TRUE(WriteNpy("a.npy", MakeArray<float>({1, 2, std::numeric_limits<float>::infinity(), 5}, {2, 2})).ok());
  EXPECT_EQ(Vicinal("sync s.yaml"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("a.npy: edge_attr of edge 1 (1 -> 2) contains inf in column 0"));
}

TEST_F(RunSyncTest, EdgeFeatureSetsAreSentReplacedAndDeletedAlone) {
  ASSERT_TRUE(WriteNpy("a.npy", MakeArray<float>({1, 2, 3, 4}, {2, 2})).ok());
  const std::string graph = "graphs:\n  g:\n    file: edges.txt\n";
  Write("s.yaml", graph + "    edge_features:\n      today: {file: a.npy}\n");
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("create  edge feature set 'today' of 'g'  done"));
  EXPECT_TRUE(server_.seen().graph_spec.keep_edge_order());
  EXPECT_EQ(server_.seen().features_spec.name(), "today");
  EXPECT_FALSE(server_.seen().features_spec.replace());
  EXPECT_EQ(server_.Uploaded("edge_attr").size(), 4 * sizeof(float));
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr(": 2 unchanged\n"));

  ASSERT_TRUE(WriteNpy("a.npy", MakeArray<float>({1, 2, 3, 5}, {2, 2})).ok());
  ASSERT_EQ(Vicinal("sync s.yaml --json"), kExitOk) << err();
  const auto steps = Json()["servers"][0]["steps"];
  ASSERT_EQ(steps.size(), 2u) << out();
  EXPECT_EQ(steps[0]["action"], "keep");
  EXPECT_EQ(
      steps[1],
      (nlohmann::json{
          {"action", "replace"}, {"kind", "edge feature set"}, {"graph", "g"}, {"name", "today"}, {"result", "done"}}));
  EXPECT_TRUE(server_.seen().features_spec.replace());
  EXPECT_EQ(server_.seen().features_spec.if_version(), 1);
  EXPECT_EQ(server_.seen().prepared, 1) << "the graph stays";

  Write("s.yaml", graph);
  ASSERT_EQ(Vicinal("sync s.yaml --prune"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("delete  edge feature set 'today' of 'g'  done"));
  EXPECT_EQ(server_.seen().prepared, 1) << "a graph that keeps its order of edges is no other graph";
}

TEST_F(RunSyncTest, EdgeFeaturesThatDoNotFitAreRefusedWithFileAndLine) {
  ASSERT_TRUE(WriteNpy("a.npy", MakeArray<float>({1, 2, 3}, {3, 1})).ok());
  Write("s.yaml", "graphs:\n  g:\n    file: edges.txt\n    edge_features:\n      today: {file: a.npy}\n");
  EXPECT_EQ(Vicinal("sync s.yaml"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("s.yaml:5: edge feature set 'today': a.npy: the features have 3 rows, but graph 'g' has "
                               "2 edges: one row per edge is needed"));
  ASSERT_TRUE(WriteNpy("a.npy", MakeArray<float>({1, std::numeric_limits<float>::infinity()}, {2, 1})).ok());
  EXPECT_EQ(Vicinal("sync s.yaml"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("s.yaml:5: edge feature set 'today': a.npy: "));
  EXPECT_THAT(err(), HasSubstr("inf in column 0"));
  Write("s.yaml", "graphs: {g: {file: edges.txt, edge_features: {today: {file: none.npy}}}}\n");
  const int finishes = server_.seen().finishes;
  EXPECT_EQ(Vicinal("sync s.yaml"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("s.yaml:1: edge feature set 'today': none.npy"));
  EXPECT_EQ(server_.seen().finishes, finishes);
}

TEST_F(RunSyncTest, WhatWasGuessedOfAFileIsTold) {
  const std::vector<int64_t> edges = {0, 4};
  ASSERT_TRUE(WriteNpz("g.npz", {{"edge_index", MakeArray(edges, {2, 1})}}).ok());
  Write("s.yaml", "graphs: {g: {file: g.npz}}\n");
  ASSERT_EQ(Vicinal("sync s.yaml"), kExitOk) << err();
  const std::string guess = "graph 'g': the file does not state the number of nodes; from the largest id it is 5";
  EXPECT_THAT(err(), HasSubstr("note: " + guess));
  Write("s.yaml", "graphs: {g: {file: g.npz, reorder: none}}\n");
  ASSERT_EQ(Vicinal("sync s.yaml --json"), kExitOk) << err();
  EXPECT_THAT(Json()["notes"].dump(), HasSubstr(guess));
}

}  // namespace
}  // namespace vicinal::client::cli
