// SPDX-License-Identifier: Apache-2.0
// Row-wise operations, all bound by memory. Element kinds have a thread per element, row kinds a warp per row, readouts
// a block per segment and 32 columns, graph norms two passes (moments in fixed parts, then elements). Sums are in
// double precision and in fixed order; an H200 adds doubles at half the rate of float32, which the memory traffic
// hides. dst may be `a`: the thread that stores an element also reads it, after all other reads of it. Rounding to 16
// bits processes four elements at a time if both matrices are aligned.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/rowwise/rowwise.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float At(const ConstMatrixView& matrix, int64_t row, int64_t col) {
  return matrix.data[row * matrix.stride + col];
}

__device__ double WarpSum(double x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(kWholeWarp, x, distance);
  return x;
}

__device__ float Affine(const RowwiseArgs& args, float x, int64_t col) {
  const float scale = args.scale != nullptr ? args.scale[col] : 1.0f;
  const float shift = args.shift != nullptr ? args.shift[col] : 0.0f;
  return fmaf(x, scale, shift);
}

__device__ void StoreElement(const RowwiseArgs& args, int64_t row, int64_t col, float x) {
  args.dst.data[row * args.dst.stride + col] = ApplyEpilogue(args.epilogue, x, row, col);
}

// kAdd, kMax, kMultiply, kGatherRows.
__global__ void __launch_bounds__(kThreads) Elements(const RowwiseArgs args) {
  const int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (element >= args.dst.rows * args.dst.cols) return;
  const int64_t row = element / args.dst.cols, col = element % args.dst.cols;
  if (args.problem.kind == RowwiseKind::kAdd) {
    StoreElement(args, row, col, Affine(args, At(args.a, row, col), col));
  } else if (args.problem.kind == RowwiseKind::kMax) {
    StoreElement(args, row, col, LargerOf(At(args.a, row, col), At(args.b, row, col)));
  } else if (args.problem.kind == RowwiseKind::kMultiply) {
    StoreElement(args, row, col, __fmul_rn(At(args.a, row, col), At(args.b, row, col)));
  } else {
    args.dst.data[row * args.dst.stride + col] = At(args.a, args.index[row], col);
  }
}

__global__ void __launch_bounds__(kThreads) NormalizeRows(const RowwiseArgs args) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= args.dst.rows) return;
  double squares = 0;
  for (int64_t col = threadIdx.x % 32; col < args.dst.cols; col += 32) {
    const double x = At(args.a, row, col);
    squares += x * x;
  }
  const double norm = LargerOf(sqrt(WarpSum(squares)), 1e-12);
  for (int64_t col = threadIdx.x % 32; col < args.dst.cols; col += 32) {
    args.dst.data[row * args.dst.stride + col] = static_cast<float>(At(args.a, row, col) / norm);
  }
}

// kSoftmax, kLogSoftmax.
__global__ void __launch_bounds__(kThreads) SoftmaxRows(const RowwiseArgs args) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= args.dst.rows) return;
  float most = -INFINITY;
  for (int64_t col = threadIdx.x % 32; col < args.dst.cols; col += 32) most = LargerOf(most, At(args.a, row, col));
  for (int distance = 16; distance > 0; distance /= 2)
    most = LargerOf(most, __shfl_xor_sync(kWholeWarp, most, distance));
  double sum = 0;
  for (int64_t col = threadIdx.x % 32; col < args.dst.cols; col += 32) sum += expf(At(args.a, row, col) - most);
  sum = WarpSum(sum);
  const bool logarithm = args.problem.kind == RowwiseKind::kLogSoftmax;
  const float divisor = static_cast<float>(logarithm ? log(sum) : sum);
  for (int64_t col = threadIdx.x % 32; col < args.dst.cols; col += 32) {
    const float x = At(args.a, row, col) - most;
    args.dst.data[row * args.dst.stride + col] = logarithm ? x - divisor : expf(x) / divisor;
  }
}

