// SPDX-License-Identifier: Apache-2.0
// tensor_tiles for weights that fit shared memory: they stay there, rounded, as fragments, and rows are streamed.
//
// Idea. A block loads the weights of its columns once and processes tile after tile of rows, 16 or 32 per warp. One
// thread requests bulk copies of boxes (32 inputs x rows, 128 bytes per row, swizzled in units of 16 bytes to avoid
// bank conflicts), several in flight. The other warps only load fragments, multiply and store. Blocks of different
// columns process the same rows at the same time, so these come from the L2.
//
// Traffic: each input once, the weights once per block, each output once.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/bulk_copy.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/dense/tensor_tiles/detail/tensor_product.cuh"
#include "engine/cuda/dense/tensor_tiles/detail/tensor_rows.h"
#include "engine/cuda/dense/tensor_tiles/tensor_tiles.h"
#include "engine/cuda/runtime/tensor_map.h"

namespace vicinal::cuda {
namespace {

constexpr int kBlockRows = 128;  // maximum
constexpr int kMinCols = 16, kMaxCols = 64;
// Rows of a warp: two fragments if each has to read many weights.
template <int kCols>
constexpr int kWarpRows = kCols > 32 ? 32 : 16;
template <int kCols>
constexpr int kRowWarps = kBlockRows / kWarpRows<kCols>;  // maximum
// Resident blocks per multiprocessor that registers allow.
template <int kCols>
constexpr int kResident = kCols > 16 ? 2 : 3;
constexpr int kRowBytes = kDepth * static_cast<int>(sizeof(float));  // per row of a box
constexpr int kMaxStages = 8;
// Maximum weights next to two boxes of 128 rows and the barriers.
constexpr int64_t kMaxWeightBytes = 160 << 10;

struct TensorRowsParams {
  TensorParams product;
  int64_t tiles;  // of rows
  int row_warps;  // per block
  int block_rows;
  int col_chunks;  // chunks of columns; a block has one
  int panels;      // of kDepth inputs
  int stages;      // boxes in shared memory
  int box_bytes;
};

// Parts of a fragment of weights.
template <class Step>
__host__ __device__ constexpr int PartsOf() {
  return static_cast<int>(sizeof(typename Step::B) / sizeof(uint2));
}

template <ProductPrecision kPrecision>
constexpr int64_t WeightBytes(int64_t inputs, int64_t cols) {
  return (inputs + kDepth - 1) / kDepth * (kDepth / kStepInputs) * (cols / 8) * kWarpLanes *
         static_cast<int64_t>(sizeof(typename TensorStep<kPrecision>::B));
}

// The layout of a block's shared memory.
struct Ring {
  uint32_t boxes, box_bytes, barriers;

  __device__ Ring(const char* shared, const TensorRowsParams& params)
      : boxes(SharedAddress(shared)), box_bytes(params.box_bytes), barriers(boxes + params.stages * box_bytes) {}
  __device__ uint32_t box(int stage) const { return boxes + stage * box_bytes; }
  __device__ uint32_t full(int stage) const { return barriers + stage * 16; }
  __device__ uint32_t empty(int stage) const { return barriers + stage * 16 + 8; }
};

// A position in the ring, and its phase.
struct RingPosition {
  int stage = 0, parity = 0;

