// SPDX-License-Identifier: Apache-2.0
// How the messages of a row become one, a column at a time: totals of messages in order, and how they are joined. A
// total that was only initialised stands for no message; joining it changes nothing.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_ROW_TOTALS_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_ROW_TOTALS_CUH_

#include <cmath>
#include <cstdint>

#include "engine/cuda/message/message.cuh"
#include "engine/cuda/message/tile_blocks.cuh"

namespace vicinal::cuda {

// Edges of a row whose messages are joined before they are folded into the row's total.
inline constexpr int kFoldEdges = 64;

// A sum, or the largest of messages that are negated for a minimum.
template <bool kExtreme>
struct PlainTotal {
  static constexpr int kFloats = 1;
  float value;

  __device__ PlainTotal(float x = Reducer<kExtreme>::Identity()) : value(x) {}
  __device__ static PlainTotal Of(const MessageReduceArgs& args, float m) {
    return {kExtreme ? Reducer<kExtreme>::Sign(args.problem.reduce) * m : m};
  }
  __device__ void Join(const MessageReduceArgs&, const PlainTotal& other) {
    value = Reducer<kExtreme>::Combine(value, other.value);
  }
  __device__ float Result(const MessageReduceArgs& args, int64_t edges) const {
    return Reducer<kExtreme>::Finish(args.problem.reduce, value, edges);
  }
  __device__ float* Float(int) { return &value; }
};

// A sum of messages weighted by exp(temperature * message), relative to the largest of these. Its exponent is the
// temperature times a difference of messages, which is exact where it matters: rounding each temperature * message
// would cost the digits of a large one. Joining takes one exponential.
struct SoftmaxTotal {
  static constexpr int kFloats = 3;
  float top = 0.0f;      // the message of the largest weight
  float weights = 0.0f;  // relative to it, so at least 1; 0: no message
  float sum = 0.0f;

  __device__ static SoftmaxTotal Of(const MessageReduceArgs&, float m) {
    SoftmaxTotal total;
    total.top = total.sum = m;
    total.weights = 1.0f;
    return total;
  }
  __device__ void Join(const MessageReduceArgs& args, const SoftmaxTotal& other) {
    if (other.weights == 0.0f) return;
    if (weights == 0.0f) {
      *this = other;
      return;
    }
    const float lead = args.temperature * (other.top - top), e = expf(-fabsf(lead));
    const float mine = lead > 0.0f ? e : 1.0f, theirs = lead > 0.0f ? 1.0f : e;
    top = lead > 0.0f ? other.top : top;
    weights = fmaf(weights, mine, other.weights * theirs);
    sum = fmaf(sum, mine, other.sum * theirs);
  }
  __device__ float Result(const MessageReduceArgs&, int64_t edges) const {
    return edges == 0 ? 0.0f : __fdiv_rn(sum, weights);
  }
  __device__ float* Float(int i) { return i == 0 ? &top : i == 1 ? &weights : &sum; }
};

// The totals of one column of the current row.
template <class Total>
struct TileColumn {
  Total folded, since;

  // `place`: index of the edge in its row or piece.
  __device__ void Add(const MessageReduceArgs& args, float m, int place) {
    since.Join(args, Total::Of(args, m));
    if (place % kFoldEdges != kFoldEdges - 1) return;
    folded.Join(args, since);
    since = Total();
  }
  __device__ Total All(const MessageReduceArgs& args) const {
    Total all = folded;
    all.Join(args, since);
    return all;
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_ROW_TOTALS_CUH_
