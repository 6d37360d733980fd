// SPDX-License-Identifier: Apache-2.0
// Whole files to and from memory. Errors name the file and the system's reason: NOT_FOUND when it is not there,
// INVALID_ARGUMENT otherwise.
#ifndef VICINAL_CLIENT_CPP_FORMATS_FILES_H_
#define VICINAL_CLIENT_CPP_FORMATS_FILES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace vicinal::client {

// The bytes of a regular file (or a pipe; not of a device, which may have no end). Memory: those bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes `path` anew, whole or not at all: beside it first, under a name that then becomes `path`. A link stays one,
// and the file keeps its mode. In a folder that takes no new file, and to what is no regular file (a pipe), the bytes
// go where they belong at once: then what is left after an error is not to be used.
absl::Status WriteFile(const std::string& path, std::string_view bytes);

// Refuses what ReadFile would not even open: nothing there, a folder, a device.
absl::Status CheckReadable(const std::string& path);

// Whether WriteFile(path) may succeed, to be known before long work. Changes nothing; of what is neither file nor
// folder (a pipe) nothing can be said beforehand.
absl::Status CheckWritable(const std::string& path);

// Refuses what is no text as the readers of lines take it, with the line and what to do: UTF-16, a byte 0, and a
// carriage return that no line feed follows (line ends of old Macs, which would make one line of a whole file).
absl::Status CheckText(std::string_view text, const std::string& path);

// INVALID_ARGUMENT "PATH: message", or "PATH:LINE: message" when line > 0.
absl::Status FileError(const std::string& path, int64_t line, std::string_view message);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_FILES_H_
