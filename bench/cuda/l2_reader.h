// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_BENCH_CUDA_L2_READER_H_
#define VICINAL_BENCH_CUDA_L2_READER_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace vicinal::bench {

// Enqueues a kernel whose `blocks` blocks together read the `vectors` 16-byte vectors at `data` `passes` times,
// bypassing the L1. Each block starts at another place. `sink` receives a result, so that the compiler removes no load.
void LaunchL2Reader(const void* data, int64_t vectors, int passes, int blocks, float* sink, cudaStream_t stream);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_L2_READER_H_
