// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/thread_pool.h"

namespace vicinal::bench {
namespace {

double MicrosecondsOf(const std::function<void()>& body, int repeats) {
  const auto begin = std::chrono::steady_clock::now();
  for (int r = 0; r < repeats; ++r) body();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / repeats;
}

// A field of /proc/self/status, in bytes.
int64_t MemoryOf(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return int64_t{1024} * std::atoll(line.c_str() + field.size() + 1);
  }
  return 0;
}

}  // namespace

int64_t ResidentBytes() { return MemoryOf("VmRSS"); }
int64_t PeakMemoryBytes() { return MemoryOf("VmHWM"); }
void ForgetPeakMemory() { std::ofstream("/proc/self/clear_refs") << "5"; }

Timing Measure(const std::function<void()>& body, double budget_ms) {
  body();
  const double first = std::max(MicrosecondsOf(body, 1), 0.01);
  const int repeats = first < 20 ? static_cast<int>(20 / first) + 1 : 1;
  std::vector<double> samples;
  double used_us = 0;
  while (samples.size() < 7 || (used_us < budget_ms * 1000 && samples.size() < 2000)) {
    samples.push_back(MicrosecondsOf(body, repeats));
    used_us += samples.back() * repeats;
  }
  std::sort(samples.begin(), samples.end());
  const size_t n = samples.size();
  Timing timing;
  timing.median_us = samples[n / 2];
  timing.lowest_us = samples[0];
  timing.spread = (samples[n * 3 / 4] - samples[n / 4]) / samples[n / 2];
  timing.samples = static_cast<int>(n);
  return timing;
}

double CopyBytesPerSecond(int threads, double budget_ms) {
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  ThreadPool pool(threads);
  const int64_t tasks = 4 * threads;
  const size_t part = kBytes / static_cast<size_t>(tasks);
  const Timing timing = Measure(
      [&] {
        pool.ParallelFor(tasks, [&](int64_t task, int) {
          std::memcpy(to.data() + static_cast<size_t>(task) * part, from.data() + static_cast<size_t>(task) * part,
                      part);
        });
      },
      budget_ms);
  return 2.0 * static_cast<double>(part) * static_cast<double>(tasks) / (timing.median_us * 1e-6);
}

}  // namespace vicinal::bench
