// SPDX-License-Identifier: Apache-2.0
// The rule of ids case by case, the layouts people write, and files that are wrong: with their line.
#include "client/cpp/formats/edge_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace vicinal::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EdgeFile Parse(const std::string& text, const EdgeListOptions& options = {}) {
  auto file = ParseEdgeList(text, "f.txt", options);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : EdgeFile();
}

std::string Error(const std::string& text, const EdgeListOptions& options = {}) {
  const auto file = ParseEdgeList(text, "f.txt", options);
  if (file.ok()) return "it was read";
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(file.status().message());
}

TEST(EdgeListTest, PlainNumbersStay) {
  const EdgeFile file = Parse("# a comment\n% another\n\n0 1\n1\t2\r\n 2  0 \n");
  EXPECT_THAT(file.edges.sources, ElementsAre(0, 1, 2));
  EXPECT_THAT(file.edges.targets, ElementsAre(1, 2, 0));
  EXPECT_THAT(file.edges.weights, IsEmpty());
  EXPECT_EQ(file.node_count, 3);
  EXPECT_FALSE(file.ids);
  EXPECT_THAT(file.notes, ElementsAre("2 lines that begin with '#' or '%' were skipped as comments (lines 1, 2; "
                                      "--comments no reads them as edges)"));
  EXPECT_THAT(Parse("0 1\n\n1 2\n").notes, IsEmpty());
}

TEST(EdgeListTest, CommasAndWeights) {
  const EdgeFile file = Parse("0,1,0.5\n1, 0 ,-2e3\n");
  EXPECT_THAT(file.edges.sources, ElementsAre(0, 1));
  EXPECT_THAT(file.edges.weights, ElementsAre(0.5f, -2000.0f));
}

TEST(EdgeListTest, NumbersWithGapsAreMappedInAscendingOrder) {
  const EdgeFile file = Parse("100 7\n7 -3\n");
  EXPECT_EQ(file.node_count, 3);
  ASSERT_TRUE(file.ids);
  EXPECT_EQ(file.ids->IdOf(0), "-3");
  EXPECT_EQ(file.ids->IdOf(1), "7");
  EXPECT_EQ(file.ids->IdOf(2), "100");
  EXPECT_THAT(file.edges.sources, ElementsAre(2, 1));
  EXPECT_THAT(file.edges.targets, ElementsAre(1, 0));
  ASSERT_EQ(file.notes.size(), 1u);
  EXPECT_THAT(file.notes[0], HasSubstr("--num_nodes"));
}

TEST(EdgeListTest, CountingFromOneIsMapped) {
  const EdgeFile file = Parse("1 2\n2 3\n");
  ASSERT_TRUE(file.ids);
  EXPECT_EQ(file.ids->IdOf(0), "1");
  EXPECT_THAT(file.edges.sources, ElementsAre(0, 1));
}

TEST(EdgeListTest, TextsAreMappedInOrderOfAppearance) {
  const EdgeFile file = Parse("bob alice\nalice 7\n");
  ASSERT_TRUE(file.ids);
  EXPECT_EQ(file.node_count, 3);
  EXPECT_EQ(file.ids->IdOf(0), "bob");
  EXPECT_EQ(file.ids->IdOf(1), "alice");
  EXPECT_EQ(file.ids->IdOf(2), "7");
  EXPECT_THAT(file.edges.targets, ElementsAre(1, 2));
}

TEST(EdgeListTest, ATextAfterManyNumbersStartsAgain) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += std::to_string(i) + " " + std::to_string(i + 1) + " 1.5\n";
  const EdgeFile file = Parse("# once\n" + text + "50 end 2\n# and at the end\n");
  EXPECT_EQ(file.edges.size(), 51);
  EXPECT_EQ(file.edges.weights.size(), 51u);
  EXPECT_EQ(file.node_count, 52);
  ASSERT_EQ(file.notes.size(), 2u);
  EXPECT_THAT(file.notes[0], HasSubstr("2 lines that begin with '#' or '%' were skipped")) << "each counts once";
}

