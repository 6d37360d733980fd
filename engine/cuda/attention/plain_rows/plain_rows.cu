// SPDX-License-Identifier: Apache-2.0
// plain_rows: a simple attention, the baseline of the fused one. A warp per row; it reads each edge three times per
// head and 32 columns (scores twice, values once) and does not cut long rows. Features of edges are multiplied anew for
// each of these, in registers, so that any number of them will do.
#include "engine/cuda/attention/plain_rows/plain_rows.h"
#include "engine/cuda/attention/softmax/softmax_state.cuh"
#include "engine/cuda/common/edge_features.cuh"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/hardware.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 128;

// The two terms whose sum is a score, before GAT's activation.
struct Score {
  float a, b;
};

__device__ float SumOfWarp(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(kWholeWarp, x, distance);
  return x;
}

// Column `col` of an edge's features times W^T [A, columns]; 0 without features (null).
__device__ float FeatureTerm(const AttentionArgs& args, const float* features, int64_t columns, int64_t col) {
  float sum = 0.0f;
  if (features == nullptr) return sum;
  for (int64_t a = 0; a < args.problem.edge_width; ++a) {
    sum = fmaf(__ldg(features + a), __ldg(args.edge_weight + a * columns + col), sum);
  }
  return sum;
}

// The same for GAT's one column per head, shared out among the lanes.
__device__ float GatFeatureTerm(const AttentionArgs& args, const float* features, int64_t head) {
  float sum = 0.0f;
  if (features == nullptr) return sum;
  for (int64_t a = threadIdx.x % 32; a < args.problem.edge_width; a += 32) {
    sum = fmaf(__ldg(features + a), __ldg(args.edge_weight + a * args.problem.heads + head), sum);
  }
  return SumOfWarp(sum);
}

__device__ Score PlainScore(const AttentionArgs& args, const float* features, int64_t row, int64_t source,
                            int64_t head) {
  if (args.problem.kind == AttentionKind::kGat) {
    const float of_source = args.score_src.data[source * args.score_src.stride + head];
    return {features == nullptr ? of_source : of_source + GatFeatureTerm(args, features, head),
            args.score_dst.data[row * args.score_dst.stride + head]};
  }
  const int64_t columns = args.problem.heads * args.problem.head_width;
  float score = 0.0f;
  for (int64_t c = threadIdx.x % 32; c < args.problem.head_width; c += 32) {
    const int64_t col = head * args.problem.head_width + c;
    const float query = args.query.data[row * args.query.stride + col];
    if (args.problem.kind == AttentionKind::kGatV2) {
      const float value = args.value.data[source * args.value.stride + col];
      const float x = (features == nullptr ? value : value + FeatureTerm(args, features, columns, col)) + query;
      score = fmaf(args.att[col], LeakyRelu(x, args.negative_slope), score);
    } else {
      const float key = args.key.data[source * args.key.stride + col];
      score = fmaf(query, features == nullptr ? key : key + FeatureTerm(args, features, columns, col), score);
    }
  }
  return {SumOfWarp(score), 0.0f};
}

struct SoftmaxSum {
  float shift = kNoScore, total = 0.0f, sum = 0.0f;

  // Adds another sum, or a single exponential with its value.
  __device__ void Merge(float other_shift, float other_total, float other_sum) {
    const float top = fmaxf(shift, other_shift);
    const float mine = PowerOfTwo(shift - top), theirs = PowerOfTwo(other_shift - top);
    total = fmaf(other_total, theirs, total * mine);
    sum = fmaf(other_sum, theirs, sum * mine);
    shift = top;
  }
};

// The softmax-weighted sum of one head in this lane's column `c`. Lanes beyond the head's width only help with scores.
template <bool kFeatured>
__device__ float PlainHead(const AttentionArgs& args, const ScoreFactors& factors, const FeaturesOfRow& of_row,
                           int64_t row, int64_t head, int64_t c) {
  constexpr int64_t kFold = 32;  // edges per fold, so that rounding errors hardly grow with the length of a row
  SoftmaxSum whole, part;
  const int64_t begin = args.adjacency.row_ptr[row], end = args.adjacency.row_ptr[row + 1];
  for (int64_t e = begin; e < end; ++e) {
    const int64_t source = args.adjacency.col[e];
    const float* features = nullptr;
    if constexpr (kFeatured)
      features = of_row.Of(static_cast<int>(e - begin), static_cast<int>(args.problem.edge_width));
    const Score score = PlainScore(args, features, row, source, head);
    const Exponential exponential = ExponentialOf(score.a, score.b, factors);
    float x = 0.0f;
    if (c < args.problem.head_width) {
      const int64_t columns = args.problem.heads * args.problem.head_width, col = head * args.problem.head_width + c;
      x = args.value.data[source * args.value.stride + col];
      if (kFeatured && args.problem.kind == AttentionKind::kDot) x += FeatureTerm(args, features, columns, col);
    }
    part.Merge(exponential.whole, exponential.share, exponential.share * x);
    if (e + 1 < end && (e - begin) % kFold != kFold - 1) continue;
    whole.Merge(part.shift, part.total, part.sum);
    part = SoftmaxSum();
  }
  return whole.total != 0.0f ? __fdiv_rn(whole.sum, whole.total) : 0.0f;
}

template <bool kFeatured>
__global__ void __launch_bounds__(kThreads) PlainAttention(const AttentionArgs args, const ScoreFactors factors) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= args.dst.rows) return;
  const int64_t heads = args.problem.heads, width = args.problem.head_width;
  FeaturesOfRow of_row;
  if constexpr (kFeatured) of_row = FindFeatures<32>(args.edge, args.adjacency, row, 0);
  for (int64_t c0 = 0; c0 < width; c0 += 32) {
    const int64_t c = c0 + threadIdx.x % 32;
    float sum = 0.0f;
    for (int64_t head = 0; head < heads; ++head) {
      const float x = PlainHead<kFeatured>(args, factors, of_row, row, head, c);
      const int64_t col = head * width + c;
      if (args.problem.concat && c < width) {
        args.dst.data[row * args.dst.stride + col] = ApplyEpilogue(args.epilogue, x, row, col);
      }
      sum += x;
    }
    if (args.problem.concat || c >= width) continue;
    args.dst.data[row * args.dst.stride + c] =
        ApplyEpilogue(args.epilogue, __fdiv_rn(sum, static_cast<float>(heads)), row, c);
  }
}

}  // namespace

cudaError_t LaunchPlainAttention(const AttentionArgs& args, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>((args.dst.rows * 32 + kThreads - 1) / kThreads);
  args.problem.edge_width > 0 ? PlainAttention<true><<<blocks, kThreads, 0, target.stream>>>(args, FactorsOf(args))
                              : PlainAttention<false><<<blocks, kThreads, 0, target.stream>>>(args, FactorsOf(args));
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
