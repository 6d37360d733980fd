// SPDX-License-Identifier: Apache-2.0
// Rows stored in 16 bits. Sums are always weighted here: a weight of 1 costs nothing that memory does not hide.
#include "engine/cuda/balanced_rows.cuh"

namespace vicinal::cuda {
namespace {

template <class Element, class Mode>
cudaError_t LaunchElement(const RowsParams& params, int vec, int lanes, cudaStream_t stream) {
  if (vec == 1) return LaunchLanes<Element, 1, 32, Mode>(params, stream);
  if (lanes <= 4) return LaunchLanes<Element, 8, 4, Mode>(params, stream);
  if (lanes <= 8) return LaunchLanes<Element, 8, 8, Mode>(params, stream);
  return LaunchLanes<Element, 8, 16, Mode>(params, stream);
}

template <class Element>
cudaError_t LaunchReduce(const RowsParams& params, int vec, int lanes, cudaStream_t stream) {
  return params.reduce == Reduce::kMax || params.reduce == Reduce::kMin
             ? LaunchElement<Element, Extremum>(params, vec, lanes, stream)
             : LaunchElement<Element, WeightedSum>(params, vec, lanes, stream);
}

}  // namespace

cudaError_t LaunchNarrow(const RowsParams& params, int vec, int lanes, cudaStream_t stream) {
  return params.src.storage == Storage::kBfloat16 ? LaunchReduce<Bfloat16>(params, vec, lanes, stream)
                                                  : LaunchReduce<Float16>(params, vec, lanes, stream);
}

}  // namespace vicinal::cuda