TEST(EdgeListTest, LeadingZerosAreTexts) {
  const EdgeFile file = Parse("0 01\n01 1\n");
  ASSERT_TRUE(file.ids);
  EXPECT_EQ(file.node_count, 3);
}

TEST(EdgeListTest, QuotesAndSpacesInCommaFiles) {
  const EdgeFile file = Parse("\"New York\",Boston\nBoston , \"New York\"\n");
  ASSERT_TRUE(file.ids);
  EXPECT_EQ(file.node_count, 2);
  EXPECT_EQ(file.ids->IdOf(0), "New York");
}

TEST(EdgeListTest, QuotedIdsHoldCommasAndQuotes) {
  const EdgeFile file = Parse("\"Doe, John\",\"say \"\"hi\"\"\",0.5\n\"say \"\"hi\"\"\",\"Doe, John\",1\n");
  EXPECT_EQ(file.node_count, 2);
  ASSERT_TRUE(file.ids);
  EXPECT_EQ(file.ids->IdOf(0), "Doe, John");
  EXPECT_EQ(file.ids->IdOf(1), "say \"hi\"");
  EXPECT_THAT(file.edges.weights, ElementsAre(0.5f, 1.0f));
  EXPECT_THAT(Parse("\"source, of all\",\"target\"\n1,0\n").edges.sources, ElementsAre(1));
  EXPECT_THAT(Error("ann,bob\n\"ann,carl\nbob,ann\n"),
              HasSubstr("f.txt:2: the field that begins with '\"ann,carl' has no closing double quote on this line"));
  EXPECT_THAT(Error("\"ann\"e,bob\n"), HasSubstr("f.txt:1: a field in double quotes is followed by 'e,bob'"));
}

TEST(EdgeListTest, LineBreaksWithinFields) {
  for (const char* end : {"\n", "\r\n"}) {
    const std::string text = std::string("ann,bob") + end + "bob,\"New" + end + "York\"" + end;
    EXPECT_THAT(Error(text), HasSubstr("f.txt:2: the field that begins with '\"New' has no closing")) << text;
    EXPECT_THAT(Error(text), HasSubstr("ids contain no line breaks")) << text;
  }
  EXPECT_EQ(Parse("\"New York\",ann\r\nann,bob\r\n").edges.size(), 2) << "lines as RFC 4180 ends them";
}

TEST(EdgeListTest, CommasAtTheLinesEnd) {
  EXPECT_THAT(
      Error("ann,bob\nbob,carl,\n"),
      HasSubstr("f.txt:2: 3 columns, the first edge has 2; the comma at the end of the line adds an empty one"));
  EXPECT_THAT(Error("ann,bob,,\n"), HasSubstr("f.txt:1: 4 columns"));
  EXPECT_THAT(Error("ann,bob,,\n"), HasSubstr("remove it"));
  for (const char* text : {"ann,bob,\nbob,carl,\n", "ann,bob,\nbob,carl,1\n", "0,1,\n1,0,\n"}) {
    EXPECT_THAT(Error(text), HasSubstr("f.txt:1: the weight after the second comma is empty")) << text;
  }
  EXPECT_THAT(Error("ann,bob,1\nbob,carl,\n"), HasSubstr("f.txt:2: the weight after the second comma is empty"));
}

TEST(EdgeListTest, FilesThatAreNoTextOrOfAnOldMac) {
  EXPECT_THAT(Error("0 1\r1 2\r"), HasSubstr("f.txt:1: contains a carriage return (CR) without a line feed"));
  EXPECT_THAT(Error("# all is comment\r0 1\r"), HasSubstr("f.txt:1: contains a carriage return"));
  EXPECT_THAT(Error("\xFF\xFE"
                    "0"),
              HasSubstr("UTF-16"));
  EXPECT_THAT(Error(std::string("0 1\n\0\1", 6)), HasSubstr("f.txt:2: contains a zero byte"));
}

