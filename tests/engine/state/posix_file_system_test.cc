// SPDX-License-Identifier: Apache-2.0
#include "engine/state/posix_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::state {
namespace {

using ::testing::ElementsAre;

std::string ReasonOf(const Status& status) {
  const auto detail = DetailOf(status);
  return detail ? detail->reason : "";
}

class PosixFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = PosixFileSystem::Open(root_ / "state", PosixFileSystem::Root::kCreate);
    ASSERT_TRUE(opened.ok()) << opened.status();
    files_ = *std::move(opened);
  }
  void Write(const std::string& path, const std::string& text) {
    auto file = files_->Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(text).ok());
    ASSERT_TRUE((*file)->Sync().ok());
  }
  mode_t ModeOf(const std::string& path) {
    struct stat info;
    EXPECT_EQ(stat((root_ / ("state/" + path)).c_str(), &info), 0);
    return info.st_mode & 0777;
  }
  std::string Path(const std::string& path) { return root_ / ("state/" + path); }

  TemporaryDirectory root_;
  std::unique_ptr<PosixFileSystem> files_;
};

TEST_F(PosixFileSystemTest, WritesReadsAndListsPrivately) {
  ASSERT_TRUE(files_->MakeDirectory("a").ok());
  auto file = files_->Create("a/f");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("world").ok());
  ASSERT_TRUE((*file)->WriteAt(0, "W").ok());
  ASSERT_TRUE((*file)->WriteAt(7, "xy").ok());
  ASSERT_TRUE((*file)->Append("z").ok());
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ((*file)->size(), 10);
  EXPECT_TRUE(files_->SyncDirectory("a").ok());
  EXPECT_TRUE(files_->SyncDirectory("").ok());
  const auto text = ReadSmallFile(*files_, "a/f", 10);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, std::string("World\0\0xyz", 10));
  EXPECT_EQ(ReadSmallFile(*files_, "a/f", 9).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ModeOf(""), 0700u);
  EXPECT_EQ(ModeOf("a"), 0700u);
  EXPECT_EQ(ModeOf("a/f"), 0600u);

  const auto entries = files_->List("a");
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ((*entries)[0].name, "f");
  EXPECT_EQ((*entries)[0].kind, FileKind::kFile);
  const auto info = files_->Stat("a/f");
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->bytes, 10);
  EXPECT_LT(std::chrono::abs(info->modify_time - Clock::Real().WallNow()), std::chrono::minutes(5));
  EXPECT_EQ(files_->Stat("")->kind, FileKind::kDirectory);
}

