// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/runtime/pieces_to_device.h"

#include <algorithm>
#include <cstring>

#include "engine/cuda/runtime/cuda_error.h"

namespace vicinal::cuda {
namespace {

// Large enough for a receptive field of a quarter of a million edges in one copy. A multiple of HostPiece::kAlignment.
constexpr size_t kHalfBytes = size_t{1} << 20;

Status Check(cudaError_t error) { return CudaStatus(error, "sending to the device"); }

}  // namespace

PiecesToDevice::~PiecesToDevice() {
  for (const Half& half : halves_) {
    if (half.done != nullptr) cudaEventDestroy(half.done);
  }
  if (halves_[0].bytes != nullptr) cudaFreeHost(halves_[0].bytes);
}

Status PiecesToDevice::Allocate() {
  if (halves_[0].bytes == nullptr) {
    VICINAL_RETURN_IF_ERROR(Check(cudaMallocHost(reinterpret_cast<void**>(&halves_[0].bytes), 2 * kHalfBytes)));
    halves_[1].bytes = halves_[0].bytes + kHalfBytes;
  }
  for (Half& half : halves_) {
    if (half.done != nullptr) continue;
    VICINAL_RETURN_IF_ERROR(Check(cudaEventCreateWithFlags(&half.done, cudaEventDisableTiming)));
  }
  return OkStatus();
}

Status PiecesToDevice::Await() const { return Check(cudaEventSynchronize(halves_[current_].done)); }

Status PiecesToDevice::Copy(cudaStream_t stream, char* dst, size_t bytes) {
  const Half& half = halves_[current_];
  current_ ^= 1;
  VICINAL_RETURN_IF_ERROR(Check(cudaMemcpyAsync(dst, half.bytes, bytes, cudaMemcpyHostToDevice, stream)));
  return Check(cudaEventRecord(half.done, stream));
}

Status PiecesToDevice::Send(cudaStream_t stream, void* dst, std::span<const HostPiece> pieces) {
  if (halves_[1].done == nullptr) VICINAL_RETURN_IF_ERROR(Allocate());
  char* to = static_cast<char*>(dst);
  size_t filled = 0;  // bytes of the current half
  VICINAL_RETURN_IF_ERROR(Await());
  for (const HostPiece& piece : pieces) {
    // The padding between two pieces is copied too; its contents are unspecified.
    for (size_t done = 0; done < piece.room();) {
      const size_t count = std::min(piece.room() - done, kHalfBytes - filled);
      if (done < piece.bytes) {
        std::memcpy(halves_[current_].bytes + filled, static_cast<const char*>(piece.data) + done,
                    std::min(count, piece.bytes - done));
      }
      done += count;
      filled += count;
      if (filled < kHalfBytes) continue;
      VICINAL_RETURN_IF_ERROR(Copy(stream, to, filled));
      VICINAL_RETURN_IF_ERROR(Await());
      to += filled;
      filled = 0;
    }
  }
  return filled > 0 ? Copy(stream, to, filled) : OkStatus();
}

}  // namespace vicinal::cuda
