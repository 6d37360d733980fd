// SPDX-License-Identifier: Apache-2.0
// The kernel of register_tiles for many rows: a block computes a tile of dst in registers.
//
// Idea. The classical blocked product. Asynchronous copies bring panels of 16 or 32 inputs to shared memory, two in
// flight while one is multiplied. Rows of src are not transposed: a thread reads 2 or 4 adjacent inputs of each of its
// rows at once, which costs no more than reading a transposed panel. Rows are padded by 16 bytes to avoid bank
// conflicts. Every element of dst is the same chain in any tile: fused multiply-adds over kFoldInputs inputs in
// ascending order, starting at zero, then one addition to the total, which limits rounding for wide inputs. Blocks are
// persistent: the first panels of the next tile are in flight while the last ones of this tile are multiplied and
// stored, which matters with few inputs.
#ifndef VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_TILES_CUH_
#define VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_TILES_CUH_

#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/async_copy.cuh"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/overlap.cuh"
#include "engine/cuda/common/pack.cuh"
#include "engine/cuda/dense/packed_weights.h"

namespace vicinal::cuda {

// The factors of a dense product.
struct DenseSource {
  ConstMatrixView rows;  // [R, F]
  const float* weight;   // [F, weight_stride], packed (dense/packed_weights.h)
  int64_t weight_stride;
  int64_t in_width;  // F
};

// Whether the epilogue has row factors or a residual.
enum class FactorsAndResidual : bool { kSome, kNone };

struct DenseEpilogue {
  MatrixView dst;  // [R, H]
  Epilogue epilogue;
  Access dst_access;     // packs of 4 columns of dst and of the residual
  bool rare_activation;  // an activation other than none and ReLU
  FactorsAndResidual terms;

  __host__ __device__ bool light() const { return terms != FactorsAndResidual::kSome; }
};

// The argument of the kernels of register_tiles. Trivially copyable.
struct DenseParams {
  DenseSource source;
  DenseEpilogue out;
};

// Applies any epilogue to kVec adjacent columns of a row and stores them. Not inlined: it would be inlined 16 times,
// and exponentials are long code.
template <int kVec>
__device__ __noinline__ void StoreWithEpilogue(const DenseParams* params, int64_t row, int64_t col, Pack<kVec> x) {
  if (row >= params->out.dst.rows) return;
  x = WithEpilogue<kVec>(params->out.epilogue, row, col, params->out.dst.cols - 1, x);
  float* dst = params->out.dst.data + row * params->out.dst.stride + col;
#pragma unroll
  for (int v = 0; v < kVec; ++v) {
    if (col + v < params->out.dst.cols) dst[v] = x.v[v];
  }
}

// Inputs of a row that a thread reads at once.
inline constexpr int kRowStep = 4;

// A thread computes kThreadRows x kThreadCols elements. A warp has kRowLanes lanes down and the others across. A block
// has kWarps warps, stacked vertically. kBlocks: wanted resident blocks per multiprocessor. kDepth: inputs per panel.
// Deep panels read whole cache lines of src and wait less often, but waste more of the last panel.
template <int kThreadRows_, int kThreadCols_, int kRowLanes_, int kWarps, int kBlocks_, int kDepth_>
struct DenseTile {
  static constexpr int kThreadRows = kThreadRows_, kThreadCols = kThreadCols_, kBlocks = kBlocks_;
  static constexpr int kRowLanes = kRowLanes_, kColLanes = 32 / kRowLanes;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kWarpRows = kRowLanes * kThreadRows;
  static constexpr int kRows = kWarpRows * kWarps, kCols = kColLanes * kThreadCols;
  static constexpr int kDepth = kDepth_;
  static constexpr int kStages = 3;  // panels in shared memory
  static constexpr int kPitch = kDepth + 4;
  // Rows that a thread stores at once, with whole packs of 4 columns and without: as many as registers allow. More
  // would slow down the multiplications, which get the remaining registers.
  static constexpr int kWholeRows = 4, kOddRows = kThreads * kBlocks > 512 ? 1 : 4;
  static_assert(kThreadCols % 4 == 0 && kFoldInputs % kDepth == 0);

