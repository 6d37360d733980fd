// SPDX-License-Identifier: Apache-2.0
// Files that are no text as the readers of lines take it.
#include "client/cpp/formats/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace vicinal::client {
namespace {

using ::testing::HasSubstr;

std::string TextFault(std::string_view text) { return std::string(CheckText(text, "f.txt").message()); }

TEST(FilesTest, TextEndsItsLinesWithLfOrCrLf) {
  for (const char* good : {"", "a", "a\nb\n", "a\r\nb\r\n", "a\r\nb\r",
                           "\xEF\xBB\xBF"
                           "a\n",
                           "\xFF\n"}) {
    EXPECT_EQ(TextFault(good), "") << ::testing::PrintToString(good);
  }
  EXPECT_THAT(TextFault("a\rb\rc\r"), HasSubstr("f.txt:1: contains a carriage return (CR) without a line feed (LF)"));
  EXPECT_THAT(TextFault("a\rb"), HasSubstr("tr '\\r' '\\n'"));
  EXPECT_THAT(TextFault("a\r\nb\n# c\rd\n"), HasSubstr("f.txt:3: "));
}

TEST(FilesTest, BytesThatNoTextHas) {
  EXPECT_EQ(TextFault("\xFF\xFE"
                      "0"),
            "f.txt: is UTF-16 text: save it as UTF-8");
  EXPECT_EQ(TextFault("\xFE\xFF"
                      "0"),
            "f.txt: is UTF-16 text: save it as UTF-8");
  EXPECT_EQ(TextFault(std::string_view("0 1\n1 \0", 7)), "f.txt:2: contains a zero byte, so it is not a text file");
}

TEST(FilesTest, WhatCannotBeReadSaysWhy) {
  EXPECT_EQ(ReadFile("/nonexistent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadFile("/").status().message()), HasSubstr("Is a directory"));
  EXPECT_THAT(std::string(ReadFile("/dev/zero").status().message()), HasSubstr("a device, not a file"));
}

// As on a full disk: writing ends in the middle.
class NoLargeFiles {
 public:
  NoLargeFiles() : handler_(signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit few = {4096, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  }
  ~NoLargeFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*const handler_)(int);
};

TEST(FilesTest, AFileIsReplacedWholeOrNotAtAll) {
  namespace fs = std::filesystem;
  const TemporaryDirectory folder;
  const std::string path = folder / "ids.txt", link = folder / "link.txt";
  ASSERT_TRUE(WriteFile(path, "old").ok());
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("ids.txt", link);
  {
    const NoLargeFiles no_large_files;
    const std::string long_text(1 << 20, 'x');
    EXPECT_THAT(std::string(WriteFile(path, long_text).message()), HasSubstr("ids.txt: cannot write: "));
    EXPECT_FALSE(WriteFile(folder / "other.txt", long_text).ok());
  }
  EXPECT_EQ(*ReadFile(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2) << "nothing is left beside it";
  ASSERT_TRUE(WriteFile(link, "new").ok());
  EXPECT_EQ(*ReadFile(path), "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(FilesTest, APipeIsWrittenIntoNotReplaced) {
  const TemporaryDirectory folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread reader([&] {
    std::ifstream stream(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "text");
  });
  EXPECT_TRUE(WriteFile(path, "text").ok());
  reader.join();
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

// Opening it would wait for a writer.
TEST(FilesTest, APipeWithANameIsRefusedAndOneThatIsOpenIsRead) {
  const TemporaryDirectory folder;
  const std::string path = folder / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const absl::Status& status : {ReadFile(path).status(), CheckReadable(path), CheckRegular(path)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("/fifo: cannot read: a pipe or socket, not a file"));
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "text", 4), 4);
  close(ends[1]);
  const std::string open = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_THAT(std::string(CheckRegular(open).message()), HasSubstr("it must be possible to read it more than once"));
  EXPECT_EQ(*ReadFile(open), "text");
  close(ends[0]);
}

// Reading it would wait for a writer for ever.
TEST(FilesTest, APipeWithANameIsRefusedBelowDevToo) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "/dev/shm: " << std::strerror(errno);
  const TemporaryDirectory folder("/dev/shm");
  const std::string path = folder / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadFile(path).status().message()), HasSubstr("cannot read: a pipe or socket, not a file"));
}

TEST(FilesTest, APathWithAZeroByteIsNotCutThere) {
  const TemporaryDirectory folder;
  const std::string path = folder / "f";
  ASSERT_TRUE(WriteFile(path, "another file").ok());
  const std::string with_zero = path + std::string("\0.txt", 5);
  EXPECT_THAT(std::string(ReadFile(with_zero).status().message()), HasSubstr("the path contains a zero byte"));
}

TEST(FilesTest, WhatCannotBeWrittenIsKnownBefore) {
  const TemporaryDirectory folder;
  const std::string path = folder / "out";
  ASSERT_TRUE(WriteFile(path, "kept").ok());
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(*ReadFile(path), "kept");
  EXPECT_TRUE(CheckWritable(path + "_new").ok());
  EXPECT_FALSE(ReadFile(path + "_new").ok()) << "it is not left there";
  EXPECT_THAT(std::string(CheckWritable(path + "/under").message()), HasSubstr("cannot write"));
  EXPECT_THAT(std::string(CheckWritable(folder.path()).message()), HasSubstr("Is a directory"));
  EXPECT_TRUE(CheckWritable("/dev/null").ok());
}

}  // namespace
}  // namespace vicinal::client
