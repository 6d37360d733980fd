// SPDX-License-Identifier: Apache-2.0
// dense_update: dst = epilogue(src * W^T) in float32. Chooses between tiles of dst for many rows
// (dense_update_tiles.cuh), inputs shared out among warps for fewer (dense_update_split.cuh), and a thread per element
// for few inputs (dense_update_few_inputs.cuh).
//
// Written by hand rather than given to cuBLASLt, because the contract wants a row's bits to be independent of the
// number of rows, and cuBLASLt promises that for no algorithm: it may split the inner dimension or take another kernel
// as the shape changes. Here all kernels evaluate the same chain (kFoldInputs), so the shape may choose among them
// freely. Bound by arithmetic for wide outputs, by reading src for narrow ones. No TF32, no tensor cores.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/dense_update.h"
#include "engine/cuda/dense_update_few_inputs.cuh"
#include "engine/cuda/dense_update_split.cuh"
#include "engine/cuda/dense_update_tiles.cuh"

namespace vicinal::cuda {
namespace {

// Tiles of a block, rows x columns.
using Wide = DenseTile<8, 8, 4, 8, 1, 32>;     // 256 x 64
using Shallow = DenseTile<8, 8, 4, 4, 2, 16>;  // 128 x 64: where deep panels would be zeros for the most part
using Small = DenseTile<4, 4, 2, 4, 5, 32>;    // 32 x 64: where the others are too few to go round
using Middle = DenseTile<4, 4, 4, 4, 5, 32>;   // 64 x 32
using Narrow = DenseTile<4, 4, 8, 2, 6, 32>;   // 64 x 16
// Tiles of a block with its inputs split.
using SplitNarrowFew = SplitTile<4, 2, 4>;  // 8 x 16
using SplitNarrow = SplitTile<8, 2, 4>;     // 16 x 16
using SplitWideFew = SplitTile<4, 2, 8>;    // 8 x 32
using SplitWide = SplitTile<8, 1, 8>;       // 8 x 32

// Up to so many inputs, and columns, a thread per element reads its row often enough from the nearest cache.
constexpr int64_t kFewInputs = 32, kFewInputsColumns = 16;
// From so many inputs on, and up to so many rows (times tiles across) per multiprocessor, it pays to split: a block of
// tiles takes the time of all its inputs however few the blocks are. Between what was measured on an H200 with 602
// inputs the two take as long for 9,800 rows where tiles have 16 columns, and for 7,100 where they have 32.
constexpr int64_t kSplitInputs = 192, kSplitNarrowRows = 64, kSplitWideRows = 48;
// Up to so many blocks per multiprocessor those with more threads to an element all run at once.
constexpr int64_t kFewBlocks = 2;
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

// Floats that can be read from a row at once.
int Alignment(const ConstMatrixView& rows) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(rows.data);
  if (address % 16 == 0 && rows.stride % 4 == 0) return 4;
  return address % 8 == 0 && rows.stride % 2 == 0 ? 2 : 1;
}

template <class T, int kVec>
cudaError_t LaunchTilesOf(const DenseParams& params, const LaunchTarget& target) {
  const auto kernel = &DenseTiles<T, kVec>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kShared);
  if (error != cudaSuccess) return error;
  const int64_t resident = T::kBlocks * target.multiprocessors;
  const unsigned blocks = static_cast<unsigned>(std::min(Tiles<T>(params.dst), resident));
  kernel<<<blocks, T::kThreads, T::kShared, target.stream>>>(params);
  return cudaGetLastError();
}

template <class T>
cudaError_t LaunchTiles(const DenseParams& params, const LaunchTarget& target) {
  switch (Alignment(params.src)) {
    case 4:
      return LaunchTilesOf<T, 4>(params, target);
    case 2:
      return LaunchTilesOf<T, 2>(params, target);
    default:
      return LaunchTilesOf<T, 1>(params, target);
  }
}

template <class T, int kVec>
cudaError_t LaunchSplitOf(const DenseParams& params, cudaStream_t stream) {
  const auto kernel = &DenseSplit<T, kVec>;
  const FoldRounds folds = FoldRounds::For<T>(params.in_width);
  const int bytes = SplitShared<T>(folds.warps, folds.rounds).total * static_cast<int>(sizeof(float));
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  kernel<<<static_cast<unsigned>(Tiles<T>(params.dst)), 32 * folds.warps, bytes, stream>>>(params, folds.rounds);
  return cudaGetLastError();
}

template <class T>
cudaError_t LaunchSplit(const DenseParams& params, const LaunchTarget& target) {
  return Alignment(params.src) == 4 ? LaunchSplitOf<T, 4>(params, target.stream)
                                    : LaunchSplitOf<T, 1>(params, target.stream);
}

template <int kCols>
cudaError_t LaunchFewInputs(const DenseParams& params, const LaunchTarget& target) {
  constexpr int64_t kRows = 128 / kCols;
  const unsigned blocks = static_cast<unsigned>((params.dst.rows + kRows - 1) / kRows);
  DenseFewInputs<kCols><<<blocks, 128, 0, target.stream>>>(params);
  return cudaGetLastError();
}

cudaError_t LaunchNarrow(const DenseParams& params, const LaunchTarget& target) {
  if (params.in_width <= kFewInputs) {
    return params.dst.cols <= 8 ? LaunchFewInputs<8>(params, target) : LaunchFewInputs<16>(params, target);
  }
  if (params.in_width < kSplitInputs || params.dst.rows > kSplitNarrowRows * target.multiprocessors) {
    return LaunchTiles<Narrow>(params, target);
  }
  return Tiles<SplitNarrowFew>(params.dst) <= kFewBlocks * target.multiprocessors
             ? LaunchSplit<SplitNarrowFew>(params, target)
             : LaunchSplit<SplitNarrow>(params, target);
}

cudaError_t LaunchWide(const DenseParams& params, const LaunchTarget& target) {
  const int64_t rows = params.dst.rows * Across<SplitWide>(params.dst);
  if (params.in_width >= kSplitInputs && rows <= kSplitWideRows * target.multiprocessors) {
    return Tiles<SplitWideFew>(params.dst) <= kFewBlocks * target.multiprocessors
               ? LaunchSplit<SplitWideFew>(params, target)
               : LaunchSplit<SplitWide>(params, target);
  }
  if (params.dst.cols <= Middle::kCols) return LaunchTiles<Middle>(params, target);
  if (Tiles<Wide>(params.dst) < kManyTiles * target.multiprocessors) return LaunchTiles<Small>(params, target);
  const int64_t last = (params.in_width - 1) % Wide::kDepth + 1;
  return params.in_width <= kShallowInputs && last <= Shallow::kDepth ? LaunchTiles<Shallow>(params, target)
                                                                      : LaunchTiles<Wide>(params, target);
}

}  // namespace

cudaError_t LaunchDenseUpdate(const DenseUpdateArgs& args, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const Epilogue& epilogue = args.epilogue;
  const ActivationKind activation = epilogue.activation.kind;
  const DenseParams params{args.src,
                           static_cast<const float*>(args.weight),
                           PackedStride(args.problem.out_width),
                           args.problem.in_width,
                           args.dst,
                           epilogue,
                           std::min(Alignment(args.dst), Alignment(epilogue.addend)) == 4,
                           activation != ActivationKind::kNone && activation != ActivationKind::kRelu,
                           epilogue.scale == 1.0f && epilogue.row_scale == nullptr && epilogue.addend.empty()};
  return args.dst.cols <= kFewInputsColumns ? LaunchNarrow(params, target) : LaunchWide(params, target);
}

}  // namespace vicinal::cuda
