// SPDX-License-Identifier: Apache-2.0
// The token that a file says. What lies at its path may be any file of any length, or a pipe: the time and the memory
// that reading takes have bounds, because the server reads again while it serves and must be able to stop.
#ifndef VICINAL_SERVER_READ_TOKEN_FILE_H_
#define VICINAL_SERVER_READ_TOKEN_FILE_H_

#include <chrono>
#include <string>

#include "engine/base/status.h"

namespace vicinal::server {

// The first line of the file, without blanks around it; little more than twice wire::kMaxTokenBytes are read. A pipe
// may be silent for `patience`, which a regular file never needs. INVALID_ARGUMENT naming `flag`: not readable, silent,
// empty, longer than wire::kMaxTokenBytes, or with characters that cannot travel in a header.
StatusOr<std::string> ReadTokenFile(const std::string& path, const char* flag, std::chrono::milliseconds patience);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_READ_TOKEN_FILE_H_