TEST(EdgeListTest, SeparatorsThatAreNone) {
  EXPECT_THAT(Error("ann;bob\n"),
              HasSubstr("1 column; an edge is 'source target' or 'source target weight'; fields are "
                        "separated by spaces, tabs or commas"));
  EXPECT_THAT(Error("\"New York\" \"Los Angeles\"\n"), HasSubstr("if ids contain spaces, use commas"));
  EXPECT_THAT(Error("New York\tLos Angeles\n"), HasSubstr("if ids contain spaces, use commas"));
  EXPECT_THAT(Error("ann,bob\nbob carl\n"),
              HasSubstr("f.txt:2: 1 column, the first edge has 2; fields are separated by commas"));
}

TEST(EdgeListTest, TitlesAreSkippedAndSaid) {
  for (const char* text :
       {"source,target\n0,1\n", "node_a node_b\n0 1\n", "from to w\n0 1 2\n", "a b weight\n0 1 2\n"}) {
    const EdgeFile file = Parse(text);
    EXPECT_THAT(file.edges.sources, ElementsAre(0)) << text;
    ASSERT_EQ(file.notes.size(), 1u) << text;
    EXPECT_THAT(file.notes[0], HasSubstr("line 1")) << text;
  }
  EXPECT_EQ(Parse("alice bob\nbob carol\n").edges.size(), 2);
}

TEST(EdgeListTest, TitlesTellWhichColumnIsTheTarget) {
  for (const char* text : {"dst,src\n0,1\n", "target source\n0 1\n", "to,from,weight\n0,1,0.5\n"}) {
    const EdgeFile file = Parse(text);
    EXPECT_THAT(file.edges.sources, ElementsAre(1)) << text;
    EXPECT_THAT(file.edges.targets, ElementsAre(0)) << text;
    EXPECT_THAT(file.notes[0], HasSubstr("with the target first")) << text;
  }
  EdgeListOptions yes;
  yes.titles = Titles::kYes;
  const EdgeFile texts = Parse("target,source\nann,bob\ncarl,bob\n", yes);
  EXPECT_THAT(texts.edges.sources, ElementsAre(0, 0));
  EXPECT_EQ(texts.ids->NodeOf("bob"), 0);
}

TEST(EdgeListTest, WeightsAreTheNearestFloats) {
  EXPECT_THAT(Parse("0 1 1e-46\n0 1 1e-40\n0 1 0.1\n").edges.weights, ElementsAre(0.0f, 1e-40f, 0.1f));
  EXPECT_THAT(Error("0 1 3.5e38\n"), HasSubstr("the weight '3.5e38' is not finite as a float32"));
}

TEST(EdgeListTest, AFirstLineThatMayBeTitlesIsNotGuessed) {
  for (const char* text :
       {"follower followee\nann bob\nbob carl\n", "# who\nuser_id,item_id\nann,7\nbob,7\n", "a b\nc d\n"}) {
    EXPECT_THAT(Error(text), HasSubstr("--titles yes skips the line, --titles no reads it as an edge")) << text;
    EdgeListOptions yes, no;
    yes.titles = Titles::kYes;
    no.titles = Titles::kNo;
    EXPECT_EQ(Parse(text, no).edges.size(), Parse(text, yes).edges.size() + 1) << text;
  }
  EXPECT_THAT(Error("# who\nuser_id,item_id\nann,7\nbob,7\n"), HasSubstr("f.txt:2: "));
  // One of its ids stands elsewhere, is a number, or nothing else is there: an edge.
  for (const char* text : {"ann bob\ncarl dora\ndora ann\n", "ann 7\nbob carl\n", "ann bob\n", "x y 1\nann bob 2\n"}) {
    EXPECT_GT(Parse(text).edges.size(), 0) << text;
  }
}

TEST(EdgeListTest, TitlesAsTheUserSays) {
  EdgeListOptions yes, no;
  yes.titles = Titles::kYes;
  no.titles = Titles::kNo;
  EXPECT_THAT(Parse("0 1\n1 0\n", yes).edges.sources, ElementsAre(1));
  EXPECT_EQ(Parse("source target\ntarget source\n", no).edges.size(), 2);
  EXPECT_THAT(Error("ann bob\n", yes), HasSubstr("contains no edges"));
  const auto ids = IdMap::FromIds({"a", "b"});
  EdgeListOptions given;
  given.ids = &*ids;
  EXPECT_THAT(Error("who whom\na b\n", given), HasSubstr("--titles yes skips it"));
  EXPECT_EQ(Error("a whom\na b\n", given), "f.txt:1: the id 'whom' is not in the ids file")
      << "no titles: 'a' is an id";
  given.titles = Titles::kYes;
  EXPECT_EQ(Parse("who whom\na b\n", given).edges.size(), 1);
}

