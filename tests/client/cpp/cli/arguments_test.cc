// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vicinal::client::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<Option>& Global() {
  static const auto* const options = new std::vector<Option>{{"server", OptionKind::kText, "HOST:PORT", "where"},
                                                             {"json", OptionKind::kFlag, "", "JSON"}};
  return *options;
}

const std::vector<Syntax>& Syntaxes() {
  static const auto* const syntaxes = new std::vector<Syntax>{
      {"graph upload",
       {"FILE"},
       "Uploads.",
       "More about it.",
       {{"name", OptionKind::kText, "NAME", "its name", {}, true},
        {"top_k", OptionKind::kInteger, "K", "how many"},
        {"share", OptionKind::kNumber, "S", "how much"},
        {"order", OptionKind::kText, "ORDER", "which", {"none", "rcm"}},
        {"kernel", OptionKind::kText, "OP=NAME", "which", {}, false, true},
        {"replace", OptionKind::kFlag, "", "replace"}}},
      {"graph list", {}, "Lists.", "", {}},
      {"status", {}, "Shows.", "", {}},
  };
  return *syntaxes;
}

absl::StatusOr<Arguments> Parse(const std::vector<std::string>& words) {
  return ParseArguments(Syntaxes()[0], Global(), words);
}

std::string Error(const std::vector<std::string>& words) {
  const auto arguments = Parse(words);
  return arguments.ok() ? "it was parsed" : std::string(arguments.status().message());
}