  // The position of a lane. A warp's 16-byte load from shared memory takes half as long if adjacent lanes, or all lanes
  // 2 apart, read the same address. The loads of rows have the former property, those of columns the latter.
  __device__ static int RowLane(int lane) { return lane / 2 % 2 + lane / (2 * kColLanes) * 2; }
  __device__ static int ColLane(int lane) { return lane % 2 + lane / 4 % (kColLanes / 2) * 2; }

  struct Panel {
    float rows[kRows][kPitch];
    float cols[kDepth][kCols];
  };
  static constexpr int kShared = kStages * static_cast<int>(sizeof(Panel));
};

// This thread's share of the copies that fill a panel.
template <class T, int kVec>
class PanelCopies {
 public:
  __device__ explicit PanelCopies(const DenseParams& params) : params_(params) {}

  __device__ void MoveTo(int64_t row0, int64_t col0) {
    row_from_ = params_.source.rows.data + (row0 + Row()) * params_.source.rows.stride + RowInput();
    rows_ = static_cast<int>(min(params_.out.dst.rows - row0 - Row(), int64_t{T::kRows}));
    col_from_ = params_.source.weight + ColInput() * params_.source.weight_stride + col0 + Col();
    inside_cols_ = col0 + Col() < params_.source.weight_stride;
  }

  // Copies inputs [k0, k0 + kDepth) of the tile's rows and of the weights' columns. Elements outside are zeros.
  __device__ void Start(int k0, typename T::Panel* panel) const {
    const int in_width = static_cast<int>(params_.source.in_width);
    const int left = min(in_width - k0 - RowInput(), kVec);
#pragma unroll
    for (int i = 0; i < T::kRows; i += kRowsAtOnce) {
      const bool inside = i < rows_ && left > 0;
      const float* from = inside ? row_from_ + k0 + i * params_.source.rows.stride : params_.source.rows.data;
      CopyAsync<kVec * 4>(&panel->rows[i + Row()][RowInput()], from, inside ? left * 4 : 0);
    }
#pragma unroll
    for (int i = 0; i < T::kDepth; i += kInputsAtOnce) {
      if (i + ColInput() >= T::kDepth) break;
      const float* from = inside_cols_ ? col_from_ + (k0 + i) * params_.source.weight_stride : params_.source.weight;
      CopyAsync<16>(&panel->cols[i + ColInput()][Col()], from, inside_cols_ ? 16 : 0);
    }
  }

 private:
  static constexpr int kRowCopies = T::kDepth / kVec, kColCopies = T::kCols / 4;
  static constexpr int kRowsAtOnce = T::kThreads / kRowCopies, kInputsAtOnce = T::kThreads / kColCopies;
  static_assert(T::kRows % kRowsAtOnce == 0);

  __device__ static int Row() { return static_cast<int>(threadIdx.x) / kRowCopies; }
  __device__ static int RowInput() { return static_cast<int>(threadIdx.x) % kRowCopies * kVec; }
  __device__ static int ColInput() { return static_cast<int>(threadIdx.x) / kColCopies; }
  __device__ static int Col() { return static_cast<int>(threadIdx.x) % kColCopies * 4; }

  const DenseParams& params_;
  const float* row_from_;
  int rows_;  // remaining rows from this thread's first on
  const float* col_from_;
  bool inside_cols_;
};

// Adds a panel's products. This thread's rows are kRowLanes apart, its packs of 4 columns 4 * kColLanes.
template <class T>
__device__ inline void MultiplyPanel(const typename T::Panel& panel, int my_row, int my_col,
                                     float (&sum)[T::kThreadRows][T::kThreadCols]) {
#pragma unroll
  for (int k = 0; k < T::kDepth; k += kRowStep) {
    Pack<kRowStep> a[T::kThreadRows];
#pragma unroll
    for (int i = 0; i < T::kThreadRows; ++i) a[i] = LoadShared<kRowStep>(&panel.rows[my_row + i * T::kRowLanes][k]);
#pragma unroll
    for (int s = 0; s < kRowStep; ++s) {
      Pack<4> b[T::kThreadCols / 4];
#pragma unroll
      for (int j = 0; j < T::kThreadCols / 4; ++j) {
        b[j] = LoadShared<4>(&panel.cols[k + s][my_col + j * 4 * T::kColLanes]);
      }
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < T::kThreadCols; ++j) sum[i][j] = fmaf(a[i].v[s], b[j / 4].v[j % 4], sum[i][j]);
      }
    }
  }
}

