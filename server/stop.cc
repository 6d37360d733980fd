// SPDX-License-Identifier: Apache-2.0
#include "server/stop.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace vicinal::server {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Set by the stopping thread when it is done.
constexpr int kDone = SIGUSR2;

// The next signal except SIGHUP, which is ignored; 0 if none arrived until `deadline`.
int TakeUntil(const sigset_t& signals, SteadyClock::time_point deadline) {
  while (true) {
    const auto left = std::max<SteadyClock::duration>(deadline - SteadyClock::now(), SteadyClock::duration(0));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec wait = {static_cast<time_t>(seconds.count()),
                           static_cast<long>(std::chrono::nanoseconds(left - seconds).count())};
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal > 0 && signal != SIGHUP) return signal;
    if (signal < 0 && left.count() == 0) return 0;
  }
}

// Consumes a signal that was sent to this thread and is no longer awaited, before it is unblocked.
void Forget(int signal) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  const timespec now = {};
  (void)sigtimedwait(&only, nullptr, &now);
}

}  // namespace

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, kDone}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void AwaitStopSignal(const sigset_t& signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0 || signal == SIGHUP || signal == kDone) {
  }
}

int StopOrExit(const StopPlan& plan, const sigset_t& signals, Logger& log) {
  const pthread_t waiting = pthread_self();
  std::atomic<bool> done{false};
  std::thread stopper([&] {
    plan.stop();
    done.store(true);
    pthread_kill(waiting, kDone);
  });
  auto deadline = SteadyClock::now() + plan.limit;
  while (!done.load()) {
    const int signal = TakeUntil(signals, deadline);
    if (signal == kDone) continue;
    if (signal == 0) {
      if (done.load()) break;
      log.Log(LogLevel::kError, "stuck while stopping: exits and cuts off calls in progress", {});
      // Not exit: it would destroy objects that the stuck thread uses.
      std::_Exit(plan.exit_when_stuck);
    }
    plan.hurry();
    deadline = std::min(deadline, SteadyClock::now() + plan.grace);
  }
  stopper.join();
  Forget(kDone);
  return 0;
}

}  // namespace vicinal::server
