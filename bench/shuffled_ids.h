// SPDX-License-Identifier: Apache-2.0
// What all laws of graphs draw from, and new ids in random order.
#ifndef VICINAL_BENCH_SHUFFLED_IDS_H_
#define VICINAL_BENCH_SHUFFLED_IDS_H_

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "bench/counted_random.h"

namespace vicinal::bench {

inline constexpr uint64_t kGraphSeed = 7;
inline constexpr int64_t kPairsOfStep = 1 << 16;  // drawn by one task

inline std::vector<int32_t> ShuffledIds(int64_t nodes) {
  std::vector<int32_t> ids(nodes);
  std::iota(ids.begin(), ids.end(), 0);
  CountedRandom random(kGraphSeed, 999);
  for (auto last = static_cast<uint32_t>(nodes) - 1; last > 0; --last)
    std::swap(ids[last], ids[random.Below(last + 1)]);
  return ids;
}

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_SHUFFLED_IDS_H_
