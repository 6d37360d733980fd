// SPDX-License-Identifier: Apache-2.0
// The file that says a server serves, and where: --ready_file. Whatever else lies at its path is left alone; a server
// that runs as root could otherwise replace a device.
#ifndef VICINAL_SERVER_READY_FILE_H_
#define VICINAL_SERVER_READY_FILE_H_

#include <string>

#include "engine/base/status.h"

namespace vicinal::server {

// Takes away the file of an earlier run, which would tell a waiting script of a server that is not there.
// FAILED_PRECONDITION (CANNOT_WRITE): what is there is no regular file, or it cannot be taken away.
Status RemoveReadyFile(const std::string& path);

// Writes {"grpc": ..., "metrics": ...}, whole or not at all: readers see the file only when it is complete.
// FAILED_PRECONDITION (CANNOT_WRITE), also where what would be replaced is no regular file.
Status WriteReadyFile(const std::string& path, const std::string& grpc, const std::string& metrics);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_READY_FILE_H_
