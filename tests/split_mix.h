// SPDX-License-Identifier: Apache-2.0
// The random numbers of tests and benches: SplitMix64 (Steele, Lea and Flood 2014), the same on every machine and with
// every standard library.
#ifndef VICINAL_TESTS_SPLIT_MIX_H_
#define VICINAL_TESTS_SPLIT_MIX_H_

#include <cstdint>

namespace vicinal::testing {

class SplitMix64 {
 public:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ull;

  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() { return Finish(state_ += kStep); }
  // In [0, 1), 53 bits.
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // What makes a number of a state.
  static uint64_t Finish(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_SPLIT_MIX_H_
