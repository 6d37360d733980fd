// SPDX-License-Identifier: Apache-2.0
// Stops a listener that looks for its stop flag only when its poll returns. The HTTP library of the metrics port waits
// in one for up to two seconds, has no other way to be woken, and would make every stop of a server last as long.
#ifndef VICINAL_SERVER_METRICS_WAKE_H_
#define VICINAL_SERVER_METRICS_WAKE_H_

#include <functional>
#include <string>

namespace vicinal::server {

// Calls `stop`, once, on this thread. Until it returns, another thread opens connections to HOST:PORT and closes them
// again, some milliseconds apart, since nobody tells when the flag is set. `host` is an address as it is listened at:
// "127.0.0.1", "0.0.0.0", "[::1]". Where none can be reached, `stop` takes what it takes.
void StopWoken(const std::string& host, int port, const std::function<void()>& stop);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_WAKE_H_
