// SPDX-License-Identifier: Apache-2.0
// dense_tiles: A x B with the dense tiles of A on tensor cores, exact in float32. It is the dual mode of PCGCN (Tian et
// al., IPDPS'20), with bitmasks in place of dense blocks. FlashSparse and Voltrix also reuse loaded rows like this.
//
// Idea. A tile of A holds zeros and ones, which bfloat16 represents exactly. A float32 is exactly the sum of three
// bfloat16 terms of 8 bits each. So the products of mask and terms are exact, and only the float32 sums round.
// A first kernel splits B (times the sources' factors, if any) into its terms. It stores them in the layout in which
// tensor cores read shared memory, 64 sources per image. A thread block then sums a piece of a block of 128 rows. One
// warp copies masks and images with bulk copies, six stages ahead. Two warpgroups expand the masks' bits into registers
// as A and multiply, 64 rows each. Tensor cores truncate the last bits of their sums, so these are added up in ordinary
// registers every kFlush tiles.
// At the same time, binned_rows sums the remaining edges. Tensor cores wait for arithmetic and rows for the L2, so both
// run side by side on each multiprocessor. A last pass adds the two sums and finishes the rows.
// A source that is not finite, or outside of bfloat16's range, must not meet the zeros of a mask. The first kernel
// detects it; then the whole adjacency is summed as rows instead.
//
// Faster than rows if tiles hold more than about 100 edges, as each row of B is then loaded once for 128 targets. The
// order of a row's terms depends on the tiles, so the kernel runs on whole graphs only. Deterministic.
// Traffic per tile: 1 KiB of mask and 64 * width * 6 bytes of terms from the L2, with 8,192 * width * 3 multiply-adds.
// Measured with a prototype on an H200, width 64, tiles of the communities of reddit's twin: 0.84 ms for 83 million of
// 115 million edges, 650 TFLOP/s. The L2 alone would take 2.4 ms to deliver the same rows.
#include <cuda_bf16.h>

#include <cmath>

#include "engine/cuda/aggregate/binned_rows/binned_rows.h"
#include "engine/cuda/aggregate/dense_tiles/dense_tiles.h"
#include "engine/cuda/aggregate/rows/finish_rows.h"
#include "engine/cuda/aggregate/rows/row_load.cuh"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/bulk_copy.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/mask_pair.cuh"
#include "engine/cuda/common/wgmma.cuh"

namespace vicinal::cuda {
namespace {

constexpr int kStages = 6;
constexpr int kFlush = 2;
constexpr int kConsumers = 2;  // warpgroups
constexpr int kThreads = 128 * kConsumers + 32;
constexpr int kBlockColumns = 64;  // columns of a swizzled block
constexpr int kBlockBytes = kTileCols * 128;
constexpr int kMaskBytes = kTileRows * static_cast<int>(sizeof(uint64_t));
// A larger float32 rounds to infinity in bfloat16.
constexpr float kLargest = 3.3895313892515355e38f;

// Terms of an element: 3 for float32, 2 for float16, 1 for bfloat16. Term t of column c is column t * kColumns + c.
template <int kTerms_, int kColumns_>
struct TermImage {
  static constexpr int kTerms = kTerms_, kColumns = kColumns_, kWidth = kTerms * kColumns;
  static constexpr int kBlocks = (kWidth + kBlockColumns - 1) / kBlockColumns;
  static constexpr int kBytes = kBlocks * kBlockBytes;
  static constexpr int kShared = kStages * (kBytes + kMaskBytes + 16) + kBoxAlignment;
};

// One thread per source and 8 columns: 16 bytes of each term. If sources have factors, also stores the products in
// `scaled` (if not null); otherwise the remaining rows would load a factor per edge.
template <class Image>
__global__ void __launch_bounds__(256)
    SplitSources(const __grid_constant__ AggregateArgs args, char* images, int64_t images_per_tile, float* scaled,
                 int64_t scaled_stride, int* unfit) {
  constexpr int kUnits = Image::kColumns / 8;
  const int64_t thread = int64_t{blockIdx.x} * 256 + threadIdx.x, source = thread / kUnits;
  const int unit = static_cast<int>(thread % kUnits);
  if (source >= images_per_tile * kTileCols) return;
  const int64_t first = int64_t{blockIdx.y} * Image::kColumns + unit * 8;
  const SourceRows rows = SourceRowsOf(args);
  float x[8];
  bool fit = true;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i] = 0.0f;
    if (source >= args.problem.cols || first + i >= args.problem.width) continue;
    x[i] = ElementAt(rows, source, first + i);
    if (args.src_scale != nullptr) x[i] *= __ldg(args.src_scale + source);
    fit = fit && fabsf(x[i]) <= kLargest;
  }
  if (scaled != nullptr && source < args.problem.cols) {
    float4* to = reinterpret_cast<float4*>(scaled + source * scaled_stride + first);
    to[0] = make_float4(x[0], x[1], x[2], x[3]);
    to[1] = make_float4(x[4], x[5], x[6], x[7]);
  }
  if (!fit) *unfit = 1;
  char* image = images + (blockIdx.y * images_per_tile + source / kTileCols) * Image::kBytes;
  const int row = static_cast<int>(source % kTileCols);
#pragma unroll
  for (int term = 0; term < Image::kTerms; ++term) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat16 low = __float2bfloat16_rn(x[2 * i]), high = __float2bfloat16_rn(x[2 * i + 1]);
      x[2 * i] -= __bfloat162float(low);
      x[2 * i + 1] -= __bfloat162float(high);
      words[i] = uint32_t{__bfloat16_as_ushort(low)} | uint32_t{__bfloat16_as_ushort(high)} << 16;
    }
    const int at = term * kUnits + unit;  // in units of 8 columns
    char* block = image + at / 8 * kBlockBytes + row * 128;
    *reinterpret_cast<uint4*>(block + ((at % 8) ^ (row % 8)) * 16) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

