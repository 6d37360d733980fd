// SPDX-License-Identifier: Apache-2.0
// The kernel that finishes split rows, unless the warps of the kernel before it do (split_parts.cuh).
// Cost: each part read once, each row written once.
#include "engine/cuda/aggregate/rows/row_lanes.cuh"
#include "engine/cuda/aggregate/rows/split_rows.cuh"

namespace vicinal::cuda {
namespace {

// 1 << shift lanes per row, kVec columns per lane. Its blocks may start before the parts are stored.
template <int kVec>
__global__ void __launch_bounds__(kBlockThreads)
    FinishSplitRows(const __grid_constant__ RowsParams params, const SplitRows splits, int shift) {
  TriggerNextLaunch();
  const int64_t group = (int64_t{blockIdx.x} * kBlockThreads + threadIdx.x) >> shift;
  const int lane = static_cast<int>(threadIdx.x) & ((1 << shift) - 1);
  const int col = ((static_cast<int>(blockIdx.y) << shift) + lane) * kVec;
  const bool mine = group < splits.count && col < params.out.dst.cols;
  const SplitRow split = splits.rows[mine ? group : 0];
  const Finish finish = FinishOfSplit(params, split);
  AwaitPreviousKernels();
  if (!mine || !Holds(params.work.condition)) return;
  const Pack<kVec> result = ResultOfParts<kVec>(params, split, finish, splits.parts_are_quads, col);
  StoreColumns(params, finish, col, result.v);
}

}  // namespace

cudaError_t LaunchFinishSplitRows(const RowsParams& params, const SplitRows& splits, const LaunchTarget& target) {
  const int vec = params.out.dst.cols % 4 == 0 ? 4 : 1;
  int shift = 0;
  while (shift < 5 && (vec << shift) < params.out.dst.cols) ++shift;
  const int64_t groups = kBlockThreads >> shift, tile = int64_t{vec} << shift;
  const dim3 grid(static_cast<unsigned>((splits.count + groups - 1) / groups),
                  static_cast<unsigned>((params.out.dst.cols + tile - 1) / tile));
  // It may always overlap: the kernel before it belongs to the same launch.
  return LaunchOverlapping(target.limits.overlapping_launches(), vec == 4 ? FinishSplitRows<4> : FinishSplitRows<1>,
                           grid, kBlockThreads, target.stream, params, splits, shift);
}

}  // namespace vicinal::cuda
