// SPDX-License-Identifier: Apache-2.0
// Listening sockets.
#ifndef VICINAL_SERVER_LISTEN_H_
#define VICINAL_SERVER_LISTEN_H_

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace vicinal::server {

struct Listening {
  std::vector<int> sockets;  // owned by the caller; not blocking, closed on exec
  int port = 0;
};

// On all addresses that `host` (SplitAddress) resolves to; port 0: any free one, the same for all. "0.0.0.0" and "[::]"
// take connections of both versions of IP where the machine has both. FAILED_PRECONDITION (CANNOT_LISTEN) naming
// `flag`.
StatusOr<Listening> ListenOnTcp(const std::string& host, int port, const char* flag);

// On a unix socket. A socket that an earlier server left there is replaced; other files are left alone. `mode`: who may
// connect. FAILED_PRECONDITION (CANNOT_LISTEN) naming `flag`.
StatusOr<int> ListenOnUnix(const std::string& path, unsigned mode, const char* flag);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_LISTEN_H_
