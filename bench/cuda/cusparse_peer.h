// SPDX-License-Identifier: Apache-2.0
// cuSPARSE's SpMM as the bar: float32, row-major, 32-bit indices, descriptors and workspace made once, preprocessed,
// every algorithm that takes CSR. What it needs around a launch is outside the timed part, as a careful user would have
// it.
#ifndef VICINAL_BENCH_CUDA_CUSPARSE_PEER_H_
#define VICINAL_BENCH_CUDA_CUSPARSE_PEER_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "bench/cuda/event_timer.h"

namespace vicinal::bench {

struct PeerGraph {
  int64_t nodes = 0;
  int64_t edges = 0;
  int32_t* row_ptr = nullptr;  // on the device
  int32_t* col = nullptr;
  float* value = nullptr;
};

struct PeerResult {
  std::string algorithm;
  Timing timing;
};

// The fastest algorithm of cuSPARSE for dst = A * src, [nodes, width] each, over rotating buffers.
PeerResult TimeCusparse(const PeerGraph& graph, int64_t width, float* const* src, float* const* dst, int num_buffers,
                        cudaStream_t stream, int warm_up, int repeats);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_CUSPARSE_PEER_H_
