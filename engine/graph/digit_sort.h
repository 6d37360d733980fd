// SPDX-License-Identifier: Apache-2.0
// Sorting by digits of a key, from the lowest (a least-significant-digit radix sort): stable, and without comparisons,
// whose outcome a processor cannot predict. For what fits in a cache. Private to this folder.
#ifndef VICINAL_ENGINE_GRAPH_DIGIT_SORT_H_
#define VICINAL_ENGINE_GRAPH_DIGIT_SORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace vicinal::internal {

// Counters of a digit fit in the first cache, beside what is sorted.
inline constexpr int kDigitBits = 9;

struct Digit {
  int shift = 0, bits = 0;
};

// The digits of `bits` bits of a key from bit `begin` on, from the lowest; as even as they can be.
inline std::vector<Digit> DigitsOf(int begin, int bits) {
  const int count = (bits + kDigitBits - 1) / kDigitBits;
  std::vector<Digit> digits;
  for (int i = 0, at = 0; i < count; ++i) {
    const int next = bits * (i + 1) / count;
    digits.push_back({begin + at, next - at});
    at = next;
  }
  return digits;
}

// Sorts from[0 .. count) by key_of(entry); `to` is as large. Returns where the result is, one of the two.
template <class Entry, class KeyOf>
Entry* SortByDigits(std::span<const Digit> digits, const KeyOf& key_of, Entry* from, Entry* to, int64_t count) {
  std::array<int64_t, (size_t{1} << kDigitBits) + 1> begin;
  for (const auto& [shift, bits] : digits) {
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    begin.fill(0);
    for (int64_t i = 0; i < count; ++i) ++begin[(uint64_t{key_of(from[i])} >> shift & mask) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (int64_t i = 0; i < count; ++i) to[begin[uint64_t{key_of(from[i])} >> shift & mask]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_GRAPH_DIGIT_SORT_H_
