// SPDX-License-Identifier: Apache-2.0
// Robust timing on a machine that others use too: many samples, the median of them, and how far the quarter quantiles
// lie apart. And the memory of this process.
#ifndef VICINAL_BENCH_MEASURE_H_
#define VICINAL_BENCH_MEASURE_H_

#include <cstdint>
#include <functional>

namespace vicinal::bench {

struct Timing {
  double median_us = 0;
  double lowest_us = 0;
  double spread = 0;  // (third quartile - first quartile) / median
  int samples = 0;
};

// Runs `body` until `budget_ms` are used (at least 7 samples, at most 2000), after two runs that do not count. Short
// bodies are repeated within a sample, so that the clock's grain does not matter.
Timing Measure(const std::function<void()>& body, double budget_ms);

// Bytes per second that this machine copies (read + written), with `threads` threads over 64 MiB per array: what
// memory-bound kernels are compared to.
double CopyBytesPerSecond(int threads, double budget_ms);

// What is resident of this process now, and the most that was since ForgetPeakMemory.
int64_t ResidentBytes();
int64_t PeakMemoryBytes();
void ForgetPeakMemory();

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_MEASURE_H_
