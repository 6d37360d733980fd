// SPDX-License-Identifier: Apache-2.0
// sparse_update: dst = epilogue(src * W^T) for mostly-zero features in CSR form.
//
// Idea. A warp takes a row. kLanes lanes cover the columns of dst, 4 each, so 32 / kLanes entries of the row are
// multiplied at once. A row of a bag of words then takes a few rounds, whose loads are independent. Entries are loaded
// 32 at a time and shuffled between lanes. Each group of lanes adds its entries in ascending order, then the groups are
// added as a tree. The order depends on the row alone. Traffic: nnz * (8 + 4 * width) bytes, of which the weights come
// from the L2 cache.
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/overlap.cuh"
#include "engine/cuda/common/pack.cuh"
#include "engine/cuda/sparse/warp_rows/warp_rows.h"

namespace vicinal::cuda {
namespace {

constexpr int kWarps = 4;

struct Params {
  CsrView src;
  const float* weight;  // [F, weight_stride]
  int64_t weight_stride;
  MatrixView dst;
  Epilogue epilogue;
};

template <int kLanes>
__global__ void __launch_bounds__(32 * kWarps) SparseRows(const __grid_constant__ Params params) {
  TriggerNextLaunch();
  constexpr int kGroups = 32 / kLanes;
  constexpr int kAhead = kLanes < 8 ? kLanes : 8;  // entries of a group in flight at once
  const int lane = static_cast<int>(threadIdx.x) % 32, group = lane / kLanes;
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= params.src.rows) return;
  // Lanes beyond the last column read the last ones again and store nothing.
  const int64_t col = lane % kLanes * 4;
  const float* weight = params.weight + min(col, params.weight_stride - 4);
  const int64_t begin = __ldg(params.src.row_ptr + row), end = __ldg(params.src.row_ptr + row + 1);
  Pack<4> sum = Pack<4>::Filled(0.0f);
  for (int64_t first = begin; first < end; first += 32) {
    const int count = static_cast<int>(min(end - first, int64_t{32}));
    // Beyond the last entry, the first feature stands in, times zero.
    int32_t feature = 0;
    float value = 0.0f;
    if (lane < count) {
      feature = __ldg(params.src.col + first + lane);
      value = params.src.value != nullptr ? __ldg(params.src.value + first + lane) : 1.0f;
    }
    for (int i = 0; i * kGroups < count; i += kAhead) {
      float x[kAhead];
      Pack<4> w[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int entry = (i + j) * kGroups + group;
        const int64_t f = __shfl_sync(kWholeWarp, feature, entry);
        x[j] = __shfl_sync(kWholeWarp, value, entry);
        w[j] = LoadReadOnly<4>(weight + f * params.weight_stride);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
#pragma unroll
        for (int v = 0; v < 4; ++v) sum.v[v] = fmaf(x[j], w[j].v[v], sum.v[v]);
      }
    }
  }
#pragma unroll
  for (int distance = 16; distance >= kLanes; distance /= 2) {
#pragma unroll
    for (int v = 0; v < 4; ++v) sum.v[v] += __shfl_xor_sync(kWholeWarp, sum.v[v], distance);
  }
  // Features and weights are inputs of the plan, so they may be read before this. But dst may overlap with inputs of
  // earlier kernels.
  AwaitPreviousKernels();
  if (group != 0) return;
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    if (col + v >= params.dst.cols) break;
    params.dst.data[row * params.dst.stride + col + v] = ApplyEpilogue(params.epilogue, sum.v[v], row, col + v);
  }
}

template <int kLanes>
cudaError_t Launch(const Params& params, const LaunchTarget& target) {
  const unsigned blocks = static_cast<unsigned>((params.src.rows + kWarps - 1) / kWarps);
  return LaunchOverlapping(target.overlap, SparseRows<kLanes>, dim3(blocks), 32 * kWarps, target.stream, params);
}

}  // namespace

cudaError_t LaunchSparseUpdate(const SparseUpdateArgs& args, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const Params params{args.src, static_cast<const float*>(args.weight), PackedStride(args.problem.out_width), args.dst,
                      args.epilogue};
  const int64_t cols = args.dst.cols;
  if (cols <= 8) return Launch<2>(params, target);
  if (cols <= 16) return Launch<4>(params, target);
  if (cols <= 32) return Launch<8>(params, target);
  return cols <= 64 ? Launch<16>(params, target) : Launch<32>(params, target);
}

}  // namespace vicinal::cuda
