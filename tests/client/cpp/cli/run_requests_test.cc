// SPDX-License-Identifier: Apache-2.0
// Inference and tuning, from the command line (run_testing.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/formats/files.h"
#include "client/cpp/formats/npy.h"
#include "proto/wire/tensors.h"
#include "tests/client/cpp/cli/run_testing.h"

namespace vicinal::client::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(RunTest, OutIsRefusedUnlessItIsNpyOrNpz) {
  EXPECT_EQ(Vicinal("embed --graph g --model m --out e.csv"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("must end in .npy or .npz"));
  EXPECT_EQ(Vicinal("classify --graph g --model m --out e.csv"), kExitUsage);
  // Before the file is read, let alone sent.
  EXPECT_EQ(Vicinal("classify-graphs missing.npz --model m --out e.csv"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("must end in .npy or .npz"));
}

TEST_F(RunTest, WeightsOfAttentionAreNotWrittenWithoutTheirEdges) {
  EXPECT_EQ(Vicinal("embed --graph g --model m --nodes 1 --attention conv --out att.npy"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--out att.npy: a .npy file would have the weights without their edges; write --out "
                               "att.npz, which gets edges [m, 2] and weights [m, heads]"));
  EXPECT_TRUE(server_.seen().graph_metadata.empty()) << "nothing was asked";
}

TEST_F(RunTest, OutIsRefusedBeforeTheWorkWhereItCannotBeWritten) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  for (const char* name : {"nowhere/e.npy", "nowhere/e.npz"}) {
    EXPECT_EQ(Vicinal(std::string("classify --graph g --model m --nodes 1 --out ") + name), kExitUsage);
    EXPECT_THAT(err(), HasSubstr(std::string(name) + ": cannot write: No such file or directory"));
  }
  EXPECT_EQ(server_.seen().classify.nodes().ids_size(), 0) << "nothing was asked";
}

TEST_F(RunTest, FilesOfNodesAreMarked) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  ASSERT_TRUE(WriteFile("nodes.txt", "1\n").ok());
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes nodes.txt"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("'nodes.txt' is a file: write --nodes @nodes.txt"));
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes @"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--nodes @FILE needs a file name"));
  EXPECT_EQ(Vicinal("classify --graph g --model m --nodes @nodes.txt"), kExitOk) << err();
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
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 1 --repeat 3 --json"), kExitOk) << err();
  const auto times = nlohmann::json::parse(out());
  EXPECT_EQ(times["round_trip_seconds"].size(), 3u);
  EXPECT_EQ(times["execute_seconds"], nlohmann::json::array({1.0, 2.0, 3.0})) << "the server's, call by call";
}

// As text a matrix is several times as long as its file.
TEST_F(RunTest, JsonLeavesOutWhatAFileHas) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g --num_nodes 25"), kExitOk) << err();
  const std::string line = "classify --graph g --model m --logits --json";
  ASSERT_EQ(Vicinal(line), kExitOk) << err();
  const nlohmann::json whole = Json();
  EXPECT_EQ(whole["logits"].size(), 25u);
  EXPECT_FALSE(whole.contains("out"));
  ASSERT_EQ(Vicinal(line + " --out l.npy"), kExitOk) << err();
  const nlohmann::json one = Json();
  EXPECT_EQ(one["out"], "l.npy");
  EXPECT_FALSE(one.contains("logits"));
  EXPECT_EQ(one["classes"], whole["classes"]);
  EXPECT_EQ(one["nodes"], whole["nodes"]);
  ASSERT_EQ(Vicinal(line + " --out all.npz"), kExitOk) << err();
  const nlohmann::json none = Json();
  EXPECT_FALSE(none.contains("logits") || none.contains("classes") || none.contains("scores"));
  EXPECT_EQ(none["nodes"].size(), 25u);
  EXPECT_TRUE(none.contains("served_by") && none.contains("timing"));
}

