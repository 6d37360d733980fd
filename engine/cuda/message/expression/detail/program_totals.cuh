// SPDX-License-Identifier: Apache-2.0
// How the messages of a row become one number per column: totals of messages in order, and how two totals are joined. A
// total that was only initialised stands for no message; joining it changes nothing.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_PROGRAM_TOTALS_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_PROGRAM_TOTALS_CUH_

#include <cmath>
#include <cstdint>

#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/message/expression/tile_params.h"

namespace vicinal::cuda {

// kSum, kMean.
struct ProgramSum {
  static constexpr int kFloats = kPlainFloats;
  static constexpr bool kShared = false;
  float sum = 0.0f;

  __device__ void Add(const TileResult&, float m, float) { sum += m; }
  __device__ void Join(const ProgramSum& other) { sum += other.sum; }
  __device__ float Result(const TileResult& result, int64_t edges) const {
    return result.reduce == TileReduce::kMean ? __fdiv_rn(sum, static_cast<float>(edges)) : sum;
  }
  __device__ float* Float(int) { return &sum; }
};

// kMax, and kMin as the largest of negated messages.
struct ProgramExtreme {
  static constexpr int kFloats = kPlainFloats;
  static constexpr bool kShared = false;
  float largest = -INFINITY;

  __device__ void Add(const TileResult& result, float m, float) {
    largest = LargerOf(largest, result.reduce == TileReduce::kMin ? -m : m);
  }
  __device__ void Join(const ProgramExtreme& other) { largest = LargerOf(largest, other.largest); }
  __device__ float Result(const TileResult& result, int64_t) const {
    return result.reduce == TileReduce::kMin ? -largest : largest;
  }
  __device__ float* Float(int) { return &largest; }
};

// kVariance, kDeviation: a mean and the sum of squares of differences from it, which do not cancel.
struct ProgramSpread {
  static constexpr int kFloats = kSpreadFloats;
  static constexpr bool kShared = false;
  float count = 0.0f, mean = 0.0f, squares = 0.0f;

  __device__ void Add(const TileResult&, float m, float) {
    count += 1.0f;
    const float before = m - mean;
    mean += __fdiv_rn(before, count);
    squares = fmaf(before, m - mean, squares);
  }
  __device__ void Join(const ProgramSpread& other) {
    if (other.count == 0.0f) return;
    if (count == 0.0f) {
      *this = other;
      return;
    }
    const float all = count + other.count, share = __fdiv_rn(other.count, all), difference = other.mean - mean;
    squares = fmaf(difference * difference, share * count, squares + other.squares);
    mean = fmaf(difference, share, mean);
    count = all;
  }
  __device__ float Result(const TileResult& result, int64_t) const {
    const float variance = __fdiv_rn(squares, count);
    if (result.reduce == TileReduce::kVariance) return variance;
    return variance <= 1e-5f ? 0.0f : __fsqrt_rn(variance);
  }
  __device__ float* Float(int i) { return i == 0 ? &count : i == 1 ? &mean : &squares; }
};

// What a score makes of the sums before it, which are relative to `top`, the largest score before, and of its own
// message: either the sums are scaled, or the message is, and the other factor is 1. So one number says both: the
// message's factor or, with its sign set, the sums'. While all scores are -infinity, messages weigh 0, as -infinity
// less itself is no number.
__device__ inline float ShareOf(float score, float top) {
  if (score > top) {
    const float scale = expf(top - score);
    return score - score == 0.0f ? -scale : score - score;  // infinity has no share
  }
  return expf(score - (top == -INFINITY ? 0.0f : top));
}

// kSoftmax: a sum of messages weighted by exp(score), relative to the largest score, `top`, which the caller sets
// before totals are joined or stored.
struct ProgramSoftmax {
  static constexpr int kFloats = kSoftmaxFloats;
  static constexpr bool kShared = true;
  float top = -INFINITY, weights = 0.0f, sum = 0.0f;

  __device__ void Add(const TileResult&, float m, float share) {
    const bool scales = __float_as_int(share) < 0;
    const float mine = scales ? -share : 1.0f, theirs = scales ? 1.0f : share;
    weights = fmaf(weights, mine, theirs);
    sum = fmaf(sum, mine, m * theirs);
  }
  __device__ void Join(const ProgramSoftmax& other) {
    if (top == -INFINITY && weights == 0.0f && sum == 0.0f) {  // no message
      *this = other;
      return;
    }
    const float most = LargerOf(top, other.top), base = most == -INFINITY ? 0.0f : most;
    const float mine = expf(top - base), theirs = expf(other.top - base);
    weights = fmaf(weights, mine, other.weights * theirs);
    sum = fmaf(sum, mine, other.sum * theirs);
    top = most;
  }
  __device__ float Result(const TileResult&, int64_t) const { return __fdiv_rn(sum, weights); }
  __device__ float* Float(int i) { return i == 0 ? &top : i == 1 ? &weights : &sum; }
};

// Calls use(total) with an empty total of the result's kind.
template <class Use>
__device__ __forceinline__ void WithTotal(const TileResult& result, const Use& use) {
  switch (result.reduce) {
    case TileReduce::kSum:
    case TileReduce::kMean:
      return use(ProgramSum());
    case TileReduce::kMax:
    case TileReduce::kMin:
      return use(ProgramExtreme());
    case TileReduce::kVariance:
    case TileReduce::kDeviation:
      return use(ProgramSpread());
    case TileReduce::kSoftmax:
      return use(ProgramSoftmax());
  }
}

// The totals of one column of the current row: folded ones, and that since the last fold.
template <class Total>
struct ProgramColumn {
  Total folded, since;

  // After every kExpressionFold-th message of a row or piece.
  __device__ void Fold() {
    folded.Join(since);
    since = Total();
  }
  __device__ Total All() const {
    Total all = folded;
    all.Join(since);
    return all;
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_PROGRAM_TOTALS_CUH_
