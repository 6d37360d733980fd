// SPDX-License-Identifier: Apache-2.0
// Coefficients of edges by Gaussians of their features, p_k = exp(sum over a of scale_ka (e_a - mean_ka)^2). A lane has
// one k, for some edges whose features are in shared memory: loads of means and scales, which adjacent lanes have side
// by side, serve all of them. Order of evaluation: features ascending, folded every kFoldFeatures.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_GAUSSIANS_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_GAUSSIANS_CUH_

#include "engine/cuda/common/pack.cuh"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

inline constexpr int kFoldFeatures = 64;

struct GaussianColumn {
  const float *mean, *scale;  // of feature 0

  __device__ GaussianColumn(const MessageReduceArgs& args, int k)
      : mean(args.gaussian_mean + k), scale(args.gaussian_scale + k) {}

  // Adds the terms of features [first, first + count) to the sums of kMine edges. Feature `first` of edge i is at
  // staged[place[i]], which is aligned to 16 bytes; a multiple of 4 of them may be read. `stride`: K.
  template <int kMine>
  __device__ void AddTerms(const float* staged, const int (&place)[kMine], int first, int count, int stride,
                           float (&sum)[kMine]) const {
#pragma unroll 1
    for (int a = 0; a < count; a += 4) {
      float m[4], s[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = (first + min(a + i, count - 1)) * stride;
        m[i] = __ldg(mean + at), s[i] = __ldg(scale + at);
      }
      Pack<4> x[kMine];
#pragma unroll
      for (int e = 0; e < kMine; ++e) x[e] = LoadShared<4>(staged + place[e] + a);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (a + i >= count) break;
#pragma unroll
        for (int e = 0; e < kMine; ++e) {
          const float difference = __fsub_rn(x[e].v[i], m[i]);
          sum[e] = fmaf(__fmul_rn(difference, difference), s[i], sum[e]);
        }
      }
    }
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_GAUSSIANS_CUH_
