// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_BENCH_CUDA_L2_READER_H_
#define VICINAL_BENCH_CUDA_L2_READER_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace vicinal::bench {

// Enqueues a kernel whose `blocks` blocks together read `vectors` 16-byte vectors at `data` `passes` times, past the
// L1, each block beginning somewhere else. `sink` takes a result, so that nothing is left out.
void LaunchL2Reader(const void* data, int64_t vectors, int passes, int blocks, float* sink, cudaStream_t stream);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_L2_READER_H_
