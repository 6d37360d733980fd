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

// kSoftmax: a sum of messages weighted by exp(score), relative to the largest score. While all scores are -infinity,
// weights are 0, as -infinity less itself is no number.
struct ProgramSoftmax {
  static constexpr int kFloats = kSoftmaxFloats;
  float top = -INFINITY, weights = 0.0f, sum = 0.0f;

  __device__ void Add(const TileResult&, float m, float score) {
    ProgramSoftmax one;
    one.top = score;
    one.weights = 1.0f;
    one.sum = m;
    Join(one);
  }
  __device__ void Join(const ProgramSoftmax& other) {
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

  // `place`: of the edge in its row or piece.
  __device__ void Add(const TileResult& result, float m, float score, int64_t place) {
    since.Add(result, m, score);
    if (place % kExpressionFold != kExpressionFold - 1) return;
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
