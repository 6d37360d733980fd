// SPDX-License-Identifier: Apache-2.0
// Eight edges of a row at a time, distributed over the lanes of its group: each lane fetches some of the indices, and
// shuffles pass them to the other lanes.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_HELD_EDGES_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_HELD_EDGES_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/rows/row_lanes.cuh"

namespace vicinal::cuda {

// Eight edges of a row as its group of lanes holds them. A row with fewer edges repeats its last one.
template <class Layout>
struct HeldEdges {
  static constexpr int kStep = 8, kSpan = Layout::kLanes < kStep ? Layout::kLanes : kStep, kHeld = kStep / kSpan;

  // The index in the row of the edge that the lane holds, if the eight edges start at `begin`.
  __device__ static int Edge(int begin, int held, int lane, int last) {
    return min(begin + held * kSpan + lane % kSpan, last);
  }
  template <class T>
  __device__ static T Of(const T (&held)[kHeld], int i) {
    return __shfl_sync(kWholeWarp, held[i / kSpan], i % kSpan, Layout::kLanes);
  }
};

// Loads source rows [kFirst, kFirst + kCount) of the eight edges.
template <class Layout, int kFirst, int kCount>
__device__ inline void LoadRows(const int32_t (&source)[HeldEdges<Layout>::kHeld], const char* src, uint32_t stride,
                                typename Layout::Load::Raw (&x)[HeldEdges<Layout>::kStep]) {
#pragma unroll
  for (int i = kFirst; i < kFirst + kCount; ++i) {
    const uint64_t offset = uint64_t{static_cast<uint32_t>(HeldEdges<Layout>::Of(source, i))} * stride;
    x[i] = Layout::Load::Load(reinterpret_cast<const typename Layout::Element*>(src + offset));
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_HELD_EDGES_CUH_
