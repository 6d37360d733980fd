// SPDX-License-Identifier: Apache-2.0
// What an acceptor counts.
#ifndef VICINAL_SERVER_CONNECTION_COUNTS_H_
#define VICINAL_SERVER_CONNECTION_COUNTS_H_

#include <cstdint>

namespace vicinal::server {

// At one moment, and since the start.
struct ConnectionCounts {
  int64_t open = 0, most = 0;
  int64_t refused_full = 0, refused_address = 0, refused_peer = 0;
  int64_t hung_up = 0;  // because too many of their calls were refused
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CONNECTION_COUNTS_H_
