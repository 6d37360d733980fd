// SPDX-License-Identifier: Apache-2.0
// Times of the best public kernels on these graphs, with cuSPARSE in the same run. Measured once on an NVIDIA H200
// (2026-11-21; CUDA 13.0, each built from its own sources, correct to 1e-4). Their sources are not part of this
// repository, so their time in a run of ours is estimated: cuSPARSE's time in our run times the ratio of peer to
// cuSPARSE in theirs.
#ifndef VICINAL_BENCH_CUDA_LISTED_PEERS_H_
#define VICINAL_BENCH_CUDA_LISTED_PEERS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "bench/cuda/operations.h"

namespace vicinal::bench {

// Time of the best listed peer for `listed`, divided by that of the best cuSPARSE weighted float32 sum, on that graph
// at that width. None if it is not listed.
std::optional<double> ListedShareOfCusparse(std::string_view graph, int64_t width, Listed listed);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_LISTED_PEERS_H_
