// SPDX-License-Identifier: Apache-2.0
#include "server/ready_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::server {
namespace {

class ReadyFileTest : public ::testing::Test {
 protected:
  ReadyFileTest() { path_ = folder_ / "ready.json"; }
  std::string Text() const {
    std::ifstream file(path_);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // Neither taken away nor replaced.
  void ExpectLeftAlone(std::filesystem::file_type type) const {
    for (const Status& status : {RemoveReadyFile(path_), WriteReadyFile(path_, "a:1", "b:2")}) {
      ASSERT_TRUE(DetailOf(status).has_value()) << status;
      EXPECT_EQ(DetailOf(status)->reason, "CANNOT_WRITE");
      EXPECT_NE(status.message().find("is not a regular file"), absl::string_view::npos) << status;
    }
    EXPECT_EQ(std::filesystem::symlink_status(path_).type(), type);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1) << "nothing is left beside it";
  }

  const TemporaryDirectory folder_;
  std::string path_;
};

TEST_F(ReadyFileTest, IsWrittenAnewAndTakenAway) {
  EXPECT_TRUE(RemoveReadyFile(path_).ok());
  ASSERT_TRUE(WriteReadyFile(path_, "a:1", "b:2").ok());
  EXPECT_EQ(Text(), "{\"grpc\":\"a:1\",\"metrics\":\"b:2\"}\n");
  ASSERT_TRUE(WriteReadyFile(path_, "a:3", "").ok());
  EXPECT_EQ(Text(), "{\"grpc\":\"a:3\",\"metrics\":\"\"}\n");
  EXPECT_TRUE(RemoveReadyFile(path_).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ReadyFileTest, APipeStaysOne) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectLeftAlone(std::filesystem::file_type::fifo);
}

TEST_F(ReadyFileTest, AFolderStaysOne) {
  std::filesystem::create_directory(path_);
  ExpectLeftAlone(std::filesystem::file_type::directory);
}

TEST_F(ReadyFileTest, ALinkStaysOne) {
  std::filesystem::create_symlink("/dev/null", path_);
  ExpectLeftAlone(std::filesystem::file_type::symlink);
}

TEST_F(ReadyFileTest, AFolderThatIsNotThereIsToldWhenItIsWritten) {
  path_ = folder_ / "none/ready.json";
  EXPECT_TRUE(RemoveReadyFile(path_).ok());
  const Status status = WriteReadyFile(path_, "a:1", "b:2");
  EXPECT_NE(status.message().find("No such file or directory"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace vicinal::server
