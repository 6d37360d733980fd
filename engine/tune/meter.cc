// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/meter.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace vicinal {
namespace {

// Maximum share of a run that the calling thread may wait for a processor.
constexpr double kQueuedShare = 0.02;
// Maximum further share that it may be idle, waiting for other threads' last tasks, if another thread may have been
// preempted: with few and large tasks such waits alone are several percent.
constexpr double kStillShare = 0.10;

int64_t InvoluntarySwitches() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Time that the calling thread has waited for a processor since its start: the second number of its schedstat. 0 if the
// system does not provide it.
double QueuedSeconds() {
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0.0;
  char text[96];
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  text[std::max<ssize_t>(length, 0)] = '\0';
  unsigned long long ran = 0, queued = 0;
  return sscanf(text, "%llu %llu", &ran, &queued) == 2 ? 1e-9 * static_cast<double>(queued) : 0.0;
}

double ThreadProcessorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class RealMeter final : public RunMeter {
 public:
  StatusOr<RunSample> Measure(const TuningKey&, const KernelSetting&, const std::function<Status()>& run) override {
    const int64_t switches = InvoluntarySwitches();
    const double queued_before = QueuedSeconds();
    const double processor = ThreadProcessorSeconds();
    const auto begin = std::chrono::steady_clock::now();
    VICINAL_RETURN_IF_ERROR(run());
    RunSample sample;
    sample.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double processor_seconds = ThreadProcessorSeconds() - processor;
    const double queued = QueuedSeconds() - queued_before;
    const double still = sample.seconds - processor_seconds - queued;
    const bool switched = InvoluntarySwitches() > switches;
    sample.disturbed = queued > kQueuedShare * sample.seconds || (switched && still > kStillShare * sample.seconds);
    return sample;
  }
};

}  // namespace

RunMeter& RunMeter::Real() {
  static RealMeter* const meter = new RealMeter;
  return *meter;
}

}  // namespace vicinal
