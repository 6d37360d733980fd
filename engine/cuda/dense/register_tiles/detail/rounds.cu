// SPDX-License-Identifier: Apache-2.0
// The launcher of register_tiles' kernel for many inputs (rounds.cuh). Chooses the tile of the lowest cost.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/hardware.h"
#include "engine/cuda/dense/register_tiles/detail/rounds.cuh"
#include "engine/cuda/dense/register_tiles/detail/rounds.h"
#include "engine/cuda/runtime/tensor_map.h"

namespace vicinal::cuda {
namespace {

template <class T>
struct InRounds {
  static int64_t TilesDown(const DenseParams& params) { return (params.out.dst.rows + T::kRows - 1) / T::kRows; }
  static int64_t Across(const DenseParams& params) { return (params.out.dst.cols + T::kCols - 1) / T::kCols; }

  // Estimated cycles of a multiprocessor: the instructions of its quarters, and its reads of rows and weights at its
  // share of an H200's L2 bandwidth. Blocks that do not fit run in later waves.
  static int64_t Cost(const DenseParams& params, const LaunchTarget& target) {
    constexpr int64_t kQuarters = 4, kBytesPerCycle = 38, kSteps = kFoldInputs / 4;
    constexpr int64_t kMultiply = 16 * T::kThreadRows * T::kPacks, kLoad = T::kThreadRows + 4 * T::kPacks, kRest = 6;
    const DenseRounds<T> folds(params.source.in_width);
    if (!target.limits.Fits(folds.Shared())) return kDoesNotFit;
    const int64_t blocks =
        (TilesDown(params) * Across(params) + target.limits.multiprocessors - 1) / target.limits.multiprocessors;
    const int64_t resident = std::min<int64_t>(blocks, target.limits.block_shared_bytes / folds.Shared());
    const int64_t waves = (blocks + resident - 1) / resident;
    const int64_t warps = folds.rounds * ((resident * folds.warps + kQuarters - 1) / kQuarters);
    const int64_t bytes = resident * params.source.in_width * (T::kRows + T::kCols) * 4;
    return waves * (warps * kSteps * (kMultiply + kLoad + kRest) + bytes / kBytesPerCycle);
  }

  static cudaError_t Describe(const DenseParams& params, DenseMaps* maps) {
    const BoxedDimension src[] = {{params.source.in_width, 1, T::kDepth},
                                  {params.source.rows.rows, params.source.rows.stride, T::kRows}};
    const cudaError_t error = DescribeBoxes(params.source.rows.data, src, 2, true, &maps->src);
    if (error != cudaSuccess) return error;
    return DescribeWeights(params, maps);
  }

  // If the tile has all columns, consecutive inputs are contiguous. Lines of several inputs then need fewer requests
  // than a line per input.
  static cudaError_t DescribeWeights(const DenseParams& params, DenseMaps* maps) {
    const int64_t folds = (params.source.in_width + kFoldInputs - 1) / kFoldInputs,
                  stride = params.source.weight_stride;
    maps->line_shift = stride == T::kCols ? T::kLineShift : 0;
    const int64_t inputs = int64_t{1} << maps->line_shift, line = stride * inputs;
    const BoxedDimension weights[] = {{line, 1, T::kCols * inputs},
                                      {kFoldInputs / inputs, line, T::kDepth / inputs},
                                      {folds, kFoldInputs * stride, T::kFoldLanes}};
    return DescribeBoxes(params.source.weight, weights, 3, false, &maps->weights);
  }

  static cudaError_t Launch(const DenseParams& params, const LaunchTarget& target) {
    DenseMaps maps;
    cudaError_t error = Describe(params, &maps);
    if (error != cudaSuccess) return error;
    const auto kernel = &DenseInRounds<T>;
    const DenseRounds<T> folds(params.source.in_width);
    error = AllowShared(kernel, folds.Shared(), target.limits);
    if (error != cudaSuccess) return error;
    const dim3 blocks(static_cast<unsigned>(Across(params)), static_cast<unsigned>(TilesDown(params)));
    kernel<<<blocks, 32 * folds.warps, folds.Shared(), target.stream>>>(maps, params, folds.rounds);
    return cudaGetLastError();
  }
};

}  // namespace

bool CanRunRounds(const DenseParams& params, const LaunchTarget& target) {
  if (!target.limits.bulk_copies()) return false;
  const int64_t lowest = params.out.dst.cols <= 16 ? InRounds<RoundsTile<2, 1, 32, 16>>::Cost(params, target)
                                                   : InRounds<RoundsTile<2, 2, 16, 16>>::Cost(params, target);
  return lowest != kDoesNotFit;
}

// The highest tiles come first, as they read the weights least often.
cudaError_t LaunchDenseRounds(const DenseParams& params, const LaunchTarget& target) {
  if (params.out.dst.cols <= 16) {
    return LaunchCheapest<InRounds<RoundsTile<8, 1, 32, 8>>, InRounds<RoundsTile<7, 1, 32, 8>>,
                          InRounds<RoundsTile<6, 1, 32, 8>>, InRounds<RoundsTile<4, 1, 32, 12>>,
                          InRounds<RoundsTile<2, 1, 32, 16>>>(params, target);
  }
  return LaunchCheapest<InRounds<RoundsTile<7, 2, 16, 8>>, InRounds<RoundsTile<6, 2, 16, 12>>,
                        InRounds<RoundsTile<4, 2, 16, 12>>, InRounds<RoundsTile<2, 2, 16, 16>>>(params, target);
}

}  // namespace vicinal::cuda