TEST(ArgumentsTest, EverySpelling) {
  const auto arguments = Parse({"--name", "g", "f.txt", "--top-k=3", "--server=h:1", "--replace", "--kernel", "a=b",
                                "--kernel=c=d", "--share", "-0.5", "--order", "rcm", "--json"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->Text("name"), "g");
  EXPECT_EQ(arguments->Positional(0), "f.txt");
  EXPECT_EQ(arguments->Integer("top_k", 1), 3);
  EXPECT_EQ(arguments->Number("share", 0), -0.5);
  EXPECT_EQ(arguments->Text("server"), "h:1");
  EXPECT_THAT(arguments->All("kernel"), ElementsAre("a=b", "c=d"));
  EXPECT_TRUE(arguments->Has("replace"));
  EXPECT_TRUE(arguments->Has("json"));
}

TEST(ArgumentsTest, WhatWasNotGiven) {
  const auto arguments = Parse({"f", "--name=g"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_FALSE(arguments->Has("top_k"));
  EXPECT_EQ(arguments->Integer("top_k", 7), 7);
  EXPECT_EQ(arguments->Text("server", "default"), "default");
  EXPECT_TRUE(arguments->All("kernel").empty());
}

TEST(ArgumentsTest, DashesEndOptionsAndNumbersAreNone) {
  const auto arguments = Parse({"--name", "g", "--", "--file"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->Positional(0), "--file");
  EXPECT_EQ(Parse({"--name", "g", "-1"})->Positional(0), "-1");
  EXPECT_EQ(Parse({"--name", "g", "-"})->Positional(0), "-");
}

TEST(ArgumentsTest, ErrorsSuggest) {
  EXPECT_EQ(Error({"f", "--nmae", "g"}), "'graph upload' has no option --nmae; did you mean --name?");
  EXPECT_EQ(Error({"f", "--sever=x", "--name=g"}), "'graph upload' has no option --sever; did you mean --server?");
  EXPECT_EQ(Error({"f", "--something-else"}), "'graph upload' has no option --something-else");
  EXPECT_THAT(Error({"f", "--name"}), HasSubstr("--name needs a value: NAME"));
  EXPECT_THAT(Error({"f"}), HasSubstr("needs --name NAME"));
  EXPECT_THAT(Error({"--name", "g"}), HasSubstr("needs FILE"));
  EXPECT_THAT(Error({"f", "g", "--name", "g"}), HasSubstr("takes no further argument 'g'"));
  EXPECT_THAT(Error({"f", "--name=g", "--name=h"}), HasSubstr("given twice"));
  EXPECT_THAT(Error({"f", "--name=g", "--replace=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(Error({"f", "--name=g", "--top_k", "three"}), HasSubstr("must be an integer, not 'three'"));
  EXPECT_THAT(Error({"f", "--name=g", "--share="}), HasSubstr("must be a number"));
  EXPECT_THAT(Error({"f", "--name="}), HasSubstr("--name needs a value: NAME"));
  EXPECT_THAT(Error({"", "--name=g"}), HasSubstr("does not accept an empty argument"));
  EXPECT_THAT(Error({"f", "--name=g", "--order", "best"}), HasSubstr("one of none, rcm, not 'best'"));
}

TEST(ArgumentsTest, NumbersHaveTheirLeast) {
  const Syntax syntax = {"cut", {}, "", "", {AtLeast(1, {"batch", OptionKind::kInteger, "N", ""})}};
  EXPECT_EQ(ParseArguments(syntax, {}, {"--batch", "1"})->Integer("batch", 0), 1);
  for (const char* bad : {"0", "-7"}) {
    EXPECT_EQ(ParseArguments(syntax, {}, {"--batch", bad}).status().message(),
              std::string("--batch must be at least 1, not ") + bad);
  }
}

TEST(ArgumentsTest, FindsTheCommand) {
  const auto found = FindCommand(Syntaxes(), Global(), {"--server", "h:1", "graph", "--json", "upload", "f", "--x"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->index, 0);
  EXPECT_THAT(found->rest, ElementsAre("--server", "h:1", "--json", "f", "--x"));
  EXPECT_EQ(FindCommand(Syntaxes(), Global(), {"status"})->index, 2);
}

TEST(ArgumentsTest, HelpIsFoundAnywhere) {
  EXPECT_TRUE(FindCommand(Syntaxes(), Global(), {"--help"})->help);
  EXPECT_EQ(FindCommand(Syntaxes(), Global(), {"help"})->index, -1);
  EXPECT_EQ(FindCommand(Syntaxes(), Global(), {"graph", "-h"})->group, "graph");
  const auto command = FindCommand(Syntaxes(), Global(), {"graph", "upload", "--bad", "--help"});
  EXPECT_TRUE(command->help);
  EXPECT_EQ(command->index, 0);
  const auto helped = FindCommand(Syntaxes(), Global(), {"help", "status"});
  EXPECT_TRUE(helped->help);
  EXPECT_EQ(helped->index, 2);
}

TEST(ArgumentsTest, UnknownCommands) {
  const auto error = [](const std::vector<std::string>& words) {
    return std::string(FindCommand(Syntaxes(), Global(), words).status().message());
  };
  EXPECT_EQ(error({}), "a command is required");
  EXPECT_EQ(error({"statsu"}), "there is no command 'statsu'; did you mean status?");
  EXPECT_EQ(error({"graph", "lisst"}), "there is no command 'graph lisst'; did you mean graph list?");
  EXPECT_EQ(error({"garph", "list"}), "there is no command 'garph'; did you mean graph?");
  EXPECT_EQ(error({"graph"}), "'graph' needs one of: upload, list");
  EXPECT_EQ(error({"--name", "graph"}), "the command must come before --name");
}

TEST(ArgumentsTest, HelpNamesEverything) {
  const std::string help = HelpFor("vicinal", Syntaxes()[0], Global());
  EXPECT_THAT(help, HasSubstr("Usage: vicinal graph upload FILE --name NAME [options]"));
  for (const char* part : {"--name NAME", "(required)", "(may repeat)", "--server HOST:PORT", "More about it."}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

TEST(ArgumentsTest, SuggestsOnlyWhatIsNear) {
  EXPECT_EQ(Suggest("clasify", {"classify", "embed"}), "classify");
  EXPECT_EQ(Suggest("quit", {"classify", "embed"}), "");
  EXPECT_EQ(Suggest("fil", {"x", "file"}), "file");
  EXPECT_EQ(Suggest("flie", {"x", "file"}), "file") << "exchanged neighbours are one edit";
  EXPECT_EQ(Suggest("nodes", {"ids", "node"}), "node");
  for (const char* const word : {"y", "no", "abc", "mode"}) {
    EXPECT_EQ(Suggest(word, {"x", "ids", "file"}), "") << word << ": half of the letters or more differ";
  }
  EXPECT_EQ(Suggest("", {"x"}), "");
}

}  // namespace
}  // namespace vicinal::client::cli