TEST(EdgeListTest, CommentsBeforeTheFirstEdge) {
  for (const char* text :
       {"# Directed graph: web.txt\n# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n",
        "#source,target\nann,bob\nbob,carl\n", "% sym unweighted\n% 2 3 3\n1 2 0.5\n2 3 1\n", "#7,8\n1,2\n2,8\n"}) {
    const EdgeFile file = Parse(text);
    EXPECT_EQ(file.edges.size(), 2) << text;
    EXPECT_THAT(file.notes[0], HasSubstr("--comments no reads")) << text;
  }
  EXPECT_THAT(Parse("# a\n# b\n# c\n# d\n0 1\n").notes[0], HasSubstr("4 lines that begin with '#' or '%' were skipped "
                                                                     "as comments (lines 1, 2, 3, ...; "));
  EXPECT_THAT(Error("#a,#b\n#b,#c\n"),
              HasSubstr("f.txt: contains no edges: all lines begin with '#' or '%'; --comments no"));
}

// csv.writer(file).writerows([("#9af", "ann"), ...]) puts no quotes around what begins with '#'.
TEST(EdgeListTest, WhatMayBeAnEdgeIsNotTakenForAComment) {
  for (const char* text : {"ann,bob\r\nbob,carl\r\n#9af,ann\r\n", "source,target\nann,bob\n%9af,ann\n",
                           "source,target\n\n#9af,ann\nann,bob\n", "1,2\n2,3\n#9af,1\n", "1 2\n2 3\n#9af 1\n",
                           "ann,bob,1\nbob,carl,2\n #9af,ann,3\n"}) {
    EXPECT_THAT(Error(text), HasSubstr("f.txt:3: is it a comment or an edge between '")) << text;
    EXPECT_THAT(Error(text), HasSubstr("--comments no, with which no line is a comment; if it is a comment, pass "
                                       "--comments yes"))
        << text;
    EdgeListOptions yes, no;
    yes.comments = Comments::kYes;
    no.comments = Comments::kNo;
    EXPECT_EQ(Parse(text, yes).edges.size() + 1, Parse(text, no).edges.size()) << text;
    EXPECT_THAT(Parse(text, yes).notes[0], HasSubstr("(line 3; ")) << text;
  }
  EXPECT_THAT(Error("ann,bob\n#9af,ann\n"), HasSubstr("between '#9af' and 'ann'? If it is an edge, put such ids in "
                                                      "double quotes, or pass --comments no"));
  EXPECT_THAT(Error("ann bob\n#9af ann\n"), HasSubstr("If it is an edge, pass --comments no"))
      << "between spaces quotes are characters like any";
  // Before the first edge an id that stands in an edge, too, tells.
  for (const char* text : {"#9af,ann\n#7cb,#9af\nann,bob\n", "#9af,bob\n#7cb,carl\nann,#9af\n"}) {
    EXPECT_THAT(Error(text), HasSubstr("f.txt:1: is it a comment or an edge between '#9af' and '")) << text;
  }
  EXPECT_THAT(Error("ann,bob\n# first, second\nbob,carl\n"), HasSubstr("f.txt:2: is it a comment or an edge"));
}

TEST(EdgeListTest, CommentsThatAreNoEdgesStayComments) {
  const EdgeFile file = Parse("ann,bob\n# a note\n% one, two, three, four\n#\nbob,\"#tag\"\n\"#tag\",ann\n# end");
  EXPECT_EQ(file.edges.size(), 3);
  EXPECT_EQ(file.ids->NodeOf("#tag"), 2);
  EXPECT_THAT(file.notes[0],
              HasSubstr("4 lines that begin with '#' or '%' were skipped as comments (lines 2, 3, 4, ..."));
  EXPECT_EQ(Parse("\"#tag\",ann\n\"#tag\",\"%\"\n").edges.size(), 2);
  EXPECT_EQ(Parse("ann,bob\n#a, \"open\n").edges.size(), 1) << "what cannot be split is no edge";
}

