// SPDX-License-Identifier: Apache-2.0
// From the signal to the end of the process. A stop that does not come to its end must not keep the process for ever:
// gRPC waits without bound for calls that never finish, and so do joins of threads that are stuck.
#ifndef VICINAL_SERVER_STOP_H_
#define VICINAL_SERVER_STOP_H_

#include <signal.h>

#include <chrono>
#include <functional>

#include "engine/base/log.h"

namespace vicinal::server {

// What the process exits with when the stop did not come to its end.
inline constexpr int kStuckExit = 3;
// What the process exits with after its device was lost, so that whoever watches it starts it again.
inline constexpr int kDeviceLostExit = 4;

struct StopPlan {
  std::function<void()> stop;          // run on a thread of its own
  std::function<void()> hurry;         // makes `stop` wait for nothing more
  std::chrono::milliseconds limit{0};  // for `stop`
  std::chrono::milliseconds grace{0};  // for `stop` once it was hurried
  int exit_when_stuck = kStuckExit;
};

// Blocks what ends a server, and the signal by which a stop tells that it is done, in this thread and those it makes.
sigset_t BlockSignals();
// Waits for a signal that ends a server.
void AwaitStopSignal(const sigset_t& signals);
// Stops; each further signal hurries it. Returns 0, or does not return: past its limit the stop is logged as stuck, and
// the process exits with `exit_when_stuck`.
int StopOrExit(const StopPlan& plan, const sigset_t& signals, Logger& log);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_STOP_H_