  __device__ void Next(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

// Rounds the block's weights into fragments [step, tile of 8 columns, part, lane]. Called by `threads` threads.
template <class Step>
__device__ inline void StageWeights(const TensorRowsParams& params, int64_t first_col, int tiles, int threads,
                                    uint2* weights) {
  const TensorParams& product = params.product;
  const int count = params.panels * (kDepth / kStepInputs) * tiles * kWarpLanes;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
    const int lane = i % kWarpLanes, tile = i / kWarpLanes % tiles, step = i / kWarpLanes / tiles;
    const int64_t col = first_col + tile * 8 + lane / 4, input = step * kStepInputs;
    float w[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64_t at = input + Step::InputOf(lane % 4, k);
      const bool valid = col < product.weight_stride && at < product.src.cols;
      w[k] = valid ? __ldg(product.weight + at * product.weight_stride + col) : 0.0f;
    }
    const typename Step::B fragment = Step::RoundedB(w);
#pragma unroll
    for (int part = 0; part < PartsOf<Step>(); ++part) {
      weights[(i / kWarpLanes * PartsOf<Step>() + part) * kWarpLanes + lane] = fragment.part[part];
    }
  }
}

// A barrier for `threads` threads of the block.
__device__ inline void AwaitThreads(int threads) { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); }

__device__ inline void CopyBoxes(const CUtensorMap& rows, const TensorRowsParams& params, const Ring& ring,
                                 int64_t first, int64_t step) {
  RingPosition position;
  bool again = false;
  for (int64_t tile = first; tile < params.tiles; tile += step) {
    for (int panel = 0; panel < params.panels; ++panel) {
      if (again) AwaitPhase(ring.empty(position.stage), position.parity ^ 1);
      ArriveExpecting(ring.full(position.stage), params.box_bytes);
      CopyBox(ring.box(position.stage), rows, panel * kDepth, static_cast<int>(tile * params.block_rows),
              ring.full(position.stage));
      position.Next(params.stages);
      if (position.stage == 0) again = true;
    }
  }
}

// The lane's first row of 16; the other is 8 further. Rows that are read at once differ in bit 2, so that their 16-byte
// units lie in different banks.
__device__ inline int RowOf(int lane) { return (lane / 4 & 1) << 2 | lane / 8; }

// Loads from shared memory. Wide loads are explicit, as the compiler would split them.
__device__ inline float LoadOne(uint32_t shared) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(shared) : "memory");
  return x;
}
__device__ inline float4 LoadFour(uint32_t shared) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(shared)
               : "memory");
  return x;
}
__device__ inline uint2 LoadPart(uint32_t shared) {
  uint2 x;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(shared) : "memory");
  return x;
}

// A lane's rows in a box, from input `first` on.
struct BoxRows {
  uint32_t row;  // address of the lane's row
  int exchange;  // the swizzle: XORed with the index of a 16-byte unit
  int first;

  __device__ uint32_t At(int half, int input) const {
    const int at = first + input;
    return row + 8 * half * kRowBytes + ((at / 4) ^ exchange) * 16 + at % 4 * 4;
  }
  __device__ float One(int half, int input) const { return LoadOne(At(half, input)); }
  __device__ float4 Four(int half, int input) const { return LoadFour(At(half, input)); }
};

// Like StoreRow, for results of the form sum * factor + bias, with or without ReLU. Keeps the biases in registers.
template <int kTiles>
struct LightStore {
  int64_t first_col;
  float2 bias[kTiles];
  bool applies, rectified;

  __device__ LightStore(const TensorParams& params, int64_t col) : first_col(col) {
    const Epilogue& epilogue = params.epilogue;
    rectified = epilogue.activation.kind == ActivationKind::kRelu;
    applies = params.dst_access != Access::kElements && params.dst.cols % 2 == 0 && epilogue.residual.data == nullptr &&
              (rectified || epilogue.activation.kind == ActivationKind::kNone);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      bias[j] = make_float2(kAddIdentity, kAddIdentity);
      const int64_t at = first_col + 8 * j;
      if (epilogue.bias != nullptr && at < params.dst.cols) bias[j].x = __ldg(epilogue.bias + at);
      if (epilogue.bias != nullptr && at + 1 < params.dst.cols) bias[j].y = __ldg(epilogue.bias + at + 1);
    }
  }
  __device__ void Store(const TensorParams& params, int64_t row, int half, const float (&sum)[kTiles][4]) const {
    if (row >= params.dst.rows) return;
    const float factor = FactorOf(params.epilogue, row);
    float* const dst = params.dst.data + row * params.dst.stride + first_col;
    const int left = static_cast<int>(params.dst.cols - first_col);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      float2 x = make_float2(WithFactor(factor, bias[j].x, sum[j][2 * half]),
                             WithFactor(factor, bias[j].y, sum[j][2 * half + 1]));
      if (rectified) x = make_float2(Rectified(x.x), Rectified(x.y));
      if (8 * j < left) *reinterpret_cast<float2*>(dst + 8 * j) = x;
    }
  }
};

