// SPDX-License-Identifier: Apache-2.0
// The program as a script sees it: words in, text or JSON and an exit code out, against a fake server. Each test works
// in a folder of its own, as the map of ids is kept in the current one.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <streambuf>
#include <string>

#include "client/cpp/cli/commands.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/npy.h"
#include "proto/wire/tensors.h"
#include "tests/client/cpp/fake_server.h"

namespace vicinal::client::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    EXPECT_EQ(chdir(folder_.c_str()), 0);
  }
  ~RunTest() override {
    std::error_code ignored;
    std::filesystem::current_path(::testing::TempDir(), ignored);
    std::filesystem::remove_all(folder_, ignored);
  }

  // `line` split at spaces, --server added.
  int Vicinal(const std::string& line) {
    std::vector<std::string> words;
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words.push_back(word);
    words.insert(words.end(), {"--server", server_.target()});
    out_.str("");
    err_.str("");
    return cli::Run(words, out_, err_, false);
  }

  nlohmann::json Json() const { return nlohmann::json::parse(out_.str(), nullptr, false); }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  std::string folder_ = ::testing::TempDir() + "/run_test_XXXXXX";
  FakeServer server_;
  std::ostringstream out_, err_;
};

TEST_F(RunTest, ATimeoutUnderAMillisecondIsStillOne) {
  // Takes connections and never says a word.
  const int mute = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(mute, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(mute, 8), 0);
  ASSERT_EQ(getsockname(mute, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string target = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(cli::Run({"graph", "list", "--timeout", "0.0001", "--server", target}, out_, err_, false),
            kExitUnavailable);
  EXPECT_THAT(err(), HasSubstr("DEADLINE_EXCEEDED"));
  close(mute);
}

// A stream that finds no memory, in place of a file that is larger than memory.
class NoMemory final : public std::streambuf {
 protected:
  int_type overflow(int_type) override { throw std::bad_alloc(); }
  std::streamsize xsputn(const char*, std::streamsize) override { throw std::bad_alloc(); }
};

TEST_F(RunTest, MemoryThatEndsIsSaid) {
  NoMemory buffer;
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);  // lets what the buffer throws through
  EXPECT_EQ(cli::Run({"graph", "list", "--server", server_.target()}, out, err_, false), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("no memory left"));
}

TEST_F(RunTest, UsageErrorsAreTwo) {
  EXPECT_EQ(Vicinal("graph lst"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("did you mean graph list?"));
  EXPECT_EQ(Vicinal("classify --graph g"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("needs --model"));
  EXPECT_THAT(err(), HasSubstr("Try 'vicinal classify --help'"));
  EXPECT_EQ(Vicinal("features list g"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("what to do with 'g'; did you mean --graph g?"));
  EXPECT_EQ(Vicinal("features list --graph g h"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("what to do with 'h'\n"));
  EXPECT_EQ(Vicinal("graph upload missing.txt --name g"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("missing.txt: cannot read"));
  EXPECT_EQ(Vicinal("graph upload missing.txt --name Bad/Name"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("does not match"));
  EXPECT_EQ(Vicinal("status --timeout 0"), kExitUsage);
  EXPECT_TRUE(out().empty());
}

TEST_F(RunTest, UsageErrorsAreJsonWhereJsonWasAskedFor) {
  for (const char* line : {"graph lst --json", "--json classify --graph g", "graph list --no_such_option --json",
                           "status --timeout 0 --json"}) {
    EXPECT_EQ(Vicinal(line), kExitUsage) << line;
    EXPECT_TRUE(out().empty()) << line;
    const auto error = nlohmann::json::parse(err(), nullptr, false);
    ASSERT_TRUE(error.is_object()) << line << ": " << err();
    EXPECT_EQ(error["error"]["code"], "INVALID_ARGUMENT") << line;
    EXPECT_FALSE(error["error"]["message"].get<std::string>().empty()) << line;
  }
}

TEST_F(RunTest, Version) {
  EXPECT_EQ(Vicinal("--version"), kExitOk);
  EXPECT_THAT(out(), MatchesRegex("vicinal [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_EQ(Vicinal("--json --version"), kExitOk);
  EXPECT_THAT(Json()["version"].get<std::string>(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(Vicinal("graph list --version"), kExitUsage);  // it is no option of a command
}

TEST_F(RunTest, HelpIsZeroForEveryCommand) {
  EXPECT_EQ(Vicinal("--help"), kExitOk);
  EXPECT_THAT(out(), HasSubstr("Exit codes"));
  for (const Command& command : Commands()) {
    EXPECT_EQ(Vicinal(command.syntax.command + " --help"), kExitOk);
    EXPECT_THAT(out(), HasSubstr("Usage: vicinal " + command.syntax.command));
    EXPECT_THAT(out(), HasSubstr("Exit codes"));
  }
}

TEST_F(RunTest, RefusalsNotFoundAndUnavailable) {
  EXPECT_EQ(Vicinal("graph get nope"), kExitNotFound);
  EXPECT_THAT(err(), HasSubstr("vicinal: NOT_FOUND: graph 'nope' does not exist\n  reason: GRAPH_NOT_FOUND"));
  EXPECT_EQ(Vicinal("graph get nope --json"), kExitNotFound);
  const auto error = nlohmann::json::parse(err(), nullptr, false);
  EXPECT_EQ(error["error"]["code"], "NOT_FOUND");
  EXPECT_EQ(error["error"]["reason"], "GRAPH_NOT_FOUND");
  server_.faults().abort_version = true;
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --if_version 3"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("ABORTED"));
  std::ostringstream out, err;
  EXPECT_EQ(cli::Run({"status", "--server", "127.0.0.1:1"}, out, err, false), kExitUnavailable);
  EXPECT_THAT(err.str(), HasSubstr("cannot reach the server at 127.0.0.1:1"));
}

TEST_F(RunTest, UploadsAnEdgeListAsItStands) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1 0.5\n1 2 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --reorder rcm --undirected"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("e.txt: 3 nodes, 4 edges, with weights"));
  EXPECT_THAT(out(), HasSubstr("graph 'g' version 1 is READY"));
  EXPECT_EQ(server_.seen().graph_spec.reorder(), v1::REORDER_RCM);
  EXPECT_EQ(server_.Uploaded("edge_index").size(), 2u * 4 * sizeof(int32_t));
  EXPECT_FALSE(ReadFile("g.ids.txt").ok());
  ASSERT_EQ(Vicinal("graph list"), kExitOk);
  EXPECT_THAT(out(), HasSubstr("READY"));
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
  EXPECT_THAT(err(), HasSubstr("--ids none takes row numbers"));
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 1 --ids none"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 1);
  ASSERT_EQ(Vicinal("classify --graph g --model m"), kExitOk) << err();
  EXPECT_THAT(err(), HasSubstr("belongs to another version of the graph; the answer speaks row numbers"));
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

TEST_F(RunTest, NumbersAreNoRowsWhereTheGraphHasIdsOfItsOwn) {
  ASSERT_TRUE(WriteFile("e.txt", "10 20\n20 2\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("ids: its own (crc32c:"));
  std::filesystem::create_directory("elsewhere");
  std::filesystem::current_path("elsewhere");
  // 2 is an id (of node 0) and a row as well.
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes 2"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("ids of its own, and their map g.ids.txt is not in this folder"));
  EXPECT_THAT(err(), HasSubstr("--ids FILE names the map to use, --ids none takes row numbers"));
  EXPECT_EQ(server_.seen().classify.nodes().ids_size(), 0);
  EXPECT_EQ(Vicinal("embed --graph g --model m --nodes 2"), kExitUsage);
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 2 --ids ../g.ids.txt"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 0);
  EXPECT_EQ(err(), "");
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 2 --ids none"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 2);
  ASSERT_EQ(Vicinal("classify --graph g --model m"), kExitOk) << err();
  EXPECT_THAT(err(), HasSubstr("the answer speaks row numbers"));
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
  EXPECT_THAT(err(), HasSubstr("other ids, or in another order, than graph 'own' was uploaded with"));
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name rows"), kExitOk) << err();
  EXPECT_EQ(server_.seen().graph_spec.ids_digest(), "");
  ASSERT_EQ(Vicinal("classify --graph rows --model m --nodes 20 --ids turned.txt"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.nodes().ids(0), 0);
  EXPECT_THAT(err(), HasSubstr("turned.txt was not checked"));
}

TEST_F(RunTest, IdsOfAnotherGraphAreRefused) {
  ASSERT_TRUE(WriteFile("e.txt", "10 20\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  ASSERT_EQ(Vicinal("graph upload e.txt --name h"), kExitOk) << err();
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes 20 --ids h.ids.txt"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("is the map of another graph than 'g'"));
  ASSERT_TRUE(WriteFile("short.txt", "20\n").ok());
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes 20 --ids short.txt"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("holds 1 ids, but graph 'g' has 2 nodes"));
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
  EXPECT_THAT(err(), HasSubstr("graph 'g' was not replaced, version 1 goes on serving: edge 7 points to node 99"));
  EXPECT_EQ(*ReadFile("g.ids.txt"), ids);
}

TEST_F(RunTest, MarkedMatrixMarketIsRecognised) {
  ASSERT_TRUE(WriteFile("m",
                        "\xEF\xBB\xBF"
                        "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
                  .ok());
  ASSERT_EQ(Vicinal("graph upload m --name g"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("2 nodes, 1 edges"));
}

TEST_F(RunTest, OutIsRefusedUnlessItIsNpyOrNpz) {
  EXPECT_EQ(Vicinal("embed --graph g --model m --out e.csv"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("must end in .npy or .npz"));
  EXPECT_EQ(Vicinal("classify --graph g --model m --out e.csv"), kExitUsage);
  // Before the file is read, let alone sent.
  EXPECT_EQ(Vicinal("classify-graphs missing.npz --model m --out e.csv"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("must end in .npy or .npz"));
}

TEST_F(RunTest, AllNodesComeAsAStream) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --num_nodes 25"), kExitOk) << err();
  ASSERT_EQ(Vicinal("classify --graph g --model m --top_k 2 --out all.npz --logits --kernel aggregate=plain"), kExitOk)
      << err();
  EXPECT_THAT(out(), HasSubstr("... 15 more"));
  EXPECT_EQ(server_.seen().classify.execution().kernels().at("aggregate"), "plain");
  EXPECT_TRUE(server_.seen().classify.nodes().all());
  const auto npz = Npz::Open("all.npz");
  ASSERT_TRUE(npz.ok()) << npz.status();
  EXPECT_EQ(npz->Read("classes")->shape, (std::vector<int64_t>{25, 2}));
  EXPECT_EQ(ToFloats(*npz->Read("logits"))[48], 24.0f);
  ASSERT_EQ(Vicinal("classify --graph g --model m --repeat 5"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("latency of 5 calls: median"));
}

TEST_F(RunTest, HowARequestIsComputed) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 1"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.execution().receptive_field(), v1::RECEPTIVE_FIELD_UNSPECIFIED);
  EXPECT_EQ(server_.seen().classify.execution().precision(), v1::PRECISION_UNSPECIFIED);
  EXPECT_EQ(server_.seen().classify.execution().product_precision(), v1::PRODUCT_PRECISION_UNSPECIFIED);
  EXPECT_THAT(out(), HasSubstr("computed: the receptive field, 42 nodes"));
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 1 --receptive_field always --precision bfloat16 --json"),
            kExitOk)
      << err();
  EXPECT_EQ(server_.seen().classify.execution().receptive_field(), v1::RECEPTIVE_FIELD_ALWAYS);
  EXPECT_EQ(server_.seen().classify.execution().precision(), v1::PRECISION_BFLOAT16);
  EXPECT_EQ(Json()["timing"]["computed_node_count"], 42);
  EXPECT_EQ(Vicinal("classify --graph g --model m --receptive_field maybe"), kExitUsage);
  EXPECT_EQ(Vicinal("classify --graph g --model m --precision int8"), kExitUsage);
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 1 --product_precision tf32"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.execution().product_precision(), v1::PRODUCT_PRECISION_TF32);
  EXPECT_EQ(Vicinal("classify --graph g --model m --product_precision int8"), kExitUsage);
  EXPECT_EQ(Vicinal("classify-graphs b.npz --model m --receptive_field always"), kExitUsage);
}

TEST_F(RunTest, Tune) {
  ASSERT_EQ(
      Vicinal("graph tune g --operation aggregate --kinds sum,max --widths 16,64 --weights per_edge --budget 1.25"),
      kExitOk)
      << err();
  v1::TuneGraphRequest seen = server_.seen().tune;
  EXPECT_EQ(seen.name(), "g");
  EXPECT_EQ(seen.operation(), "aggregate");
  EXPECT_EQ(seen.kinds(1), "max");
  EXPECT_EQ(seen.widths(0), 16);
  EXPECT_EQ(seen.weights(0), "per_edge");
  EXPECT_EQ(seen.budget().seconds(), 1);
  EXPECT_EQ(seen.budget().nanos(), 250'000'000);
  EXPECT_FALSE(seen.no_wait() || seen.reset() || seen.has_force());
  EXPECT_THAT(out(), HasSubstr("graph 'g' version 3"));
  EXPECT_THAT(out(), HasSubstr("aggregate sum, width 64, weights per_edge"));
  ASSERT_EQ(Vicinal("graph tune g --force simd_rows:feature_tile=64,prefetch_edges=8 --widths 16 --no_wait --json"),
            kExitOk)
      << err();
  seen = server_.seen().tune;
  EXPECT_EQ(seen.force().kernel(), "simd_rows");
  EXPECT_EQ(seen.force().parameters().at("feature_tile"), 64);
  EXPECT_EQ(seen.force().parameters().at("prefetch_edges"), 8);
  EXPECT_TRUE(seen.no_wait());
  EXPECT_EQ(Json()["records"][0]["state"], "TUNED");
  ASSERT_EQ(Vicinal("graph tune g --reset"), kExitOk) << err();
  EXPECT_TRUE(server_.seen().tune.reset());
  EXPECT_THAT(out(), HasSubstr("nothing is tuned"));
  ASSERT_EQ(Vicinal("graph tune g --show"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("width 1"));
}

TEST_F(RunTest, TuneRefusesWhatMakesNoSense) {
  for (const char* rest : {"--reset --force k", "--show --reset", "--force k:tile", "--force k:tile=x",
                           "--force k:tile=1,tile=2", "--force k:tile=9999999999", "--force :a=1", "--widths 16,x",
                           "--budget 0", "--budget 601", "--operation conv"}) {
    EXPECT_EQ(Vicinal(std::string("graph tune g ") + rest), kExitUsage) << rest;
  }
  EXPECT_EQ(Vicinal("graph tune g --force k:tile=99999999999999999999"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("'tile' the value 99999999999999999999; it has to be a number of 32 bits"));
  EXPECT_TRUE(server_.seen().tune.name().empty());
}

TEST_F(RunTest, AccuracyOverAMask) {
  // The fake's class of node n is n mod 5: labels agree for nodes 0, 1 and 6 of the mask {0, 1, 2, 6, 8}; 8 has no
  // label.
  Array mask = MakeArray<int32_t>({}, {0});
  mask.type = ElementType::kBool;
  mask.shape = {9};
  mask.data = std::string("\1\1\1\0\0\0\1\0\1", 9);
  ASSERT_TRUE(
      WriteNpz("labels.npz", {{"y", MakeArray<int64_t>({0, 1, 0, 3, 4, 0, 1, 0, -1}, {9})}, {"test_mask", mask}}).ok());
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  ASSERT_EQ(Vicinal("classify --graph g --model m --labels labels.npz --mask test_mask"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("accuracy 0.7500 (3/4)\n"));
  EXPECT_EQ(server_.seen().classify.nodes().ids_size(), 5);
  EXPECT_EQ(Vicinal("classify --graph g --model m --mask test_mask"), kExitUsage);
  EXPECT_EQ(Vicinal("classify --graph g --model m --labels labels.npz --nodes 0,9"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("none for node 9"));
}

TEST_F(RunTest, FeaturesOfTheRequest) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  ASSERT_TRUE(WriteNpy("x.npy", MakeArray<float>({1, 2, 3, 4}, {2, 2})).ok());
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 0 --features x.npy --feature_set daily"), kExitOk) << err();
  const v1::ClassifyRequest& request = server_.seen().classify;
  EXPECT_EQ(wire::ToFloats(request.features().dense()).value(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(request.target().feature_set(), "daily");
  ASSERT_EQ(Vicinal("features upload x.npy --graph g --name daily"), kExitOk) << err();
  EXPECT_EQ(server_.Uploaded("x").size(), 16u);
}

TEST_F(RunTest, SmallGraphsAreCutIntoBatches) {
  // Five graphs of 1, 2, 3, 0 and 1 nodes; the fake's class is that number.
  ASSERT_TRUE(WriteNpz("b.npz", {{"graph_id", MakeArray<int32_t>({0, 1, 1, 2, 2, 2, 4}, {7})},
                                 {"edge_index", MakeArray<int32_t>({5, 1, 3, 4, 2, 4}, {2, 3})},
                                 {"x", MakeArray<float>({0, 1, 2, 3, 4, 5, 6}, {7, 1})},
                                 {"graph_y", MakeArray<int64_t>({1, 2, 3, 0, 0}, {5})}})
                  .ok());
  ASSERT_EQ(Vicinal("classify-graphs b.npz --model m --batch 2 --out c.npy"), kExitOk) << err();
  EXPECT_EQ(ToInts(*ReadNpy("c.npy")).value(), (std::vector<int64_t>{1, 2, 3, 0, 1}));
  EXPECT_THAT(out(), HasSubstr("accuracy 0.8000 (4/5)"));
  EXPECT_THAT(out(), HasSubstr("3 calls"));
  ASSERT_EQ(Vicinal("classify-graphs b.npz --model m"), kExitOk) << err();
  const v1::GraphBatch& whole = server_.seen().classify_graphs.graphs();
  EXPECT_EQ(wire::ToInts(whole.ptr()).value(), (std::vector<int64_t>{0, 1, 3, 6, 6, 7}));
  EXPECT_EQ(wire::ToInts(whole.edge_index()).value(), (std::vector<int64_t>{5, 1, 3, 4, 2, 4}));
}

TEST_F(RunTest, BatchesCountTheirNodesFromZero) {
  ASSERT_TRUE(WriteNpz("b.npz", {{"graph_id", MakeArray<int32_t>({0, 1, 1}, {3})},
                                 {"edge_index", MakeArray<int32_t>({2, 0, 1, 0}, {2, 2})},
                                 {"x_indptr", MakeArray<int64_t>({0, 1, 1, 3}, {4})},
                                 {"x_indices", MakeArray<int32_t>({4, 0, 2}, {3})},
                                 {"x_data", MakeArray<float>({1, 2, 3}, {3})},
                                 {"x_shape", MakeArray<int64_t>({3, 5}, {2})}})
                  .ok());
  ASSERT_EQ(Vicinal("classify-graphs b.npz --model m --batch 1"), kExitOk) << err();
  const v1::GraphBatch& last = server_.seen().classify_graphs.graphs();
  EXPECT_EQ(wire::ToInts(last.ptr()).value(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(wire::ToInts(last.edge_index()).value(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(wire::ToInts(last.features().csr().indptr()).value(), (std::vector<int64_t>{0, 0, 2}));
  EXPECT_EQ(wire::ToInts(last.features().csr().indices()).value(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(wire::ToFloats(last.features().csr().values()).value(), (std::vector<float>{2, 3}));
}

TEST_F(RunTest, ModelsGoWithTheirFiles) {
  ASSERT_TRUE(WriteFile("m.json", "{}").ok());
  ASSERT_TRUE(WriteFile("m.safetensors", "weights").ok());
  ASSERT_TRUE(WriteFile("r.safetensors", "logits").ok());
  ASSERT_EQ(Vicinal("model upload m.json --weights m.safetensors --name m --reference r.safetensors "
                    "--reference_graph cora --tolerance 1e-5"),
            kExitOk)
      << err();
  EXPECT_EQ(server_.Uploaded("weights"), "weights");
  EXPECT_EQ(server_.Uploaded("reference"), "logits");
  EXPECT_EQ(server_.seen().model_spec.architecture_json(), "{}");
  EXPECT_EQ(server_.seen().model_spec.reference().graph(), "cora");
  EXPECT_EQ(server_.seen().model_spec.reference().tolerance(), 1e-5);
  EXPECT_EQ(Vicinal("model upload m.json --weights m.safetensors --name m --tolerance 1"), kExitUsage);
  ASSERT_TRUE(WriteFile("bytes", "\xFF\xFE").ok());
  EXPECT_EQ(Vicinal("model upload bytes --weights m.safetensors --name m"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("bytes: is no text in UTF-8"));
}

TEST_F(RunTest, StatusForPeopleAndScripts) {
  ASSERT_EQ(Vicinal("status"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("version fake"));
  EXPECT_THAT(out(), HasSubstr("no graphs"));
  EXPECT_THAT(out(), Not(HasSubstr("max_chunk_bytes")));
  ASSERT_EQ(Vicinal("status --all"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("max_chunk_bytes"));
  ASSERT_EQ(Vicinal("status --json"), kExitOk) << err();
  EXPECT_EQ(Json()["readiness"], "SERVING");
  EXPECT_EQ(Json()["capabilities"]["limits"][0]["value"], 64);
}

TEST_F(RunTest, TokenFile) {
  ASSERT_TRUE(WriteFile("token", "secret\n").ok());
  ASSERT_EQ(Vicinal("graph list --token_file token"), kExitOk) << err();
  EXPECT_EQ(server_.seen().authorization, "Bearer secret");
  ASSERT_TRUE(WriteFile("empty", "\n").ok());
  EXPECT_EQ(Vicinal("graph list --token_file empty"), kExitUsage);
}

}  // namespace
}  // namespace vicinal::client::cli