__global__ void __launch_bounds__(kThreads) LayerNormRows(const RowwiseArgs args) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= args.dst.rows) return;
  double sum = 0, squares = 0;
  for (int64_t col = threadIdx.x % 32; col < args.dst.cols; col += 32) sum += At(args.a, row, col);
  const double mean = WarpSum(sum) / static_cast<double>(args.dst.cols);
  for (int64_t col = threadIdx.x % 32; col < args.dst.cols; col += 32) {
    const double x = At(args.a, row, col) - mean;
    squares += x * x;
  }
  const double inverse = 1.0 / sqrt(WarpSum(squares) / static_cast<double>(args.dst.cols) + args.eps);
  for (int64_t col = threadIdx.x % 32; col < args.dst.cols; col += 32) {
    StoreElement(args, row, col, Affine(args, static_cast<float>((At(args.a, row, col) - mean) * inverse), col));
  }
}

__global__ void __launch_bounds__(kThreads) SparseToDenseRows(const RowwiseArgs args) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= args.dst.rows) return;
  float* dst = args.dst.data + row * args.dst.stride;
  for (int64_t col = threadIdx.x % 32; col < args.dst.cols; col += 32) dst[col] = 0.0f;
  __syncwarp();
  for (int64_t e = args.sparse.row_ptr[row] + threadIdx.x % 32; e < args.sparse.row_ptr[row + 1]; e += 32) {
    dst[args.sparse.col[e]] = args.sparse.value != nullptr ? args.sparse.value[e] : 1.0f;
  }
}

__global__ void __launch_bounds__(kThreads) GateRows(const RowwiseArgs args) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= args.dst.rows) return;
  const int64_t width = args.dst.cols;
  double score = 0;
  for (int64_t col = threadIdx.x % 32; col < width; col += 32) {
    const double a = At(args.a, row, col), b = At(args.b, row, col);
    score += args.scale[col] * a + args.scale[width + col] * b + args.scale[2 * width + col] * (a - b);
  }
  const double gate = 1.0 / (1.0 + exp(-WarpSum(score)));
  for (int64_t col = threadIdx.x % 32; col < width; col += 32) {
    const double a = At(args.a, row, col), b = At(args.b, row, col);
    args.dst.data[row * args.dst.stride + col] = static_cast<float>(gate * b + (1.0 - gate) * a);
  }
}

// Rounds to the nearest 16-bit number, ties to even.
template <Storage kStorage>
__device__ uint16_t Rounded(float x) {
  if constexpr (kStorage == Storage::kBfloat16) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
  } else {
    return __half_as_ushort(__float2half_rn(x));
  }
}

template <Storage kStorage, int kVec>
__global__ void __launch_bounds__(kThreads) Narrow(const RowwiseArgs args) {
  const int64_t across = (args.dst16.cols + kVec - 1) / kVec;
  const int64_t pack = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pack >= args.dst16.rows * across) return;
  const int64_t row = pack / across, col = pack % across * kVec;
  const float* a = args.a.data + row * args.a.stride + col;
  uint16_t* dst = args.dst16.data + row * args.dst16.stride + col;
  if constexpr (kVec == 1) {
    *dst = Rounded<kStorage>(*a);
  } else {
    const float4 x = *reinterpret_cast<const float4*>(a);
    *reinterpret_cast<ushort4*>(dst) =
        make_ushort4(Rounded<kStorage>(x.x), Rounded<kStorage>(x.y), Rounded<kStorage>(x.z), Rounded<kStorage>(x.w));
  }
}

// The sum of `x` over the block, returned in every thread. The order depends only on the block size.
__device__ double BlockSum(double x) {
  __shared__ double warps[kThreads / 32];
  x = WarpSum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += warps[warp];
  return sum;
}

// Moments relative to the segment's first element (the origin), which avoids cancellation. Stores the sum and the sum
// of squares of each part.
__global__ void __launch_bounds__(kThreads)
    SegmentMoments(const RowwiseArgs args, int64_t first_segment, double* moments) {
  const int64_t segment = first_segment + blockIdx.y;
  const int64_t begin = args.segments[segment], end = args.segments[segment + 1];
  const int64_t count = (end - begin) * args.dst.cols;
  const double origin = count > 0 ? At(args.a, begin, 0) : 0;
  double sum = 0, squares = 0;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += int64_t{kMomentParts} * kThreads) {
    const double x = At(args.a, begin + i / args.dst.cols, i % args.dst.cols) - origin;
    sum += x;
    squares += x * x;
  }
  sum = BlockSum(sum);
  squares = BlockSum(squares);
  if (threadIdx.x != 0) return;
  double* part = moments + 2 * (int64_t{blockIdx.y} * kMomentParts + blockIdx.x);
  part[0] = sum;
  part[1] = squares;
}

