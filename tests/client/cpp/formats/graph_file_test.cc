// SPDX-License-Identifier: Apache-2.0
// Whole files: the repository's data sets against the figures of their publication, the same small graph in every
// format, and shapes that do not fit together.
#include "client/cpp/formats/graph_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/not_finite.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Data(const std::string& name) { return std::string(VICINAL_TEST_DATA "/graphs/") + name; }

std::string TempPath(const std::string& name) {
  static const TemporaryDirectory folder;
  return folder / name;
}

std::string Temp(const std::string& name, const std::string& text) {
  const std::string path = TempPath(name);
  EXPECT_TRUE(WriteFile(path, text).ok());
  return path;
}

std::string TempNpz(const std::string& name, const std::map<std::string, Array>& arrays) {
  const std::string path = TempPath(name);
  EXPECT_TRUE(WriteNpz(path, arrays).ok());
  return path;
}

std::string GraphFileError(const std::string& path, const GraphFileOptions& options = {}) {
  const auto graph = ReadGraphFile(path, options);
  return graph.ok() ? "it was read" : std::string(graph.status().message());
}

TEST(GraphFileTest, Cora) {
  const auto graph = ReadGraphFile(Data("cora.npz"), {});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->node_count, 2708);
  EXPECT_EQ(graph->edge_index.shape, (std::vector<int64_t>{2, 10556}));
  EXPECT_EQ(graph->edge_index.type, ElementType::kInt32);
  ASSERT_TRUE(graph->features);
  EXPECT_TRUE(graph->features->sparse);
  EXPECT_EQ(graph->features->columns, 1433);
  EXPECT_EQ(graph->features->values.element_count(), 49216);
  EXPECT_FALSE(graph->ids);
  EXPECT_FALSE(graph->edge_weight);
  EXPECT_EQ(ReadLabels(Data("cora.npz"), "y")->size(), 2708u);
  EXPECT_EQ(ReadMask(Data("cora.npz"), "test_mask")->size(), 1000u);
}

TEST(GraphFileTest, DirectedHasWeightsAndDenseFeatures) {
  const auto graph = ReadGraphFile(Data("directed.npz"), {});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->node_count, 6000);
  ASSERT_TRUE(graph->edge_weight);
  EXPECT_EQ(graph->edge_weight->element_count(), 33396);
  ASSERT_TRUE(graph->features);
  EXPECT_FALSE(graph->features->sparse);
  EXPECT_EQ(graph->features->dense.shape, (std::vector<int64_t>{6000, 24}));
}

TEST(GraphFileTest, ProteinsIsABatchOfSmallGraphs) {
  const auto batch = ReadGraphBatch(Data("proteins.npz"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->ptr.size(), 1114u);
  EXPECT_EQ(batch->ptr.back(), 43471);
  EXPECT_EQ(batch->sources.size(), 162088u);
  EXPECT_EQ(batch->features.columns, 4);
  ASSERT_TRUE(batch->labels);
  EXPECT_EQ(batch->labels->size(), 1113u);
  EXPECT_THAT(std::string(ReadGraphBatch(Data("cora.npz")).status().message()), HasSubstr("graph_id"));
}

TEST(GraphFileTest, TheSameGraphInEveryFormat) {
  const std::string npz = TempNpz("same.npz", {{"edge_index", MakeArray<int64_t>({0, 1, 2, 1, 2, 0}, {2, 3})},
                                               {"edge_weight", MakeArray<float>({1, 2, 3}, {3})}});
  const std::string list = Temp("same.txt", "0 1 1\n1 2 2\n2 0 3\n");
  const std::string commas = Temp("same.csv", "source,target,weight\n0,1,1\n1,2,2\n2,0,3\n");
  const std::string matrix =
      Temp("same.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 3\n2 1 1\n3 2 2\n1 3 3\n");
  for (const std::string& path : {npz, list, commas, matrix}) {
    const auto graph = ReadGraphFile(path, {});
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->node_count, 3) << path;
    EXPECT_EQ(ToInts(graph->edge_index).value(), (std::vector<int64_t>{0, 1, 2, 1, 2, 0})) << path;
    EXPECT_EQ(ToFloats(*graph->edge_weight), (std::vector<float>{1, 2, 3})) << path;
  }
}

