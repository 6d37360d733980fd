// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/printable.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "vicinal/v1/graph.pb.h"

namespace vicinal::client {
namespace {

TEST(PrintableTest, OrdinaryTextStays) {
  for (const char* text : {"", "graph 'g' v3: 12.5 % (a\\b)",
                           "Zo\u00eb, \u5317\u4eac, \u0441\u0435\u0442\u044c, \u05e9\u05dc\u05d5\u05dd, \U0001F600"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_EQ(PrintableJson(text), text);
  }
}

TEST(PrintableTest, ControlsAreEscaped) {
  EXPECT_EQ(Printable("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(Printable("\x1b[2J\x07\x7f"), "\\x1b[2J\\x07\\x7f");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\u009b31m\u0085"), "\\u009b31m\\u0085");
}

TEST(PrintableTest, WhatIsInvisibleOrTurnsTextIsEscaped) {
  EXPECT_EQ(Printable("\u202egnp.\u202c"), "\\u202egnp.\\u202c");
  EXPECT_EQ(Printable("\u2066\u2069\u200f\u061c"), "\\u2066\\u2069\\u200f\\u061c");
  EXPECT_EQ(Printable("a\u2028b\u200bc\ufeff"), "a\\u2028b\\u200bc\\ufeff");
  EXPECT_EQ(Printable("\U000E0041"), "\\U000e0041");
}

TEST(PrintableTest, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(Printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(Printable("\xc0\x9b"), "\\xc0\\x9b") << "an overlong ESC";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Printable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80") << "above U+10FFFF";
  EXPECT_EQ(Printable("\x9b\x33m"), "\\x9b\x33m") << "C1 as a single byte";
}

TEST(PrintableTest, TwiceIsAsOnce) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  all += "\u202e\u0085\U000E0041";
  EXPECT_EQ(Printable(Printable(all)), Printable(all));
}

TEST(PrintableTest, JsonKeepsItsStrings) {
  const nlohmann::json json = {{"\u202ename", "\x1b\u009b\n\x7f\U000E0041 Zo\u00eb"}};
  const std::string text = PrintableJson(json.dump(2));
  EXPECT_EQ(nlohmann::json::parse(text), json);
  EXPECT_EQ(Printable(text.substr(text.find("Zo"))), text.substr(text.find("Zo"), 4) + "\"\\n}");
  for (const char* part : {"\x1b", "\x7f", "\u202e", "\u009b", "\U000E0041"})
    EXPECT_EQ(text.find(part), std::string::npos);
}

TEST(PrintableTest, MessagesAtEveryDepth) {
  v1::Graph graph;
  graph.set_name("a\nb");
  graph.add_stages()->set_stage("\x1b");
  graph.add_feature_sets()->set_durability_error("\u202e");
  graph.mutable_profile()->set_window(7);
  MakePrintable(&graph);
  EXPECT_EQ(graph.name(), "a\\nb");
  EXPECT_EQ(graph.stages(0).stage(), "\\x1b");
  EXPECT_EQ(graph.feature_sets(0).durability_error(), "\\u202e");
  EXPECT_EQ(graph.profile().window(), 7);
}

}  // namespace
}  // namespace vicinal::client