// Adds the parts and stores mean and divisor in place of the first part. The origin is added here and not in the next
// kernel: if dst is `a`, only the element's own thread may read it there.
__global__ void __launch_bounds__(kThreads)
    SegmentOrigins(const RowwiseArgs args, int64_t first_segment, int64_t segments, double* moments) {
  const int64_t s = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (s >= segments) return;
  const int64_t begin = args.segments[first_segment + s], end = args.segments[first_segment + s + 1];
  const double count = static_cast<double>(end - begin) * static_cast<double>(args.dst.cols);
  if (count == 0) return;
  double sum = 0, squares = 0;
  for (int part = 0; part < kMomentParts; ++part) {
    sum += moments[2 * (s * kMomentParts + part)];
    squares += moments[2 * (s * kMomentParts + part) + 1];
  }
  const double shift = sum / count, variance = LargerOf(squares / count - shift * shift, 0.0);
  moments[2 * s * kMomentParts] = At(args.a, begin, 0) + shift;
  moments[2 * s * kMomentParts + 1] = args.batched ? sqrt(variance + args.eps) : sqrt(variance) + args.eps;
}

__global__ void __launch_bounds__(kThreads)
    SegmentNormalize(const RowwiseArgs args, int64_t first_segment, const double* moments) {
  const int64_t segment = first_segment + blockIdx.y;
  const int64_t begin = args.segments[segment], end = args.segments[segment + 1];
  const int64_t count = (end - begin) * args.dst.cols;
  const double mean = moments[2 * int64_t{blockIdx.y} * kMomentParts];
  const double divisor = moments[2 * int64_t{blockIdx.y} * kMomentParts + 1];
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = begin + i / args.dst.cols, col = i % args.dst.cols;
    const float x = static_cast<float>((At(args.a, row, col) - mean) / divisor);
    StoreElement(args, row, col, Affine(args, x, col));
  }
}

// A block has 32 columns x 8 rows of threads. Thread row r adds rows r, r + 8, ... of the segment.
__global__ void __launch_bounds__(kThreads) ReadoutSegments(const RowwiseArgs args) {
  constexpr int kAcross = 32, kDown = kThreads / kAcross;
  __shared__ double parts[kDown][kAcross];
  const int64_t segment = blockIdx.x, col = int64_t{blockIdx.y} * kAcross + threadIdx.x % kAcross;
  const int down = threadIdx.x / kAcross;
  const int64_t begin = args.segments[segment], end = args.segments[segment + 1];
  const bool max = IsExtreme(args.problem.reduce);
  const double sign = args.problem.reduce == Reduce::kMin ? -1.0 : 1.0;
  double part = max ? -INFINITY : 0.0;
  if (col < args.dst.cols) {
    for (int64_t row = begin + down; row < end; row += kDown) {
      const double x = sign * At(args.a, row, col);
      part = max ? LargerOf(part, x) : part + x;
    }
  }
  parts[down][threadIdx.x % kAcross] = part;
  __syncthreads();
  if (down != 0 || col >= args.dst.cols) return;
  double result = parts[0][threadIdx.x];
  for (int d = 1; d < kDown; ++d)
    result = max ? LargerOf(result, parts[d][threadIdx.x]) : result + parts[d][threadIdx.x];
  result = begin == end ? 0 : sign * result;
  if (args.problem.reduce == Reduce::kMean && end > begin) result /= static_cast<double>(end - begin);
  StoreElement(args, segment, col, static_cast<float>(result));
}