// Prefetches the residuals of this thread's elements of the tile at (row0, col0) into the L2, before the tile is
// multiplied.
template <class T>
__device__ inline void PrefetchResiduals(const DenseParams& params, int64_t row0, int64_t col0) {
  const ConstMatrixView& residual = params.out.epilogue.residual;
  if (residual.data == nullptr) return;
#pragma unroll 1
  for (int64_t row = row0; row < min(row0 + T::kThreadRows * T::kRowLanes, params.out.dst.rows); row += T::kRowLanes) {
#pragma unroll
    for (int j = 0; j < T::kThreadCols; j += 4) {
      const int64_t col = col0 + j * T::kColLanes;
      if (col < params.out.dst.cols) Prefetch(residual.data + row * residual.stride + col);
    }
  }
}

// Applies the epilogue to columns [j, j + 4) of kRows rows of the thread's sums, from row i on, and stores them. The
// first is stored at (row0, col). All loads precede the first store. kWhole: all 4 columns exist and are aligned.
template <class T, bool kWhole, int kRows>
__device__ inline void StorePacks(const DenseParams& params, int64_t row0, int64_t col,
                                  const float (&total)[T::kThreadRows][T::kThreadCols], int i, int j) {
  const Epilogue& epilogue = params.out.epilogue;
  const int cols = kWhole ? 4 : static_cast<int>(min(params.out.dst.cols - col, int64_t{4}));
  Pack<4> bias = Pack<4>::Filled(kAddIdentity);
  if (epilogue.bias != nullptr) {
#pragma unroll
    for (int v = 0; v < 4; ++v) bias.v[v] = __ldg(epilogue.bias + col + min(v, cols - 1));
  }
  float factor[kRows];
  Pack<4> residual[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (params.out.light()) break;
    const int64_t row = min(row0 + r * T::kRowLanes, params.out.dst.rows - 1);
    factor[r] = FactorOf(epilogue, row);
    if (epilogue.residual.data == nullptr) continue;
    const float* from = epilogue.residual.data + row * epilogue.residual.stride + col;
    // Loads and stores of 16 bytes are explicit, as the compiler would split four floats.
    if constexpr (kWhole) {
      residual[r] = LoadCoherent<4>(from);
    } else {
#pragma unroll
      for (int v = 0; v < 4; ++v) residual[r].v[v] = __ldcg(from + min(v, cols - 1));
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = row0 + r * T::kRowLanes;
    if (row >= params.out.dst.rows) break;
    Pack<4> x;
    if (params.out.light()) {
#pragma unroll
      for (int v = 0; v < 4; ++v) x.v[v] = __fadd_rn(total[i + r][j + v], bias.v[v]);
    } else {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        x.v[v] = WithTerms(epilogue, {factor[r], bias.v[v], residual[r].v[v]}, total[i + r][j + v]);
      }
    }
    if (epilogue.activation.kind == ActivationKind::kRelu) {
#pragma unroll
      for (int v = 0; v < 4; ++v) x.v[v] = Rectified(x.v[v]);
    }
    float* dst = params.out.dst.data + row * params.out.dst.stride + col;
    if constexpr (kWhole) {
      __stwb(reinterpret_cast<float4*>(dst), make_float4(x.v[0], x.v[1], x.v[2], x.v[3]));
    } else {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        if (v < cols) dst[v] = x.v[v];
      }
    }
  }
}

