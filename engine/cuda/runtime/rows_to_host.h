// SPDX-License-Identifier: Apache-2.0
// Copies rows of a result to the host. A kernel packs the rows straight into pinned memory, so that only requested rows
// are transferred, and a request for few nodes takes one launch and one wait. Many rows take several pieces: one is
// copied to its destination while the next is transferred.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_ROWS_TO_HOST_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_ROWS_TO_HOST_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/status.h"
#include "engine/device/device.h"

namespace vicinal::cuda {

// Owned by one context. Used by one thread at a time.
class RowsToHost {
 public:
  RowsToHost() = default;
  ~RowsToHost();
  RowsToHost(const RowsToHost&) = delete;
  RowsToHost& operator=(const RowsToHost&) = delete;

  // Implements DeviceContext::CopyRowsToHost on `stream`. REQUIRES: `device` is current. Allocates on first use.
  Status Copy(Device& device, cudaStream_t stream, float* host, const ConstMatrixView& src, const int64_t* rows,
              int64_t count);

 private:
  // One of two halves, used alternately.
  struct Half {
    float* floats = nullptr;  // pinned
    int32_t* list = nullptr;  // pinned
    int32_t* device_list = nullptr;
    cudaEvent_t done = nullptr;
  };

  Status Allocate(Device& device);
  Status Send(const Half& half, cudaStream_t stream, const ConstMatrixView& src, const int64_t* rows, int64_t count);

  char* pinned_ = nullptr;
  Buffer device_lists_;
  Half halves_[2];
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_ROWS_TO_HOST_H_
