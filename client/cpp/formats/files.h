// SPDX-License-Identifier: Apache-2.0
// Whole files to and from memory. Errors name the file and the system's reason: NOT_FOUND when it is not there,
// INVALID_ARGUMENT otherwise.
#ifndef VICINAL_CLIENT_CPP_FORMATS_FILES_H_
#define VICINAL_CLIENT_CPP_FORMATS_FILES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace vicinal::client {

// The bytes of a regular file (or a pipe). Memory: those bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes `path` anew. A file that could not be written whole is an error; what is left of it is not to be used.
absl::Status WriteFile(const std::string& path, std::string_view bytes);

// INVALID_ARGUMENT "PATH: message", or "PATH:LINE: message" when line > 0.
absl::Status FileError(const std::string& path, int64_t line, std::string_view message);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_FILES_H_
