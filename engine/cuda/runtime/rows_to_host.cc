// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/runtime/rows_to_host.h"

#include <algorithm>
#include <cstring>

#include "engine/cuda/runtime/class_rows.h"
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

Status RowsToHost::SendList(const Half& half, cudaStream_t stream, const int64_t* rows, int64_t count, RowList* list) {
  int32_t* const narrow = count <= kFewRows ? list->rows : half.list;
  std::transform(rows, rows + count, narrow, [](int64_t row) { return static_cast<int32_t>(row); });
  if (count <= kFewRows) return OkStatus();
  list->device_rows = half.device_list;
  return Check(cudaMemcpyAsync(half.device_list, half.list, count * sizeof(int32_t), cudaMemcpyHostToDevice, stream));
}

template <class Launch, class Take>
Status RowsToHost::InPieces(Device& device, cudaStream_t stream, const int64_t* rows, int64_t count, int64_t of_row,
                            const Launch& launch, const Take& take) {
  if (count == 0 || of_row == 0) return OkStatus();
  if (of_row > kFloats) return Check(cudaErrorInvalidValue);
  if (halves_[1].done == nullptr) VICINAL_RETURN_IF_ERROR(Allocate(device));
  const int64_t piece = std::min(kRows, std::max<int64_t>(1, kFloats / of_row));
  const int64_t pieces = (count + piece - 1) / piece;
  const auto rows_of = [&](int64_t i) { return std::min(piece, count - i * piece); };
  // Piece i is transferred while piece i - 1 is taken.
  for (int64_t i = 0; i <= pieces; ++i) {
    if (i < pieces) {
      const Half& half = halves_[i % 2];
      RowList list;
      VICINAL_RETURN_IF_ERROR(SendList(half, stream, rows + i * piece, rows_of(i), &list));
      VICINAL_RETURN_IF_ERROR(Check(launch(list, rows_of(i), half.floats)));
      VICINAL_RETURN_IF_ERROR(Check(cudaEventRecord(half.done, stream)));
    }
    if (i == 0) continue;
    const Half& half = halves_[(i - 1) % 2];
    VICINAL_RETURN_IF_ERROR(Check(cudaEventSynchronize(half.done)));
    take((i - 1) * piece, rows_of(i - 1), half.floats);
  }
  return OkStatus();
}

Status RowsToHost::Copy(Device& device, cudaStream_t stream, float* host, const ConstMatrixView& src,
                        const int64_t* rows, int64_t count) {
  return InPieces(
      device, stream, rows, count, src.cols,
      [&](const RowList& list, int64_t of, float* out) { return LaunchGatherRows(src, list, of, out, stream); },
      [&](int64_t first, int64_t of, const float* from) {
        std::memcpy(host + first * src.cols, from, of * src.cols * sizeof(float));
      });
}

Status RowsToHost::Rank(Device& device, cudaStream_t stream, const ClassRowsJob& job) {
  const int64_t classes = job.logits.cols;
  const auto take = [&](int64_t first, int64_t of, float* elements) {
    const ClassRowsOut from = PlaceClassRows(job, of, elements);
    std::copy_n(from.classes, of * job.top_k, job.classes + first * job.top_k);
    std::copy_n(from.scores, of * job.top_k, job.scores + first * job.top_k);
    if (job.probabilities != nullptr) {
      std::copy_n(from.probabilities, of * classes, job.probabilities + first * classes);
    }
    if (job.values != nullptr) std::copy_n(from.values, of * classes, job.values + first * classes);
  };
  return InPieces(
      device, stream, job.rows, job.count, ClassRowElements(job),
      [&](const RowList& list, int64_t of, float* out) { return LaunchClassRows(job, list, of, out, stream); }, take);
}

}  // namespace vicinal::cuda
