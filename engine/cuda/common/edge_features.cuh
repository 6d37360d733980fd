// SPDX-License-Identifier: Apache-2.0
// Where the features of a row's edges stand (EdgeFeaturesView): one after the other in the order sent, but for a
// self-loop that was put in place of those sent. The device side of engine/kernels/cpu/edge_features.h. Cost per row:
// its offsets and, with replaced loops, a search among the row's sources, a round for every 33 of them in a warp.
#ifndef VICINAL_ENGINE_CUDA_COMMON_EDGE_FEATURES_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_EDGE_FEATURES_CUH_

#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/row_pieces.cuh"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// The number of columns below `node` among `count` ascending ones. All lanes of a group of kLanes search together: each
// round divides the range by kLanes + 1.
template <int kLanes>
__device__ inline int64_t CountBelow(const int32_t* columns, int64_t count, int64_t node) {
  const unsigned mask = GroupMask<kLanes>();
  const int lane = threadIdx.x % kLanes;
  int64_t low = 0, high = count;  // the result is in [low, high]
  while (low < high) {
    const int64_t step = (high - low + kLanes + 1) / (kLanes + 1);  // all lanes below: the result may be `high`
    const int64_t at = low + (lane + 1) * step - 1;
    const bool below = at < high && __ldg(columns + at) < node;
    const int passed = __popc(__ballot_sync(mask, below) & mask);
    high = min(high, low + (passed + 1) * step - 1);
    low += passed * step;
  }
  return low;
}

// Of the edges of a row, or of a piece of it, counted from its first one. No row has 2^31 edges or more.
struct FeaturesOfRow {
  const float* first = nullptr;  // of edge 0, unless it follows the loop
  const float* loop = nullptr;   // of the loop that was put in place of those sent
  int loop_at = INT32_MAX;       // its edge
  int after_loop = 0;            // edges sent less edges of the adjacency: later edges stand so many places further on

  __device__ const float* Of(int edge, int width) const {
    const int64_t at = int64_t{edge + (edge > loop_at ? after_loop : 0)} * width;
    return edge == loop_at ? loop : first + at;
  }
};

// For the edges of `row` of `adjacency` from its edge `from` on. To be called by a whole group of kLanes lanes.
template <int kLanes>
__device__ inline FeaturesOfRow FindFeatures(const EdgeFeaturesView& view, const CsrView& adjacency, int64_t row,
                                             int64_t from) {
  FeaturesOfRow result;
  const int64_t node = view.nodes != nullptr ? __ldg(view.nodes + row) : row;
  const int64_t begin = __ldg(view.sent.row_ptr + node);
  result.first = view.values + (begin + from) * view.width;
  if (!view.one_loop_each) return result;
  const int64_t sent = __ldg(view.sent.row_ptr + node + 1) - begin;
  result.loop_at = static_cast<int>(CountBelow<kLanes>(view.sent.col + begin, sent, node) - from);
  result.after_loop = static_cast<int>(sent - (__ldg(adjacency.row_ptr + row + 1) - __ldg(adjacency.row_ptr + row)));
  result.loop = view.loop_values + node * view.loop_stride;
  return result;
}

// Whether the features of each edge can be read 16 bytes at a time.
inline Access FeatureAccess(const EdgeFeaturesView& view) {
  const bool loops = !view.one_loop_each || InPacks(view.loop_values, view.loop_stride, sizeof(float), 4);
  return PacksIf(view.width % 4 == 0 && InPacks(view.values, view.width, sizeof(float), 4) && loops);
}

// Calls use(a, x_0[a], ..) for the features of kCount edges, a = 0, 1, .. width - 1.
template <int kCount, class Use>
__device__ inline void ForEachFeature(const float* const (&edges)[kCount], int width, Access access, const Use& use) {
  if (access != Access::kElements) {
#pragma unroll 1
    for (int a = 0; a < width; a += 4) {
      float x[4][kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float4 four = __ldg(reinterpret_cast<const float4*>(edges[i] + a));
        x[0][i] = four.x, x[1][i] = four.y, x[2][i] = four.z, x[3][i] = four.w;
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) use(a + k, x[k]);
    }
    return;
  }
#pragma unroll 1
  for (int a = 0; a < width; ++a) {
    float x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = __ldg(edges[i] + a);
    use(a, x);
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_EDGE_FEATURES_CUH_