struct TileParams {
  const TilePiece* pieces;
  const int32_t* tile_col;
  const uint64_t* masks;
  const char* images;
  int64_t images_per_tile;
  float* sums;  // [pieces, kTileRows, stride]
  int64_t stride;
  const int* unfit;
};

// The shared memory of a block. The barriers come last, two per stage: full and empty.
template <class Image>
struct Stages {
  char* images;
  char* masks;
  uint32_t barriers;

  __device__ explicit Stages(char* shared)
      // Not FirstBox(), which also tells the compiler the alignment. That changes the register allocation: rmat5's
      // rank-1 sum of 64 columns took 113 us with it, 108 us without (H200).
      : images(shared + (kBoxAlignment - SharedAddress(shared) % kBoxAlignment) % kBoxAlignment),
        masks(images + kStages * Image::kBytes),
        barriers(SharedAddress(masks + kStages * kMaskBytes)) {}
  __device__ uint32_t full(int stage) const { return barriers + stage * 16; }
  __device__ uint32_t empty(int stage) const { return barriers + stage * 16 + 8; }
};

template <class Image>
__device__ inline void CopyTiles(const TileParams& params, const TilePiece& piece, const Stages<Image>& stages) {
  const char* images = params.images + blockIdx.y * params.images_per_tile * Image::kBytes;
  for (int i = 0; i < piece.count; ++i) {
    const int stage = i % kStages, round = i / kStages, tile = piece.first + i;
    if (round > 0) AwaitPhase(stages.empty(stage), (round - 1) & 1);
    ArriveExpecting(stages.full(stage), Image::kBytes + kMaskBytes);
    CopyBulk(SharedAddress(stages.images + stage * Image::kBytes),
             images + int64_t{__ldg(params.tile_col + tile)} * Image::kBytes, Image::kBytes, stages.full(stage));
    CopyBulk(SharedAddress(stages.masks + stage * kMaskBytes), params.masks + int64_t{tile} * kTileRows, kMaskBytes,
             stages.full(stage));
  }
}

template <class Image>
__device__ inline void MultiplyTiles(const TileParams& params, const TilePiece& piece, const Stages<Image>& stages) {
  constexpr int kSums = Image::kColumns / 2, kSteps = kTileCols / 16;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, shift = lane % 4 * 2;
  const int row = warp * 16 + lane / 4;
  float product[Image::kWidth / 2], total[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) total[i] = 0.0f;
  for (int i = 0; i < piece.count; ++i) {
    const int stage = i % kStages;
    AwaitPhase(stages.full(stage), i / kStages & 1);
    const uint64_t* masks = reinterpret_cast<const uint64_t*>(stages.masks + stage * kMaskBytes);
    const uint64_t mask = masks[row] >> shift, mask8 = masks[row + 8] >> shift;
    uint32_t a[kSteps][4];
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const uint32_t bits = static_cast<uint32_t>(mask >> 16 * k), bits8 = static_cast<uint32_t>(mask8 >> 16 * k);
      a[k][0] = PairOfBits(bits), a[k][1] = PairOfBits(bits8);
      a[k][2] = PairOfBits(bits >> 8), a[k][3] = PairOfBits(bits8 >> 8);
    }
    const uint64_t b = MatrixDescriptor(SharedAddress(stages.images + stage * Image::kBytes), kBlockBytes);
    FenceProducts();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) Multiply(product, a[k], b + k * (16 * 128 >> 4), k > 0 || i % kFlush != 0);
    AwaitProducts();
    // Every thread arrives: only its own products prove that it has read its masks.
    Arrive(stages.empty(stage));
    if (i % kFlush != kFlush - 1 && i + 1 != piece.count) continue;
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      float terms = product[s + (Image::kTerms - 1) * kSums];
#pragma unroll
      for (int t = Image::kTerms - 2; t >= 0; --t) terms += product[s + t * kSums];
      total[s] += terms;
    }
  }
  float* out =
      params.sums + (int64_t{piece.sums} * kTileRows + row) * params.stride + blockIdx.y * Image::kColumns + shift;
