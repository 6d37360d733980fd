// SPDX-License-Identifier: Apache-2.0
// partition_dual: aggregation after PCGCN (Tian et al., IPDPS'20). A partition cuts the adjacency into K x K edge
// blocks. For a block with many edges, all its pairs of nodes are computed (full mode); otherwise only its edges
// (selective mode).
//
// Unlike the published one, full mode runs on tensor cores, and is still exact. A block is a mask of 0 and 1, exact in
// bfloat16. A float32 feature is the sum of three bfloat16 terms (8 + 8 + 8 bits of its significand, truncated and not
// rounded, so that no term is larger than the feature). Products of the two are exact. Only the accumulator truncates:
// it is added to float32 registers after every tile of 64 columns, and within a tile the small terms come first.
// A thread block takes a strip of 128 rows and up to 64 columns of the features, and processes the strip's dense tiles
// with three stages of features in flight. A tile's mask has one 64-bit word per row, which lanes expand into fragments
// in registers. Weights of edges are in the order of the mask's bits; each lane loads those of its fragments, and
// splits them into three terms, too: nine products per pair, all exact, the smallest ones first. Selective mode is
// neighbor_group over the edges outside dense blocks or, for comparison, the published kernel
// (detail/selective_rows.cu); it also finishes the rows.
//
// 0 x infinity is not 0: if any feature is not finite, the dense tiles are summed edge by edge from their masks
// instead; with weights also if any feature is too small for its three terms. Deterministic. Supports sums and means.
// Order of evaluation: tile by tile, then the remaining edges. Traffic per dense tile: 24 KiB of features and 1 KiB of
// mask at 64 columns, whatever its edges, and with weights 4 bytes per edge and 264 per tile. In addition, the split
// features (6 bytes per element, written once) and the sums of full mode (8 bytes per element, written and read).
#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/async_copy.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/mask_pair.cuh"
#include "engine/cuda/published/neighbor_group/neighbor_group.h"
#include "engine/cuda/published/partition_dual/detail/selective_rows.h"
#include "engine/cuda/published/partition_dual/partition_dual.h"

namespace vicinal::cuda {
namespace {

constexpr int kTerms = 3, kStages = 3;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
static_assert(kTileRows == 16 * kWarps && kTileCols == 64);

struct Params {
  EdgeBlocks blocks;
  ConstMatrixView src;
  const float* src_scale;
  uint16_t* terms;  // [kTerms, S, stride]: bfloat16
  float* sums;      // [R, stride]
  int64_t stride;
  int* unfit;  // 1 if any feature is not finite or, with weights, not the sum of its terms
};

__device__ inline uint32_t UpperHalf(float x) { return __float_as_uint(x) >> 16; }
__device__ inline float CutOff(float x) { return __uint_as_float(__float_as_uint(x) & 0xffff0000u); }

__device__ inline float SourceValue(const Params& params, int64_t row, int64_t col) {
  const float x = __ldg(params.src.data + row * params.src.stride + col);
  return params.src_scale != nullptr ? __ldg(params.src_scale + row) * x : x;
}

// Splits the features into their terms. One thread per two columns.
__global__ void __launch_bounds__(kThreads) SplitSource(const __grid_constant__ Params params) {
  const int64_t pair = int64_t{blockIdx.x} * kThreads + threadIdx.x, per_row = params.stride / 2;
  const int64_t row = pair / per_row, col = 2 * (pair % per_row);
  if (row >= params.src.rows) return;
  uint32_t words[kTerms] = {};
  bool fit = true;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float x = col + i < params.src.cols ? SourceValue(params, row, col + i) : 0.0f;
    fit = fit && isfinite(x);
#pragma unroll
    for (int term = 0; term < kTerms; ++term) {
      words[term] |= UpperHalf(x) << (16 * i);
      x -= CutOff(x);
    }
    // What is left is below any sum's last bit, unless a large weight multiplies it.
    if (params.blocks.values != nullptr) fit = fit && x == 0.0f;
  }
  if (!fit) *params.unfit = 1;
#pragma unroll
  for (int term = 0; term < kTerms; ++term) {
    uint16_t* out = params.terms + (term * params.src.rows + row) * params.stride + col;
    *reinterpret_cast<uint32_t*>(out) = words[term];
  }
}

// Loads four 8 x 8 matrices of 16-bit numbers, transposed: two fragments of B.
__device__ inline void LoadTransposed(const uint16_t* shared, uint32_t (&b)[4]) {
  const uint32_t from = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(from)
               : "memory");
}

