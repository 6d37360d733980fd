// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_BENCH_CUDA_DELAY_H_
#define VICINAL_BENCH_CUDA_DELAY_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace vicinal::bench {

// Enqueues a kernel of one thread that waits: what is enqueued behind it meanwhile runs without a gap afterwards.
void LaunchDelay(int64_t nanoseconds, cudaStream_t stream);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_DELAY_H_