// Adds the products of all panels of a tile, each when it has arrived. `row` is the lane's first row within the tile;
// `weights` is the address of the lane's weights in shared memory.
template <class Step, int kTiles, int kHalves>
__device__ inline void MultiplyPanels(const TensorRowsParams& params, const Ring& ring, int row, int q,
                                      uint32_t weights, RingPosition* position, float (&sum)[kHalves][kTiles][4]) {
  constexpr int kSteps = kDepth / kStepInputs;
  constexpr uint32_t kParts = PartsOf<Step>(), kPartBytes = kWarpLanes * sizeof(uint2);
#pragma unroll 1
  for (int panel = 0; panel < params.panels; ++panel) {
    AwaitPhase(ring.full(position->stage), position->parity);
    const uint32_t box = ring.box(position->stage);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      typename Step::A a[kHalves];
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const BoxRows rows_of = {box + (row + 16 * half) * kRowBytes, row & 7, s * kStepInputs};
        a[half] = Step::RoundedA(rows_of, q);
      }
      const uint32_t b = weights + (panel * kSteps + s) * kTiles * kParts * kPartBytes;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        typename Step::B fragment;
#pragma unroll
        for (int part = 0; part < kParts; ++part) fragment.part[part] = LoadPart(b + (j * kParts + part) * kPartBytes);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) Step::Multiply(a[half], fragment, sum[half][j]);
      }
    }
    Arrive(ring.empty(position->stage));
    position->Next(params.stages);
  }
}

// kCols: columns per block.
template <ProductPrecision kPrecision, int kCols>
__device__ inline void MultiplyTilesOfRows(const CUtensorMap& rows, const TensorRowsParams& params) {
  using Step = TensorStep<kPrecision>;
  constexpr int kTiles = kCols / 8, kHalves = kWarpRows<kCols> / 16;
  extern __shared__ __align__(16) char raw[];
  char* const shared = FirstBox(raw);
  const Ring ring(shared, params);
  uint2* const weights = reinterpret_cast<uint2*>(shared + params.stages * params.box_bytes + kMaxStages * 16);
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes, lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int workers = params.row_warps;
  const int64_t chunk_col = int64_t{blockIdx.x % params.col_chunks} * kCols;
  const int64_t first = blockIdx.x / params.col_chunks, step = gridDim.x / params.col_chunks;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < params.stages; ++stage) {
      InitBarrier(ring.full(stage), 1);
      InitBarrier(ring.empty(stage), workers * kWarpLanes);
    }
    FenceBarrierInit();
  }
  __syncthreads();
  if (warp == workers) {
    if (lane == 0) CopyBoxes(rows, params, ring, first, step);
    return;
  }
  StageWeights<Step>(params, chunk_col, kTiles, workers * kWarpLanes, weights);
  AwaitThreads(workers * kWarpLanes);
  const uint32_t lane_weights = SharedAddress(weights + lane);
  const int row = warp * kWarpRows<kCols> + RowOf(lane);
  const LightStore<kTiles> light(params.product, chunk_col + lane % 4 * 2);
  RingPosition position;
#pragma unroll 1
  for (int64_t tile = first; tile < params.tiles; tile += step) {
    float sum[kHalves][kTiles][4] = {};
    MultiplyPanels<Step>(params, ring, row, lane % 4, lane_weights, &position, sum);
#pragma unroll
    for (int half = 0; half < 2 * kHalves; ++half) {
      const int64_t at = tile * params.block_rows + row + 8 * half;
      if (light.applies) {
        light.Store(params.product, at, half % 2, sum[half / 2]);
      } else {
        StoreRow(params.product, at, chunk_col + lane % 4 * 2, half % 2, sum[half / 2]);
      }
    }
  }
}

template <ProductPrecision kPrecision, int kCols>
__global__ void __launch_bounds__((kRowWarps<kCols> + 1) * kWarpLanes, kResident<kCols>)
    MultiplyRows(const __grid_constant__ CUtensorMap rows, const __grid_constant__ TensorRowsParams params) {
  if constexpr (kCompiledFor >= kBulkCopies) MultiplyTilesOfRows<kPrecision, kCols>(rows, params);
}

// Bytes that a block may use for weights next to two boxes of kBlockRows rows.
int64_t WeightRoom(const GpuLimits& limits) {
  constexpr int64_t kOthers = 2 * kBlockRows * kRowBytes + kMaxStages * 16 + kBoxAlignment + kSystemSharedBytes;
  return std::min<int64_t>(kMaxWeightBytes, limits.block_shared_bytes - kOthers);
}

// Columns per block: all of them if their weights fit.
template <ProductPrecision kPrecision>
int ColsFor(const TensorParams& product, const GpuLimits& limits) {
  int cols = kMinCols;
  while (cols < kMaxCols && cols < product.dst.cols) cols *= 2;
  while (cols > kMinCols && WeightBytes<kPrecision>(product.src.cols, cols) > WeightRoom(limits)) cols /= 2;
  return cols;
}

