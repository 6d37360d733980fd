// SPDX-License-Identifier: Apache-2.0
// source_panels: aggregation that keeps sources shared by a block of rows in shared memory.
//
// Idea. On graphs with many edges per row, a float32 sum is bound by the L2's bandwidth: one source row per edge. So
// sources that the rows of a thread block read several times are copied to shared memory once, a panel of sources at a
// time, and read there. FeatGraph does this for the graph's sources of high degree (Hu et al., SC'20, section III-C;
// staged_rows.cu). Here they are the sources that this block shares, whatever their degree, so communities and dense
// blocks gain too, with any weights and for maxima. All warps of a block work on the same panel while the next one is
// copied. A warp has kSlots rows, whose sums stay in registers through all panels. Sources that a block reads only a
// few times are gathered from memory. A lane reads 16 bytes; the groups of lanes of a warp read different edges of a
// row.
//
// Traffic per tile of columns: 4 * columns bytes from the L2 for each staged source of a block and each direct edge; as
// many bytes from shared memory for each staged edge; and 2 bytes per edge (6 with weights) of stream, plus its
// padding. The bound is shared memory, at 128 bytes per cycle: 85 % of it measured on an H200 (R-MAT graph with 1,000
// edges per row, width 64, unweighted). Faster than other kernels if communities have adjacent ids and there are
// weights or maxima, which dense_tiles does not support.
// Order of evaluation: edges of a cell one by one within each group, cells by panel, then the groups, then the pieces
// of a block in order. The bits are equal in every run.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_DETAIL_SOURCE_PANELS_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_DETAIL_SOURCE_PANELS_CUH_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "engine/cuda/aggregate/rows/row_load.cuh"
#include "engine/cuda/aggregate/source_panels/source_panels.h"
#include "engine/cuda/common/async_copy.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/larger.cuh"

namespace vicinal::cuda::panels {

inline constexpr int kMaxWarps = 32;
inline constexpr int kVec = 4;  // elements of a source per lane
// Bytes of a panel in a block of kMaxWarps warps; smaller blocks have proportionally smaller panels. Stream entries are
// byte offsets below this.
inline constexpr int kPanelBytes = 1 << 16;
inline constexpr float kInfinity = INFINITY;

struct PanelParams {
  const int32_t* source;
  const uint16_t* cell;
  const uint16_t* stream;
  const float* weight;
  const PanelPiece* pieces;
  const int64_t* begin;
  const int32_t* row;
  int places;  // per panel
  const char* src;
  int64_t src_stride_bytes;
  int columns;
  float* sums;  // [pieces, rows of a block, stride]
  int64_t stride;
  float sign;  // factor of messages: -1 for minima, computed as maxima of negated messages
};

enum class Reduction { kSum, kWeightedSum, kMax };

// kGroups groups of lanes, each of which covers a tile of columns. 16-bit rows leave half of a place unused.
template <class Element_, int kGroups_, Reduction kReduction_>
struct Panel {
  using Element = Element_;
  using Load = RowLoad<Element_, kVec>;
  using Raw = typename Load::Raw;
  static constexpr Reduction kReduction = kReduction_;
  static constexpr int kGroups = kGroups_, kTile = kWarpLanes / kGroups * kVec;
  static constexpr int kRowBytes = kTile * static_cast<int>(sizeof(Element));
  static constexpr int kPitch = kTile * static_cast<int>(sizeof(float));
  // Maxima always have weights, which default to 1.
  static constexpr bool kWeighted = kReduction != Reduction::kSum;

