// SPDX-License-Identifier: Apache-2.0
// dense_update: dst = epilogue(src * W^T) in float32. Chooses between tiles of dst for many rows
// (tiles.cuh), inputs shared out among warps for fewer (staged.cuh, and for many inputs
// rounds.cuh), and a thread per element for few inputs (few_inputs.cuh).
//
// Written by hand rather than given to cuBLASLt, because the contract wants a row's bits to be independent of the
// number of rows, and cuBLASLt promises that for no algorithm: it may split the inner dimension or take another kernel
// as the shape changes. Here all kernels evaluate the same chain (kFoldInputs), so the shape may choose among them
// freely. Bound by arithmetic for wide outputs, by reading src for narrow ones. No TF32, no tensor cores. Tiles that do
// not fit a GPU's shared memory are left out.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/dense/register_tiles/detail/few_inputs.cuh"
#include "engine/cuda/dense/register_tiles/detail/rounds.h"
#include "engine/cuda/dense/register_tiles/detail/staged.cuh"
#include "engine/cuda/dense/register_tiles/detail/tiles.cuh"
#include "engine/cuda/dense/register_tiles/register_tiles.h"

namespace vicinal::cuda {
namespace {

// Tiles of a block, rows x columns.
using Wide = DenseTile<8, 8, 4, 8, 1, 32>;     // 256 x 64
using Shallow = DenseTile<8, 8, 4, 4, 2, 16>;  // 128 x 64: where deep panels would be zeros for the most part
using Small = DenseTile<4, 4, 2, 4, 5, 32>;    // 32 x 64: where the others are too few to go round
using Middle = DenseTile<4, 4, 4, 4, 5, 32>;   // 64 x 32
using Narrow = DenseTile<4, 4, 8, 2, 6, 32>;   // 64 x 16
// Up to so many inputs, columns, and products in all, a thread per element takes less time than tiles, which there are
// few of. Measured on an H200: 3.1 us in place of 3.9 for 2,708 rows of 16 inputs with 7 columns, 4.8 in place of 5.8
// for 19,717, but 14.5 in place of 5.8 for 30,000 of 32 with 16, and 142 in place of 30 for 410,236. Of half as many
// inputs and columns three quarters of a tile are zeros, so it is then as fast however many rows there are: 47 us in
// place of 53 for 410,236 of 16 inputs with 7 columns, 264 in place of 257 for 2,449,029 with 8.
constexpr int64_t kFewInputs = 32, kFewInputsColumns = 16, kFewProducts = int64_t{1} << 22;
// From so many inputs on, and up to so many rows (times tiles across) per multiprocessor, it pays to split: a block of
// tiles takes the time of all its inputs however few the blocks are. Measured on an H200, with 16 columns: 8 % faster
// for 19,717 rows of 500 inputs, as fast for 13,752 of 767, 22 % slower for 40,000 of 602. With more columns: 2,708
// rows of 1433 inputs take 34 us in place of 58 with 80, 42 in place of 57 with 128; 5,000 rows with 80 56 in place of
// 77; but 6,000 of 602 with 128, 182 rows (times tiles) per multiprocessor, 40 in place of 35.
constexpr int64_t kSplitInputs = 192, kStagedNarrowRows = 150, kStagedWideRows = 150;
// Up to so many inputs they can be split among the warps of one round. With 32 columns boxes are as fast from fewer on,
// where there are rows enough (times tiles across, per multiprocessor) for high tiles: 1433 inputs took 3 % less time
// for 2,708 rows and 8 % more for 1,000.
constexpr int64_t kOneRoundInputs = StagedTile<8, 1>::kMaxFolds * kFoldInputs;
constexpr int64_t kBoxedWideInputs = 1024, kBoxedWideRows = 16;
// From so many per multiprocessor on, large tiles leave none waiting for long.
constexpr int64_t kManyTiles = 3;
// Up to so many inputs the zeros of a last deep panel cost more than deep panels gain.
constexpr int64_t kShallowInputs = 256;

template <class T>
int64_t Across(const MatrixView& dst) {
  return (dst.cols + T::kCols - 1) / T::kCols;
}

template <class T>
int64_t Tiles(const MatrixView& dst) {
  return (dst.rows + T::kRows - 1) / T::kRows * Across<T>(dst);
}

template <class T, int kVec>
cudaError_t LaunchTilesOf(const DenseParams& params, const LaunchTarget& target) {
  const auto kernel = &DenseProductTiles<T, kVec>;
  const cudaError_t error = AllowShared(kernel, T::kShared, target.limits);
  if (error != cudaSuccess) return error;
  const int64_t resident =
      int64_t{target.limits.Resident(T::kThreads, T::kShared, T::kBlocks)} * target.limits.multiprocessors;
  const unsigned blocks = static_cast<unsigned>(std::min(Tiles<T>(params.out.dst), resident));
  kernel<<<blocks, T::kThreads, T::kShared, target.stream>>>(params);
  return cudaGetLastError();
}

template <class T>
cudaError_t LaunchTiles(const DenseParams& params, const LaunchTarget& target) {
  switch (PackWidth(params.source.rows)) {
    case 4:
      return LaunchTilesOf<T, 4>(params, target);
    case 2:
      return LaunchTilesOf<T, 2>(params, target);
    default:
      return LaunchTilesOf<T, 1>(params, target);
  }
}

template <class T>
struct Staged {
  // Rows of 16 columns that a quarter of a multiprocessor goes through, one fold at a time: what time goes with, within
  // a few percent of what was measured on an H200. Warps share out to the quarters whole, and blocks that find no room
  // come later.
  static int64_t Cost(const DenseParams& params, const LaunchTarget& target) {
    constexpr int64_t kQuarters = 4;
    const int warps = T::Warps(params.source.in_width);
    if (!target.limits.Fits(T::Shared(warps))) return kDoesNotFit;
    const int64_t blocks =
        (Tiles<T>(params.out.dst) + target.limits.multiprocessors - 1) / target.limits.multiprocessors;
    const int64_t resident = std::min<int64_t>(blocks, target.limits.block_shared_bytes / T::Shared(warps));
    const int64_t waves = (blocks + resident - 1) / resident;
    return waves * ((resident * warps + kQuarters - 1) / kQuarters) * T::kThreadRows * T::kPacks;
  }