TEST(EdgeListTest, CommentsAsTheUserSays) {
  EdgeListOptions no;
  no.comments = Comments::kNo;
  const EdgeFile file = Parse("#9af,#7cb\n\n#7cb,ann\n", no);
  EXPECT_EQ(file.edges.size(), 2);
  EXPECT_EQ(file.ids->NodeOf("#9af"), 0);
  EXPECT_EQ(file.notes.size(), 1u) << "nothing was skipped";
  EXPECT_THAT(Error("0 1\n# a note\n", no), HasSubstr("f.txt:2: 3 columns"));
  EXPECT_THAT(Error("#source,target\n#9af,ann\nann,bob\n", no), HasSubstr("f.txt:1: is it column titles or an edge?"));
  // Given ids tell which line before the first edge is one.
  const auto ids = IdMap::FromIds({"#9af", "ann", "bob"});
  EdgeListOptions given;
  given.ids = &*ids;
  EXPECT_THAT(Error("#9af,bob\nann,bob\n", given), HasSubstr("f.txt:1: is it a comment or an edge"));
  EXPECT_EQ(Parse("#from,bob\nann,bob\n", given).edges.size(), 1);
  given.comments = Comments::kNo;
  EXPECT_EQ(Parse("#9af,bob\nann,bob\n", given).edges.size(), 2);
}

// Each id is kept whole until the end, those that were put together from a quoted field, too.
TEST(EdgeListTest, ManyIdsWithQuotes) {
  std::string text;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 100; ++i) {
      text += "\"the \"\"" + std::to_string(i) + "\"\" of a long name that needs memory of its own\",end\n";
    }
  }
  const EdgeFile file = Parse(text);
  EXPECT_EQ(file.edges.size(), 200);
  EXPECT_EQ(file.node_count, 101);
  EXPECT_EQ(file.edges.sources[7], file.edges.sources[107]);
}

TEST(EdgeListTest, TitlesThatPandasCounts) {
  EXPECT_THAT(Error("0,1\nann,bob\nbob,carl\n"),
              HasSubstr("f.txt:1: is it column titles or an edge? '0' and '1' occur"));
  EXPECT_THAT(Error("0,1,2\nann,bob,0.5\nbob,carl,1\n"), HasSubstr("--titles yes skips the line"));
  EXPECT_EQ(Parse("0,1\n1,ann\n").edges.size(), 2);
}

TEST(EdgeListTest, NumberOfNodesMakesIdsNumbers) {
  EdgeListOptions options;
  options.node_count = 10;
  EXPECT_EQ(Parse("3 5\n", options).node_count, 10);
  EXPECT_FALSE(Parse("3 5\n", options).ids);
  EXPECT_THAT(Error("0 1\n3 10\n", options), HasSubstr("f.txt:2: the id '10' is not in 0..9"));
  EXPECT_THAT(Error("0 -1\n", options), HasSubstr("'-1'"));
  EXPECT_THAT(Error("0 1\n2 bob\n", options), HasSubstr("f.txt:2: the id 'bob'"));
  EXPECT_THAT(Error("0 1\n02 1\n", options), HasSubstr("f.txt:2: the id '02'"));
}

TEST(EdgeListTest, RowsOfFeaturesTellTheNumberOfNodes) {
  EdgeListOptions options;
  options.feature_rows = 10;
  const EdgeFile below = Parse("3 5\n", options);
  EXPECT_EQ(below.node_count, 10);
  EXPECT_FALSE(below.ids);
  const EdgeFile above = Parse("3 10\n", options);
  EXPECT_TRUE(above.ids);
  EXPECT_EQ(above.node_count, 2);
}

