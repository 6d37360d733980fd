// SPDX-License-Identifier: Apache-2.0
// What scores are multiplied by before they become powers of two, prepared on the host (softmax_state.cuh).
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_DETAIL_SOFTMAX_STATE_H_
#define VICINAL_ENGINE_CUDA_ATTENTION_DETAIL_SOFTMAX_STATE_H_

namespace vicinal::cuda {

// log2(e) times a scale, for scores of at least 0 and for those below, each as the sum of two floats.
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

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_DETAIL_SOFTMAX_STATE_H_
