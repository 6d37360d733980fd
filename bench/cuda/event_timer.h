// SPDX-License-Identifier: Apache-2.0
// Times launches with CUDA events after warm-up, the median of all. They are queued behind a kernel that waits until
// all are, so that what is timed is the device's work: a kernel of a few microseconds ends before the host has launched
// the next, and the events would tell the host's time. Short launches share a pair of events, several in a row: around
// an empty kernel alone two events are 3.5 us apart on an H200, of which a kernel in a queue takes 0.7.
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
  int launches = 1;    // of each sample, which is divided by it
  double host_us = 0;  // that the host takes to launch one
};

// Enqueues the i-th run, with the i-th of rotating buffers.
using Launcher = std::function<void(int i)>;

// `repeats` samples of `launches` each. Ends the program on a CUDA error.
Timing TimeLaunches(cudaStream_t stream, int warm_up, int repeats, int launches, const Launcher& launch);

// A first run; it may include the loading of code.
Timing TimeOnce(cudaStream_t stream, const Launcher& launch);
// A few runs, to tell what is worth more; the first run alone where that took many times `best_us` (0: there is none).
Timing TimeBriefly(cudaStream_t stream, const Launcher& launch, const Timing& first, double best_us);
// 30 samples, or as many as fit `budget_us` by what runs took before, but at least 5; of so many runs each that a
// sample takes 50 us.
Timing TimeFully(cudaStream_t stream, const Launcher& launch, const Timing& before, double budget_us);

// Ends the program with the error and `what`.
void MustBeOk(cudaError_t error, const char* what);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_EVENT_TIMER_H_