TEST(GraphFileTest, FeaturesOfEdges) {
  const Array edges = MakeArray<int32_t>({0, 1, 1, 2}, {2, 2}), two = MakeArray<float>({1, 2, 3, 4}, {2, 2});
  const std::string npz = TempNpz("features.npz", {{"edge_index", edges}, {"edge_attr", two}});
  const auto graph = ReadGraphFile(npz, {});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->edge_attr->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(ToFloats(*graph->edge_attr), (std::vector<float>{1, 2, 3, 4}));
  // Reverse edges have those of the edge.
  GraphFileOptions undirected;
  undirected.undirected = true;
  EXPECT_EQ(ToFloats(*ReadGraphFile(npz, undirected)->edge_attr), (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4}));
  // One number each, of any type.
  const auto one =
      ReadGraphFile(TempNpz("one.npz", {{"edge_index", edges}, {"edge_attr", MakeArray<int64_t>({7, -8}, {2})}}), {});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->edge_attr->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(ToFloats(*one->edge_attr), (std::vector<float>{7, -8}));
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 1}, {1, 2, 2}, {4}}) {
    EXPECT_THAT(GraphFileError(
                    TempNpz("bad.npz", {{"edge_index", edges}, {"edge_attr", MakeArray<float>({1, 2, 3, 4}, shape)}})),
                HasSubstr("instead of [2, A]: one row per edge"));
  }
}

TEST(GraphFileTest, WhatWasMeantAsAMatrixIsNoEdgeList) {
  const std::string entries = " matrix coordinate real general\n3 3 1\n2 1 1\n";
  const auto any_case = ReadGraphFile(Temp("case.txt", "%%matrixmarket" + entries), {});
  ASSERT_TRUE(any_case.ok()) << any_case.status();
  EXPECT_EQ(any_case->edge_index.element_count(), 2);
  for (const char* banner :
       {"%MatrixMarket", "% MatrixMarket", "MatrixMarket", "%%MatrixMarkt", "%%Matrix Market", " %%%MatrixMarket"}) {
    EXPECT_THAT(
        GraphFileError(Temp("near.txt", banner + entries)),
        AllOf(HasSubstr("near.txt:1: "), HasSubstr("is not a MatrixMarket banner"), HasSubstr("--format edgelist")))
        << banner;
  }
  EXPECT_THAT(GraphFileError(Temp("blank.txt", "\n%%MatrixMarket" + entries)), HasSubstr("MatrixMarket banner"));
  // By its name alone, whatever options it came with.
  GraphFileOptions options;
  options.comments = Comments::kYes;
  const std::string named = Temp("named.MTX", "% three edges\n0 1\n1 2\n2 0\n");
  EXPECT_THAT(GraphFileError(named, options), HasSubstr("'% three edges' is not a MatrixMarket banner"));
  options.format = GraphFormat::kEdgeList;
  EXPECT_EQ(GraphFileError(named, options), "it was read");
  EXPECT_EQ(GraphFileError(Temp("list.txt", "# matrix of friends\n0 1\n")), "it was read");
}

