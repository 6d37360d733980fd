// SPDX-License-Identifier: Apache-2.0
// Graphs and their ids, from the command line (run_testing.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "client/cpp/formats/files.h"
#include "client/cpp/formats/npy.h"
#include "tests/client/cpp/cli/run_testing.h"

namespace vicinal::client::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(RunTest, UploadsAnEdgeListAsItStands) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1 0.5\n1 2 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --reorder rcm --undirected"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("e.txt: 3 nodes, 4 edges, with weights"));
  EXPECT_THAT(out(), HasSubstr("graph 'g' version 1 is READY"));
  EXPECT_EQ(server_.seen().graph_spec.reorder(), v1::REORDER_RCM);
  EXPECT_EQ(server_.Uploaded("edge_index").size(), 2u * 4 * sizeof(int32_t));
  EXPECT_FALSE(ReadFile("g.ids.txt").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --replace --ids_out map.txt"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("ids: 0..2, the row numbers, so no map was written to map.txt\n"));
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --replace --ids none"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--ids none is for classify and embed"));
  ASSERT_EQ(Vicinal("graph list"), kExitOk);
  EXPECT_THAT(out(), HasSubstr("READY"));
}

TEST_F(RunTest, EdgesThatAreNotFiniteAreNamedBeforeTheUpload) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(WriteFile("e.txt", "ann bob\nbob carl\n").ok());
  ASSERT_TRUE(WriteNpy("a.npy", MakeArray<float>({0, 1, 2, nan}, {2, 2})).ok());
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --edge_attr a.npy"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("a.npy: edge_attr of edge 1 (bob -> carl) contains nan in column 1; every value must"));
  const std::vector<int64_t> ends = {0, 1, 1, 0}, graphs = {0, 0};
  for (const char* const name : {"edge_attr", "edge_weight"}) {
    ASSERT_TRUE(WriteNpz("b.npz", {{"edge_index", MakeArray(ends, {2, 2})},
                                   {"graph_id", MakeArray(graphs, {2})},
                                   {"x", MakeArray(std::vector<float>{1, 2}, {2, 1})},
                                   {name, MakeArray<float>({1, -std::numeric_limits<float>::infinity()}, {2})}})
                    .ok());
    for (const char* const line : {"graph upload b.npz --name g", "classify-graphs b.npz --model m"}) {
      EXPECT_EQ(Vicinal(line), kExitUsage) << line;
      EXPECT_THAT(err(), HasSubstr(std::string("b.npz: ") + name + " of edge 1 (1 -> 0) contains -inf")) << line;
    }
  }
  EXPECT_EQ(server_.seen().finishes, 0);
}

TEST_F(RunTest, PlotsAGraph) {
  ASSERT_EQ(Vicinal("graph plot g --output g.svg"), kExitNotFound);
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n1 2\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  ASSERT_EQ(Vicinal("graph plot g --output g.svg"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("wrote the picture of graph 'g' version 3 to g.svg"));
  const std::string svg = *ReadFile("g.svg");
  for (const char* const part : {"<svg ", "graph 'g' version 3: 3 nodes, 2 edges", "in execution order (rcm)",
                                 "3 x 3 tiles, every 2th target", "M1 0h1v1h-1z", "M2 1h1v1h-1z", "</svg>\n"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  ASSERT_EQ(Vicinal("graph plot g --output -"), kExitOk) << err();
  EXPECT_EQ(out(), svg);
  ASSERT_EQ(Vicinal("graph plot g --output g.svg --tiles 3 --json"), kExitOk) << err();
  EXPECT_EQ(Json()["picture"]["before"].size(), 9u);
  EXPECT_EQ(Vicinal("graph plot g --output - --json"), kExitUsage);
  EXPECT_EQ(Vicinal("graph plot g --output none/g.svg"), kExitUsage);
  EXPECT_EQ(Vicinal("graph plot g --output g.svg --tiles 4294967297"), kExitUsage);
}

TEST_F(RunTest, IdsAreQuotedInTheMapAndInTheUsersFile) {
  ASSERT_TRUE(WriteFile("e.csv", "\"Doe, John\",ann\nann,\"\"\"x\"\"\"\n").ok());
  ASSERT_TRUE(WriteFile("ids.csv", "ann\r\n\"Doe, John\"\r\n\"\"\"x\"\"\"\r\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.csv --name g --ids ids.csv"), kExitOk) << err();
  EXPECT_THAT(*ReadFile("g.ids.txt"), HasSubstr("\nann\n\"Doe, John\"\n\"\"\"x\"\"\"\n"));
  ASSERT_TRUE(WriteFile("nodes", "\"x\"\nDoe, John\n\"Doe, John\",ann\n").ok());
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes @nodes --json"), kExitOk) << err();
  EXPECT_EQ(Json()["nodes"].dump(), R"(["\"x\"","Doe, John","Doe, John","ann"])");
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 2);
  EXPECT_EQ(server_.seen().classify.nodes().ids(1), 1);
}

// What stands after "resume with: vicinal", in words.
std::vector<std::string> GoOnWords(const std::string& err) {
  const std::string before = "  resume with: vicinal ";
  const size_t at = err.find(before);
  EXPECT_NE(at, std::string::npos) << err;
  if (at == std::string::npos) return {};
  std::istringstream line(err.substr(at + before.size(), err.find('\n', at) - at - before.size()));
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  return words;
}

TEST_F(RunTest, GoesOnWithABrokenUpload) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1 0.5\n1 2 1\n").ok());
  server_.faults().break_after_chunks = 1;
  server_.faults().breaks = 1;
  server_.faults().break_code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  EXPECT_EQ(waits_, (std::vector<int64_t>{200}));
  EXPECT_EQ(server_.seen().prepared, 1);
}