  __device__ static float Identity() { return kReduction == Reduction::kMax ? -kInfinity : 0.0f; }
  __device__ static float Combined(float a, float b) { return kReduction == Reduction::kMax ? LargerOf(a, b) : a + b; }
  __device__ static float With(float so_far, float weight, float value) {
    if constexpr (kReduction == Reduction::kMax) return LargerOf(so_far, weight * value);
    return kReduction == Reduction::kWeightedSum ? fmaf(weight, value, so_far) : so_far + value;
  }
};

// The stream is read once and in order, so the load asks the L2 to prefetch 256 bytes: weighted sums on the proteins
// graph took 2.0 ms without and 1.75 ms with it (H200). Explicit prefetches in addition cost 4 %.
__device__ inline uint2 LoadStream(const uint2* p) {
  if constexpr (kCompiledFor < kAsyncCopies) {
    return __ldg(p);
  } else {
    uint2 x;
    asm volatile("ld.global.nc.L2::256B.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(p));
    return x;
  }
}
__device__ inline float4 LoadStream(const float4* p) {
  if constexpr (kCompiledFor < kAsyncCopies) {
    return __ldg(p);
  } else {
    float4 x;
    asm volatile("ld.global.nc.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "l"(p));
    return x;
  }
}

// A group's part of its warp's stream. It loads the next step while the current one is processed.
template <class P>
class Stream {
 public:
  __device__ Stream(const PanelParams& params, int64_t begin, int group)
      : entries_(reinterpret_cast<const uint2*>(params.stream + begin) + group),
        weights_(params.weight == nullptr ? nullptr : reinterpret_cast<const float4*>(params.weight + begin) + group),
        sign_(params.sign) {
    ReadAhead();
  }
  // Returns the group's entries of the next step, and their weights times the sign of messages.
  __device__ uint2 Take(float4* weights) {
    const uint2 four = ahead_;
    *weights = ahead_weights_;
    if constexpr (P::kReduction == Reduction::kMax) {
      weights->x *= sign_, weights->y *= sign_, weights->z *= sign_, weights->w *= sign_;
    }
    ReadAhead();
    return four;
  }

 private:
  __device__ void ReadAhead() {
    ahead_ = LoadStream(entries_);
    entries_ += P::kGroups;
    if constexpr (P::kWeighted) {
      if (P::kReduction == Reduction::kWeightedSum || weights_ != nullptr) {
        ahead_weights_ = LoadStream(weights_);
        weights_ += P::kGroups;
      }
    }
  }

  const uint2* entries_;
  const float4* weights_;
  const float sign_;
  uint2 ahead_;
  float4 ahead_weights_ = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
};

// Entry i of the four, plus `base`.
__device__ inline uint32_t EntryAt(const uint2& four, int i, uint32_t base) {
  return __dp2a_lo(i < 2 ? four.x : four.y, i % 2 == 0 ? 0x1u : 0x100u, base);
}
__device__ inline float WeightAt(const float4& four, int i) {
  return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

__device__ inline void LoadShared(uint32_t address, float4* x) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x->x), "=f"(x->y), "=f"(x->z), "=f"(x->w)
               : "r"(address));
}
__device__ inline void LoadShared(uint32_t address, uint2* x) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x->x), "=r"(x->y) : "r"(address));
}

// The position of a lane in its warp and tile.
template <class P>
struct Place {
  int lane = threadIdx.x % (kWarpLanes / P::kGroups);  // within its group
  int group = threadIdx.x % kWarpLanes / (kWarpLanes / P::kGroups);
  int tile = static_cast<int>(blockIdx.y) * P::kTile;
  // The lane's part of row 0 of the sources. Lanes without columns read those of another lane.
  const char* direct;
  uint32_t stride_bytes;

  __device__ explicit Place(const PanelParams& params) : stride_bytes(static_cast<uint32_t>(params.src_stride_bytes)) {
    const int column = tile + lane * kVec;
    direct = params.src + (column < params.columns ? column : tile) * sizeof(typename P::Element);
  }
  __device__ typename P::Raw Direct(uint32_t source) const {
    return *reinterpret_cast<const typename P::Raw*>(direct + uint64_t{source} * stride_bytes);
  }
};

template <class P>
__device__ inline void Add(const typename P::Raw& raw, float weight, float (&sum)[kVec]) {
#pragma unroll
  for (int c = 0; c < kVec; ++c) sum[c] = P::With(sum[c], weight, P::Load::At(raw, c));
}

// Adds a cell's direct edges, two per group in flight.
template <class P>
__device__ inline void AddDirect(const Place<P>& place, int count, Stream<P>* stream, float (&sum)[kVec]) {
#pragma unroll 1
  for (count -= 2 * place.group; __any_sync(~0u, count > 0); count -= 2 * P::kGroups) {
    float4 weights;
    const uint2 two = stream->Take(&weights);
    typename P::Raw raw[2];
    if (count > 0) raw[0] = place.Direct(two.x);
    if (count > 1) raw[1] = place.Direct(two.y);
    if (count > 0) Add<P>(raw[0], weights.x, sum);
    if (count > 1) Add<P>(raw[1], weights.z, sum);
  }
}

