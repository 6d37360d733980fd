// SPDX-License-Identifier: Apache-2.0
// Reads and writes whole files. Errors name the file and the system's reason: NOT_FOUND if it does not exist,
// INVALID_ARGUMENT otherwise.
#ifndef VICINAL_CLIENT_CPP_FORMATS_FILES_H_
#define VICINAL_CLIENT_CPP_FORMATS_FILES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace vicinal::client {

// The bytes of a regular file, or of a pipe that is open already (/dev/stdin, /dev/fd/N; not of a device, which may be
// endless, nor of a pipe with a name, which may have no writer for ever). Memory: those bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Replaces `path` atomically: writes a temporary file next to it and renames that. Links stay links, and the file keeps
// its mode. Writes directly if the folder accepts no new file or `path` is not a regular file (a pipe); the file is
// then incomplete after an error.
absl::Status WriteFile(const std::string& path, std::string_view bytes);

// An error if ReadFile could not open `path`: it does not exist, or is a folder, a device, a socket or a pipe with a
// name; or if `path` contains a zero byte.
absl::Status CheckReadable(const std::string& path);

// An error unless `path` is a regular file, which can be read again: not a pipe, nor /dev/stdin where that is one.
absl::Status CheckRegular(const std::string& path);

// An error if WriteFile(path) would fail, to be checked before long work. Changes nothing. OK for special files
// (pipes), which cannot be checked in advance.
absl::Status CheckWritable(const std::string& path);

// An error, with the line and the fix, if the bytes are not text for the line readers: UTF-16, a zero byte, or a
// carriage return without a line feed (line ends of old Macs, which would make the file one line).
absl::Status CheckText(std::string_view text, const std::string& path);

// INVALID_ARGUMENT "PATH: message", or "PATH:LINE: message" when line > 0.
absl::Status FileError(const std::string& path, int64_t line, std::string_view message);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_FILES_H_
