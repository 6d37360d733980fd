// SPDX-License-Identifier: Apache-2.0
// Reads a token file. The path may name any file of any length, or a pipe: time and memory are bounded, because the
// server re-reads the file while it serves and must be able to stop.
#ifndef VICINAL_SERVER_READ_TOKEN_FILE_H_
#define VICINAL_SERVER_READ_TOKEN_FILE_H_

#include <chrono>
#include <string>

#include "engine/base/status.h"

namespace vicinal::server {

// The first line of the file, without surrounding blanks. Reads little more than twice wire::kMaxTokenBytes. A pipe may
// be silent for `patience`. INVALID_ARGUMENT naming `flag`: not readable, silent, empty, longer than
// wire::kMaxTokenBytes, or with characters that are not allowed in a header.
StatusOr<std::string> ReadTokenFile(const std::string& path, const char* flag, std::chrono::milliseconds patience);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_READ_TOKEN_FILE_H_
