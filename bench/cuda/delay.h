// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_BENCH_CUDA_DELAY_H_
#define VICINAL_BENCH_CUDA_DELAY_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace vicinal::bench {

// Enqueues a kernel of one thread that waits. Work enqueued behind it in the meantime then runs without gaps.
void LaunchDelay(int64_t nanoseconds, cudaStream_t stream);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_DELAY_H_
