// SPDX-License-Identifier: Apache-2.0
// Times launches with CUDA events after warm-up, and takes the median. All launches are enqueued behind a kernel that
// waits until they are, so that only work of the device is timed. Otherwise a kernel of a few microseconds would end
// before the host launches the next, and the events would measure the host. Short launches share a pair of events,
// several in a row. Measured on an H200: two events around one empty kernel are 3.5 us apart, and an empty kernel in a
// queue takes 0.7 us.
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
  int launches = 1;    // per sample; times are divided by it
  double host_us = 0;  // host time per launch
};

// Enqueues run i, which uses set i of the rotating buffers.
using Launcher = std::function<void(int i)>;

// Takes `repeats` samples of `launches` launches each. Exits on a CUDA error.
Timing TimeLaunches(cudaStream_t stream, int warm_up, int repeats, int launches, const Launcher& launch);

// A first run, which may include loading of code.
Timing TimeOnce(cudaStream_t stream, const Launcher& launch);
// A few runs, to decide which kernels to time fully. Returns `first` if that took many times `best_us` (0: none yet).
Timing TimeBriefly(cudaStream_t stream, const Launcher& launch, const Timing& first, double best_us);
// Takes 30 samples, or as many as fit `budget_us` according to `before`, but at least 5. A sample has so many runs that
// it takes 50 us.
Timing TimeFully(cudaStream_t stream, const Launcher& launch, const Timing& before, double budget_us);

// Ends the program with the error and `what`.
void MustBeOk(cudaError_t error, const char* what);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_EVENT_TIMER_H_
