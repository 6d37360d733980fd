// SPDX-License-Identifier: Apache-2.0
// Numbers that every contestant of a comparison makes for itself, so that no file of inputs has to be passed around:
// element i is the top 24 bits of i * 2654435761 mod 2^32, mapped to [-1, 1) without rounding.
#ifndef VICINAL_BENCH_PATTERN_H_
#define VICINAL_BENCH_PATTERN_H_

#include <cstdint>

namespace vicinal::bench {

inline float Pattern(uint64_t i) {
  return static_cast<float>(static_cast<uint32_t>(i * 2654435761u) >> 8) / 8388608.0f - 1.0f;
}

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_PATTERN_H_