// Floats in the order of these numbers: negative ones with all bits turned, others with the first.
__device__ unsigned OrderOf(float x) {
  const unsigned bits = __float_as_uint(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The lower median, by its bits from the highest down: each is 0 if more numbers agree so far and have 0 here than have
// to stand before it. Threads as in ReadoutSegments; 32 passes over the segment, no memory of its own.
__global__ void __launch_bounds__(kThreads) MedianSegments(const RowwiseArgs args) {
  constexpr int kAcross = 32, kDown = kThreads / kAcross;
  __shared__ int parts[kDown][kAcross];
  const int across = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
  const int64_t segment = blockIdx.x, col = int64_t{blockIdx.y} * kAcross + across;
  const int64_t begin = args.segments[segment], end = args.segments[segment + 1];
  unsigned found = 0;
  int64_t before = (end - begin - 1) / 2;
  for (int bit = 31; bit >= 0; --bit) {
    int zeros = 0;
    for (int64_t row = begin + down; row < end && col < args.dst.cols; row += kDown)
      zeros += (OrderOf(At(args.a, row, col)) >> bit) == (found >> bit) ? 1 : 0;
    parts[down][across] = zeros;
    __syncthreads();
    int all = 0;
    for (int d = 0; d < kDown; ++d) all += parts[d][across];
    __syncthreads();
    if (before < all) continue;
    before -= all;
    found |= 1u << bit;
  }
  if (down != 0 || col >= args.dst.cols) return;
  const unsigned bits = (found & 0x80000000u) != 0 ? found & 0x7fffffffu : ~found;
  StoreElement(args, segment, col, begin == end ? 0.0f : __uint_as_float(bits));
}

// Whether row i stands before row j: its last column is larger, or equal and the one before is, ...
__device__ bool StandsBefore(const ConstMatrixView& a, int64_t i, int64_t j) {
  for (int64_t c = a.cols; c-- > 0;) {
    const float x = At(a, i, c), y = At(a, j, c);
    if (x != y) return x > y;
  }
  return i < j;
}

// A block per segment. For each row of the result all threads search for the next one in the order.
__global__ void __launch_bounds__(kThreads) SortSegments(const RowwiseArgs args) {
  __shared__ int64_t best[kThreads];
  const int64_t segment = blockIdx.x, begin = args.segments[segment], end = args.segments[segment + 1];
  const int64_t width = args.a.cols, places = args.dst.cols / width;
  int64_t previous = -1;
  for (int64_t place = 0; place < places; ++place) {
    const bool some = place < end - begin;
    int64_t own = -1;
    for (int64_t row = begin + threadIdx.x; some && row < end; row += kThreads) {
      if (previous >= 0 && !StandsBefore(args.a, previous, row)) continue;
      if (own < 0 || StandsBefore(args.a, row, own)) own = row;
    }
    best[threadIdx.x] = own;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) {
        const int64_t other = best[threadIdx.x + half], mine = best[threadIdx.x];
        if (other >= 0 && (mine < 0 || StandsBefore(args.a, other, mine))) best[threadIdx.x] = other;
      }
      __syncthreads();
    }
    previous = best[0];
    __syncthreads();
    for (int64_t col = threadIdx.x; col < width; col += kThreads)
      StoreElement(args, segment, place * width + col, some ? At(args.a, previous, col) : 0.0f);
  }
}

// A thread per element searches for the segment of its row.
__global__ void __launch_bounds__(kThreads) ExpandRows(const RowwiseArgs args) {
  const int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (element >= args.dst.rows * args.dst.cols) return;
  const int64_t row = element / args.dst.cols, col = element % args.dst.cols;
  int64_t first = 0, last = args.num_segments - 1;  // the segment is one of these
  while (first < last) {
    const int64_t middle = (first + last + 1) / 2;
    if (args.segments[middle] <= row) {
      first = middle;
    } else {
      last = middle - 1;
    }
  }
  StoreElement(args, row, col, At(args.a, first, col));
}

unsigned Blocks(int64_t work, int64_t per_block) { return static_cast<unsigned>((work + per_block - 1) / per_block); }