#pragma unroll
  for (int j = 0; j < Image::kColumns / 8; ++j) {
    *reinterpret_cast<float2*>(out + 8 * j) = make_float2(total[4 * j], total[4 * j + 1]);
    *reinterpret_cast<float2*>(out + 8 * params.stride + 8 * j) = make_float2(total[4 * j + 2], total[4 * j + 3]);
  }
}

template <class Image>
__device__ inline void SumPiece(const TileParams& params) {
  extern __shared__ char shared[];
  if (*params.unfit != 0) return;
  const Stages<Image> stages(shared);
  const TilePiece piece = params.pieces[blockIdx.x];
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      InitBarrier(stages.full(stage), 1);
      InitBarrier(stages.empty(stage), 128 * kConsumers);
    }
    FenceBarrierInit();
  }
  __syncthreads();
  if (threadIdx.x < 128 * kConsumers) {
    MultiplyTiles(params, piece, stages);
  } else if (threadIdx.x % 32 == 0) {
    CopyTiles(params, piece, stages);
  }
}

template <class Image>
__global__ void __launch_bounds__(kThreads, 1) SumTiles(const __grid_constant__ TileParams params) {
  if constexpr (kCompiledWithWgmma) SumPiece<Image>(params);
}

int ColumnsFor(const AggregateProblem& problem) {
  if (problem.width > 32) return 64;
  return problem.width > 16 || problem.storage != Storage::kFloat32 ? 32 : 16;
}

int TermsOf(Storage storage) { return storage == Storage::kFloat32 ? 3 : storage == Storage::kFloat16 ? 2 : 1; }

// What a launch keeps in scratch, in this order: the flag, images, the sums of tiles, the sums of the remaining edges,
// scaled sources, partial sums of split rows.
struct ScratchPlan {
  int64_t columns, column_tiles, images_per_tile, image_bytes;
  int64_t stride;  // of both kinds of sums and of the scaled sources
  int64_t images_at, sums_at, rest_at, scaled_at, partials_at, bytes;

  explicit ScratchPlan(const AggregateProblem& problem) {
    columns = ColumnsFor(problem);
    column_tiles = (problem.width + columns - 1) / columns;
    images_per_tile = (problem.cols + kTileCols - 1) / kTileCols;
    image_bytes = RoundUp(TermsOf(problem.storage) * columns, kBlockColumns) / kBlockColumns * kBlockBytes;
    stride = column_tiles * columns;
    images_at = 64;
    sums_at = images_at + column_tiles * images_per_tile * image_bytes;
    rest_at = sums_at + MaxTilePieces(problem.rows) * kTileRows * stride * int64_t{sizeof(float)};
    scaled_at = rest_at + problem.rows * stride * int64_t{sizeof(float)};
    partials_at = scaled_at + (Scales(problem) ? problem.cols * stride * int64_t{sizeof(float)} : 0);
    bytes = partials_at + static_cast<int64_t>(BinnedRowsScratchBytes(problem, {}));
  }
  // 16-bit rows are read unscaled, as their products in float32 would be twice as many bytes.
  static bool Scales(const AggregateProblem& problem) {
    return problem.source_scaled && problem.storage == Storage::kFloat32;
  }
};