// Applies the epilogue to this thread's elements of the tile at (row0, col0) and stores them.
template <class T>
__device__ inline void StoreTile(const DenseParams& params, int64_t row0, int64_t col0,
                                 const float (&total)[T::kThreadRows][T::kThreadCols]) {
  if (row0 >= params.out.dst.rows) return;
#pragma unroll
  for (int j = 0; j < T::kThreadCols; j += 4) {
    const int64_t col = col0 + j * T::kColLanes;
    if (col >= params.out.dst.cols) return;
    if (params.out.rare_activation) {
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) {
        StoreWithEpilogue<4>(&params, row0 + i * T::kRowLanes, col,
                             {total[i][j], total[i][j + 1], total[i][j + 2], total[i][j + 3]});
      }
    } else if (params.out.dst_access != Access::kElements && col + 4 <= params.out.dst.cols) {
#pragma unroll
      for (int i = 0; i < T::kThreadRows; i += T::kWholeRows) {
        StorePacks<T, true, T::kWholeRows>(params, row0 + i * T::kRowLanes, col, total, i, j);
      }
    } else {
#pragma unroll
      for (int i = 0; i < T::kThreadRows; i += T::kOddRows) {
        StorePacks<T, false, T::kOddRows>(params, row0 + i * T::kRowLanes, col, total, i, j);
      }
    }
  }
}

template <class T, int kVec>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    DenseProductTiles(const __grid_constant__ DenseParams params) {
  TriggerNextLaunch();
  extern __shared__ __align__(16) float shared[];
  typename T::Panel* const stages = reinterpret_cast<typename T::Panel*>(shared);
  // Adjacent tiles run at the same time, as they read the same rows.
  const unsigned across = static_cast<unsigned>((params.out.dst.cols + T::kCols - 1) / T::kCols);
  const unsigned tiles = static_cast<unsigned>((params.out.dst.rows + T::kRows - 1) / T::kRows) * across;
  const auto row_of = [across](unsigned tile) { return int64_t{tile / across} * T::kRows; };
  const auto col_of = [across](unsigned tile) { return int64_t{tile % across} * T::kCols; };
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int my_row = warp * T::kWarpRows + T::RowLane(lane), my_col = T::ColLane(lane) * 4;
  const int panels = static_cast<int>((params.source.in_width + T::kDepth - 1) / T::kDepth);

  PanelCopies<T, kVec> copies(params);
  unsigned ahead_tile = blockIdx.x;
  int ahead_panel = 0;
  copies.MoveTo(row_of(ahead_tile), col_of(ahead_tile));
  const auto start_next = [&](int stage) {
    if (ahead_tile < tiles) {
      copies.Start(ahead_panel * T::kDepth, &stages[stage]);
      if (++ahead_panel == panels) {
        ahead_panel = 0;
        ahead_tile += gridDim.x;
        copies.MoveTo(row_of(ahead_tile), col_of(ahead_tile));
      }
    }
    CommitCopies();
  };
#pragma unroll
  for (int stage = 0; stage < T::kStages - 1; ++stage) start_next(stage);

  int now = 0, next = T::kStages - 1;
  for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    float total[T::kThreadRows][T::kThreadCols] = {}, sum[T::kThreadRows][T::kThreadCols] = {};
    PrefetchResiduals<T>(params, row_of(tile) + my_row, col_of(tile) + my_col);
    for (int panel = 0; panel < panels; ++panel) {
      AwaitCopies<T::kStages - 2>();
      // All copies of this panel have arrived, and no thread still reads the one that is overwritten next.
      __syncthreads();
      start_next(next);
      MultiplyPanel<T>(stages[now], my_row, my_col, sum);
      now = now + 1 == T::kStages ? 0 : now + 1;
      next = next + 1 == T::kStages ? 0 : next + 1;
      constexpr int kPanels = kFoldInputs / T::kDepth;
      if (panel % kPanels != kPanels - 1 && panel != panels - 1) continue;
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < T::kThreadCols; ++j) {
          total[i][j] += sum[i][j];
          sum[i][j] = 0.0f;
        }
      }
    }
    StoreTile<T>(params, row_of(tile) + my_row, col_of(tile) + my_col, total);
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_TILES_CUH_
