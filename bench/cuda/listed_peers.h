// SPDX-License-Identifier: Apache-2.0
// What the best public kernels took on these graphs, measured once on an NVIDIA H200 (2026-11-21; CUDA 13.0, each built
// from its own sources, correct to 1e-4), beside cuSPARSE in the same run. They do not travel with this repository, so
// their time in a run of ours is taken to be cuSPARSE's here times what they took of cuSPARSE's there.
#ifndef VICINAL_BENCH_CUDA_LISTED_PEERS_H_
#define VICINAL_BENCH_CUDA_LISTED_PEERS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "bench/cuda/operations.h"

namespace vicinal::bench {

// Time of the best listed peer for `listed` by time of the best cuSPARSE weighted float32 sum, on that graph at that
// width; none where the list has none.
std::optional<double> ListedShareOfCusparse(std::string_view graph, int64_t width, Listed listed);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_LISTED_PEERS_H_
