// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/runtime/rows_to_host.h"

#include <algorithm>
#include <cstring>

#include "engine/cuda/runtime/cuda_error.h"
#include "engine/cuda/runtime/gather_rows.h"

namespace vicinal::cuda {
namespace {

// Floats per half. No kernel accepts wider rows (cuda_kernel.h, kMaxWidth).
constexpr int64_t kFloats = int64_t{1} << 20;
constexpr int64_t kRows = int64_t{1} << 16;

Status Check(cudaError_t error) { return CudaStatus(error, "copying rows from the device"); }

}  // namespace

RowsToHost::~RowsToHost() {
  for (const Half& half : halves_) {
    if (half.done != nullptr) cudaEventDestroy(half.done);
  }
  if (pinned_ != nullptr) cudaFreeHost(pinned_);
}

Status RowsToHost::Allocate(Device& device) {
  constexpr size_t kHalfBytes = kFloats * sizeof(float) + kRows * sizeof(int32_t);
  VICINAL_ASSIGN_OR_RETURN(device_lists_, device.Allocate(2 * kRows * sizeof(int32_t)));
  // After a failed call, some of it may exist already.
  if (pinned_ == nullptr) {
    VICINAL_RETURN_IF_ERROR(Check(cudaMallocHost(reinterpret_cast<void**>(&pinned_), 2 * kHalfBytes)));
  }
  for (int h = 0; h < 2; ++h) {
    halves_[h].floats = reinterpret_cast<float*>(pinned_ + h * kHalfBytes);
    halves_[h].list = reinterpret_cast<int32_t*>(halves_[h].floats + kFloats);
    halves_[h].device_list = device_lists_.as<int32_t>() + h * kRows;
    if (halves_[h].done != nullptr) continue;
    VICINAL_RETURN_IF_ERROR(Check(cudaEventCreateWithFlags(&halves_[h].done, cudaEventDisableTiming)));
  }
  return OkStatus();
}

Status RowsToHost::Send(const Half& half, cudaStream_t stream, const ConstMatrixView& src, const int64_t* rows,
                        int64_t count) {
  RowList list;
  if (count <= kFewRows) {
    std::transform(rows, rows + count, list.rows, [](int64_t row) { return static_cast<int32_t>(row); });
  } else {
    std::transform(rows, rows + count, half.list, [](int64_t row) { return static_cast<int32_t>(row); });
    list.device_rows = half.device_list;
    VICINAL_RETURN_IF_ERROR(
        Check(cudaMemcpyAsync(half.device_list, half.list, count * sizeof(int32_t), cudaMemcpyHostToDevice, stream)));
  }
  VICINAL_RETURN_IF_ERROR(Check(LaunchGatherRows(src, list, count, half.floats, stream)));
  return Check(cudaEventRecord(half.done, stream));
}

Status RowsToHost::Copy(Device& device, cudaStream_t stream, float* host, const ConstMatrixView& src,
                        const int64_t* rows, int64_t count) {
  if (count == 0 || src.cols == 0) return OkStatus();
  if (src.cols > kFloats) return Check(cudaErrorInvalidValue);
  if (halves_[1].done == nullptr) VICINAL_RETURN_IF_ERROR(Allocate(device));
  const int64_t piece = std::min(kRows, std::max<int64_t>(1, kFloats / src.cols));
  const int64_t pieces = (count + piece - 1) / piece;
  const auto rows_of = [&](int64_t i) { return std::min(piece, count - i * piece); };
  // Piece i is transferred while piece i - 1 is copied to `host`.
  for (int64_t i = 0; i <= pieces; ++i) {
    if (i < pieces) VICINAL_RETURN_IF_ERROR(Send(halves_[i % 2], stream, src, rows + i * piece, rows_of(i)));
    if (i == 0) continue;
    const Half& half = halves_[(i - 1) % 2];
    VICINAL_RETURN_IF_ERROR(Check(cudaEventSynchronize(half.done)));
    std::memcpy(host + (i - 1) * piece * src.cols, half.floats, rows_of(i - 1) * src.cols * sizeof(float));
  }
  return OkStatus();
}

}  // namespace vicinal::cuda