template <class Image>
cudaError_t LaunchTiles(const AggregateArgs& args, const DenseTilesLayout& layout, const ScratchPlan& plan,
                        const LaunchTarget& target, char* scratch) {
  int* unfit = reinterpret_cast<int*>(scratch);
  char* images = scratch + plan.images_at;
  const unsigned across = static_cast<unsigned>(plan.column_tiles);
  const int64_t threads = plan.images_per_tile * kTileCols * (Image::kColumns / 8);
  SplitSources<Image><<<dim3(static_cast<unsigned>((threads + 255) / 256), across), 256, 0, target.stream>>>(
      args, images, plan.images_per_tile,
      ScratchPlan::Scales(args.problem) ? reinterpret_cast<float*>(scratch + plan.scaled_at) : nullptr, plan.stride,
      unfit);
  cudaError_t error = cudaEventRecord(target.fork_event, target.stream);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(target.side_stream, target.fork_event);
  if (error == cudaSuccess) {
    error = AllowShared(SumTiles<Image>, Image::kShared, target.limits);
  }
  if (error != cudaSuccess) return error;
  const TileParams params = {layout.pieces(),      layout.tile_col(),
                             layout.masks(),       images,
                             plan.images_per_tile, reinterpret_cast<float*>(scratch + plan.sums_at),
                             plan.stride,          unfit};
  SumTiles<Image>
      <<<dim3(static_cast<unsigned>(layout.num_pieces()), across), kThreads, Image::kShared, target.side_stream>>>(
          params);
  error = cudaEventRecord(target.join_event, target.side_stream);
  return error == cudaSuccess ? cudaGetLastError() : error;
}

template <int kTerms>
cudaError_t LaunchColumns(const AggregateArgs& args, const DenseTilesLayout& layout, const ScratchPlan& plan,
                          const LaunchTarget& target, char* scratch) {
  if (plan.columns == 64) return LaunchTiles<TermImage<kTerms, 64>>(args, layout, plan, target, scratch);
  if constexpr (kTerms == 3) {
    if (plan.columns == 16) return LaunchTiles<TermImage<kTerms, 16>>(args, layout, plan, target, scratch);
  }
  return LaunchTiles<TermImage<kTerms, 32>>(args, layout, plan, target, scratch);
}

// Sums the edges outside the tiles.
cudaError_t LaunchRest(const AggregateArgs& args, const DenseTilesLayout& layout, const ScratchPlan& plan,
                       const LaunchCondition& fit, const LaunchTarget& target, char* scratch) {
  AggregateArgs rest = args;
  rest.adjacency = layout.rest();
  rest.problem.edges = rest.adjacency.nnz;
  rest.problem.reduce = Reduce::kSum;
  rest.dst = {reinterpret_cast<float*>(scratch + plan.rest_at), args.dst.rows, args.dst.cols, plan.stride};
  rest.self_scale = 0.0f;
  rest.epilogue = {};
  if (ScratchPlan::Scales(args.problem)) {
    rest.src = {reinterpret_cast<const float*>(scratch + plan.scaled_at), args.src.rows, args.src.cols, plan.stride};
    rest.src_scale = nullptr;
  }
  return LaunchBinnedRows(rest, &layout.rest_work(), {}, fit, target, scratch + plan.partials_at);
}

}  // namespace

size_t DenseTilesScratchBytes(const AggregateProblem& problem) {
  return static_cast<size_t>(ScratchPlan(problem).bytes);
}

cudaError_t LaunchDenseTiles(const AggregateArgs& args, const DenseTilesLayout& layout, const LaunchTarget& target,
                             void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const ScratchPlan plan(args.problem);
  char* base = static_cast<char*>(scratch);
  cudaError_t error = cudaMemsetAsync(base, 0, sizeof(int), target.stream);
  if (error != cudaSuccess) return error;
  switch (TermsOf(args.problem.storage)) {
    case 1:
      error = LaunchColumns<1>(args, layout, plan, target, base);
      break;
    case 2:
      error = LaunchColumns<2>(args, layout, plan, target, base);
      break;
    default:
      error = LaunchColumns<3>(args, layout, plan, target, base);
  }
  if (error != cudaSuccess) return error;
  const LaunchCondition fit = {reinterpret_cast<const int*>(base), 0};
  error = LaunchRest(args, layout, plan, fit, target, base);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(target.stream, target.join_event);
  if (error != cudaSuccess) return error;
  const RowPieces pieces = {reinterpret_cast<const float*>(base + plan.sums_at), layout.first_piece(), kTileRows,
                            static_cast<int32_t>(plan.stride)};
  error = LaunchFinishRows(args, reinterpret_cast<const float*>(base + plan.rest_at), plan.stride, pieces, fit, target);
  if (error != cudaSuccess) return error;
  return LaunchBinnedRows(args, &layout.all_work(), {}, {fit.flag, 1}, target, base + plan.partials_at);
}

}  // namespace vicinal::cuda
