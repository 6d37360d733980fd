// SPDX-License-Identifier: Apache-2.0
// How small things that a run needs reach the device: side by side in pinned memory, then in one copy on the context's
// own stream, so that nothing waits. What is larger than a half of that memory goes in several.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_PIECES_TO_DEVICE_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_PIECES_TO_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "engine/base/status.h"
#include "engine/device/device.h"

namespace vicinal::cuda {

// One context's. Used by one thread at a time.
class PiecesToDevice {
 public:
  PiecesToDevice() = default;
  ~PiecesToDevice();
  PiecesToDevice(const PiecesToDevice&) = delete;
  PiecesToDevice& operator=(const PiecesToDevice&) = delete;

  // As DeviceContext::SendPieces, on `stream`, whose device is current. Allocates the first time.
  Status Send(cudaStream_t stream, void* dst, std::span<const HostPiece> pieces);

 private:
  // Of two, used in turn.
  struct Half {
    char* bytes = nullptr;        // pinned
    cudaEvent_t there = nullptr;  // they have arrived, and may be written again
  };

  Status Allocate();
  // Waits until the half in turn may be written.
  Status Await() const;
  // Copies the first `bytes` of the half in turn to `dst`, and turns.
  Status Copy(cudaStream_t stream, char* dst, size_t bytes);

  Half halves_[2];
  int turn_ = 0;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_PIECES_TO_DEVICE_H_