template <ProductPrecision kPrecision, int kCols>
cudaError_t LaunchCols(const TensorParams& product, const LaunchTarget& target) {
  TensorRowsParams params = {};
  params.product = product;
  params.panels = static_cast<int>((product.src.cols + kDepth - 1) / kDepth);
  params.col_chunks = static_cast<int>((product.dst.cols + kCols - 1) / kCols);
  // Lower blocks if multiprocessors would be left without one.
  params.row_warps = kRowWarps<kCols>;
  const auto tiles_of = [&](int warps) {
    return (product.dst.rows + warps * kWarpRows<kCols> - 1) / (warps * kWarpRows<kCols>);
  };
  while (params.row_warps > 1 && tiles_of(params.row_warps) * params.col_chunks < target.limits.multiprocessors) {
    params.row_warps /= 2;
  }
  params.tiles = tiles_of(params.row_warps);
  params.block_rows = params.row_warps * kWarpRows<kCols>;
  params.box_bytes = params.block_rows * kRowBytes;
  const int64_t fixed =
      WeightBytes<kPrecision>(product.src.cols, kCols) + kMaxStages * 16 + kBoxAlignment + kSystemSharedBytes;
  const int64_t room = target.limits.block_shared_bytes;
  const int64_t resident = std::clamp<int64_t>(room / (fixed + 3 * params.box_bytes), 1, kResident<kCols>);
  params.stages = static_cast<int>(std::clamp<int64_t>((room / resident - fixed) / params.box_bytes, 2, kMaxStages));
  const int bytes = static_cast<int>(fixed - kSystemSharedBytes + int64_t{params.stages} * params.box_bytes);
  CUtensorMap rows;
  const BoxedDimension box[] = {{product.src.cols, 1, kDepth},
                                {product.dst.rows, product.src.stride, params.block_rows}};
  cudaError_t error = DescribeBoxes(product.src.data, box, 2, true, &rows);
  if (error != cudaSuccess) return error;
  const auto kernel = &MultiplyRows<kPrecision, kCols>;
  error = AllowShared(kernel, bytes, target.limits);
  if (error != cudaSuccess) return error;
  const int64_t blocks =
      std::min(params.tiles, std::max<int64_t>(resident * target.limits.multiprocessors / params.col_chunks, 1)) *
      params.col_chunks;
  const int threads = (params.row_warps + 1) * kWarpLanes;
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, target.stream>>>(rows, params);
  return cudaGetLastError();
}

template <ProductPrecision kPrecision>
cudaError_t LaunchPrecision(const TensorParams& product, const LaunchTarget& target) {
  switch (ColsFor<kPrecision>(product, target.limits)) {
    case 16:
      return LaunchCols<kPrecision, 16>(product, target);
    case 32:
      return LaunchCols<kPrecision, 32>(product, target);
    default:
      return LaunchCols<kPrecision, 64>(product, target);
  }
}

int64_t MinWeightBytes(const DenseUpdateProblem& problem) {
  return problem.precision == ProductPrecision::kTf32
             ? WeightBytes<ProductPrecision::kTf32>(problem.in_width, kMinCols)
             : WeightBytes<ProductPrecision::kBfloat16>(problem.in_width, kMinCols);
}

}  // namespace

bool TensorWeightsStay(const DenseUpdateProblem& problem) { return MinWeightBytes(problem) <= kMaxWeightBytes; }

bool TensorRowsFit(const DenseUpdateProblem& problem, const GpuLimits& limits) {
  return limits.bulk_copies() && MinWeightBytes(problem) <= WeightRoom(limits);
}

cudaError_t LaunchTensorRows(const DenseUpdateProblem& problem, const TensorParams& params,
                             const LaunchTarget& target) {
  switch (problem.precision) {
    case ProductPrecision::kTf32:
      return LaunchPrecision<ProductPrecision::kTf32>(params, target);
    case ProductPrecision::kBfloat16:
      return LaunchPrecision<ProductPrecision::kBfloat16>(params, target);
    case ProductPrecision::kFloat16:
      return LaunchPrecision<ProductPrecision::kFloat16>(params, target);
    case ProductPrecision::kFloat32:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace vicinal::cuda
