// SPDX-License-Identifier: Apache-2.0
#include "engine/state/file_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "engine/base/error.h"

namespace vicinal::state {
namespace {

using ::testing::HasSubstr;

TEST(FileErrorTest, MapsErrnoToCodeAndReason) {
  struct Case {
    const char* operation;
    int error;
    StatusCode code;
    const char* reason;
  };
  for (const Case& c : {Case{"open", ENOENT, StatusCode::kNotFound, "STATE_FILE_MISSING"},
                        Case{"create", EEXIST, StatusCode::kAlreadyExists, "STATE_FILE_EXISTS"},
                        Case{"write", ENOSPC, StatusCode::kResourceExhausted, "STATE_DISK_FULL"},
                        Case{"write", EDQUOT, StatusCode::kResourceExhausted, "STATE_DISK_FULL"},
                        Case{"open", EMFILE, StatusCode::kResourceExhausted, "STATE_TOO_MANY_FILES"},
                        Case{"create", EROFS, StatusCode::kFailedPrecondition, "STATE_ACCESS_DENIED"},
                        Case{"open", EACCES, StatusCode::kFailedPrecondition, "STATE_ACCESS_DENIED"},
                        Case{"open", ELOOP, StatusCode::kFailedPrecondition, "STATE_UNSAFE_PATH"},
                        Case{"write", EIO, StatusCode::kFailedPrecondition, "STATE_IO_ERROR"},
                        Case{"write", ESTALE, StatusCode::kFailedPrecondition, "STATE_FILE_ERROR"},
                        Case{"fsync", EIO, StatusCode::kFailedPrecondition, "STATE_SYNC_FAILED"},
                        Case{"fsync directory", EIO, StatusCode::kFailedPrecondition, "STATE_SYNC_FAILED"},
                        Case{"fsync", ENOSPC, StatusCode::kResourceExhausted, "STATE_DISK_FULL"}}) {
    const Status status = FileError(c.operation, "graphs/g/1/csr.vsec", c.error);
    EXPECT_EQ(status.code(), c.code) << status;
    const auto detail = DetailOf(status);
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->reason, c.reason) << status;
    EXPECT_FALSE(detail->retry_after.has_value());
    EXPECT_EQ(detail->metadata.at("path"), "graphs/g/1/csr.vsec");
    EXPECT_EQ(detail->metadata.at("operation"), c.operation);
  }
}

TEST(FileErrorTest, SaysOperationPathAndCause) {
  const Status status = FileError("write", "graphs/g/1/csr.vsec", ENOSPC);
  EXPECT_EQ(status.message(), "write 'graphs/g/1/csr.vsec': No space left on device; free space or raise the quota");
  EXPECT_EQ(DetailOf(status)->metadata.at("error"), "ENOSPC");
  EXPECT_EQ(FileError("mkdir", "/a/b", ENOENT).message(),
            "mkdir '/a/b': No such file or directory; make the directory above it first");
  EXPECT_THAT(std::string(Damaged("FORMAT", "empty").message()), HasSubstr("'FORMAT' is damaged: empty"));
  EXPECT_EQ(Damaged("FORMAT", "empty").code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace vicinal::state
