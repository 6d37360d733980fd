// SPDX-License-Identifier: Apache-2.0
// A stream of random numbers of its own for each item of a seed, so that items can be drawn by any thread in any order:
// SplitMix64 (Steele, Lea and Flood 2014), begun at a scrambled (seed, item).
#ifndef VICINAL_BENCH_COUNTED_RANDOM_H_
#define VICINAL_BENCH_COUNTED_RANDOM_H_

#include <cstdint>

namespace vicinal::bench {

class CountedRandom {
 public:
  CountedRandom(uint64_t seed, uint64_t item) : state_(Finish(seed * kSpread + Finish(item + kStep) + kStep)) {}

  uint64_t Next() { return Finish(state_ += kStep); }
  // In [0, 1), 53 bits.
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  // In [0, bound).
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(((Next() >> 32) * bound) >> 32); }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ull, kSpread = 0x2545f4914f6cdd1dull;

  static uint64_t Finish(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }

  uint64_t state_;
};

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_COUNTED_RANDOM_H_