TEST_F(RunTest, WhereItGivesUpItTellsTheCommandThatGoesOn) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1 0.5\n1 2 1\n").ok());
  server_.faults().break_after_chunks = 0;
  server_.faults().breaks = 5;
  EXPECT_EQ(Vicinal("graph upload e.txt --name g"), kExitUnavailable);
  EXPECT_EQ(waits_.size(), 4u);
  const std::vector<std::string> words = GoOnWords(err());
  server_.faults().breaks = 0;
  const size_t before = server_.seen().first_messages.size();
  ASSERT_EQ(Vicinal(words), kExitOk) << err();
  EXPECT_EQ(server_.seen().first_messages.size(), before + 1);
  EXPECT_EQ(server_.seen().prepared, 1);
  // Once it is said, it is not said twice; JSON has both.
  server_.faults().breaks = 5;
  EXPECT_EQ(Vicinal("graph upload e.txt --upload-id=mine-and-no-other --name g --replace --json"), kExitUnavailable);
  const auto error = nlohmann::json::parse(err(), nullptr, false)["error"];
  EXPECT_EQ(error.value("upload_id", ""), "mine-and-no-other");
  EXPECT_EQ(error.value("go_on", ""),
            "vicinal graph upload e.txt --upload-id=mine-and-no-other --name g --replace --json --server " +
                server_.target());
}

TEST_F(RunTest, TheCommandThatGoesOnIsQuotedForAShell) {
  ASSERT_TRUE(WriteFile("it's mine.txt", "0 1 0.5\n1 2 1\n").ok());
  server_.faults().break_after_chunks = 1;
  server_.faults().breaks = 1;
  server_.faults().break_code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  server_.faults().break_reason = "BUDGET_FULL";
  EXPECT_EQ(Vicinal({"--server", server_.target(), "graph", "upload", "--name", "g", "--", "it's mine.txt"}),
            kExitRefused);
  EXPECT_THAT(err(), HasSubstr(" --name g --upload_id "));
  EXPECT_THAT(err(), HasSubstr(" -- 'it'\\''s mine.txt'\n"));
  EXPECT_TRUE(waits_.empty());
}

