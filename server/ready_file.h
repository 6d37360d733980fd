// SPDX-License-Identifier: Apache-2.0
// The ready file (--ready_file) contains the server's addresses once it serves. Only a regular file at its path is ever
// replaced or deleted: a server that runs as root could otherwise replace a device.
#ifndef VICINAL_SERVER_READY_FILE_H_
#define VICINAL_SERVER_READY_FILE_H_

#include <string>

#include "engine/base/status.h"

namespace vicinal::server {

// Deletes a stale ready file. FAILED_PRECONDITION (CANNOT_WRITE): it is not a regular file, or cannot be deleted.
Status RemoveReadyFile(const std::string& path);

// Writes {"grpc": ..., "metrics": ..., "health": ..., "status": ...} atomically; the last two only if they are not
// empty. FAILED_PRECONDITION (CANNOT_WRITE), also if the path exists and is not a regular file.
Status WriteReadyFile(const std::string& path, const std::string& grpc, const std::string& metrics,
                      const std::string& health = {}, const std::string& status_page = {});

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_READY_FILE_H_
