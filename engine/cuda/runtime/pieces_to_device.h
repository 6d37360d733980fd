// SPDX-License-Identifier: Apache-2.0
// Sends the small inputs of a run to the device: packed in pinned memory, then one copy on the context's own stream, so
// that nothing waits. Inputs larger than a half of that memory take several copies.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_PIECES_TO_DEVICE_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_PIECES_TO_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "engine/base/status.h"
#include "engine/device/device.h"

namespace vicinal::cuda {

// Owned by one context. Used by one thread at a time.
class PiecesToDevice {
 public:
  PiecesToDevice() = default;
  ~PiecesToDevice();
  PiecesToDevice(const PiecesToDevice&) = delete;
  PiecesToDevice& operator=(const PiecesToDevice&) = delete;

  // Implements DeviceContext::SendPieces on `stream`. REQUIRES: its device is current. Allocates on first use.
  Status Send(cudaStream_t stream, void* dst, std::span<const HostPiece> pieces);

 private:
  // One of two halves, used alternately.
  struct Half {
    char* bytes = nullptr;       // pinned
    cudaEvent_t done = nullptr;  // recorded after the copy; the half may then be overwritten
  };

  Status Allocate();
  // Waits until the current half may be overwritten.
  Status Await() const;
  // Copies the first `bytes` of the current half to `dst`, then switches to the other half.
  Status Copy(cudaStream_t stream, char* dst, size_t bytes);

  Half halves_[2];
  int current_ = 0;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_PIECES_TO_DEVICE_H_