TEST(GraphFileTest, FeaturesBesideAnEdgeList) {
  const std::string list = Temp("beside.txt", "0 1\n1 2\n");
  GraphFileOptions options;
  options.features_path = TempPath("x.npy");
  ASSERT_TRUE(WriteNpy(options.features_path, MakeArray<float>(std::vector<float>(10, 1), {5, 2})).ok());
  const auto graph = ReadGraphFile(list, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->node_count, 5);
  EXPECT_EQ(graph->features->columns, 2);
  // Ids of one's own: rows must be as many as ids, and of texts it must be said which row is whose.
  EXPECT_THAT(GraphFileError(Temp("numbers.txt", "10 20\n20 30\n"), options),
              HasSubstr("5 rows, but the graph has 3 nodes"));
  EXPECT_THAT(GraphFileError(Temp("names.txt", "a b\nb c\n"), options),
              HasSubstr("the order of the features' rows is unknown: pass --ids FILE"));
  options.ids_path = Temp("ids.txt", "c\nb\na\nd\ne\n");
  const auto named = ReadGraphFile(Temp("names.txt", "a b\nb c\n"), options);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->node_count, 5);
  EXPECT_EQ(ToInts(named->edge_index).value(), (std::vector<int64_t>{2, 1, 1, 0}));
}