TEST_F(PosixFileSystemTest, KnowsNothingInMemoryThatIsNotThere) {
  Write("f", std::string(10'000, 'x'));
  const auto file = files_->Open("f");
  ASSERT_TRUE(file.ok()) << file.status();
  char byte = 0;
  ASSERT_TRUE((*file)->ReadAt(9'999, &byte, 1).ok());
  EXPECT_FALSE((*file)->IsInMemory(10'000)) << "beyond the end";
}

TEST_F(PosixFileSystemTest, CreatesExclusivelyAndRemoves) {
  Write("f", "1");
  EXPECT_EQ(ReasonOf(files_->Create("f").status()), "STATE_FILE_EXISTS");
  EXPECT_EQ(ReasonOf(files_->MakeDirectory("f")), "STATE_FILE_EXISTS");
  ASSERT_TRUE(files_->MakeDirectory("d").ok());
  Write("d/g", "2");
  EXPECT_EQ(ReasonOf(files_->RemoveDirectory("d")), "STATE_FILE_EXISTS");
  ASSERT_TRUE(files_->Rename("d/g", "f").ok());
  EXPECT_EQ(*ReadSmallFile(*files_, "f", 10), "2");
  ASSERT_TRUE(files_->RemoveDirectory("d").ok());
  ASSERT_TRUE(files_->Unlink("f").ok());
  EXPECT_EQ(ReasonOf(files_->Unlink("f")), "STATE_FILE_MISSING");
  EXPECT_EQ(ReasonOf(files_->Open("f").status()), "STATE_FILE_MISSING");
  EXPECT_EQ(ReasonOf(files_->Stat("d/x").status()), "STATE_FILE_MISSING");
}

TEST_F(PosixFileSystemTest, FollowsNoLink) {
  std::filesystem::create_directory(root_ / "outside");
  std::ofstream(root_ / "outside/secret") << "secret";
  std::filesystem::create_symlink(root_ / "outside", Path("link"));
  std::filesystem::create_symlink(root_ / "outside/secret", Path("file_link"));
  EXPECT_EQ(ReasonOf(files_->Open("link/secret").status()), "STATE_UNSAFE_PATH");
  EXPECT_EQ(ReasonOf(files_->Open("file_link").status()), "STATE_UNSAFE_PATH");
  EXPECT_EQ(ReasonOf(files_->Create("link/new").status()), "STATE_UNSAFE_PATH");
  EXPECT_EQ(ReasonOf(files_->Create("file_link").status()), "STATE_FILE_EXISTS");
  EXPECT_EQ(ReasonOf(files_->Lock("file_link", "me").status()), "STATE_UNSAFE_PATH");
  EXPECT_EQ(ReasonOf(files_->List("link").status()), "STATE_UNSAFE_PATH");
  EXPECT_EQ(ReasonOf(files_->Rename("link/secret", "mine")), "STATE_UNSAFE_PATH");
  EXPECT_EQ(files_->Stat("file_link")->kind, FileKind::kOther);
  std::string text;
  std::ifstream(root_ / "outside/secret") >> text;
  EXPECT_EQ(text, "secret");
}

TEST_F(PosixFileSystemTest, OpensNothingButFiles) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(files_->Open("pipe").status().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(files_->MakeDirectory("d").ok());
  EXPECT_EQ(files_->Open("d").status().code(), StatusCode::kDataLoss);
}

TEST_F(PosixFileSystemTest, AWriterIsPoisonedByItsFirstError) {
  auto file = files_->Create("f");
  ASSERT_TRUE(file.ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status failed = (*file)->Append("more than ten bytes");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ((*file)->Append("x"), failed);
  EXPECT_EQ((*file)->Sync(), failed);
}

TEST_F(PosixFileSystemTest, ASecondLockNamesTheHolder) {
  auto first = files_->Lock("LOCK", "process 1");
  ASSERT_TRUE(first.ok()) << first.status();
  const Status second = files_->Lock("LOCK", "process 2").status();
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(second), "STATE_LOCKED");
  EXPECT_EQ(DetailOf(second)->metadata.at("holder"), "process 1");
  ASSERT_TRUE((*first)->SetHolder("me").ok());
  EXPECT_EQ(*ReadSmallFile(*files_, "LOCK", 100), "me");
  EXPECT_EQ(ReasonOf(files_->Lock("LOCK", "process 2").status()), "STATE_LOCKED");
  first->reset();
  EXPECT_TRUE(files_->Lock("LOCK", "p3").ok());
  EXPECT_EQ(*ReadSmallFile(*files_, "LOCK", 100), "p3");
}

TEST_F(PosixFileSystemTest, ALockDoesNotOutliveItsProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = files_->Lock("LOCK", "child");
    const char answer = lock.ok() ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(DetailOf(files_->Lock("LOCK", "parent").status())->metadata.at("holder"), "child");
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(files_->Lock("LOCK", "parent").ok());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(PosixFileSystemTest, DeletingTheLockFileLetsNobodyIn) {
  auto lock = files_->Lock("LOCK", "first");
  ASSERT_TRUE(lock.ok()) << lock.status();
  ASSERT_TRUE(files_->Unlink("LOCK").ok());
  EXPECT_EQ(ReasonOf(files_->Lock("LOCK", "second").status()), "STATE_LOCKED");
  lock->reset();
  EXPECT_TRUE(files_->Lock("LOCK", "second").ok());
}

TEST_F(PosixFileSystemTest, ReplaceFileLeavesNoTemporaryAndIgnoresAnOldOne) {
  Write("N.tmp", "left by a crash");
  ASSERT_TRUE(ReplaceFile(*files_, "N", "1").ok());
  ASSERT_TRUE(ReplaceFile(*files_, "N", "2").ok());
  EXPECT_EQ(*ReadSmallFile(*files_, "N", 10), "2");
  EXPECT_EQ(files_->List("")->size(), 1u);
}

TEST_F(PosixFileSystemTest, NoticesThatItsRootIsGone) {
  const std::filesystem::path here = root_ / "state", away = root_ / "away";
  EXPECT_TRUE(files_->CheckReachable().ok());
  std::filesystem::rename(here, away);
  EXPECT_EQ(ReasonOf(files_->CheckReachable()), "STATE_DIRECTORY_GONE");
  EXPECT_FALSE(files_->Reopen().ok());
  std::filesystem::create_directory(here);
  EXPECT_EQ(ReasonOf(files_->CheckReachable()), "STATE_DIRECTORY_GONE") << "it is another directory";
  const auto other = files_->Reopen();
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE((*other)->CheckReachable().ok());
  std::filesystem::remove(here);
  std::filesystem::rename(away, here);
  EXPECT_TRUE(files_->CheckReachable().ok());
  std::filesystem::remove_all(here);
  EXPECT_EQ(ReasonOf(files_->CheckReachable()), "STATE_DIRECTORY_GONE");
}

TEST_F(PosixFileSystemTest, AMissingRootIsAnError) {
  EXPECT_EQ(ReasonOf(PosixFileSystem::Open(root_ / "none", PosixFileSystem::Root::kMustExist).status()),
            "STATE_FILE_MISSING");
  EXPECT_EQ(ReasonOf(PosixFileSystem::Open(root_ / "no/parent", PosixFileSystem::Root::kCreate).status()),
            "STATE_FILE_MISSING");
}

}  // namespace
}  // namespace vicinal::state
