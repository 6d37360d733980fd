// SPDX-License-Identifier: Apache-2.0
#include "server/token_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace vicinal::server {
namespace {

struct LogPipe {
  LogPipe() { EXPECT_EQ(pipe(fds), 0); }
  ~LogPipe() { close(fds[0]), close(fds[1]); }
  int fds[2] = {-1, -1};
};

class TokenFilesTest : public ::testing::Test {
 protected:
  TokenFilesTest() {
    config_.credentials.admin_token = "adm";
    config_.credentials.infer_token = "inf";
    config_.admin_token_file = folder_ / "admin";
    config_.infer_token_file = folder_ / "infer";
    Write("admin", "adm\n");
    Write("infer", "inf\n");
  }
  void Write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  bool Takes(const std::string& token, Role role = Role::kAdmin) const {
    const std::string authorization = "Bearer " + token;
    Caller caller;
    caller.authorization = authorization;
    Identity ignored;
    return auth_.Check(caller, role, &ignored).ok();
  }
  // The lines since the last call; the end of the last one tells how many there are without waiting for more.
  std::string Logged() {
    log_.Log(LogLevel::kError, "end", {});
    std::string text(65536, '\0');
    text.resize(static_cast<size_t>(read(log_pipe_.fds[0], text.data(), text.size())));
    return text.substr(0, text.rfind('\n', text.size() - 2) + 1);
  }

