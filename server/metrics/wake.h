// SPDX-License-Identifier: Apache-2.0
// Stops a listener that checks its stop flag only when its poll returns. The HTTP library of the metrics port waits in
// poll for up to two seconds and cannot be woken otherwise, so every stop of a server would take as long.
#ifndef VICINAL_SERVER_METRICS_WAKE_H_
#define VICINAL_SERVER_METRICS_WAKE_H_

#include <functional>
#include <string>

namespace vicinal::server {

// Calls `stop`, once, on this thread. Until it returns, another thread opens connections to HOST:PORT and closes them
// again, some milliseconds apart, because it is unknown when the flag is set. `host` is the address of the listener:
// "127.0.0.1", "0.0.0.0", "[::1]". If it cannot be reached, `stop` takes its normal time.
void StopWoken(const std::string& host, int port, const std::function<void()>& stop);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_WAKE_H_
