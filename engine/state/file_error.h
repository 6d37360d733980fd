// SPDX-License-Identifier: Apache-2.0
// Errors of the state directory: what the operating system says about a file, and what a damaged file means. Each has
// a reason of its own (docs/errors.md), so that server and operator tell a full disk from a failing one.
#ifndef VICINAL_ENGINE_STATE_FILE_ERROR_H_
#define VICINAL_ENGINE_STATE_FILE_ERROR_H_

#include <string_view>

#include "engine/base/status.h"

namespace vicinal::state {

// The error of `operation` ("write", "fsync", ...) on `path` (relative to the state directory), by errno:
//   ENOENT           NOT_FOUND            STATE_FILE_MISSING
//   EEXIST           ALREADY_EXISTS       STATE_FILE_EXISTS
//   ENOSPC, EDQUOT   RESOURCE_EXHAUSTED   STATE_DISK_FULL        without RetryInfo: somebody must free space
//   EMFILE, ENFILE   RESOURCE_EXHAUSTED   STATE_TOO_MANY_FILES
//   EROFS, EACCES, EPERM
//                    FAILED_PRECONDITION  STATE_ACCESS_DENIED
//   ELOOP, ENOTDIR   FAILED_PRECONDITION  STATE_UNSAFE_PATH      a link or file stands where a directory is expected
//   EIO              FAILED_PRECONDITION  STATE_IO_ERROR
//   others           FAILED_PRECONDITION  STATE_FILE_ERROR
// A failed fsync is STATE_SYNC_FAILED unless the disk is full. Metadata: operation, path, error (errno's name).
Status FileError(std::string_view operation, std::string_view path, int error);

// DATA_LOSS (STATE_DAMAGED): the contents of `path` cannot be trusted. `problem` says what was found and expected.
Status Damaged(std::string_view path, std::string_view problem);

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_FILE_ERROR_H_