__device__ inline void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Expands the masks of rows g and g + 8 into this lane's part of the 16 x 16 fragment A, for columns [16 * step, 16 *
// step + 16).
__device__ inline void ExpandMask(uint64_t upper, uint64_t lower, int step, uint32_t (&a)[4]) {
  const int shift = 16 * step + 2 * (threadIdx.x % 4);
  a[0] = PairOfBits(static_cast<uint32_t>(upper >> shift));
  a[1] = PairOfBits(static_cast<uint32_t>(lower >> shift));
  a[2] = PairOfBits(static_cast<uint32_t>(upper >> (shift + 8)));
  a[3] = PairOfBits(static_cast<uint32_t>(lower >> (shift + 8)));
}

// One stage of features: kGroups groups of 8 columns.
template <int kGroups>
struct Stage {
  static constexpr int kColumns = 8 * kGroups;
  static constexpr int kPadded = kColumns + 8;  // 16 bytes more, so that eight rows use different banks
  uint16_t term[kTerms][kTileCols][kPadded];

  __device__ void Load(const Params& params, int64_t source, int64_t column) {
    constexpr int kPieces = kTerms * kTileCols * kGroups;
#pragma unroll
    for (int piece = threadIdx.x; piece < kPieces; piece += kThreads) {
      const int group = piece % kGroups, row = piece / kGroups % kTileCols, t = piece / kGroups / kTileCols;
      const bool inside = source + row < params.src.rows;
      const int64_t at = (t * params.src.rows + (inside ? source + row : 0)) * params.stride + column + 8 * group;
      CopyAsync<16>(&term[t][row][8 * group], params.terms + at, inside ? 16 : 0);
    }
  }
};

constexpr int kSteps = kTileCols / 16;

// This lane's part of the fragments A of a tile, for the 16 rows of its warp: a mask of 0 and 1.
struct MaskFragments {
  static constexpr int kTerms = 1;
  uint32_t a[kTerms][kSteps][4];

  __device__ void Expand(const Params&, int64_t, int, uint64_t upper, uint64_t lower) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) ExpandMask(upper, lower, step, a[0][step]);
  }
};

// The same with weights, as three terms.
struct ValueFragments {
  static constexpr int kTerms = 3;
  uint32_t a[kTerms][kSteps][4];

  __device__ void Expand(const Params& params, int64_t tile, int row, uint64_t upper, uint64_t lower) {
    const float* values = params.blocks.values + __ldg(params.blocks.first_value + tile);
    const uint16_t* offsets = params.blocks.row_offsets + tile * kTileRows + row;
    ExpandRow(values + __ldg(offsets), upper, 0);
    ExpandRow(values + __ldg(offsets + 8), lower, 1);
  }

 private:
  // Words `half` and `half` + 2 of each step.
  __device__ void ExpandRow(const float* values, uint64_t mask, int half) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int right = 0; right < 2; ++right) {
        const int bit = 16 * step + 8 * right + 2 * (threadIdx.x % 4);
        float x = ValueAt(values, mask, bit), y = ValueAt(values, mask, bit + 1);
#pragma unroll
        for (int term = 0; term < kTerms; ++term) {
          a[term][step][half + 2 * right] = UpperHalf(x) | (__float_as_uint(y) & 0xffff0000u);
          x -= CutOff(x), y -= CutOff(y);
        }
      }
    }
  }
  // The weight of a row's edge from column `bit` of the tile; 0 without an edge.
  __device__ static float ValueAt(const float* values, uint64_t mask, int bit) {
    if ((mask >> bit & 1) == 0) return 0.0f;
    return __ldg(values + __popcll(mask & ((uint64_t{1} << bit) - 1)));
  }
};

// Multiplies a term of the features with terms [kFirst, kLast] of A, in descending order.
template <int kFirst, int kLast, int kGroups, class Fragments>
__device__ inline void AddTerm(const Stage<kGroups>& stage, int term, const Fragments& fragments,
                               float (&sum)[kGroups][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int group = 0; group < kGroups; group += 2) {
      uint32_t b[4];
      LoadTransposed(&stage.term[term][16 * step + lane % 16][8 * group + lane / 16 * 8], b);
#pragma unroll
      for (int t = kLast; t >= kFirst; --t) {
        MultiplyAdd(sum[group], fragments.a[t][step], b[0], b[1]);
        MultiplyAdd(sum[group + 1], fragments.a[t][step], b[2], b[3]);
      }
    }
  }
}

