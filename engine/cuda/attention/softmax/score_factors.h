// SPDX-License-Identifier: Apache-2.0
// The factors of scores before they become powers of two (softmax_state.cuh), computed on the host.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_SOFTMAX_SCORE_FACTORS_H_
#define VICINAL_ENGINE_CUDA_ATTENTION_SOFTMAX_SCORE_FACTORS_H_

#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// log2(e) times a scale, for non-negative and for negative scores, each as the sum of two floats.
struct ScoreFactors {
  float above = 0;
  float above_low = 0;
  float below = 0;
  float below_low = 0;

  ScoreFactors() = default;
  ScoreFactors(double scale_above, double scale_below) {
    constexpr double kLog2E = 1.4426950408889634;
    above = static_cast<float>(scale_above * kLog2E);
    above_low = static_cast<float>(scale_above * kLog2E - above);
    below = static_cast<float>(scale_below * kLog2E);
    below_low = static_cast<float>(scale_below * kLog2E - below);
  }
};

inline ScoreFactors FactorsOf(const AttentionArgs& args) {
  switch (args.problem.kind) {
    case AttentionKind::kGat:
      return ScoreFactors(1.0, args.negative_slope);
    case AttentionKind::kGatV2:
      return ScoreFactors(1.0, 1.0);
    case AttentionKind::kDot:
      return ScoreFactors(args.score_scale, args.score_scale);
  }
  return ScoreFactors();
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_SOFTMAX_SCORE_FACTORS_H_
