// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/output.h"

#include <gtest/gtest.h>

#include <sstream>

#include "client/cpp/cli/proto_json.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::client::cli {
namespace {

TEST(OutputTest, NumbersAreAlignedRightTextsLeft) {
  Table table({"graph", "nodes", "time", "share", "note"});
  table.Add({"cora", "2708", "1.25 ms", "85.1 %", "x"});
  table.Add({"caf\xC3\xA9s", "-", "12 us", "7.0 %", "longer"});
  std::ostringstream out;
  table.Print(out);
  EXPECT_EQ(out.str(),
            "graph  nodes     time   share  note\n"
            "cora    2708  1.25 ms  85.1 %  x\n"
            "caf\xC3\xA9s      -    12 us   7.0 %  longer\n");
}

TEST(OutputTest, Units) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(int64_t{5} << 40), "5.0 TiB");
  EXPECT_EQ(FormatSeconds(0), "0 us");
  EXPECT_EQ(FormatSeconds(3.4e-7), "340 ns");
  EXPECT_EQ(FormatSeconds(0.0000124), "12 us");
  EXPECT_EQ(FormatSeconds(0.00125), "1.25 ms");
  EXPECT_EQ(FormatSeconds(75), "75.00 s");
  EXPECT_EQ(FormatShare(0.8512), "85.1 %");
  EXPECT_EQ(FormatCount(0, "edge"), "0 edges");
  EXPECT_EQ(FormatCount(1, "edge"), "1 edge");
}

TEST(OutputTest, LongCellsAreCut) {
  EXPECT_EQ(Shorten("short"), "short");
  EXPECT_EQ(Shorten(std::string(60, 'x')), std::string(60, 'x'));
  EXPECT_EQ(Shorten(std::string(61, 'x')), std::string(57, 'x') + "...");
  EXPECT_EQ(Shorten(std::string(56, 'x') + "\xC3\xA9\xC3\xA9\xC3\xA9"), std::string(56, 'x') + "...");
}

TEST(OutputTest, LongTextsAreWrappedAtSpaces) {
  const auto wrapped = [](const std::string& text) {
    std::ostringstream out;
    PrintWrapped(text, 10, 2, out);
    return out.str();
  };
  EXPECT_EQ(wrapped(""), "");
  EXPECT_EQ(wrapped("one two"), "  one two\n");
  EXPECT_EQ(wrapped("123456 890"), "  123456 890\n");
  EXPECT_EQ(wrapped("123456 8901 3"), "  123456\n  8901 3\n");
  EXPECT_EQ(wrapped("a 123456789012 b"), "  a\n  123456789012\n  b\n");
  EXPECT_EQ(wrapped("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9 9012"),
            "  \xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9 9012\n");
  EXPECT_EQ(wrapped("a\x1B[2J").find('\x1B'), std::string::npos);
}

TEST(OutputTest, ProgressIsForTerminals) {
  std::ostringstream out;
  {
    ProgressBar silent(out, false);
    silent.Show(0.5, "uploading");
  }
  EXPECT_EQ(out.str(), "");
  {
    ProgressBar bar(out, true);
    bar.Show(0.5, "uploading");
    EXPECT_NE(out.str().find(" 50 %  uploading"), std::string::npos);
    bar.Show(0.0 / 0.0, "odd values do no harm");
    bar.Show(7, "done");
  }
  EXPECT_EQ(out.str().substr(out.str().size() - 4), "\r\x1b[K");
}

TEST(OutputTest, WhatWasLeftOutIsSaid) {
  std::ostringstream out;
  PrintLeftOut(0, "layers", out);
  EXPECT_EQ(out.str(), "");
  PrintLeftOut(5, "layers", out);
  EXPECT_EQ(out.str(), "... 5 more layers: left out by the server (--max_response_bytes)\n");
}

TEST(OutputTest, MessagesAsJson) {
  v1::Graph graph;
  graph.set_name("g");
  graph.set_version(9007199254740993);
  graph.set_state(v1::Graph::STATE_READY);
  graph.set_reorder(v1::REORDER_RCM);
  graph.mutable_create_time()->set_seconds(0);
  graph.add_stages()->set_stage("csr");
  const Json json = ToJson(graph);
  EXPECT_EQ(json["version"], 9007199254740993);
  EXPECT_EQ(json["state"], "READY");
  EXPECT_EQ(json["reorder"], "RCM");
  EXPECT_EQ(json["create_time"], "1970-01-01T00:00:00Z");
  EXPECT_EQ(json["stages"][0]["stage"], "csr");
  EXPECT_EQ(json["node_count"], 0);
  EXPECT_FALSE(json.contains("profile"));
  graph.set_name("\xFF");
  EXPECT_NE(Dump(ToJson(graph)).find("\"name\""), std::string::npos);
}

TEST(OutputTest, TensorsAsJsonAreShapes) {
  v1::ClassifyResponse response;
  response.mutable_classes()->set_dtype(v1::DATA_TYPE_INT32);
  response.mutable_classes()->add_shape(3);
  EXPECT_EQ(ToJson(response)["classes"].dump(), R"({"dtype":"int32","shape":[3]})");
}

}  // namespace
}  // namespace vicinal::client::cli
