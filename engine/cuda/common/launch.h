// SPDX-License-Identifier: Apache-2.0
// What a launcher needs to know about the context in which it launches. A plain struct, so that .cu files do not
// include Device, Status or Abseil: they take an operation's arguments and a LaunchTarget, and return a cudaError_t.
#ifndef VICINAL_ENGINE_CUDA_COMMON_LAUNCH_H_
#define VICINAL_ENGINE_CUDA_COMMON_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/common/gpu_limits.h"

namespace vicinal::cuda {

// Tickets of a context: enough for 256 M edges cut into pieces of 256 (row_pieces.h) in one tile of columns.
inline constexpr int64_t kContextTickets = int64_t{1} << 20;

struct LaunchTarget {
  cudaStream_t stream = nullptr;
  // Tickets, all zero between launches: a kernel resets those that it uses. Kernels of one context run one after the
  // other, so they share them.
  int* tickets = nullptr;  // [kContextTickets]
  GpuLimits limits;
  // A stream for a kernel that runs concurrently with those of `stream`, at a higher priority. The launcher makes
  // `side_stream` wait for `fork_event`, and `stream` for `join_event`, before it returns.
  cudaStream_t side_stream = nullptr;
  cudaEvent_t fork_event = nullptr;
  cudaEvent_t join_event = nullptr;
  // True if a kernel may start before the kernels before it have ended (overlap.cuh).
  bool overlap = false;
};

// A condition that a kernel tests when it starts: unless *flag equals `value`, it does nothing.
struct LaunchCondition {
  const int* flag = nullptr;  // null: always run
  int value = 0;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_LAUNCH_H_