  const TemporaryDirectory folder_;
  LogPipe log_pipe_;
  FakeClock clock_;
  JsonLog log_{log_pipe_.fds[1], LogLevel::kInfo, &clock_};
  Config config_;
  Auth auth_{"adm", "inf"};
};

TEST_F(TokenFilesTest, WhatTheFilesSayIsTaken) {
  TokenFiles files(config_, &auth_, &log_);
  EXPECT_FALSE(files.empty());
  files.Reread();
  EXPECT_EQ(Logged(), "");
  Write("admin", "next\n");
  EXPECT_TRUE(Takes("adm"));
  files.Reread();
  EXPECT_TRUE(Takes("next"));
  EXPECT_FALSE(Takes("adm"));
  EXPECT_TRUE(Takes("inf", Role::kInfer));
  const std::string log = Logged();
  EXPECT_NE(log.find("\"message\":\"token replaced\",\"flag\":\"admin_token_file\""), std::string::npos) << log;
  EXPECT_EQ(log.find("next"), std::string::npos) << log;  // the token itself is no news
}

// As Kubernetes does it: the file is a link through a link to a folder, and that one is exchanged.
TEST_F(TokenFilesTest, AMountedSecretIsExchanged) {
  for (const char* version : {"1", "2"}) {
    std::filesystem::create_directory(folder_ / version);
    Write(std::string(version) + "/token", std::string("secret") + version);
  }
  std::filesystem::create_symlink("1", folder_ / "data");
  std::filesystem::create_symlink("data/token", folder_ / "token");
  config_.admin_token_file = folder_ / "token";
  TokenFiles files(config_, &auth_, &log_);
  files.Reread();
  EXPECT_TRUE(Takes("secret1"));
  std::filesystem::create_symlink("2", folder_ / "data.new");
  std::filesystem::rename(folder_ / "data.new", folder_ / "data");
  files.Reread();
  EXPECT_TRUE(Takes("secret2"));
  EXPECT_FALSE(Takes("secret1"));
}

TEST_F(TokenFilesTest, AFileThatSaysNothingChangesNothing) {
  TokenFiles files(config_, &auth_, &log_);
  Write("admin", "");
  files.Reread();
  files.Reread();
  EXPECT_TRUE(Takes("adm"));
  EXPECT_FALSE(Takes(""));
  std::string log = Logged();
  EXPECT_NE(log.find("\"level\":\"error\""), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;  // said once
  std::filesystem::remove(folder_ / "admin");
  files.Reread();
  EXPECT_TRUE(Takes("adm"));
  log = Logged();
  EXPECT_NE(log.find("No such file"), std::string::npos) << log;
  Write("admin", "x");
  std::filesystem::resize_file(folder_ / "admin", uintmax_t{6} << 30);  // damaged, and no line ends
  files.Reread();
  EXPECT_TRUE(Takes("adm"));
  log = Logged();
  EXPECT_NE(log.find("its first line has more than 8192 bytes"), std::string::npos) << log;
  Write("admin", "adm\n");
  files.Reread();
  std::filesystem::remove(folder_ / "admin");
  files.Reread();
  log = Logged();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;  // once more: it was mended meanwhile
}

// An infer token that is the admin's too would open everything to whoever may infer.
TEST_F(TokenFilesTest, OneTokenIsNotTakenForBothRoles) {
  TokenFiles files(config_, &auth_, &log_);
  Write("infer", "adm\n");
  files.Reread();
  files.Reread();
  EXPECT_TRUE(Takes("adm"));
  EXPECT_TRUE(Takes("inf", Role::kInfer));
  EXPECT_FALSE(Takes("inf"));
  std::string log = Logged();
  EXPECT_NE(log.find("\"level\":\"warning\""), std::string::npos) << log;
  EXPECT_NE(log.find("the same token"), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  Write("admin", "both\n");
  Write("infer", "both\n");
  files.Reread();
  EXPECT_FALSE(Takes("both", Role::kInfer));
  // Mended: the tokens change places.
  Write("admin", "inf\n");
  Write("infer", "adm\n");
  files.Reread();
  EXPECT_TRUE(Takes("inf"));
  EXPECT_FALSE(Takes("adm"));
  EXPECT_TRUE(Takes("adm", Role::kInfer));
}

TEST_F(TokenFilesTest, APipeIsReadOnceOnly) {
  config_.admin_token_file = folder_ / "pipe";
  ASSERT_EQ(mkfifo(config_.admin_token_file.c_str(), 0600), 0);
  TokenFiles files(config_, &auth_, &log_);
  files.Reread();  // waits for nobody to write
  EXPECT_TRUE(Takes("adm"));
  EXPECT_EQ(Logged(), "");
}

TEST_F(TokenFilesTest, PrincipalsAreReadAgain) {
  const std::string two = "ops admin token:one\nops admin token:two\nweb infer token:three\n";
  Write("principals", two);
  config_.principals_file = folder_ / "principals";
  config_.credentials.principals = *ParsePrincipals(two);
  auth_.Replace(config_.credentials);
  TokenFiles files(config_, &auth_, &log_);
  EXPECT_FALSE(files.empty());
  files.Reread();
  EXPECT_TRUE(Takes("one") && Takes("two") && Takes("adm"));
  EXPECT_EQ(Logged(), "");
  Write("principals", "ops admin token:two\nops admin token:four\n");
  files.Reread();
  EXPECT_FALSE(Takes("one"));
  EXPECT_TRUE(Takes("two") && Takes("four"));
  EXPECT_FALSE(Takes("three", Role::kInfer));
  std::string log = Logged();
  EXPECT_NE(log.find("\"message\":\"principals replaced\",\"flag\":\"principals_file\""), std::string::npos) << log;
  EXPECT_EQ(log.find("four"), std::string::npos) << log;
  // A bad line changes nothing, and is said once, without the secret.
  for (const char* bad : {"ops admin token:five\nweb infer 5ecret\n", "", "ops admin token:inf\n"}) {
    Write("principals", bad);
    files.Reread();
    files.Reread();
    EXPECT_TRUE(Takes("two") && Takes("four") && Takes("inf", Role::kInfer)) << bad;
    log = Logged();
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
    EXPECT_EQ(log.find("5ecret"), std::string::npos) << log;
  }
}

TEST_F(TokenFilesTest, WithoutFilesNothingIsRead) { EXPECT_TRUE(TokenFiles(Config(), &auth_, &log_).empty()); }

}  // namespace
}  // namespace vicinal::server
