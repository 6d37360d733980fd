// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/event_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/cuda/delay.h"

namespace vicinal::bench {
namespace {

// Long enough for the host to enqueue the launches with two events each. A launch that takes the host longer is long on
// the device, too.
int64_t DelayFor(int repeats) {
  constexpr int64_t kNanosecondsOfLaunch = 40'000;
  return kNanosecondsOfLaunch * repeats;
}

// Launches per sample, so many that the overhead of events is negligible.
int LaunchesFor(const Timing& before) {
  constexpr double kSampleUs = 50;
  return static_cast<int>(std::max(1.0, std::ceil(kSampleUs / std::max(before.median_us, 0.5))));
}

}  // namespace

void MustBeOk(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

Timing TimeLaunches(cudaStream_t stream, int warm_up, int repeats, int launches, const Launcher& launch) {
  std::vector<cudaEvent_t> events(2 * repeats);
  for (cudaEvent_t& event : events) MustBeOk(cudaEventCreate(&event), "event");
  for (int i = 0; i < warm_up; ++i) launch(i);
  MustBeOk(cudaStreamSynchronize(stream), "warm-up");
  LaunchDelay(DelayFor(repeats * launches), stream);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    MustBeOk(cudaEventRecord(events[2 * i], stream), "event");
    for (int k = 0; k < launches; ++k) launch(i * launches + k);
    MustBeOk(cudaEventRecord(events[2 * i + 1], stream), "event");
  }
  const std::chrono::duration<double, std::micro> queued = std::chrono::steady_clock::now() - begin;
  MustBeOk(cudaStreamSynchronize(stream), "timed launches");
  std::vector<double> us;
  for (int i = 0; i < repeats; ++i) {
    float ms = 0;
    MustBeOk(cudaEventElapsedTime(&ms, events[2 * i], events[2 * i + 1]), "event");
    us.push_back(1000.0 * ms / launches);
  }
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  std::sort(us.begin(), us.end());
  const auto at = [&](double q) { return us[static_cast<size_t>(q * static_cast<double>(us.size() - 1) + 0.5)]; };
  return {at(0.5), at(0.1), at(0.9), repeats, launches, queued.count() / (repeats * launches)};
}

Timing TimeOnce(cudaStream_t stream, const Launcher& launch) { return TimeLaunches(stream, 0, 1, 1, launch); }

Timing TimeBriefly(cudaStream_t stream, const Launcher& launch, const Timing& first, double best_us) {
  // If the first run is this long, loading code does not explain it.
  constexpr double kEarlyStopRatio = 8, kLongUs = 20e3;
  if (best_us > 0 && first.median_us > kLongUs && first.median_us > kEarlyStopRatio * best_us) return first;
  const Timing alone = TimeLaunches(stream, 1, 3, 1, launch);
  const int launches = LaunchesFor(alone);
  return launches == 1 ? alone : TimeLaunches(stream, 0, 3, launches, launch);
}

Timing TimeFully(cudaStream_t stream, const Launcher& launch, const Timing& before, double budget_us) {
  constexpr double kMin = 5, kMax = 30;
  const int launches = LaunchesFor(before);
  const double fit = budget_us / (std::max(before.median_us, 0.1) * launches);
  return TimeLaunches(stream, fit < kMax ? 1 : 3, static_cast<int>(std::clamp(fit, kMin, kMax)), launches, launch);
}

}  // namespace vicinal::bench
