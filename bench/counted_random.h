// SPDX-License-Identifier: Apache-2.0
// A stream of random numbers of its own for each item of a seed, so that items can be drawn by any thread in any order:
// SplitMix64, begun at a scrambled (seed, item).
#ifndef VICINAL_BENCH_COUNTED_RANDOM_H_
#define VICINAL_BENCH_COUNTED_RANDOM_H_

#include <cstdint>

#include "tests/split_mix.h"

namespace vicinal::bench {

class CountedRandom {
 public:
  CountedRandom(uint64_t seed, uint64_t item) : random_(Begin(seed, item)) {}

  uint64_t Next() { return random_.Next(); }
  // In [0, 1), 53 bits.
  double Unit() { return random_.Unit(); }
  // In [0, bound).
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(((Next() >> 32) * bound) >> 32); }

 private:
  static uint64_t Begin(uint64_t seed, uint64_t item) {
    using Mix = testing::SplitMix64;
    constexpr uint64_t kSpread = 0x2545f4914f6cdd1dull;
    return Mix::Finish(seed * kSpread + Mix::Finish(item + Mix::kStep) + Mix::kStep);
  }

  testing::SplitMix64 random_;
};

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_COUNTED_RANDOM_H_
