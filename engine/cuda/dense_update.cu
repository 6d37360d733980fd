// SPDX-License-Identifier: Apache-2.0
// dense_update: dst = epilogue(src * W^T) in float32. Chooses between tiles of dst for many rows
// (dense_update_tiles.cuh), inputs shared out among warps for few rows, and a thread per element for few inputs
// (dense_update_few_rows.cuh).
//
// Written by hand rather than given to cuBLASLt, because the contract wants a row's bits to be independent of the
// number of rows, and cuBLASLt promises that for no algorithm: it may split the inner dimension or take another kernel
// as the shape changes. Here all kernels evaluate the same chain (kFoldInputs), so the shape may choose among them
// freely. Bound by arithmetic for wide outputs, by reading src for narrow ones. No TF32, no tensor cores.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/dense_update.h"
#include "engine/cuda/dense_update_few_rows.cuh"
#include "engine/cuda/dense_update_tiles.cuh"

namespace vicinal::cuda {
namespace {

// Rows x columns of a block's tile.
using Wide = DenseTile<8, 8, 4, 4, 4, 2>;     // 128 x 64
using Small = DenseTile<4, 8, 4, 4, 4, 4>;    // 64 x 64: where the others are too few to go round
using Middle = DenseTile<8, 4, 4, 4, 4, 4>;   // 128 x 32
using Narrow = DenseTile<2, 8, 16, 4, 4, 4>;  // 128 x 16

// Up to so many rows a block of a few of them keeps every multiprocessor busy.
constexpr int64_t kFewRowsPerMultiprocessor = 32;
// Up to so many columns a thread per element reads its row often enough from the nearest cache.
constexpr int64_t kFewInputsColumns = 16;

template <class T>
int64_t Tiles(const MatrixView& dst) {
  return (dst.rows + T::kRows - 1) / T::kRows * ((dst.cols + T::kCols - 1) / T::kCols);
}

template <class T>
void LaunchTiles(const DenseParams& params, const LaunchTarget& target) {
  const int64_t resident = T::kBlocks * target.multiprocessors;
  const unsigned blocks = static_cast<unsigned>(std::min(Tiles<T>(params.dst), resident));
  const uintptr_t address = reinterpret_cast<uintptr_t>(params.src.data);
  if (address % 16 == 0 && params.src.stride % 4 == 0) {
    DenseTiles<T, 4><<<blocks, T::kThreads, 0, target.stream>>>(params);
  } else if (address % 8 == 0 && params.src.stride % 2 == 0) {
    DenseTiles<T, 2><<<blocks, T::kThreads, 0, target.stream>>>(params);
  } else {
    DenseTiles<T, 1><<<blocks, T::kThreads, 0, target.stream>>>(params);
  }
}

template <int kCols>
void LaunchFewRows(const DenseParams& params, cudaStream_t stream) {
  const int64_t down = (params.dst.rows + kFewRowsPerBlock - 1) / kFewRowsPerBlock;
  const int64_t across = (params.dst.cols + kCols - 1) / kCols;
  const int64_t folds = std::max<int64_t>(1, (params.in_width + kFoldInputs - 1) / kFoldInputs);
  const unsigned threads = static_cast<unsigned>(32 * std::min<int64_t>(kFewRowsWarps, folds));
  DenseFewRows<kCols><<<static_cast<unsigned>(down * across), threads, 0, stream>>>(params);
}

template <int kCols>
void LaunchFewInputs(const DenseParams& params, cudaStream_t stream) {
  constexpr int64_t kRows = 128 / kCols;
  DenseFewInputs<kCols><<<static_cast<unsigned>((params.dst.rows + kRows - 1) / kRows), 128, 0, stream>>>(params);
}

// What the tiles' own path to memory does.
bool IsLight(const Epilogue& epilogue) {
  const ActivationKind activation = epilogue.activation.kind;
  return epilogue.scale == 1.0f && epilogue.row_scale == nullptr && epilogue.addend.empty() &&
         (activation == ActivationKind::kNone || activation == ActivationKind::kRelu);
}

}  // namespace

cudaError_t LaunchDenseUpdate(const DenseUpdateArgs& args, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const bool vector_store = reinterpret_cast<uintptr_t>(args.dst.data) % 16 == 0 && args.dst.stride % 4 == 0;
  const DenseParams params{args.src,
                           static_cast<const float*>(args.weight),
                           PackedStride(args.problem.out_width),
                           args.problem.in_width,
                           args.dst,
                           args.epilogue,
                           vector_store,
                           IsLight(args.epilogue)};
  const int64_t cols = args.dst.cols;
  if (args.problem.in_width <= kFoldInputs && cols <= kFewInputsColumns) {
    cols <= 8 ? LaunchFewInputs<8>(params, target.stream) : LaunchFewInputs<16>(params, target.stream);
  } else if (args.dst.rows <= kFewRowsPerMultiprocessor * target.multiprocessors) {
    cols <= 8    ? LaunchFewRows<8>(params, target.stream)
    : cols <= 16 ? LaunchFewRows<16>(params, target.stream)
                 : LaunchFewRows<32>(params, target.stream);
  } else if (cols <= Narrow::kCols) {
    LaunchTiles<Narrow>(params, target);
  } else if (cols <= Middle::kCols) {
    LaunchTiles<Middle>(params, target);
  } else if (Tiles<Wide>(args.dst) < 2 * target.multiprocessors) {
    LaunchTiles<Small>(params, target);
  } else {
    LaunchTiles<Wide>(params, target);
  }
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
