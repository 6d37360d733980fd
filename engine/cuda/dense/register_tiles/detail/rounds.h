// SPDX-License-Identifier: Apache-2.0
// The launcher of dense_update's kernel for many inputs, and how tiles are chosen by cost.
#ifndef VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_ROUNDS_H_
#define VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_ROUNDS_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

#include "engine/cuda/common/launch.h"

namespace vicinal::cuda {

struct DenseParams;

// The cost of a tile that does not fit a block's shared memory.
inline constexpr int64_t kDoesNotFit = std::numeric_limits<int64_t>::max();

// Whether the kernel can run and one of its tiles fits.
bool CanRunRounds(const DenseParams& params, const LaunchTarget& target);
// REQUIRES: CanRunRounds; rows of src aligned to 16 bytes, fewer than 2^31.
cudaError_t LaunchDenseRounds(const DenseParams& params, const LaunchTarget& target);

// Launches one of the candidates, which have Cost and Launch: of those that cost the same the first. REQUIRES: one
// fits.
template <class... Candidates>
cudaError_t LaunchCheapest(const DenseParams& params, const LaunchTarget& target) {
  struct Candidate {
    int64_t (*cost)(const DenseParams&, const LaunchTarget&);
    cudaError_t (*launch)(const DenseParams&, const LaunchTarget&);
  };
  static constexpr Candidate kCandidates[] = {{&Candidates::Cost, &Candidates::Launch}...};
  const auto cheaper = [&](const Candidate& a, const Candidate& b) {
    return a.cost(params, target) < b.cost(params, target);
  };
  return std::min_element(std::begin(kCandidates), std::end(kCandidates), cheaper)->launch(params, target);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_ROUNDS_H_
