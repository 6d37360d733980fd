// SPDX-License-Identifier: Apache-2.0
// register_tiles: dst = epilogue(src * W^T) in float32. Chooses the kernel: tiles of dst for many rows (tiles.cuh),
// inputs split among warps for fewer rows (staged.cuh, or rounds.cuh for many inputs), or a thread per element for few
// inputs (few_inputs.cuh).
//
// Not cuBLASLt, as a row's bits must not depend on the number of rows. cuBLASLt guarantees that for no algorithm: it
// may split the inner dimension, or select another kernel when the shape changes. Here all kernels evaluate the same
// chain (kFoldInputs), so any of them may serve any shape. Wide outputs are bound by arithmetic, narrow ones by reading
// src. No TF32, no tensor cores. Tiles that do not fit a GPU's shared memory are not used.
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
using Wide = DenseTile<8, 8, 4, 8, 1, 32>;  // 256 x 64
// 128 x 64: if deep panels would be mostly padding.
using Shallow = DenseTile<8, 8, 4, 4, 2, 16>;
// 32 x 64: if the larger tiles are too few to fill the GPU.
using Small = DenseTile<4, 4, 2, 4, 5, 32>;
using Middle = DenseTile<4, 4, 4, 4, 5, 32>;  // 64 x 32
using Narrow = DenseTile<4, 4, 8, 2, 6, 32>;  // 64 x 16
// Up to this many inputs, columns, and products in total, a thread per element is faster than a few tiles. Measured on
// an H200, thread per element against tiles: 3.1 us and 3.9 for 2,708 rows of 16 inputs and 7 columns; 4.8 and 5.8 for
// 19,717; but 14.5 and 5.8 for 30,000 rows of 32 inputs and 16 columns; 142 and 30 for 410,236. With half the inputs
// and columns, three quarters of a tile would be padding, so the thread per element is as fast for any number of rows:
// 47 us and 53 for 410,236 rows of 16 inputs and 7 columns; 264 and 257 for 2,449,029 with 8.
constexpr int64_t kFewInputs = 32, kFewInputsColumns = 16, kFewProducts = int64_t{1} << 22;
// From this many inputs on, and up to this many rows (times tiles across) per multiprocessor, splitting the inputs
// among warps is faster: a block of tiles takes the time of all its inputs, however few blocks there are. Measured on
// an H200. 16 columns: 8 % faster for 19,717 rows of 500 inputs, equal for 13,752 of 767, 22 % slower for 40,000 of
// 602. More columns, split against tiles: 2,708 rows of 1433 inputs take 34 us and 58 with 80 columns, 42 and 57 with
// 128; 5,000 rows with 80 columns 56 and 77; but 6,000 rows of 602 inputs with 128 columns, 182 rows (times tiles) per
// multiprocessor, 40 and 35.
constexpr int64_t kSplitInputs = 192, kStagedNarrowRows = 150, kStagedWideRows = 150;
// Up to this many inputs fit the warps of one round. With 32 columns, boxes (rounds.cuh) are as fast from fewer inputs
// on, if there are enough rows (times tiles across, per multiprocessor) for high tiles: with 1433 inputs, they took 3 %
// less time for 2,708 rows and 8 % more for 1,000.
constexpr int64_t kOneRoundInputs = StagedTile<8, 1>::kMaxFolds * kFoldInputs;
constexpr int64_t kBoxedWideInputs = 1024, kBoxedWideRows = 16;
// From this many tiles per multiprocessor on, large tiles leave no multiprocessor idle for long.
constexpr int64_t kManyTiles = 3;
// Up to this many inputs, the padding of the last deep panel costs more than deep panels gain.
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
  // Estimated cost: rows of 16 columns that a quarter of a multiprocessor processes, one fold at a time. On an H200, it
  // is proportional to the measured time within a few percent. Warps are assigned to quarters whole, and blocks that do
  // not fit run in later waves.
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

// True if the lowest of the staged tiles fits. T has 8 rows.
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
  // The highest tiles come first, as they read the weights least often.
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