// Adds the first kCount staged edges of each group in the next step. `stage`: address of the lane's part of place 0.
template <class P, int kCount>
__device__ inline void AddStaged(uint32_t stage, Stream<P>* stream, float (&sum)[kVec]) {
  float4 weights;
  const uint2 four = stream->Take(&weights);
#pragma unroll
  for (int first = 0; first < kCount; first += 2) {
    typename P::Raw raw[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) LoadShared(EntryAt(four, first + i, stage), &raw[i]);
#pragma unroll
    for (int i = 0; i < 2; ++i) Add<P>(raw[i], WeightAt(weights, first + i), sum);
  }
}

// Adds one panel's edges of all rows of the warp.
template <class P>
__device__ inline void AddPanel(const Place<P>& place, const uint16_t* cells, uint32_t stage, Stream<P>* stream,
                                float (&sum)[kSlots][kVec]) {
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    const int cell = cells[slot];
    if (cell == 0) continue;
    float part[kVec];
#pragma unroll
    for (int c = 0; c < kVec; ++c) part[c] = P::Identity();
    if (cell >= 256) AddDirect<P>(place, cell >> 8, stream, part);
#pragma unroll 1
    for (int left = cell >> 1 & 127; left > 0; --left) AddStaged<P, 4>(stage, stream, part);
    if (cell & 1) AddStaged<P, 2>(stage, stream, part);
#pragma unroll
    for (int c = 0; c < kVec; ++c) sum[slot][c] = P::Combined(sum[slot][c], part[c]);
  }
}

// The shared memory of a block. It holds two of each: panels, their source ids, their cells.
struct Shared {
  char* base;
  int places, pitch, warps;

  __device__ char* panel(int i) const { return base + (i & 1) * places * pitch; }
  __device__ int32_t* numbers(int i) const {
    return reinterpret_cast<int32_t*>(base + 2 * places * pitch) + (i & 1) * places;
  }
  __device__ uint16_t* cells(int i) const {
    return reinterpret_cast<uint16_t*>(base + 2 * places * (pitch + 4)) + (i & 1) * warps * kSlots;
  }
  static int Bytes(const PanelShape& shape) {
    return 2 * (shape.places * (shape.pitch() + 4) + shape.rows() * static_cast<int>(sizeof(uint16_t)));
  }
};

// Starts the copies of the sources in `numbers` into `panel`.
template <class P>
__device__ inline void FetchPanel(const PanelParams& params, const int32_t* numbers, char* panel) {
  constexpr int kUnits = P::kRowBytes / 16;
  const int64_t first = int64_t{blockIdx.y} * P::kRowBytes;
  const int64_t row_bytes = int64_t{params.columns} * static_cast<int>(sizeof(typename P::Element));
  const int unit = static_cast<int>(threadIdx.x) % kUnits;
  const int64_t left = row_bytes - first - unit * 16;
  if (left <= 0) return;
  const char* const src = params.src + first + unit * 16;
  const int valid = left < 16 ? static_cast<int>(left) : 16;
  for (int row = static_cast<int>(threadIdx.x) / kUnits; row < params.places;
       row += static_cast<int>(blockDim.x) / kUnits) {
    const int32_t source = numbers[row];
    if (source >= 0) CopyAsync<16>(panel + row * P::kPitch + unit * 16, src + source * params.src_stride_bytes, valid);
  }
}

// Starts the copy of a panel's source ids.
__device__ inline void FetchNumbers(const PanelParams& params, int64_t panel, int32_t* numbers) {
  const int first = static_cast<int>(threadIdx.x) * 4;
  if (first < params.places) CopyAsync<16>(numbers + first, params.source + panel * params.places + first, 16);
}

// Starts the copy of a panel's cells.
__device__ inline void FetchCells(const PanelParams& params, int64_t panel, const Shared& shared, uint16_t* cells) {
  const int first = static_cast<int>(threadIdx.x) * kSlots;
  const int64_t count = int64_t{shared.warps} * kSlots;
  if (first < count) CopyAsync<16>(cells + first, params.cell + panel * count + first, 16);
}