TEST(GraphFileTest, TitlesInAFileOfIdsAreGuessedAt) {
  GraphFileOptions options;
  options.features_path = TempPath("x2.npy");
  ASSERT_TRUE(WriteNpy(options.features_path, MakeArray<float>({1, 2}, {2, 1})).ok());
  options.ids_path = Temp("titled.csv", "who\n\"Doe, John\"\nann\n");
  EXPECT_THAT(GraphFileError(Temp("pairs.csv", "\"Doe, John\",ann\n"), options),
              HasSubstr("2 rows, but the graph has 3 nodes, as many as " + options.ids_path +
                        " lists (its first line counts; --ids_title yes skips it)"));
  options.ids_path = Temp("untitled.csv", "\"Doe, John\"\nann\n");
  const auto graph = ReadGraphFile(Temp("pairs.csv", "\"Doe, John\",ann\n"), options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(ToInts(graph->edge_index).value(), (std::vector<int64_t>{0, 1}));
}

// pandas.Series(ids).to_csv("ids.txt", index=False) writes a title, "0" where the series has no name.
TEST(GraphFileTest, ATitleInAFileOfIdsIsNoNode) {
  const std::string edges = Temp("titles_edges.txt", "ann bob\nbob carl\n");
  GraphFileOptions options, yes, no;
  yes.ids_title = Titles::kYes;
  no.ids_title = Titles::kNo;
  for (const char* title : {"id", "NODE_ID", "Name", "source", "0", "\"id\""}) {
    for (GraphFileOptions* each : {&options, &yes, &no}) {
      each->ids_path = Temp("titles_ids.txt", title + std::string("\nann\nbob\ncarl\nlonely\n"));
    }
    const std::string error = GraphFileError(edges, options);
    EXPECT_THAT(error, HasSubstr("titles_ids.txt:1: is it a title or an id? '")) << title;
    EXPECT_THAT(error,
                HasSubstr("occurs in no edge: --ids_title yes skips the line, --ids_title no reads it as an id"));
    const auto skipped = ReadGraphFile(edges, yes), taken = ReadGraphFile(edges, no);
    ASSERT_TRUE(skipped.ok() && taken.ok()) << skipped.status() << taken.status();
    EXPECT_EQ(skipped->node_count, 4);
    EXPECT_EQ(skipped->ids->IdOf(0), "ann");
    EXPECT_THAT(skipped->notes.back(), HasSubstr("titles_ids.txt was taken as a title"));
    EXPECT_EQ(taken->node_count, 5);
  }
  options.ids_path = Temp("titles_ids.txt", "person\n7\n9\n");
  EXPECT_THAT(GraphFileError(Temp("titles_numbers.txt", "7 9\n"), options), HasSubstr("or an id? 'person'"));
  options.ids_path = Temp("titles_ids.txt", "# vicinal ids: of friends\nid\nann\nbob\ncarl\n");
  EXPECT_THAT(GraphFileError(edges, options), HasSubstr("titles_ids.txt:2: is it a title"));
  yes.ids_path = Temp("titles_ids.txt", "id\nann\nann\n");
  EXPECT_THAT(GraphFileError(edges, yes), HasSubstr("titles_ids.txt:3: the id 'ann' is already on line 2"));
  yes.ids_path = Temp("titles_ids.txt", "id\n");
  EXPECT_THAT(GraphFileError(edges, yes), HasSubstr("contains no ids"));
  yes.ids_path.clear();
  EXPECT_EQ(GraphFileError(edges, yes), "--ids_title describes the file of --ids, so it needs --ids");
}

TEST(GraphFileTest, AFirstIdThatIsAWordOfTitlesMayBeOne) {
  GraphFileOptions options;
  options.ids_path = Temp("words_ids.txt", "name\nann\nbob\n");
  EXPECT_TRUE(ReadGraphFile(Temp("words.txt", "ann name\nname bob\n"), options).ok()) << "an edge names it";
  options.ids_path = Temp("words_ids.txt", "lonely\nann\nbob\n");
  EXPECT_TRUE(ReadGraphFile(Temp("words.txt", "ann bob\n"), options).ok()) << "no such word";
  options.ids_path = Temp("words_ids.txt", "0\n1\n2\n");
  EXPECT_TRUE(ReadGraphFile(Temp("words.txt", "1 2\n"), options).ok()) << "a number among numbers";
}

TEST(GraphFileTest, FilesThatAreNoGraphAreRecognised) {
  EXPECT_THAT(GraphFileError(Temp("damaged.npz", "0 1\n")), HasSubstr("damaged.npz: is not a complete .npz file"));
  const std::string npy = Temp("lonely.npy", SerializeNpy(MakeArray<float>({1}, {1, 1})));
  EXPECT_THAT(GraphFileError(npy), HasSubstr("is a single .npy array; a graph is an .npz"));
  EXPECT_THAT(GraphFileError(Temp("packed", "\x1F\x8B\x08")), HasSubstr("is compressed with gzip: unpack it first"));
  const std::string json = Temp("graph.json", " {\"edges\": [[0, 1]]}\n");
  EXPECT_THAT(GraphFileError(json), HasSubstr("looks like JSON"));
  GraphFileOptions options;
  options.format = GraphFormat::kEdgeList;
  EXPECT_THAT(GraphFileError(Temp("braces.txt", "{a {b\n"), options), "it was read");
}

TEST(GraphFileTest, FeaturesOfOtherTypesBecomeFloats) {
  const std::string path = TempPath("int.npy");
  ASSERT_TRUE(WriteNpy(path, MakeArray<int32_t>({1, 2, 3, 4}, {2, 2})).ok());
  const auto features = ReadFeatures(path);
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_EQ(features->dense.type, ElementType::kFloat32);
  EXPECT_EQ(ToFloats(features->dense), (std::vector<float>{1, 2, 3, 4}));
  ASSERT_TRUE(WriteNpy(path, MakeArray<float>({1, 2}, {2})).ok());
  EXPECT_THAT(std::string(ReadFeatures(path).status().message()), HasSubstr("[N, F]"));
}

TEST(GraphFileTest, UndirectedAndNumberOfNodes) {
  GraphFileOptions options;
  options.undirected = true;
  options.node_count = 4;
  const auto graph = ReadGraphFile(Temp("undirected.txt", "0 1\n1 0\n1 2\n"), options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->node_count, 4);
  EXPECT_EQ(ToInts(graph->edge_index).value(), (std::vector<int64_t>{0, 1, 1, 2, 1, 0, 2, 1}));
  EXPECT_THAT(graph->notes, ElementsAre("undirected: added 1 reverse edges"));
}

TEST(GraphFileTest, ShapesThatDoNotFit) {
  const Array edges = MakeArray<int32_t>({0, 1, 1, 0}, {2, 2});
  EXPECT_THAT(GraphFileError(TempNpz("a.npz", {{"x", MakeArray<float>({1}, {1, 1})}})), HasSubstr("edge_index"));
  EXPECT_THAT(GraphFileError(TempNpz("b.npz", {{"edge_index", MakeArray<int32_t>({0, 1, 1, 0, 0, 0}, {3, 2})}})),
              HasSubstr("save edge_index.T"));
  EXPECT_THAT(GraphFileError(TempNpz("c.npz", {{"edge_index", MakeArray<float>({0, 1}, {2, 1})}})),
              HasSubstr("must be integers"));
  EXPECT_THAT(GraphFileError(TempNpz("d.npz", {{"edge_index", edges}, {"edge_weight", MakeArray<float>({1}, {1})}})),
              HasSubstr("edge_weight has shape [1] instead of [2]"));
  EXPECT_THAT(GraphFileError(TempNpz("e.npz", {{"edge_index", edges},
                                               {"x", MakeArray<float>({1, 2, 3}, {3, 1})},
                                               {"y", MakeArray<int64_t>({0, 1}, {2})}})),
              HasSubstr("3 rows, but the graph has 2 nodes"));
  EXPECT_THAT(GraphFileError("/nonexistent"), HasSubstr("No such file"));
}

std::map<std::string, Array> Csr(std::vector<int64_t> indptr, std::vector<int32_t> indices,
                                 std::vector<int64_t> shape) {
  const auto entries = static_cast<int64_t>(indices.size());
  return {{"x_indptr", MakeArray(indptr, {static_cast<int64_t>(indptr.size())})},
          {"x_indices", MakeArray(indices, {entries})},
          {"x_data", MakeArray(std::vector<float>(indices.size(), 1), {entries})},
          {"x_shape", MakeArray(shape, {static_cast<int64_t>(shape.size())})}};
}

TEST(GraphFileTest, CsrThatDoesNotFit) {
  const auto error = [](const std::map<std::string, Array>& arrays) {
    const auto features = ReadFeatures(TempNpz("csr.npz", arrays));
    return features.ok() ? "it was read" : std::string(features.status().message());
  };
  EXPECT_EQ(error(Csr({0, 1, 2}, {0, 3}, {2, 4})), "it was read");
  EXPECT_THAT(error(Csr({0, 1}, {0}, {2, 4})), HasSubstr("x_indptr has 2 entries"));
  EXPECT_THAT(error(Csr({0, 2, 1}, {0}, {2, 4})), HasSubstr("must rise"));
  EXPECT_THAT(error(Csr({0, 1, 9}, {0, 1}, {2, 4})), HasSubstr("must rise"));
  EXPECT_THAT(error(Csr({-1, 1, 2}, {0, 1}, {2, 4})), HasSubstr("must rise"));
  EXPECT_THAT(error(Csr({0, 1, 2}, {0, 4}, {2, 4})), HasSubstr("x_indices contains 4"));
  EXPECT_THAT(error(Csr({0, 1, 2}, {0, -1}, {2, 4})), HasSubstr("x_indices contains -1"));
  EXPECT_THAT(error(Csr({0, 1, 2}, {0, 1}, {2})), HasSubstr("x_shape"));
  EXPECT_THAT(error(Csr({}, {}, {-1, 4})), HasSubstr("x_shape"));
  auto missing = Csr({0, 1, 2}, {0, 1}, {2, 4});
  missing.erase("x_data");
  EXPECT_THAT(error(missing), HasSubstr("no x_data"));
}

TEST(GraphFileTest, ValuesThatAreNotFinite) {
  const auto found = [](Array x) {
    const auto at = FindNotFinite(*ReadFeatures(TempNpz("x.npz", {{"x", std::move(x)}})));
    return at ? absl::StrCat(at->row, " ", at->column, " ", at->value) : "none";
  };
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_EQ(found(MakeArray<float>({0, -1, 3e38f, 1e-45f}, {2, 2})), "none");
  EXPECT_EQ(found(MakeArray<float>({0, 1, static_cast<float>(-infinity), 0}, {2, 2})), "1 0 -inf");
  EXPECT_EQ(found(MakeArray<float>({0, static_cast<float>(-nan), static_cast<float>(infinity), 0}, {2, 2})), "0 1 nan");
  const double wide[] = {0, 1, 2, 1e300};
  EXPECT_EQ(found({ElementType::kFloat64, {2, 2}, std::string(reinterpret_cast<const char*>(wide), sizeof(wide))}),
            "1 1 inf")
      << "as a float32";
  EXPECT_EQ(found({ElementType::kFloat16, {1, 3}, std::string("\0\0\xFF\x7B\x00\x7C", 6)}), "0 2 inf");
  EXPECT_EQ(found(MakeArray<float>({}, {2, 0})), "none");
  auto sparse = Csr({0, 1, 1, 3}, {0, 1, 3}, {3, 4});
  sparse["x_data"] = MakeArray<float>({1, 1, static_cast<float>(nan)}, {3});
  const auto at = FindNotFinite(*ReadFeatures(TempNpz("csr.npz", sparse)));
  ASSERT_TRUE(at.has_value());
  EXPECT_EQ(at->row, 2);
  EXPECT_EQ(at->column, 3);
}

TEST(GraphFileTest, BatchesThatDoNotFit) {
  const auto error = [](std::vector<int32_t> graph_id, std::vector<int32_t> edges) {
    const auto nodes = static_cast<int64_t>(graph_id.size());
    const auto batch = ReadGraphBatch(
        TempNpz("batch.npz", {{"graph_id", MakeArray(graph_id, {nodes})},
                              {"edge_index", MakeArray(edges, {2, static_cast<int64_t>(edges.size()) / 2})},
                              {"x", MakeArray(std::vector<float>(graph_id.size(), 1), {nodes, 1})}}));
    return batch.ok() ? ::testing::PrintToString(batch->ptr) : std::string(batch.status().message());
  };
  EXPECT_EQ(error({0, 0, 1}, {0, 1}), "{ 0, 2, 3 }");
  EXPECT_EQ(error({0, 2}, {0, 0}), "{ 0, 1, 1, 2 }");
  EXPECT_EQ(error({1, 1}, {0, 1}), "{ 0, 0, 2 }");
  EXPECT_THAT(error({0, 1, 0}, {0, 0}), HasSubstr("graph_id of node 2 is 0"));
  EXPECT_THAT(error({-1}, {0, 0}), HasSubstr("must ascend"));
  EXPECT_THAT(error({0, 2000000000}, {0, 0}), HasSubstr("must ascend"));
  EXPECT_THAT(error({0, 1}, {0, 1}), HasSubstr("connects graphs 0 and 1"));
  EXPECT_THAT(error({0, 0}, {0, 5}), HasSubstr("outside"));
}

// 2^32 + 3 narrowed to 32 bits is 3, which is a node.
TEST(GraphFileTest, IdsOutsideTheGraphAreRefusedAsTheyStand) {
  constexpr int64_t kWide = int64_t{1} << 32, kMax = std::numeric_limits<int64_t>::max();
  const Array x = MakeArray<float>({0, 1, 2, 3, 4}, {5, 1});
  const auto error = [&](std::vector<int64_t> edges, const GraphFileOptions& options = {}) {
    return GraphFileError(TempNpz("wide.npz", {{"edge_index", MakeArray(edges, {2, 2})}, {"x", x}}), options);
  };
  EXPECT_EQ(error({0, 4, 1, 3}), "it was read");
  EXPECT_THAT(error({0, kWide + 3, 1, 1}), HasSubstr("wide.npz: edge 1 (4294967299 -> 1) has an end outside 0..4"));
  EXPECT_THAT(error({0, 1, 1 - kWide, 1}), HasSubstr("edge 0 (0 -> -4294967295) has an end outside 0..4"));
  EXPECT_THAT(error({0, 5, 1, 1}), HasSubstr("edge 1 (5 -> 1)"));
  EXPECT_THAT(error({-1, 0, 1, 1}), HasSubstr("edge 0 (-1 -> 1)"));
  EXPECT_THAT(error({0, kMax, 1, 1}), HasSubstr("edge 1 (9223372036854775807 -> 1)"));
  GraphFileOptions undirected;
  undirected.undirected = true;
  EXPECT_THAT(error({0, kWide + 3, 1, 1}, undirected), HasSubstr("edge 1 (4294967299 -> 1)"));

  // Nothing but the ids, or the user, says how many nodes there are.
  const auto alone = [](std::vector<int64_t> edges, std::optional<int64_t> nodes = {}) {
    GraphFileOptions options;
    options.node_count = nodes;
    return GraphFileError(TempNpz("alone.npz", {{"edge_index", MakeArray(edges, {2, 1})}}), options);
  };
  EXPECT_EQ(alone({kWide + 3, 1}), "it was read");
  EXPECT_THAT(alone({kMax, 1}), HasSubstr("edge 0 (9223372036854775807 -> 1) has an end outside"));
  EXPECT_THAT(alone({-1, 1}), HasSubstr("edge 0 (-1 -> 1) has an end outside 0..1"));
  EXPECT_THAT(alone({-1, -1}), HasSubstr("edge 0 (-1 -> -1) has an end in a graph without nodes"));
  EXPECT_THAT(alone({kWide + 3, 1}, 4), HasSubstr("edge 0 (4294967299 -> 1) has an end outside 0..3"));

  Array beyond = MakeArray<int64_t>({0, std::numeric_limits<int64_t>::min() + 1}, {2, 1});
  beyond.type = ElementType::kUint64;
  EXPECT_THAT(GraphFileError(TempNpz("beyond.npz", {{"edge_index", beyond}})),
              HasSubstr("edge_index: element 1 is 9223372036854775809, beyond int64"));
}

TEST(GraphFileTest, IdsOutsideABatchAreRefusedAsTheyStand) {
  const auto error = [](std::vector<int64_t> graph_id, std::vector<int64_t> edges) {
    const auto nodes = static_cast<int64_t>(graph_id.size());
    const auto batch = ReadGraphBatch(
        TempNpz("wide_batch.npz", {{"graph_id", MakeArray(graph_id, {nodes})},
                                   {"edge_index", MakeArray(edges, {2, static_cast<int64_t>(edges.size()) / 2})},
                                   {"x", MakeArray(std::vector<float>(graph_id.size(), 1), {nodes, 1})}}));
    return batch.ok() ? "it was read" : std::string(batch.status().message());
  };
  constexpr int64_t kWide = int64_t{1} << 32;
  EXPECT_THAT(error({0, 0, 0}, {1, kWide + 2, 0, 0}), HasSubstr("edge 1 (4294967298 -> 0) has an end outside 0..2"));
  EXPECT_THAT(error({0, 0, 0}, {1, 2, 0, -kWide}), HasSubstr("edge 1 (2 -> -4294967296) has an end outside 0..2"));
  EXPECT_THAT(error({0, 0, kWide}, {1, 2, 0, 0}), HasSubstr("graph_id of node 2 is 4294967296"));
}

TEST(GraphFileTest, ColumnsBeyondInt32AreRefused) {
  constexpr int64_t kWide = int64_t{1} << 32;
  auto arrays = Csr({0, 1, 2}, {0, 0}, {2, 2 * kWide});
  arrays["x_indices"] = MakeArray<int64_t>({0, kWide + 1}, {2});
  const auto features = ReadFeatures(TempNpz("wide_csr.npz", arrays));
  EXPECT_THAT(std::string(features.status().message()),
              HasSubstr("x_indices contains 4294967297, but columns are 0..2147483647"));
}

TEST(GraphFileTest, MasksAndLabelsOfAWrongKind) {
  EXPECT_THAT(std::string(ReadMask(Data("cora.npz"), "y").status().message()), HasSubstr("not a mask"));
  EXPECT_THAT(std::string(ReadLabels(Data("cora.npz"), "x_data").status().message()), HasSubstr("must be integers"));
  EXPECT_EQ(ReadMask(Data("cora.npz"), "no_mask").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace vicinal::client
