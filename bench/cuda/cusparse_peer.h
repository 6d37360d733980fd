// SPDX-License-Identifier: Apache-2.0
// cuSPARSE as the baseline: row-major, 32-bit indices, every algorithm that takes CSR. Descriptors, workspace and
// preprocessing are outside the timed part, as a careful user would have it.
#ifndef VICINAL_BENCH_CUDA_CUSPARSE_PEER_H_
#define VICINAL_BENCH_CUDA_CUSPARSE_PEER_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/cuda/event_timer.h"
#include "engine/base/vocabulary.h"

namespace vicinal::bench {

inline constexpr int kSets = 3;  // of rotating buffers

// A square CSR matrix on the device. Pointers are not const, as cuSPARSE takes them so.
struct PeerMatrix {
  int64_t nodes = 0;
  int64_t edges = 0;
  int32_t* row_ptr = nullptr;
  int32_t* col = nullptr;
};

struct PeerRun {
  std::string algorithm;
  Timing timing;
  bool right = false;
};

// result = A * src, [nodes, width] each. A's values and src are stored in `storage`, the result in `result_storage`;
// sums are float32.
struct SpmmPeer {
  PeerMatrix matrix;
  int64_t width = 0;
  Storage storage = Storage::kFloat32;
  Storage result_storage = Storage::kFloat32;
  void* value = nullptr;
  void* src[kSets] = {};
  void* result[kSets] = {};
};

// result[e] = target[i] . src[j] for each edge (j -> i), [edges], float32.
struct SddmmPeer {
  PeerMatrix matrix;
  int64_t width = 0;
  float* src[kSets] = {};
  float* target[kSets] = {};
  float* result[kSets] = {};
};

// Times each algorithm that supports the problem. `is_right` is called after a first run into the first set. Algorithms
// far slower than the fastest keep the time of a few runs.
std::vector<PeerRun> TimeCusparse(const SpmmPeer& peer, cudaStream_t stream, double budget_us,
                                  const std::function<bool()>& is_right);
std::vector<PeerRun> TimeCusparse(const SddmmPeer& peer, cudaStream_t stream, double budget_us,
                                  const std::function<bool()>& is_right);

// The fastest run with a correct result; null: there is none.
const PeerRun* Fastest(const std::vector<PeerRun>& runs);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_CUSPARSE_PEER_H_
