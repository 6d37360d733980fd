// SPDX-License-Identifier: Apache-2.0
// Stops the process after a signal, in bounded time, because gRPC waits forever for calls that never finish, and so
// does joining a stuck thread.
#ifndef VICINAL_SERVER_STOP_H_
#define VICINAL_SERVER_STOP_H_

#include <signal.h>

#include <chrono>
#include <functional>

#include "engine/base/log.h"

namespace vicinal::server {

// Exit code if stopping did not finish in time.
inline constexpr int kStuckExit = 3;
// Exit code after the device was lost, so that the supervisor restarts the process.
inline constexpr int kDeviceLostExit = 4;

struct StopPlan {
  std::function<void()> stop;          // runs on its own thread
  std::function<void()> hurry;         // makes `stop` end all waits
  std::chrono::milliseconds limit{0};  // for `stop`
  std::chrono::milliseconds grace{0};  // for `stop` after `hurry`
  int exit_when_stuck = kStuckExit;
};

// Blocks the signals that stop a server, and the one that reports a finished stop, in this thread and those it creates.
sigset_t BlockSignals();
// Waits for a signal that stops a server.
void AwaitStopSignal(const sigset_t& signals);
// Stops the server; each further signal calls `hurry`. Returns 0, or does not return: after the limit the stop is
// logged as stuck and the process exits with `exit_when_stuck`.
int StopOrExit(const StopPlan& plan, const sigset_t& signals, Logger& log);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_STOP_H_