template <Storage kStorage>
void LaunchNarrow(const RowwiseArgs& args, cudaStream_t stream) {
  const bool packs = args.dst16.cols % 4 == 0 && InPacks(args.a, 4) && InPacks(args.dst16, 4);
  const int64_t elements = args.dst16.rows * args.dst16.cols;
  if (packs) {
    Narrow<kStorage, 4><<<Blocks(elements / 4, kThreads), kThreads, 0, stream>>>(args);
  } else {
    Narrow<kStorage, 1><<<Blocks(elements, kThreads), kThreads, 0, stream>>>(args);
  }
}

void LaunchGraphNorm(const RowwiseArgs& args, const LaunchTarget& target, double* moments) {
  for (int64_t first = 0; first < args.num_segments; first += kMomentSegments) {
    const int64_t segments = std::min(args.num_segments - first, kMomentSegments);
    const unsigned down = static_cast<unsigned>(segments);
    // With few segments, the last pass needs many blocks per segment. Its order does not matter.
    const unsigned across = segments < 16 ? static_cast<unsigned>(8 * target.limits.multiprocessors) : kMomentParts;
    SegmentMoments<<<dim3(kMomentParts, down), kThreads, 0, target.stream>>>(args, first, moments);
    SegmentOrigins<<<Blocks(segments, kThreads), kThreads, 0, target.stream>>>(args, first, segments, moments);
    SegmentNormalize<<<dim3(across, down), kThreads, 0, target.stream>>>(args, first, moments);
  }
}

}  // namespace

cudaError_t LaunchRowwise(const RowwiseArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.problem.kind == RowwiseKind::kNarrow) {
    if (args.dst16.rows == 0 || args.dst16.cols == 0) return cudaSuccess;
    args.problem.storage == Storage::kBfloat16 ? LaunchNarrow<Storage::kBfloat16>(args, target.stream)
                                               : LaunchNarrow<Storage::kFloat16>(args, target.stream);
    return cudaGetLastError();
  }
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const unsigned row_blocks = Blocks(args.dst.rows, kThreads / 32);
  switch (args.problem.kind) {
    case RowwiseKind::kAdd:
    case RowwiseKind::kMax:
    case RowwiseKind::kMultiply:
    case RowwiseKind::kGatherRows:
      Elements<<<Blocks(args.dst.rows * args.dst.cols, kThreads), kThreads, 0, target.stream>>>(args);
      break;
    case RowwiseKind::kNormalize:
      NormalizeRows<<<row_blocks, kThreads, 0, target.stream>>>(args);
      break;
    case RowwiseKind::kSoftmax:
    case RowwiseKind::kLogSoftmax:
      SoftmaxRows<<<row_blocks, kThreads, 0, target.stream>>>(args);
      break;
    case RowwiseKind::kLayerNorm:
      LayerNormRows<<<row_blocks, kThreads, 0, target.stream>>>(args);
      break;
    case RowwiseKind::kGraphNorm:
      LaunchGraphNorm(args, target, static_cast<double*>(scratch));
      break;
    case RowwiseKind::kSparseToDense:
      SparseToDenseRows<<<row_blocks, kThreads, 0, target.stream>>>(args);
      break;
    case RowwiseKind::kExpand:
      ExpandRows<<<Blocks(args.dst.rows * args.dst.cols, kThreads), kThreads, 0, target.stream>>>(args);
      break;
    case RowwiseKind::kGate:
      GateRows<<<row_blocks, kThreads, 0, target.stream>>>(args);
      break;
    case RowwiseKind::kNarrow:  // handled above: it has no dst
      break;
    case RowwiseKind::kReadout:
      if (args.num_segments == 0) break;
      ReadoutSegments<<<dim3(static_cast<unsigned>(args.num_segments), Blocks(args.dst.cols, 32)), kThreads, 0,
                        target.stream>>>(args);
      break;
    case RowwiseKind::kMedian:
      MedianSegments<<<dim3(static_cast<unsigned>(args.num_segments), Blocks(args.dst.cols, 32)), kThreads, 0,
                       target.stream>>>(args);
      break;
    case RowwiseKind::kSortRows:
      SortSegments<<<static_cast<unsigned>(args.num_segments), kThreads, 0, target.stream>>>(args);
      break;
  }
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
