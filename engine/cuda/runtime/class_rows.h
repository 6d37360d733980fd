// SPDX-License-Identifier: Apache-2.0
// The launcher that ranks the classes of selected rows of logits (class_rows.cu), free of device code.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_CLASS_ROWS_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_CLASS_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/runtime/gather_rows.h"
#include "engine/device/class_rows.h"

namespace vicinal::cuda {

// A row is read once for each of its top classes: beyond that product the host's sorting is the better way.
inline constexpr int64_t kMaxRankedReads = 1 << 16;

// Elements of four bytes that a row's results take.
inline int64_t ClassRowElements(const ClassRowsJob& job) {
  return 2 * job.top_k + job.logits.cols * ((job.probabilities != nullptr ? 1 : 0) + (job.values != nullptr ? 1 : 0));
}

// Where the results of `count` rows stand in `elements` of ClassRowElements each.
struct ClassRowsOut {
  int32_t* classes = nullptr;
  float* scores = nullptr;
  float* probabilities = nullptr;  // null: not wanted
  float* values = nullptr;         // null: not wanted
};
ClassRowsOut PlaceClassRows(const ClassRowsJob& job, int64_t count, float* elements);

// The results of rows `rows` of job.logits, `count` in number, to PlaceClassRows(job, count, elements), which may be
// pinned host memory. The job's own rows and results are not looked at. REQUIRES: count * ClassRowElements(job) < 2^31.
cudaError_t LaunchClassRows(const ClassRowsJob& job, const RowList& rows, int64_t count, float* elements,
                            cudaStream_t stream);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_CLASS_ROWS_H_
