// SPDX-License-Identifier: Apache-2.0
// Brings rows of a result to the host, or what ranking tells of them. A kernel writes straight into pinned memory, so
// that only what was requested is transferred, and a request for few nodes takes one launch and one wait. Many rows
// take several pieces: one is copied to its destination while the next is transferred.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_ROWS_TO_HOST_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_ROWS_TO_HOST_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/status.h"
#include "engine/cuda/runtime/gather_rows.h"
#include "engine/device/class_rows.h"
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
  // Implements DeviceContext::ClassRowsToHost, likewise.
  Status Rank(Device& device, cudaStream_t stream, const ClassRowsJob& job);

 private:
  // One of two halves, used alternately.
  struct Half {
    float* floats = nullptr;  // pinned
    int32_t* list = nullptr;  // pinned
    int32_t* device_list = nullptr;
    cudaEvent_t done = nullptr;
  };

  Status Allocate(Device& device);
  // `launch(list, count, elements)` fills `of_row` elements of pinned memory for each row of the list; `take(first,
  // count, elements)` is called with them once they are there.
  template <class Launch, class Take>
  Status InPieces(Device& device, cudaStream_t stream, const int64_t* rows, int64_t count, int64_t of_row,
                  const Launch& launch, const Take& take);
  // The list of rows where kernels find it.
  Status SendList(const Half& half, cudaStream_t stream, const int64_t* rows, int64_t count, RowList* list);

  char* pinned_ = nullptr;
  Buffer device_lists_;
  Half halves_[2];
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_ROWS_TO_HOST_H_