// Fills the last place of both panels with the identity of the reduction, before multiplication by the sign.
template <class P>
__device__ inline void FillLastPlaces(const PanelParams& params, const Shared& shared) {
  const float identity = P::kReduction == Reduction::kMax ? -kInfinity * params.sign : 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * P::kTile; i += static_cast<int>(blockDim.x)) {
    auto* const row =
        reinterpret_cast<typename P::Element*>(shared.panel(i / P::kTile) + (params.places - 1) * shared.pitch);
    if constexpr (std::is_same_v<typename P::Element, float>) {
      row[i % P::kTile] = identity;
    } else {
      row[i % P::kTile].bits = std::is_same_v<typename P::Element, Bfloat16>
                                   ? static_cast<uint16_t>(__float_as_uint(identity) >> 16)
                                   : __half_as_ushort(__float2half(identity));
    }
  }
}

// Combines the groups' sums of each row and stores them.
template <class P>
__device__ inline void StoreSums(const PanelParams& params, const Place<P>& place, const PanelPiece& piece, int warp,
                                 int warps, float (&sum)[kSlots][kVec]) {
  const int32_t* const rows = params.row + (int64_t{piece.block} * warps + warp) * kSlots;
  float* const out =
      params.sums + int64_t{piece.sums} * warps * kSlots * params.stride + place.tile + place.lane * kVec;
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
#pragma unroll
    for (int c = 0; c < kVec; ++c) {
#pragma unroll
      for (int lanes = kWarpLanes / 2; lanes >= kWarpLanes / P::kGroups; lanes /= 2) {
        sum[slot][c] = P::Combined(sum[slot][c], __shfl_xor_sync(~0u, sum[slot][c], lanes));
      }
    }
    const int row = rows[slot];
    if (row < 0 || place.group > 0) continue;
    *reinterpret_cast<float4*>(out + row * params.stride) =
        make_float4(sum[slot][0], sum[slot][1], sum[slot][2], sum[slot][3]);
  }
}

template <class P>
__global__ void __launch_bounds__(kWarpLanes* kMaxWarps, 1) SumPanels(const __grid_constant__ PanelParams params) {
  extern __shared__ __align__(16) char base[];
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes, warps = static_cast<int>(blockDim.x) / kWarpLanes;
  const Shared shared = {base, params.places, P::kPitch, warps};
  const PanelPiece piece = params.pieces[blockIdx.x];
  FillLastPlaces<P>(params, shared);
  FetchNumbers(params, piece.first, shared.numbers(0));
  if (piece.count > 1) FetchNumbers(params, int64_t{piece.first} + 1, shared.numbers(1));
  FetchCells(params, piece.first, shared, shared.cells(0));
  CommitCopies();
  const Place<P> place(params);
  Stream<P> stream(params, params.begin[int64_t{piece.sums} * warps + warp], place.group);
  float sum[kSlots][kVec];
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot)
#pragma unroll
    for (int c = 0; c < kVec; ++c) sum[slot][c] = P::Identity();
  AwaitCopies<0>();
  __syncthreads();
  FetchPanel<P>(params, shared.numbers(0), shared.panel(0));
  CommitCopies();
#pragma unroll 1
  for (int i = 0; i < piece.count; ++i) {
    AwaitCopies<0>();
    // All copies of panel i have arrived, and no warp reads the previous panel any more.
    __syncthreads();
    if (i + 1 < piece.count) {
      FetchPanel<P>(params, shared.numbers(i + 1), shared.panel(i + 1));
      FetchCells(params, int64_t{piece.first} + i + 1, shared, shared.cells(i + 1));
    }
    if (i + 2 < piece.count) FetchNumbers(params, int64_t{piece.first} + i + 2, shared.numbers(i));
    CommitCopies();
    const auto stage = static_cast<uint32_t>(__cvta_generic_to_shared(shared.panel(i)));
    AddPanel<P>(place, shared.cells(i) + warp * kSlots, stage + place.lane * static_cast<int>(sizeof(typename P::Raw)),
                &stream, sum);
  }
  StoreSums<P>(params, place, piece, warp, warps, sum);
}

}  // namespace vicinal::cuda::panels

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_SOURCE_PANELS_DETAIL_SOURCE_PANELS_CUH_
