// SPDX-License-Identifier: Apache-2.0
// The launcher of row_cache, free of device code. The idea is in row_cache.cu.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_ROW_CACHE_ROW_CACHE_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_ROW_CACHE_ROW_CACHE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// From this many columns on, all lanes of a warp work on one row.
inline constexpr int64_t kCachedColumns = 32;

// All values give equal bits.
struct RowCacheConfig {
  int coarsening = 1;  // CF: groups of 32 columns per warp, 1, 2, 4 or 8
  bool cached = true;  // false: the paper's Algorithm 1, without row caching and merging

  friend bool operator==(const RowCacheConfig&, const RowCacheConfig&) = default;
};

// The possible coarsening nearest to `asked`. 0 means two groups, if the width has as many: the paper's choice, and the
// fastest on an H200 in 16 of 18 cases (six graphs, widths 128, 256 and 512). All values give equal bits.
inline int RowCacheCoarsening(int64_t width, int asked) {
  if (asked <= 0) return width <= 32 ? 1 : 2;
  return asked >= 8 ? 8 : asked >= 4 ? 4 : asked >= 2 ? 2 : 1;
}

cudaError_t LaunchRowCache(const AggregateArgs& args, const RowCacheConfig& config, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_ROW_CACHE_ROW_CACHE_H_
