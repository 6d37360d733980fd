// SPDX-License-Identifier: Apache-2.0
// plain_rows: a simple attention, the baseline of the fused one. A warp per row; it reads each edge three times per
// head and 32 columns (scores twice, values once) and does not cut long rows.
#include "engine/cuda/attention/plain_rows/plain_rows.h"
#include "engine/cuda/attention/softmax/softmax_state.cuh"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/hardware.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 128;

// The two terms whose sum is a score, before GAT's activation.
struct Score {
  float a, b;
};

__device__ Score PlainScore(const AttentionArgs& args, int64_t row, int64_t source, int64_t head) {
  if (args.problem.kind == AttentionKind::kGat) {
    return {args.score_src.data[source * args.score_src.stride + head],
            args.score_dst.data[row * args.score_dst.stride + head]};
  }
  float score = 0.0f;
  for (int64_t c = threadIdx.x % 32; c < args.problem.head_width; c += 32) {
    const int64_t col = head * args.problem.head_width + c;
    const float query = args.query.data[row * args.query.stride + col];
    if (args.problem.kind == AttentionKind::kGatV2) {
      const float x = args.value.data[source * args.value.stride + col] + query;
      score = fmaf(args.att[col], LeakyRelu(x, args.negative_slope), score);
    } else {
      score = fmaf(query, args.key.data[source * args.key.stride + col], score);
    }
  }
  for (int distance = 16; distance > 0; distance /= 2) score += __shfl_xor_sync(kWholeWarp, score, distance);
  return {score, 0.0f};
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
__device__ float PlainHead(const AttentionArgs& args, const ScoreFactors& factors, int64_t row, int64_t head,
                           int64_t c) {
  constexpr int64_t kFold = 32;  // edges per fold, so that rounding errors hardly grow with the length of a row
  SoftmaxSum whole, part;
  const int64_t begin = args.adjacency.row_ptr[row], end = args.adjacency.row_ptr[row + 1];
  for (int64_t e = begin; e < end; ++e) {
    const int64_t source = args.adjacency.col[e];
    const Score score = PlainScore(args, row, source, head);
    const Exponential exponential = ExponentialOf(score.a, score.b, factors);
    float x = 0.0f;
    if (c < args.problem.head_width) {
      x = args.value.data[source * args.value.stride + head * args.problem.head_width + c];
    }
    part.Merge(exponential.whole, exponential.share, exponential.share * x);
    if (e + 1 < end && (e - begin) % kFold != kFold - 1) continue;
    whole.Merge(part.shift, part.total, part.sum);
    part = SoftmaxSum();
  }
  return whole.total != 0.0f ? __fdiv_rn(whole.sum, whole.total) : 0.0f;
}

__global__ void __launch_bounds__(kThreads) PlainAttention(const AttentionArgs args, const ScoreFactors factors) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= args.dst.rows) return;
  const int64_t heads = args.problem.heads, width = args.problem.head_width;
  for (int64_t c0 = 0; c0 < width; c0 += 32) {
    const int64_t c = c0 + threadIdx.x % 32;
    float sum = 0.0f;
    for (int64_t head = 0; head < heads; ++head) {
      const float x = PlainHead(args, factors, row, head, c);
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
  PlainAttention<<<blocks, kThreads, 0, target.stream>>>(args, FactorsOf(args));
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
