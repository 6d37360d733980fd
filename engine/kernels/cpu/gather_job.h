// SPDX-License-Identifier: Apache-2.0
// The arguments of the vectorised "sum (or maximum, minimum) of gathered rows", the common core of aggregation,
// products with sparse rows, and readouts.
#ifndef VICINAL_ENGINE_KERNELS_CPU_GATHER_JOB_H_
#define VICINAL_ENGINE_KERNELS_CPU_GATHER_JOB_H_

#include <cstdint>

#include "engine/base/thread_pool.h"
#include "engine/kernels/operations.h"

namespace vicinal::internal {

// dst[i] = epilogue(reduce over e in [row_ptr[i], row_ptr[i + 1]) of w_e * src[col[e]], plus self_scale * src[i]) with
// w_e = weight[e], or weight[col[e]] if the weights belong to the sources.
struct GatherJob {
  const int64_t* row_ptr = nullptr;
  const int32_t* col = nullptr;   // null: edge e gathers row e (segments of consecutive rows)
  const float* weight = nullptr;  // null: all ones
  bool weight_of_source = false;
  ConstMatrixView src;      // at least dst.cols columns; float32
  ConstMatrixView16 src16;  // or this, for the 16-bit storages
  bool mean = false;        // divide by the number of edges
  float self_scale = 0.0f;
  MatrixView dst;
  bool stream = false;  // non-temporal stores; needs dst rows that are whole aligned cache lines
  Epilogue epilogue;
  bool few_edges = false;      // branch-free code for rows of a few edges, if the kernel supports it
  int64_t num_edges = 0;       // edges e below row_ptr[0] + num_edges may be prefetched
  int64_t prefetch_ahead = 0;  // prefetch distance in edges; 0: none
  // Rows of many edges ask it whether they are still wanted; may be null. Rows of a stopped loop are not complete.
  const ThreadPool* pool = nullptr;

  // Whether to leave out the row's edges from here on, asked before each of its blocks.
  bool StopsAfter(int64_t edges_of_row) const {
    return edges_of_row % kEdgesUnasked == 0 && edges_of_row > 0 && pool != nullptr && pool->ShouldStop();
  }

  // At most a megabyte or two of rows, as a pass has at most 128 columns. A multiple of all sizes of blocks.
  static constexpr int64_t kEdgesUnasked = 4096;
};

// The second-level cache of a core, beyond which gathered rows are prefetched: most server cores have 1 to 2 MiB.
inline constexpr int64_t kNearCacheBytes = 1 << 19;

inline bool WorthPrefetching(ConstMatrixView src) {
  return src.rows * src.stride * static_cast<int64_t>(sizeof(float)) > kNearCacheBytes;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_GATHER_JOB_H_