// Adds a tile's products to `total`. The largest products, those of the first terms of both, come last: the accumulator
// truncates.
template <int kGroups, class Fragments>
__device__ inline void AddTile(const Stage<kGroups>& stage, const Fragments& fragments, float (&total)[kGroups][4]) {
  float sum[kGroups][4] = {};
  AddTerm<0, Fragments::kTerms - 1>(stage, 2, fragments, sum);
  AddTerm<0, Fragments::kTerms - 1>(stage, 1, fragments, sum);
  if constexpr (Fragments::kTerms == 3) {
    AddTerm<2, 2>(stage, 0, fragments, sum);
    AddTerm<1, 1>(stage, 0, fragments, sum);
  }
  AddTerm<0, 0>(stage, 0, fragments, sum);
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) total[group][i] += sum[group][i];
  }
}

// Sums the same edges one by one, for features that are not all finite. A warp per row.
__device__ void AddEdges(const Params& params, const RowStrip& strip, int64_t column, int columns) {
  const int lane = threadIdx.x % 32;
  for (int row = threadIdx.x / 32; row < strip.rows; row += kWarps) {
    for (int c = lane; c < columns; c += 32) {
      float total = 0.0f;
      for (int64_t tile = strip.first_tile; tile < strip.first_tile + strip.tiles; ++tile) {
        uint64_t mask = params.blocks.masks[tile * kTileRows + row];
        const int32_t first = params.blocks.tile_column[tile];
        const float* value = params.blocks.values == nullptr ? nullptr
                                                             : params.blocks.values + params.blocks.first_value[tile] +
                                                                   params.blocks.row_offsets[tile * kTileRows + row];
        float sum = 0.0f;
        for (; mask != 0; mask &= mask - 1) {
          const float weight = value == nullptr ? 1.0f : *value++;
          if (column + c >= params.src.cols) continue;
          sum = fmaf(weight, SourceValue(params, first + __ffsll(mask) - 1, column + c), sum);
        }
        total += sum;
      }
      params.sums[(strip.row + row) * params.stride + column + c] = total;
    }
  }
}

template <int kGroups, class Fragments>
__device__ inline void SumStrip(const Params& params) {
  extern __shared__ uint4 shared[];
  Stage<kGroups>* stages = reinterpret_cast<Stage<kGroups>*>(shared);
  const RowStrip strip = params.blocks.strips[blockIdx.x];
  const int64_t column = int64_t{blockIdx.y} * Stage<kGroups>::kColumns;
  if (*params.unfit != 0) {
    AddEdges(params, strip, column, Stage<kGroups>::kColumns);
    return;
  }
  const int32_t* tile_column = params.blocks.tile_column + strip.first_tile;
  const int lane = threadIdx.x % 32, upper_row = threadIdx.x / 32 * 16 + lane / 4;
  const uint64_t* masks = params.blocks.masks + strip.first_tile * kTileRows + upper_row;
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < strip.tiles) stages[s].Load(params, __ldg(tile_column + s), column);
    CommitCopies();
  }
  float total[kGroups][4] = {};
  uint64_t upper = __ldg(masks), lower = __ldg(masks + 8);
  for (int tile = 0; tile < strip.tiles; ++tile) {
    AwaitCopies<kStages - 2>();
    __syncthreads();
    const int ahead = tile + kStages - 1;
    if (ahead < strip.tiles) stages[ahead % kStages].Load(params, __ldg(tile_column + ahead), column);
    CommitCopies();
    const uint64_t this_upper = upper, this_lower = lower;
    if (tile + 1 < strip.tiles) {
      masks += kTileRows;
      upper = __ldg(masks);
      lower = __ldg(masks + 8);
    }
    Fragments fragments;
    fragments.Expand(params, strip.first_tile + tile, upper_row, this_upper, this_lower);
    AddTile(stages[tile % kStages], fragments, total);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = upper_row + 8 * half;
    if (row >= strip.rows) continue;
    float* out = params.sums + (strip.row + row) * params.stride + column + 2 * (lane % 4);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      *reinterpret_cast<float2*>(out + 8 * group) = make_float2(total[group][2 * half], total[group][2 * half + 1]);
    }
  }
}

