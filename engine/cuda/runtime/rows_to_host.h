// SPDX-License-Identifier: Apache-2.0
// How rows of a result reach the host: packed by a kernel that writes straight to pinned memory, so that only what is
// asked for travels and a request for few nodes costs one launch and one wait. Many rows go in pieces: one is copied on
// while the next one travels.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_ROWS_TO_HOST_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_ROWS_TO_HOST_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/status.h"
#include "engine/device/device.h"

namespace vicinal::cuda {

// One context's. Used by one thread at a time.
class RowsToHost {
 public:
  RowsToHost() = default;
  ~RowsToHost();
  RowsToHost(const RowsToHost&) = delete;
  RowsToHost& operator=(const RowsToHost&) = delete;

  // As DeviceContext::CopyRowsToHost, on `stream` of `device`, which is current. Allocates the first time.
  Status Copy(Device& device, cudaStream_t stream, float* host, const ConstMatrixView& src, const int64_t* rows,
              int64_t count);

 private:
  // Of two, used in turn.
  struct Half {
    float* floats = nullptr;  // pinned
    int32_t* list = nullptr;  // pinned
    int32_t* device_list = nullptr;
    cudaEvent_t there = nullptr;
  };

  Status Allocate(Device& device);
  Status Send(const Half& half, cudaStream_t stream, const ConstMatrixView& src, const int64_t* rows, int64_t count);

  char* pinned_ = nullptr;
  Buffer device_lists_;
  Half halves_[2];
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_ROWS_TO_HOST_H_
