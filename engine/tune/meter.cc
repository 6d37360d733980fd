// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/meter.h"

#include <sys/resource.h>
#include <time.h>

#include <chrono>

namespace vicinal {
namespace {

// Share of a run that the calling thread may stand still.
constexpr double kStillShare = 0.02;

int64_t InvoluntarySwitches() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
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
    const double processor = ThreadProcessorSeconds();
    const auto begin = std::chrono::steady_clock::now();
    VICINAL_RETURN_IF_ERROR(run());
    RunSample sample;
    sample.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double still = sample.seconds - (ThreadProcessorSeconds() - processor);
    sample.disturbed = InvoluntarySwitches() > switches && still > kStillShare * sample.seconds;
    return sample;
  }
};

}  // namespace

RunMeter& RunMeter::Real() {
  static RealMeter* const meter = new RealMeter;
  return *meter;
}

}  // namespace vicinal