TEST(EdgeListTest, GivenIdsSetTheOrderAndKeepIsolatedNodes) {
  const auto ids = IdMap::FromIds({"c", "a", "lonely", "b"});
  EdgeListOptions options;
  options.ids = &*ids;
  const EdgeFile file = Parse("a b\nb c\n", options);
  EXPECT_EQ(file.node_count, 4);
  EXPECT_THAT(file.edges.sources, ElementsAre(1, 3));
  EXPECT_THAT(file.edges.targets, ElementsAre(3, 0));
  EXPECT_THAT(Error("a b\nb d\n", options), HasSubstr("f.txt:2: the id 'd' is not in the ids file"));
}

TEST(EdgeListTest, ErrorsNameTheLine) {
  EXPECT_THAT(Error(""), HasSubstr("contains no edges"));
  EXPECT_THAT(Error("# only\n"), HasSubstr("contains no edges"));
  EXPECT_THAT(Error("0\n"), HasSubstr("f.txt:1: 1 column"));
  EXPECT_THAT(Error("0 1 2 3\n"), HasSubstr("f.txt:1: 4 columns"));
  EXPECT_THAT(Error("0 1\n1 2 3\n"), HasSubstr("f.txt:2: 3 columns, the first edge has 2"));
  EXPECT_THAT(Error("0 1\n1\n"), HasSubstr("f.txt:2: 1 column"));
  EXPECT_THAT(Error("0 1 1\n1 2 x\n"), HasSubstr("f.txt:2: the weight 'x' is not a number"));
  EXPECT_THAT(Error("0 1 nan\n"), HasSubstr("f.txt:1: the weight 'nan' is not finite"));
  EXPECT_THAT(Error("0 1 1\n0 1 inf\n"), HasSubstr("f.txt:2: the weight 'inf' is not finite"));
  EXPECT_THAT(Error("0,1\n,2\n"), HasSubstr("f.txt:2: an id is empty"));
  EXPECT_THAT(Error("0 1\n1 99999999999999999999\n0 1 1\n"), HasSubstr("f.txt:3"));
}

TEST(EdgeListTest, AnyBytesAreHarmless) {
  std::mt19937 random(11);
  const std::string alphabet("0123456789 ,\t\n\r#%-.ab\"\0\xFF", 25);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += alphabet[random() % alphabet.size()];
    const auto file = ParseEdgeList(text, "f.txt", {});
    if (!file.ok()) continue;
    ASSERT_EQ(file->edges.sources.size(), file->edges.targets.size());
    for (const int64_t node : file->edges.sources) ASSERT_TRUE(node >= 0 && node < file->node_count);
    for (const int64_t node : file->edges.targets) ASSERT_TRUE(node >= 0 && node < file->node_count);
  }
}

TEST(EdgeListTest, TheLargestNumberIsAnIdLikeOthers) {
  const auto file = ParseEdgeList("0 9223372036854775807\n", "f", {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->node_count, 2);
  EXPECT_EQ(file->ids->IdOf(1), "9223372036854775807");
}

TEST(EdgesTest, ReverseEdgesAreAddedOnce) {
  Edges edges{{0, 1, 2, 3, 3}, {1, 0, 3, 3, 1}, {1, 2, 3, 4, 5}};
  EXPECT_EQ(AddReverseEdges(&edges), 2);
  EXPECT_THAT(edges.sources, ElementsAre(0, 1, 2, 3, 3, 3, 1));
  EXPECT_THAT(edges.targets, ElementsAre(1, 0, 3, 3, 1, 2, 3));
  EXPECT_THAT(edges.weights, ElementsAre(1, 2, 3, 4, 5, 3, 5));
}

TEST(EdgesTest, PackedAsNarrowAsTheNodesAllow) {
  const Edges edges{{0, 1}, {1, 0}, {}};
  EXPECT_EQ(PackEdgeIndex(edges, 2).type, ElementType::kInt32);
  EXPECT_EQ(PackEdgeIndex(edges, (int64_t{1} << 31) + 1).type, ElementType::kInt64);
  EXPECT_EQ(ToInts(PackEdgeIndex(edges, 2)).value(), (std::vector<int64_t>{0, 1, 1, 0}));
}

}  // namespace
}  // namespace vicinal::client
