// SPDX-License-Identifier: Apache-2.0
// Reads a file of settings (principals, certificates) whole, in bounded time and memory: the path may name anything.
#ifndef VICINAL_SERVER_SMALL_FILE_H_
#define VICINAL_SERVER_SMALL_FILE_H_

#include <cstddef>
#include <string>

#include "engine/base/status.h"

namespace vicinal::server {

// INVALID_ARGUMENT, with a message that begins with the path: not readable, not a regular file, or longer than
// `max_bytes`.
StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SMALL_FILE_H_