template <int kGroups, class Fragments>
__global__ void __launch_bounds__(kThreads, 2) FullMode(const __grid_constant__ Params params) {
  if constexpr (kCompiledFor >= kAsyncCopies) SumStrip<kGroups, Fragments>(params);
}

// Columns of the features per thread block. Rows of scratch are padded to a multiple of it.
int ColumnsFor(int64_t width) { return width <= 16 ? 16 : width <= 32 ? 32 : 64; }
int64_t StrideFor(int64_t width) { return RoundUp(width, ColumnsFor(width)); }

template <int kGroups, class Fragments>
cudaError_t LaunchFullMode(const Params& params, const LaunchTarget& target) {
  constexpr size_t kShared = kStages * sizeof(Stage<kGroups>);
  const cudaError_t error = AllowShared(FullMode<kGroups, Fragments>, kShared, target.limits);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(params.blocks.num_strips),
                  static_cast<unsigned>(params.stride / (8 * kGroups)));
  FullMode<kGroups, Fragments><<<grid, kThreads, kShared, target.stream>>>(params);
  return cudaGetLastError();
}

template <class Fragments>
cudaError_t LaunchFullMode(const Params& params, int columns, const LaunchTarget& target) {
  if (columns == 16) return LaunchFullMode<2, Fragments>(params, target);
  if (columns == 32) return LaunchFullMode<4, Fragments>(params, target);
  return LaunchFullMode<8, Fragments>(params, target);
}

// Scratch: the flag, the sums, the terms, the partial sums of the remaining edges. Each part is aligned to 64 bytes.
struct Scratch {
  size_t sums, terms, partials;

  explicit Scratch(const AggregateProblem& problem) {
    const auto aligned = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
    const size_t stride = static_cast<size_t>(StrideFor(problem.width));
    sums = 64;
    terms = sums + aligned(static_cast<size_t>(problem.rows) * stride * sizeof(float));
    partials = terms + aligned(kTerms * static_cast<size_t>(problem.cols) * stride * sizeof(uint16_t));
  }
};

cudaError_t RunFullMode(const Params& params, int64_t width, const LaunchTarget& target) {
  const int64_t pairs = params.src.rows * params.stride / 2;
  SplitSource<<<static_cast<unsigned>((pairs + kThreads - 1) / kThreads), kThreads, 0, target.stream>>>(params);
  if (params.blocks.values != nullptr) return LaunchFullMode<ValueFragments>(params, ColumnsFor(width), target);
  return LaunchFullMode<MaskFragments>(params, ColumnsFor(width), target);
}

}  // namespace

size_t PartitionDualScratch(const AggregateProblem& problem, const NeighborGroupConfig& rest) {
  return Scratch(problem).partials + NeighborGroupScratch(problem, rest);
}

cudaError_t LaunchPartitionDual(const AggregateArgs& args, const NeighborGroupConfig& rest, const EdgeBlocks& blocks,
                                const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const Scratch places(args.problem);
  char* const bytes = static_cast<char*>(scratch);
  CarriedSums carried;
  carried.degree_ptr = args.adjacency.row_ptr;
  if (blocks.num_strips > 0) {
    Params params;
    params.blocks = blocks;
    params.src = args.src;
    params.src_scale = args.src_scale;
    params.terms = reinterpret_cast<uint16_t*>(bytes + places.terms);
    params.sums = reinterpret_cast<float*>(bytes + places.sums);
    params.stride = StrideFor(args.dst.cols);
    params.unfit = reinterpret_cast<int*>(bytes);
    cudaError_t error = cudaMemsetAsync(bytes, 0, places.terms, target.stream);
    if (error == cudaSuccess) error = RunFullMode(params, args.dst.cols, target);
    if (error != cudaSuccess) return error;
    carried.data = params.sums;
    carried.stride = params.stride;
  }
  AggregateArgs others = args;
  others.adjacency.row_ptr = blocks.rest_row_ptr;
  others.adjacency.col = blocks.rest_col;
  others.adjacency.value = blocks.rest_value;
  others.adjacency.nnz = blocks.rest_edges;
  if (!blocks.grouped) return LaunchSelectiveRows(others, carried, target);
  return LaunchNeighborGroup(others, rest, blocks.rest, carried, target, bytes + places.partials);
}

}  // namespace vicinal::cuda
