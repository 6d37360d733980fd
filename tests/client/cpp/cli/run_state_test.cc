// SPDX-License-Identifier: Apache-2.0
// `vicinal state` on a real directory, without any server.
#include <gmock/gmock.h>

#include <fstream>
#include <memory>

#include "engine/state/posix_file_system.h"
#include "engine/state/state_directory.h"
#include "tests/client/cpp/cli/run_testing.h"

namespace vicinal::client::cli {
namespace {

using ::testing::HasSubstr;

class RunStateTest : public RunTest {
 protected:
  RunStateTest() {
    auto files = state::PosixFileSystem::Open("state", state::PosixFileSystem::Root::kCreate);
    EXPECT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
    state::StateDirectory::Options options;
    options.holder = {"host1", 42, "2026-01-02T03:04:05Z", ""};
    auto directory = state::StateDirectory::Open(files_.get(), options);
    EXPECT_TRUE(directory.ok()) << directory.status();
    directory_ = *std::move(directory);
    Publish({state::Store::kGraphs, "cora", 1, "", 0});
    Publish({state::Store::kFeatures, "default", 1, "cora", 1});
  }
  void Publish(const state::VersionId& id) {
    ASSERT_TRUE(directory_->ReserveVersions(id.store, 1).ok());
    const auto writer = directory_->BeginVersion(id);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const auto file = (*writer)->AddFile("data", {{"bytes", DataType::kUint8, {3}}});
    ASSERT_TRUE(file.ok() && (*file)->Append(0, "abc").ok() && (*file)->Finish().ok());
    ASSERT_TRUE((*writer)->Publish("{}").ok());
  }
  void DamageGraph() {
    std::fstream file("state/graphs/cora/1/data.vsec", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(state::kSectionAlignment);
    file.put('z');
  }
  int State(const std::string& command, bool json = false) {
    std::vector<std::string> words = {"state", command, "state"};
    if (json) words.emplace_back("--json");
    return RunTest::Vicinal(words);
  }

  std::unique_ptr<state::PosixFileSystem> files_;
  std::unique_ptr<state::StateDirectory> directory_;
};

// Whoever wrote a directory chose what its files say.
TEST_F(RunStateTest, NothingInADirectorySteersTheTerminal) {
  const std::string evil = "host\x1b]0;owned\x07\nINJECTED";
  directory_.reset();
  state::StateDirectory::Options options;
  options.holder = {evil, 42, evil, ""};
  directory_ = *state::StateDirectory::Open(files_.get(), options);
  ASSERT_EQ(State("list"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("on host\\x1b]0;owned\\x07\\nINJECTED"));
  EXPECT_EQ(out().find('\x1b'), std::string::npos);
  EXPECT_EQ(out().find("\nINJECTED"), std::string::npos);
  ASSERT_EQ(State("list", true), kExitOk);
  EXPECT_EQ(out().find('\x1b'), std::string::npos);
}

TEST_F(RunStateTest, ListsVersionsWithSizesAndTimes) {
  ASSERT_EQ(State("list"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr(directory_->incarnation()));
  EXPECT_THAT(out(), HasSubstr("process 42 on host1"));
  EXPECT_THAT(out(), HasSubstr("cora version 1"));
  EXPECT_THAT(out(), HasSubstr("2 versions"));
  ASSERT_EQ(State("list", true), kExitOk);
  const nlohmann::json json = Json();
  EXPECT_EQ(json["incarnation"], directory_->incarnation());
  ASSERT_EQ(json["versions"].size(), 2u);
  EXPECT_EQ(json["versions"][0]["store"], "graphs");
  EXPECT_EQ(json["versions"][1]["graph"], "cora");
  EXPECT_GT(json["versions"][0]["bytes"], json["versions"][0]["disk_bytes"]);
  EXPECT_THAT(json["versions"][0]["publish_time"].get<std::string>(), ::testing::MatchesRegex("....-..-..T.*Z"));
}

TEST_F(RunStateTest, ListTellsWhatWasReplaced) {
  Publish({state::Store::kGraphs, "cora", 2, "", 0});
  ASSERT_EQ(State("list"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("Z, replaced"));
  ASSERT_EQ(State("list", true), kExitOk);
  const nlohmann::json versions = Json()["versions"];
  EXPECT_EQ(versions[0]["replaced"], true);
  EXPECT_EQ(versions[1]["replaced"], false);
}

TEST_F(RunStateTest, CheckHasAVerdictForEachFileAndAnExitCode) {
  ASSERT_EQ(State("check"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("ok       graphs/cora/1/data.vsec"));
  EXPECT_THAT(out(), HasSubstr("7 files ok, 0 not"));
  DamageGraph();
  EXPECT_EQ(State("check"), kExitDamaged);
  EXPECT_THAT(out(), HasSubstr("DAMAGED  graphs/cora/1/data.vsec: "));
  EXPECT_THAT(out(), HasSubstr("6 files ok, 1 not"));
  EXPECT_THAT(err(), HasSubstr("reason: STATE_DAMAGED"));
  EXPECT_EQ(State("check", true), kExitDamaged);
  EXPECT_EQ(Json()["ok"], false);
  EXPECT_EQ(Json()["bad"], 1);
  EXPECT_THAT(err(), HasSubstr("\"reason\": \"STATE_DAMAGED\""));
}

TEST_F(RunStateTest, SweepAndRestoreAreRefusedWhileAServerWrites) {
  for (const char* const command : {"sweep", "restore"}) {
    EXPECT_EQ(State(command), kExitUnavailable);
    EXPECT_THAT(err(), HasSubstr("process 42 on host1"));
    EXPECT_THAT(err(), HasSubstr("reason: STATE_LOCKED"));
  }
  const std::string former = directory_->incarnation();
  directory_.reset();
  ASSERT_EQ(State("sweep"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("deleted 0 files"));
  ASSERT_EQ(State("restore", true), kExitOk) << err();
  EXPECT_EQ(Json()["former_incarnation"], former);
  EXPECT_NE(Json()["incarnation"], former);
  ASSERT_EQ(State("check"), kExitOk) << err();
}

TEST_F(RunStateTest, WhatIsNoStateDirectoryIsLeftAlone) {
  std::filesystem::create_directory("empty");
  for (const char* const command : {"list", "check", "sweep", "restore"}) {
    EXPECT_EQ(RunTest::Vicinal(std::vector<std::string>{"state", command, "empty"}), kExitUsage);
    EXPECT_THAT(err(), HasSubstr("STATE_NOT_INITIALIZED"));
    EXPECT_EQ(RunTest::Vicinal(std::vector<std::string>{"state", command, "none"}), kExitUsage);
    EXPECT_THAT(err(), HasSubstr("STATE_FILE_MISSING"));
    EXPECT_EQ(RunTest::Vicinal(std::vector<std::string>{"state", command}), kExitUsage);
  }
  EXPECT_TRUE(std::filesystem::is_empty("empty"));
}

TEST_F(RunStateTest, NeedsNoAddressOfAServer) {
  setenv("VICINAL_SERVER", "not an address", 1);
  EXPECT_EQ(State("list"), kExitOk) << err();
  unsetenv("VICINAL_SERVER");
}

}  // namespace
}  // namespace vicinal::client::cli
