// SPDX-License-Identifier: Apache-2.0
// The launcher of register_tiles' kernel for many inputs, and the choice of tiles by cost.
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

// True if the kernel can run and one of its tiles fits.
bool CanRunRounds(const DenseParams& params, const LaunchTarget& target);
// REQUIRES: CanRunRounds; rows of src aligned to 16 bytes, fewer than 2^31.
cudaError_t LaunchDenseRounds(const DenseParams& params, const LaunchTarget& target);

// Launches the candidate with the lowest Cost; the first of these if several have it. REQUIRES: at least one fits.
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
