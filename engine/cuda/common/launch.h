// SPDX-License-Identifier: Apache-2.0
// What a launcher needs to know of the context it launches in. Plain, so that .cu files see nothing of Device, Status
// or Abseil: they take the operations' arguments and a LaunchTarget, and return the runtime's error code.
#ifndef VICINAL_ENGINE_CUDA_COMMON_LAUNCH_H_
#define VICINAL_ENGINE_CUDA_COMMON_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace vicinal::cuda {

// Tickets of a context: enough for 256 M edges cut into pieces of 256 (row_pieces.h) in one tile of columns.
inline constexpr int64_t kContextTickets = int64_t{1} << 20;

struct LaunchTarget {
  cudaStream_t stream = nullptr;
  // Tickets, all zero between launches: who takes one puts it back to zero. Kernels of one context run one after the
  // other, so they share.
  int* tickets = nullptr;  // [kContextTickets]
  int multiprocessors = 0;
  // For a kernel that is to run beside those of `stream`: it goes first where both have blocks to start. A launcher
  // makes it wait for `forked` and `stream` for `joined`, before it returns.
  cudaStream_t beside = nullptr;
  cudaEvent_t forked = nullptr;
  cudaEvent_t joined = nullptr;
  // Kernels that can may begin before those before them have ended (overlap.cuh).
  bool overlap = false;
};

// A launch that does nothing unless *flag is `value` by then.
struct LaunchCondition {
  const int* flag = nullptr;  // null: none
  int value = 0;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_LAUNCH_H_
