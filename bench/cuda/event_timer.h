// SPDX-License-Identifier: Apache-2.0
// Times launches with CUDA events: each launch between two events of its own, after warm-up, the median of all. They
// are queued behind a kernel that waits until all are, so that what is timed is the device's work: a kernel of a few
// microseconds ends before the host has launched the next, and the events would tell the host's time.
#ifndef VICINAL_BENCH_CUDA_EVENT_TIMER_H_
#define VICINAL_BENCH_CUDA_EVENT_TIMER_H_

#include <cuda_runtime_api.h>

#include <functional>

namespace vicinal::bench {

struct Timing {
  double median_us = 0;
  double p10_us = 0;
  double p90_us = 0;
  int samples = 0;
  double host_us = 0;  // that the host takes to launch one
};

// Enqueues the i-th run, with the i-th of rotating buffers.
using Launcher = std::function<void(int i)>;

// Ends the program on a CUDA error.
Timing TimeLaunches(cudaStream_t stream, int warm_up, int repeats, const Launcher& launch);

// A first run; it may include the loading of code.
Timing TimeOnce(cudaStream_t stream, const Launcher& launch);
// A few runs, to tell what is worth more; the first run alone where that took many times `best_us` (0: there is none).
Timing TimeBriefly(cudaStream_t stream, const Launcher& launch, const Timing& first, double best_us);
// 30 runs, or as many as fit `budget_us` by what they took before, but at least 5.
Timing TimeFully(cudaStream_t stream, const Launcher& launch, const Timing& before, double budget_us);

// Ends the program with the error and `what`.
void MustBeOk(cudaError_t error, const char* what);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_EVENT_TIMER_H_