TEST_F(RunTest, TitlesAreSaidAndMayBeSaid) {
  ASSERT_TRUE(WriteFile("e.txt", "follower followee\nann bob\nbob carl\n").ok());
  EXPECT_EQ(Vicinal("graph upload e.txt --name g"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("e.txt:1: is it column titles or an edge?"));
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --titles yes"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("3 nodes, 2 edges"));
  EXPECT_THAT(out(), HasSubstr("line 1 was taken as column titles"));
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --titles no --replace"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("5 nodes, 3 edges"));
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --titles maybe"), kExitUsage);
  EXPECT_EQ(Vicinal("graph upload " VICINAL_TEST_DATA "/graphs/cora.npz --name c --titles yes"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("edge lists only"));
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --mtx_rows source"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("e.txt: --mtx_rows works with MatrixMarket files only"));
}

TEST_F(RunTest, CommentsAreNotGuessedAndMayBeSaid) {
  ASSERT_TRUE(WriteFile("e.csv", "ann,bob\n#9af,ann\nbob,#9af\n").ok());
  EXPECT_EQ(Vicinal("graph upload e.csv --name g"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("e.csv:2: is it a comment or an edge between '#9af' and 'ann'?"));
  EXPECT_TRUE(server_.seen().chunks.empty());
  ASSERT_EQ(Vicinal("graph upload e.csv --name g --comments no"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("3 nodes, 3 edges"));
  EXPECT_THAT(*ReadFile("g.ids.txt"), HasSubstr("\n#9af\n"));
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes #9af"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 2);
  ASSERT_EQ(Vicinal("graph upload e.csv --name h --comments yes"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("1 line that begins with '#' or '%' was skipped as a comment (line 2; "));
  EXPECT_EQ(Vicinal("graph upload e.csv --name g --comments maybe"), kExitUsage);
  EXPECT_EQ(Vicinal("graph upload " VICINAL_TEST_DATA "/graphs/cora.npz --name c --comments no"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--comments works with edge lists only"));
}

TEST_F(RunTest, EveryOrderCanBeAskedFor) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  const std::pair<const char*, v1::Reorder> orders[] = {
      {"auto", v1::REORDER_AUTO}, {"none", v1::REORDER_NONE},           {"degree", v1::REORDER_DEGREE},
      {"rcm", v1::REORDER_RCM},   {"community", v1::REORDER_COMMUNITY}, {"metis", v1::REORDER_METIS}};
  for (const auto& [name, reorder] : orders) {
    ASSERT_EQ(Vicinal(std::string("graph upload e.txt --name g --replace --reorder ") + name), kExitOk) << err();
    EXPECT_EQ(server_.seen().graph_spec.reorder(), reorder) << name;
  }
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --reorder rabbit"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("auto, none, degree, rcm, community, metis"));
}

TEST_F(RunTest, UploadsADataSetWithItsFeatures) {
  const std::string cora = VICINAL_TEST_DATA "/graphs/cora.npz";
  ASSERT_EQ(Vicinal("graph upload " + cora + " --name cora --json"), kExitOk) << err();
  EXPECT_EQ(Json()["graph"]["name"], "cora");
  EXPECT_EQ(Json()["graph"]["node_count"], 2708);
  EXPECT_EQ(server_.seen().graph_spec.feature_count(), 1433);
  EXPECT_EQ(server_.Uploaded("x_indptr").size(), 2709u * 8);
  EXPECT_EQ(server_.Uploaded("x_values").size(), 49216u * 4);
}

TEST_F(RunTest, OwnIdsAreKeptAndSpoken) {
  ASSERT_TRUE(WriteFile("e.txt", "alice bob\nbob carol\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("g.ids.txt"));
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes carol,alice"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 2);
  EXPECT_EQ(server_.seen().classify.nodes().ids(1), 0);
  EXPECT_THAT(out(), HasSubstr("carol      2  0.3333\nalice      0  1.0000\n"));
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes bob --json"), kExitOk) << err();
  EXPECT_EQ(Json()["nodes"].dump(), R"(["bob"])");
  EXPECT_EQ(Json()["classes"].dump(), "[[1]]");
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes 1"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("'1' is not among the ids"));
  // The graph is replaced: the old map must not be used any more.
  ASSERT_TRUE(WriteFile("n.txt", "0 1\n1 2\n").ok());
  ASSERT_EQ(Vicinal("graph upload n.txt --name g --replace"), kExitOk) << err();
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes 1"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--ids none for row numbers"));
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 1 --ids none"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 1);
  ASSERT_EQ(Vicinal("classify --graph g --model m"), kExitOk) << err();
  EXPECT_THAT(err(), HasSubstr("belongs to another version of the graph; the answer uses row numbers"));
  ASSERT_EQ(Vicinal("embed --graph g --model m --nodes bob --ids g.ids.txt"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("bob     1  0.5\n"));
}

TEST_F(RunTest, IdsWhereTheUserSays) {
  ASSERT_TRUE(WriteFile("e.txt", "10 20\n").ok());
  ASSERT_TRUE(WriteFile("g.ids.txt", "something of the user's\n").ok());
  EXPECT_EQ(Vicinal("graph upload e.txt --name g"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--ids_out"));
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --ids_out map.txt"), kExitOk) << err();
  EXPECT_THAT(*ReadFile("map.txt"), HasSubstr("\n10\n20\n"));
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 20 --ids map.txt"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 1);
}

// A graph is not replaced before its new ids are safe, and the map of the version before stays until then.
TEST_F(RunTest, IdsAreKeptWhateverBecomesOfTheUpload) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(WriteFile("old.txt", "10 20\n").ok());
  ASSERT_TRUE(WriteFile("new.txt", "30 40\n").ok());
  ASSERT_EQ(Vicinal("graph upload old.txt --name g"), kExitOk) << err();
  const std::string old_map = *ReadFile("g.ids.txt");
  const auto expect_old_map = [&] {
    EXPECT_EQ(*ReadFile("g.ids.txt"), old_map);
    EXPECT_FALSE(fs::exists("g.ids.txt.new"));
  };
  expect_old_map();
  server_.faults().fail_replace = true;
  server_.faults().on_prepare = [] { EXPECT_THAT(*ReadFile("g.ids.txt.new"), HasSubstr("\n30\n40\n")); };
  EXPECT_EQ(Vicinal("graph upload new.txt --name g --replace"), kExitRefused);
  expect_old_map();

  // No room for the new map.
  const int prepared = server_.seen().prepared;
  server_.faults().fail_replace = false;
  fs::create_directory("g.ids.txt.new");
  EXPECT_EQ(Vicinal("graph upload new.txt --name g --replace"), kExitUsage);
  EXPECT_EQ(server_.seen().prepared, prepared);
  fs::remove("g.ids.txt.new");
  expect_old_map();

  // What is there at the end cannot be replaced any more.
  server_.faults().on_prepare = [] {
    fs::remove("g.ids.txt");
    fs::create_directory("g.ids.txt");
  };
  EXPECT_EQ(Vicinal("graph upload new.txt --name g --replace"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("graph 'g' was uploaded, and its ids are in g.ids.txt.new: move that file"));
  server_.faults().on_prepare = {};
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 40 --ids g.ids.txt.new"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 1);
}

TEST_F(RunTest, NodesAtFaultAreNamedByTheirIds) {
  ASSERT_TRUE(WriteFile("e.txt", "ann bob\nbob carl\ncarl ann\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  EXPECT_EQ(Vicinal("classify --graph g --model negative --nodes ann"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("node 1 is at fault; node 1 is 'bob'\n"));
  EXPECT_EQ(Vicinal("classify --graph g --model negative --nodes 0 --ids none"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("node 1 is at fault\n"));
  ASSERT_TRUE(WriteFile("m.json", "{}").ok());
  ASSERT_TRUE(WriteFile("w", "weights").ok());
  EXPECT_EQ(Vicinal("model upload m.json --weights w --name missed --reference w --reference_graph g"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("node 1 is at fault; node 1 is 'bob'\n"));
  EXPECT_EQ(Vicinal("model upload m.json --weights w --name missed --reference w"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("node 1 is at fault\n")) << "a node of the reference's own graph";
}

TEST_F(RunTest, FeaturesThatAreNotFiniteAreNotSent) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(WriteFile("e.txt", "ann bob\nbob carl\ncarl ann\n").ok());
  ASSERT_TRUE(WriteFile("ids.txt", "carl\nbob\nann\n").ok());
  ASSERT_TRUE(WriteNpy("x.npy", MakeArray<float>({0, 1, 2, nan, 4, 5}, {3, 2})).ok());
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --ids ids.txt --x x.npy"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("x.npy: the features of node 1 ('bob') contain nan in column 1"));
  EXPECT_TRUE(server_.seen().chunks.empty());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --ids ids.txt"), kExitOk) << err();
  EXPECT_EQ(Vicinal("features upload x.npy --graph g --name x"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("node 1 ('bob') contain nan in column 1"));
  EXPECT_EQ(Vicinal("classify --graph g --model m --features x.npy --nodes ann"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("node 1 ('bob') contain nan in column 1"));
  EXPECT_EQ(Vicinal("classify --graph g --model m --features x.npy --nodes 0 --ids none"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("the features of node 1 contain nan in column 1"));
}

TEST_F(RunTest, NumbersAreNoRowsWhereTheGraphHasIdsOfItsOwn) {
  ASSERT_TRUE(WriteFile("e.txt", "10 20\n20 2\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("ids: own (crc32c:"));
  std::filesystem::create_directory("elsewhere");
  std::filesystem::current_path("elsewhere");
  // 2 is an id (of node 0) and a row as well.
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes 2"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("ids of its own, but their map g.ids.txt is not in this folder"));
  EXPECT_THAT(err(), HasSubstr("pass --ids FILE with the map, or --ids none for row numbers"));
  EXPECT_EQ(server_.seen().classify.nodes().ids_size(), 0);
  EXPECT_EQ(Vicinal("embed --graph g --model m --nodes 2"), kExitUsage);
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 2 --ids ../g.ids.txt"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 0);
  EXPECT_EQ(err(), "");
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 2 --ids none"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 2);
  ASSERT_EQ(Vicinal("classify --graph g --model m"), kExitOk) << err();
  EXPECT_THAT(err(), HasSubstr("the answer uses row numbers"));
}

TEST_F(RunTest, ARestartedServerTakesTheSameMap) {
  ASSERT_TRUE(WriteFile("e.txt", "10 20\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  const std::string map = *ReadFile("g.ids.txt");
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --replace --ids_out newer.txt"), kExitOk) << err();
  ASSERT_NE(*ReadFile("newer.txt"), map);  // another version, the same ids
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 20"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 1);
}

TEST_F(RunTest, AFileOfIdsIsCheckedAsFarAsCanBe) {
  ASSERT_TRUE(WriteFile("e.txt", "10 20\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name own"), kExitOk) << err();
  ASSERT_TRUE(WriteFile("turned.txt", "20\n10\n").ok());
  EXPECT_EQ(Vicinal("classify --graph own --model m --nodes 20 --ids turned.txt"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("other ids, or another order, than graph 'own' was uploaded with"));
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name rows"), kExitOk) << err();
  EXPECT_EQ(server_.seen().graph_spec.ids_digest(), "");
  ASSERT_EQ(Vicinal("classify --graph rows --model m --nodes 20 --ids turned.txt"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 0);
  EXPECT_THAT(err(), HasSubstr("turned.txt was not checked"));
  ASSERT_EQ(Vicinal("classify --graph rows --model m --nodes 20 --ids turned.txt --json"), kExitOk) << err();
  EXPECT_EQ(err(), "") << "notes are in the document";
  EXPECT_THAT(Json()["notes"][0].get<std::string>(), HasSubstr("turned.txt was not checked"));
  ASSERT_TRUE(WriteFile("own.ids.txt", "Doe, John\n20\n").ok());
  EXPECT_EQ(Vicinal("classify --graph own --model m --nodes 20"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("the map of ids cannot be read (own.ids.txt:1: 2 columns separated by commas"));
}

TEST_F(RunTest, IdsOfAnotherGraphAreRefused) {
  ASSERT_TRUE(WriteFile("e.txt", "10 20\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  ASSERT_EQ(Vicinal("graph upload e.txt --name h"), kExitOk) << err();
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes 20 --ids h.ids.txt"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("is the map of another graph than 'g'"));
  ASSERT_TRUE(WriteFile("short.txt", "20\n").ok());
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes 20 --ids short.txt"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("contains 1 ids, but graph 'g' has 2 nodes"));
  ASSERT_TRUE(WriteFile("marked.txt",
                        "\xEF\xBB\xBF"
                        "10\r\n20\r\n")
                  .ok());
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 10 --ids marked.txt"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 0);
}

TEST_F(RunTest, AReplaceThatFailsIsAnErrorAndKeepsTheIds) {
  ASSERT_TRUE(WriteFile("e.txt", "10 20\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  const std::string ids = *ReadFile("g.ids.txt");
  server_.faults().fail_replace = true;
  ASSERT_TRUE(WriteFile("e.txt", "30 40\n").ok());
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --replace"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("graph 'g' was not replaced, version 1 continues to serve: edge 7 points to node 99"));
  EXPECT_EQ(*ReadFile("g.ids.txt"), ids);
}

TEST_F(RunTest, FeatureSetsAreNotDroppedUnasked) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n1 2\n").ok());
  ASSERT_TRUE(WriteNpy("x.npy", MakeArray<float>({0, 1, 2}, {3, 1})).ok());
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --drop_features"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--drop_features needs --replace or --if_version"));
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --x x.npy --replace"), kExitOk) << err();
  EXPECT_THAT(out(), Not(HasSubstr("dropped"))) << "nothing was there";
  ASSERT_EQ(Vicinal("features upload x.npy --graph g --name half"), kExitOk) << err();
  for (const char* replace : {"--replace", "--if_version 1"}) {
    const int finishes = server_.seen().finishes;
    EXPECT_EQ(Vicinal(std::string("graph upload e.txt --name g ") + replace), kExitUsage);
    EXPECT_THAT(err(), HasSubstr("graph 'g' has feature sets 'default', 'half', which a replacement drops"));
    EXPECT_THAT(err(), HasSubstr("--x FILE to upload features, or --drop_features to continue without"));
    EXPECT_EQ(server_.seen().finishes, finishes) << "nothing is sent";
  }
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --replace --x x.npy"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("note: dropped feature set 'half' of version 1\n"));
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --replace --x x.npy"), kExitOk) << err();
  EXPECT_THAT(out(), Not(HasSubstr("dropped"))) << "the new default takes its place";
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --replace --drop_features --json"), kExitOk) << err();
  EXPECT_EQ(Json()["notes"].dump(), R"(["dropped feature set 'default' of version 3"])");
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --replace"), kExitOk) << err();
}

TEST_F(RunTest, WhereTheGraphCannotBeLookedAtItIsNotReplaced) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n1 2\n").ok());
  server_.faults().busy_calls = 1000;
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --replace"), kExitUnavailable);
  EXPECT_EQ(server_.seen().finishes, 0);
}

TEST_F(RunTest, MarkedMatrixMarketIsRecognised) {
  ASSERT_TRUE(WriteFile("m",
                        "\xEF\xBB\xBF"
                        "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
                  .ok());
  ASSERT_EQ(Vicinal("graph upload m --name g"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("2 nodes, 1 edge"));
}

TEST_F(RunTest, UploadsWaitForTheDiskOfAServerThatHasOne) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n1 2\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  EXPECT_THAT(server_.seen().waits, ElementsAre(v1::WAIT_FOR_UNSPECIFIED));
  EXPECT_EQ(Vicinal("graph upload e.txt --name h --wait_for durable"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("needs --state_dir"));
  EXPECT_EQ(server_.seen().waits.size(), 1u) << "nothing was sent";
  server_.faults().durable_state = true;
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --replace"), kExitOk) << err();
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --replace --wait_for ready"), kExitOk) << err();
  EXPECT_THAT(server_.seen().waits, ElementsAre(v1::WAIT_FOR_UNSPECIFIED, v1::WAIT_FOR_UNSPECIFIED,
                                                v1::WAIT_FOR_DURABLE, v1::WAIT_FOR_UNSPECIFIED));
  server_.faults().disk_full = true;
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --replace"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("could not be written"));
  EXPECT_THAT(err(), Not(HasSubstr("resume with"))) << "sending again would not help";
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --wait_for later"), kExitUsage);
}

TEST_F(RunTest, AWaitThatIsBrokenOffGoesOn) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n1 2\n").ok());
  server_.faults().durable_state = true;
  server_.faults().lose_wait = true;
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  EXPECT_EQ(server_.seen().prepared, 1);
  EXPECT_THAT(server_.seen().waits, ElementsAre(v1::WAIT_FOR_UNSPECIFIED, v1::WAIT_FOR_DURABLE, v1::WAIT_FOR_DURABLE));
}

}  // namespace
}  // namespace vicinal::client::cli