TEST_F(RunTest, LinksAreNamedInPairs) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  const std::string links = "predict-links --graph g --model m ";
  for (const auto& [options, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "give --sources and --targets, or --all_edges"},
           {"--sources 0 --targets 1 --all_edges", "give --sources and --targets, or --all_edges"},
           {"--sources 0 --targets 0,1", "--sources has 1 nodes and --targets 2"},
           {"--sources all --targets 0", "--sources must name nodes, not all"},
           {"--sources 0 --targets 1 --decoder best", "it must be model, dot or cosine"},
           {"--sources 0 --targets 1 --relation 9999999999", "--relation is out of range"},
           {"--sources 0 --targets 1 --relations 0,1", "--relations has 2 entries for 1 pairs"},
           {"--sources 0 --targets 1 --relations 0 --relation 0", "--relation and --relations exclude each other"},
           {"--sources 0 --targets 1 --relations 9999999999", "--relations names 9999999999, which is out of range"},
           {"--sources 0 --targets 1 --relations all", "--relations must be a list of numbers"},
           {"--all_edges --relations 0", "--relations has one relation per pair"}}) {
    EXPECT_EQ(Vicinal(links + options), kExitUsage) << options;
    EXPECT_THAT(err(), HasSubstr(why));
  }
  EXPECT_EQ(Vicinal("top-links --graph g --model m --nodes 0 --k 0"), kExitUsage);
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
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 1 --priority batch"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.execution().priority(), v1::PRIORITY_BATCH);
  EXPECT_EQ(Vicinal("classify --graph g --model m --product_precision int8"), kExitUsage);
  EXPECT_EQ(Vicinal("classify-graphs b.npz --model m --receptive_field always"), kExitUsage);
}

