// SPDX-License-Identifier: Apache-2.0
// Files that say a token, and all the others that can lie in their place.
#include "server/read_token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/wire/names.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::server {
namespace {

using wire::kMaxTokenBytes;

constexpr std::chrono::milliseconds kNoPatience{0};
constexpr std::chrono::minutes kMuchPatience{1};

class ReadTokenFileTest : public ::testing::Test {
 protected:
  ReadTokenFileTest() { path_ = folder_ / "token"; }

  // The token, or "refused: ...".
  static std::string Said(const std::string& path, std::chrono::milliseconds patience = kNoPatience) {
    const StatusOr<std::string> token = ReadTokenFile(path, "admin_token_file", patience);
    return token.ok() ? *token : absl::StrCat("refused: ", token.status().message());
  }
  std::string SaidBy(const std::string& text) const {
    std::ofstream(path_) << text;
    return Said(path_);
  }
  void ExpectRefused(const std::string& said, const std::string& why) const {
    EXPECT_EQ(said.rfind("refused: ", 0), 0u) << said;
    EXPECT_NE(said.find("--admin_token_file=" + folder_.path()), std::string::npos) << said;
    EXPECT_NE(said.find(why), std::string::npos) << said;
  }

  const TemporaryDirectory folder_;
  std::string path_;
};

TEST_F(ReadTokenFileTest, TheFirstLineIsTheToken) {
  EXPECT_EQ(SaidBy("s3cret"), "s3cret");
  EXPECT_EQ(SaidBy("  s3cret \r\nsecond line\n"), "s3cret");
  EXPECT_EQ(SaidBy("s3cret\n" + std::string(1 << 20, 'x')), "s3cret");
  ExpectRefused(SaidBy(""), "first line is empty");
  ExpectRefused(SaidBy("\ns3cret\n"), "first line is empty");
  ExpectRefused(SaidBy("two words\n"), "cannot be sent");
  ExpectRefused(SaidBy("caf\xC3\xA9\n"), "cannot be sent");
  ExpectRefused(Said(path_ + ".none"), "No such file");
  ExpectRefused(Said(folder_.path()), "Is a directory");
}

TEST_F(ReadTokenFileTest, ATokenFitsIntoTheMetadataOfACall) {
  const std::string longest(kMaxTokenBytes, 't');
  EXPECT_EQ(SaidBy(longest), longest);
  EXPECT_EQ(SaidBy(std::string(kMaxTokenBytes, ' ') + longest + "\n"), longest);
  ExpectRefused(SaidBy(longest + "t\n"), "the token has 4097 characters; at most 4096 are allowed");
  ExpectRefused(SaidBy(std::string(20'000, 't') + "\n"), "first line has more than 8192 bytes");
  ExpectRefused(SaidBy(std::string(20'000, ' ')), "first line has more than 8192 bytes");
}

// Of a file without an end of line no more is read than a line may have.
TEST_F(ReadTokenFileTest, AFileOfAnyLengthIsRefusedAtOnce) {
  std::ofstream(path_) << "x";
  std::filesystem::resize_file(path_, uintmax_t{6} << 30);
  ExpectRefused(Said(path_), "first line has more than 8192 bytes");
  EXPECT_NE(Said("/dev/zero").find("first line has more than 8192 bytes"), std::string::npos);
}

TEST_F(ReadTokenFileTest, APipeMaySayATokenLater) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  for (const char* text : {"s3cret\n", "s3cret"}) {
    std::thread writer([&] { std::ofstream(path_) << text; });
    EXPECT_EQ(Said(path_, kMuchPatience), "s3cret");
    writer.join();
  }
  std::thread writer([&] { std::ofstream opened(path_); });
  ExpectRefused(Said(path_, kMuchPatience), "first line is empty");
  writer.join();
}

TEST_F(ReadTokenFileTest, APipeThatNobodyWritesToIsRefused) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectRefused(Said(path_), "a pipe without data");
}

// As a shell hands over the output of a command that has ended: /dev/fd/N.
TEST_F(ReadTokenFileTest, APipeWhoseWriterHasGoneSaysItsToken) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "s3cret", 6), 6);
  close(ends[1]);
  EXPECT_EQ(Said(absl::StrCat("/dev/fd/", ends[0])), "s3cret");
  close(ends[0]);
}

}  // namespace
}  // namespace vicinal::server
