// SPDX-License-Identifier: Apache-2.0
// The two speeds to which kernels of a GPU are compared, measured in the same run.
#ifndef VICINAL_BENCH_CUDA_DEVICE_SPEED_H_
#define VICINAL_BENCH_CUDA_DEVICE_SPEED_H_

#include "bench/cuda/gpu.h"

namespace vicinal::bench {

struct DeviceSpeed {
  double copy = 0;     // bytes per second, read plus written, of a copy far larger than the L2
  double l2_read = 0;  // bytes per second that all multiprocessors together read from the L2
};

DeviceSpeed MeasureSpeed(Gpu& gpu);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_DEVICE_SPEED_H_