  static cudaError_t Launch(const DenseParams& params, const LaunchTarget& target) {
    const auto kernel = &DenseStaged<T>;
    const int warps = T::Warps(params.source.in_width), bytes = T::Shared(warps);
    const cudaError_t error = AllowShared(kernel, bytes, target.limits);
    if (error != cudaSuccess) return error;
    const unsigned across = static_cast<unsigned>(Across<T>(params.out.dst));
    const dim3 blocks(across, static_cast<unsigned>(Tiles<T>(params.out.dst)) / across);
    kernel<<<blocks, 32 * warps, bytes, target.stream>>>(params);
    return cudaGetLastError();
  }
};

template <int kCols>
cudaError_t LaunchFewInputs(const DenseParams& params, const LaunchTarget& target) {
  constexpr int64_t kRows = 128 / kCols;
  const unsigned blocks = static_cast<unsigned>((params.out.dst.rows + kRows - 1) / kRows);
  return LaunchOverlapping(target.overlap, &DenseFewInputs<kCols>, dim3(blocks), 128, target.stream, params);
}

bool CanBeStaged(const DenseParams& params, int64_t most_rows) {
  return params.source.in_width >= kSplitInputs && params.out.dst.rows <= most_rows && InPacks(params.source.rows);
}

// Whether the lowest of the staged tiles fits: T has 8 rows.
template <class T>
bool StagedFits(const DenseParams& params, const LaunchTarget& target) {
  static_assert(T::kThreadRows == 2);
  return params.source.in_width <= kOneRoundInputs && Staged<T>::Cost(params, target) != kDoesNotFit;
}

cudaError_t LaunchNarrow(const DenseParams& params, const LaunchTarget& target) {
  if (params.source.in_width <= kFewInputs) {
    const int64_t cols = params.out.dst.cols <= 8 ? 8 : 16;
    const bool half = params.source.in_width <= kFewInputs / 2 && cols == kFewInputsColumns / 2;
    if (!half && params.out.dst.rows * params.source.in_width * cols > kFewProducts)
      return LaunchTiles<Narrow>(params, target);
    return cols == 8 ? LaunchFewInputs<8>(params, target) : LaunchFewInputs<16>(params, target);
  }
  if (!CanBeStaged(params, kStagedNarrowRows * target.limits.multiprocessors))
    return LaunchTiles<Narrow>(params, target);
  if (params.source.in_width > kOneRoundInputs && CanRunRounds(params, target))
    return LaunchDenseRounds(params, target);
  if (!StagedFits<StagedTile<2, 1>>(params, target)) return LaunchTiles<Narrow>(params, target);
  // The highest tiles first: they read the weights least often.
  return LaunchCheapest<Staged<StagedTile<8, 1>>, Staged<StagedTile<7, 1>>, Staged<StagedTile<6, 1>>,
                        Staged<StagedTile<4, 1>>, Staged<StagedTile<2, 1>>>(params, target);
}

cudaError_t LaunchWide(const DenseParams& params, const LaunchTarget& target) {
  const int64_t across = Across<StagedTile<2, 2>>(params.out.dst);
  if (CanBeStaged(params, kStagedWideRows * target.limits.multiprocessors / across)) {
    const bool enough = params.out.dst.rows * across >= kBoxedWideRows * target.limits.multiprocessors;
    if (params.source.in_width > (enough ? kBoxedWideInputs : kOneRoundInputs) && CanRunRounds(params, target))
      return LaunchDenseRounds(params, target);
    if (StagedFits<StagedTile<2, 2>>(params, target)) {
      return LaunchCheapest<Staged<StagedTile<8, 2>>, Staged<StagedTile<6, 2>>, Staged<StagedTile<4, 2>>,
                            Staged<StagedTile<2, 2>>>(params, target);
    }
  }
  if (params.out.dst.cols <= Middle::kCols) return LaunchTiles<Middle>(params, target);
  if (Tiles<Wide>(params.out.dst) < kManyTiles * target.limits.multiprocessors)
    return LaunchTiles<Small>(params, target);
  const int64_t last = (params.source.in_width - 1) % Wide::kDepth + 1;
  const bool shallow =
      (params.source.in_width <= kShallowInputs && last <= Shallow::kDepth) || !target.limits.Fits(Wide::kShared);
  return shallow ? LaunchTiles<Shallow>(params, target) : LaunchTiles<Wide>(params, target);
}

}  // namespace

cudaError_t LaunchDenseUpdate(const DenseUpdateArgs& args, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const Epilogue& epilogue = args.epilogue;
  const ActivationKind activation = epilogue.activation.kind;
  DenseParams params;
  params.source = {args.src, static_cast<const float*>(args.weight), PackedStride(args.problem.out_width),
                   args.problem.in_width};
  const bool light = epilogue.scale == 1.0f && epilogue.row_scale == nullptr && epilogue.residual.empty();
  params.out = {args.dst, epilogue, PacksIf(InPacks(args.dst) && InPacks(epilogue.residual)),
                activation != ActivationKind::kNone && activation != ActivationKind::kRelu,
                light ? FactorsAndResidual::kNone : FactorsAndResidual::kSome};
  return args.dst.cols <= kFewInputsColumns ? LaunchNarrow(params, target) : LaunchWide(params, target);
}

}  // namespace vicinal::cuda
