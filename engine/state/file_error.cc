// SPDX-License-Identifier: Apache-2.0
#include "engine/state/file_error.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "engine/base/error.h"

namespace vicinal::state {
namespace {

struct Meaning {
  StatusCode code;
  const char* reason;
  const char* advice;  // empty, or how to fix it
};

Meaning MeaningOf(int error) {
  switch (error) {
    case ENOENT:
      return {StatusCode::kNotFound, "STATE_FILE_MISSING", ""};
    case EEXIST:
    case ENOTEMPTY:
      return {StatusCode::kAlreadyExists, "STATE_FILE_EXISTS", ""};
    case ENOSPC:
    case EDQUOT:
      return {StatusCode::kResourceExhausted, "STATE_DISK_FULL", "; free space or raise the quota"};
    case EMFILE:
    case ENFILE:
      return {StatusCode::kResourceExhausted, "STATE_TOO_MANY_FILES", "; raise the limit of open files"};
    case EROFS:
    case EACCES:
    case EPERM:
      return {StatusCode::kFailedPrecondition, "STATE_ACCESS_DENIED", "; check mount options, owner and mode"};
    case ELOOP:
    case ENOTDIR:
      return {StatusCode::kFailedPrecondition, "STATE_UNSAFE_PATH",
              "; a directory is expected there, and symbolic links below a state directory are not followed"};
    case EIO:
      return {StatusCode::kFailedPrecondition, "STATE_IO_ERROR", "; check the disk"};
    default:
      return {StatusCode::kFailedPrecondition, "STATE_FILE_ERROR", ""};
  }
}

// "ENOSPC" for the errors above, "errno 5" for others.
std::string NameOf(int error) {
  const char* const name = strerrorname_np(error);
  return name != nullptr ? name : "errno " + std::to_string(error);
}

}  // namespace

Status FileError(std::string_view operation, std::string_view path, int error) {
  Meaning meaning = MeaningOf(error);
  if (operation.substr(0, 5) == "fsync" && meaning.code != StatusCode::kResourceExhausted) {
    meaning = {StatusCode::kFailedPrecondition, "STATE_SYNC_FAILED", "; what was written may be lost; check the disk"};
  }
  if (operation == "mkdir" && error == ENOENT) meaning.advice = "; make the directory above it first";
  const std::string text = std::string(operation) + " '" + std::string(path) +
                           "': " + std::generic_category().message(error) + meaning.advice;
  ErrorDetail detail;
  detail.reason = meaning.reason;
  detail.metadata = {{"operation", std::string(operation)}, {"path", std::string(path)}, {"error", NameOf(error)}};
  return MakeError(meaning.code, text, detail);
}

Status Damaged(std::string_view path, std::string_view problem) {
  ErrorDetail detail;
  detail.reason = "STATE_DAMAGED";
  detail.metadata = {{"path", std::string(path)}};
  return MakeError(StatusCode::kDataLoss, "'" + std::string(path) + "' is damaged: " + std::string(problem), detail);
}

}  // namespace vicinal::state