TEST_F(RunTest, AnswersThatAreNotFiniteHaveANote) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  ASSERT_EQ(Vicinal("classify --graph g --model overflows --nodes 1,0"), kExitOk) << err();
  EXPECT_THAT(err(), HasSubstr("note: 2 of 2 rows are not finite (NaN or infinite), the first is that of node 1: "));
  EXPECT_THAT(err(), HasSubstr("exceeded float32's range\n"));
  ASSERT_EQ(Vicinal("classify --graph g --model overflows --nodes 1 --precision float16 --json"), kExitOk) << err();
  EXPECT_THAT(Json()["notes"].back(), HasSubstr("exceeded float16's 65,504"));
  EXPECT_THAT(err(), Not(HasSubstr("not finite")));
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
  ASSERT_EQ(Vicinal("graph tune g --operation dense_update --widths 128 --outputs 64,32"), kExitOk) << err();
  EXPECT_EQ(server_.seen().tune.outputs(1), 32);
  ASSERT_EQ(Vicinal("graph tune g --operation expression --programs 0123456789abcdef,fedcba9876543210 --kinds var"),
            kExitOk)
      << err();
  EXPECT_EQ(server_.seen().tune.programs(1), "fedcba9876543210");
  ASSERT_EQ(Vicinal("graph tune g --force simd_rows:feature_tile=64,prefetch_edges=8 --widths 16 --no_wait --json"),
            kExitOk)
      << err();
  seen = server_.seen().tune;
  EXPECT_EQ(seen.force().kernel(), "simd_rows");
  EXPECT_EQ(seen.force().parameters().at("feature_tile"), 64);
  EXPECT_EQ(seen.force().parameters().at("prefetch_edges"), 8);
  EXPECT_TRUE(seen.no_wait());
  EXPECT_EQ(Json()["records"][0]["state"], "TUNED");
  EXPECT_EQ(seen.strategy(), v1::TUNING_STRATEGY_UNSPECIFIED);
  ASSERT_EQ(Vicinal("graph tune g --strategy estimated"), kExitOk) << err();
  EXPECT_EQ(server_.seen().tune.strategy(), v1::TUNING_STRATEGY_ESTIMATED);
  ASSERT_EQ(Vicinal("graph tune g --strategy measured"), kExitOk) << err();
  EXPECT_EQ(server_.seen().tune.strategy(), v1::TUNING_STRATEGY_MEASURED);
  EXPECT_EQ(Vicinal("graph tune g --strategy guessed"), kExitUsage);
  ASSERT_EQ(Vicinal("graph tune g --reset"), kExitOk) << err();
  EXPECT_TRUE(server_.seen().tune.reset());
  EXPECT_THAT(out(), HasSubstr("nothing has been tuned yet"));
  ASSERT_EQ(Vicinal("graph tune g --show"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("width 1"));
  EXPECT_THAT(out(), HasSubstr("--verbose shows"));
  EXPECT_THAT(out(), Not(HasSubstr("predicted")));
  ASSERT_EQ(Vicinal("graph tune g --show --verbose"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("predicted"));
  EXPECT_THAT(out(), Not(HasSubstr("--verbose shows")));
}

TEST_F(RunTest, ShowPrintsTheRecordsOfTheWorkThatOptionsSelect) {
  for (const char* selected : {"--operation aggregate", "--kinds max,sum", "--widths 1,2", "--weights per_edge"}) {
    ASSERT_EQ(Vicinal(std::string("graph tune g --show ") + selected), kExitOk) << err();
    EXPECT_THAT(out(), HasSubstr("aggregate sum, width 1")) << selected;
  }
  for (const char* others :
       {"--operation expression", "--kinds max", "--widths 2", "--weights none", "--programs 0123456789abcdef"}) {
    ASSERT_EQ(Vicinal(std::string("graph tune g --show ") + others), kExitOk) << err();
    EXPECT_THAT(out(), Not(HasSubstr("width 1"))) << others;
    EXPECT_THAT(out(), HasSubstr("no such work among the 1 kind that it knows; --show alone lists all\n"));
    ASSERT_EQ(Vicinal(std::string("graph tune g --show --json ") + others), kExitOk) << err();
    EXPECT_TRUE(Json()["records"].empty()) << others;
  }
  EXPECT_EQ(Vicinal("graph tune g --show --operation conv"), kExitUsage);
  EXPECT_EQ(Vicinal("graph tune g --export f.json --operation aggregate"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--export is about all decisions of the graph: remove --operation"));
}

TEST_F(RunTest, AForcedKernelThatRefusesSomeWorkIsToldWhichWorkIsMeant) {
  EXPECT_EQ(Vicinal("graph tune g --force unwilling --operation aggregate"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("this; limit --force with --operation OP, --kinds K,... or --widths W,...\n"));
  EXPECT_EQ(Vicinal("graph tune g --force unwilling --operation aggregate --widths 8"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("'unwilling' does not take this\n"));
}

TEST_F(RunTest, TuneRefusesWhatMakesNoSense) {
  for (const char* rest : {"--reset --force k", "--show --reset", "--force k:tile", "--force k:tile=x",
                           "--force k:tile=1,tile=2", "--force k:tile=9999999999", "--force :a=1", "--widths 16,x",
                           "--budget 0", "--budget 601", "--operation conv"}) {
    EXPECT_EQ(Vicinal(std::string("graph tune g ") + rest), kExitUsage) << rest;
  }
  EXPECT_EQ(Vicinal("graph tune g --force k:tile=99999999999999999999"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("'tile' the value 99999999999999999999; it must be a 32-bit number"));
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
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 0 --features x.npy"), kExitOk) << err();
  EXPECT_EQ(wire::ToFloats(server_.seen().classify.features().dense()).value(), (std::vector<float>{1, 2, 3, 4}));
  ASSERT_EQ(Vicinal("classify --graph g --model m --nodes 0 --feature_set daily"), kExitOk) << err();
  EXPECT_EQ(server_.seen().classify.target().feature_set(), "daily");
  EXPECT_FALSE(server_.seen().classify.has_features());
  EXPECT_EQ(Vicinal("embed --graph g --model m --features x.npy --feature_set daily"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--features and --feature_set exclude each other"));
  ASSERT_EQ(Vicinal("features upload x.npy --graph g --name daily"), kExitOk) << err();
  EXPECT_EQ(server_.Uploaded("x").size(), 16u);
  ASSERT_TRUE(WriteNpy("x.npy", MakeArray<float>({1, 2, 3, 4}, {4, 1})).ok());
  const int finishes = server_.seen().finishes;
  EXPECT_EQ(Vicinal("features upload x.npy --graph g --name daily --replace"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("x.npy: the features have 4 rows, but graph 'g' has 2 nodes"));
  EXPECT_EQ(server_.seen().finishes, finishes);
  EXPECT_EQ(Vicinal("features upload x.npy --graph nobody --name daily"), kExitNotFound);
}

TEST_F(RunTest, WhatFewAskForIsShownWhenAskedFor) {
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  ASSERT_EQ(Vicinal("graph upload e.txt --name g"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("prepared in 2.00 s; 'vicinal graph get g' shows the stages and the graph's profile\n"));
  EXPECT_THAT(out(), Not(HasSubstr("window of 1024")));
  for (const char* line : {"graph get g", "graph explain g", "graph explain g --model m --verbose"}) {
    ASSERT_EQ(Vicinal(line), kExitOk) << err();
    EXPECT_THAT(out(), HasSubstr("renumber  2.00 s\n")) << line;
    EXPECT_THAT(out(), HasSubstr("window of 1024")) << line;
  }
  EXPECT_THAT(out(), HasSubstr("kernels that do not support a step:\n  step 0: narrow: only width 4\n"));
  EXPECT_THAT(out(), Not(HasSubstr("--verbose also shows")));
  ASSERT_EQ(Vicinal("graph explain g --model m"), kExitOk) << err();
  EXPECT_THAT(out(), Not(HasSubstr("window of 1024")));
  EXPECT_THAT(out(), Not(HasSubstr("kernels that do not support a step:")));
  EXPECT_THAT(out(), HasSubstr("simd_rows tile_columns=64")) << "a parameter of 0 is the kernel's own";
  EXPECT_THAT(out(), HasSubstr("0 + 100  - + 2 us"));
  EXPECT_THAT(out(),
              HasSubstr("runs, mean time: full graph + receptive fields (requests for few nodes); -: none yet\n"));
  EXPECT_THAT(out(), HasSubstr("nothing was rewritten"));
  EXPECT_THAT(out(), HasSubstr("--verbose also shows the graph's profile"));
  EXPECT_EQ(Vicinal("graph explain g --verbose"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--verbose concerns the plan, so it needs --model MODEL"));
}

TEST_F(RunTest, NamesAreCheckedAndShown) {
  for (const char* line :
       {"classify --graph G --model m", "embed --graph g --model G", "graph get G", "graph tune G --show",
        "graph explain g --model G", "features list --graph G", "features delete G --graph g",
        "classify --graph g --model m --feature_set G", "model delete G"}) {
    EXPECT_EQ(Vicinal(line), kExitUsage) << line;
    EXPECT_THAT(err(), HasSubstr(" 'G' does not match [a-z0-9][a-z0-9._-]{0,62}\n")) << line;
  }
  EXPECT_EQ(Vicinal("classify --graph G --model m"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("vicinal: --graph 'G' does not match"));
}

TEST_F(RunTest, SmallGraphsAreCutIntoBatches) {
  // Five graphs of 1, 2, 3, 0 and 1 nodes; the fake's class is that number.
  ASSERT_TRUE(WriteNpz("b.npz", {{"graph_id", MakeArray<int32_t>({0, 1, 1, 2, 2, 2, 4}, {7})},
                                 {"edge_index", MakeArray<int32_t>({5, 1, 3, 4, 2, 4}, {2, 3})},
                                 {"x", MakeArray<float>({0, 1, 2, 3, 4, 5, 6}, {7, 1})},
                                 {"graph_y", MakeArray<int64_t>({1, 2, 3, 0, 0}, {5})}})
                  .ok());
  ASSERT_EQ(Vicinal("classify-graphs b.npz --model m --batch 2 --out c.npy --json"), kExitOk) << err();
  EXPECT_EQ(Json()["out"], "c.npy");
  EXPECT_FALSE(Json().contains("classes"));
  ASSERT_EQ(Vicinal("classify-graphs b.npz --model m --batch 2 --out c.npy"), kExitOk) << err();
  EXPECT_EQ(ToInts(*ReadNpy("c.npy")).value(), (std::vector<int64_t>{1, 2, 3, 0, 1}));
  EXPECT_THAT(out(), HasSubstr("accuracy 0.8000 (4/5)"));
  EXPECT_THAT(out(), HasSubstr("3 calls"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(WriteNpz("nan.npz", {{"graph_id", MakeArray<int32_t>({0, 1}, {2})},
                                   {"edge_index", MakeArray<int32_t>({}, {2, 0})},
                                   {"x", MakeArray<float>({0, nan}, {2, 1})}})
                  .ok());
  EXPECT_EQ(Vicinal("classify-graphs nan.npz --model m"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("nan.npz: the features of node 1 contain nan in column 0"));
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

}  // namespace
}  // namespace vicinal::client::cli
