// SPDX-License-Identifier: Apache-2.0
// Order within segments of rows, without memory of its own: the lower median of columns, by their bits from the highest
// down, and the next row of a descending order. Both depend on values only, not on where a segment's rows stand.
#ifndef VICINAL_ENGINE_KERNELS_CPU_SEGMENT_ORDER_H_
#define VICINAL_ENGINE_KERNELS_CPU_SEGMENT_ORDER_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/device/views.h"

namespace vicinal::internal {

// Columns whose medians are searched together: their counts stay in registers and the first cache.
inline constexpr int64_t kMedianColumns = 32;
// Passes over the rows for that: one per bit.
inline constexpr int64_t kMedianPasses = 32;

// Floats in the order of these numbers: negative ones with all bits turned, others with the first.
inline uint32_t OrderOf(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
inline float FloatOf(uint32_t order) {
  return std::bit_cast<float>((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

// medians[c] of columns [first, first + count) over rows [begin, end): of n numbers the one with (n - 1) / 2 before it.
// kMedianPasses over the rows. REQUIRES: begin < end, count <= kMedianColumns. Asks unwanted(rows) before each pass
// over some rows; once that is true, it leaves the rest out.
template <class Unwanted>
void LowerMedians(const ConstMatrixView& a, int64_t begin, int64_t end, int64_t first, int64_t count,
                  const Unwanted& unwanted, float* medians) {
  constexpr int64_t kRowsUnasked = 4096;
  uint32_t found[kMedianColumns] = {};
  int64_t before[kMedianColumns];
  for (int64_t c = 0; c < count; ++c) before[c] = (end - begin - 1) / 2;
  for (int bit = 31; bit >= 0; --bit) {
    int64_t zeros[kMedianColumns] = {};  // numbers that agree so far and have 0 here
    for (int64_t row = begin; row < end; ++row) {
      if ((row - begin) % kRowsUnasked == 0 && unwanted(std::min(end - row, kRowsUnasked))) return;
      const float* const x = a.row(row) + first;
      for (int64_t c = 0; c < count; ++c) zeros[c] += (OrderOf(x[c]) >> bit) == (found[c] >> bit) ? 1 : 0;
    }
    for (int64_t c = 0; c < count; ++c) {
      if (before[c] < zeros[c]) continue;
      before[c] -= zeros[c];
      found[c] |= uint32_t{1} << bit;
    }
  }
  for (int64_t c = 0; c < count; ++c) medians[c] = FloatOf(found[c]);
}

// Whether row i stands before row j: its last column is larger, or equal and the one before is, ...
inline bool StandsBefore(const ConstMatrixView& a, int64_t i, int64_t j) {
  const float *x = a.row(i), *y = a.row(j);
  for (int64_t c = a.cols; c-- > 0;) {
    if (x[c] != y[c]) return x[c] > y[c];
  }
  return i < j;
}

// The row after `previous` in that order among [begin, end), the first one for -1; -1: there is none.
inline int64_t NextInOrder(const ConstMatrixView& a, int64_t begin, int64_t end, int64_t previous) {
  int64_t next = -1;
  for (int64_t row = begin; row < end; ++row) {
    if (previous >= 0 && !StandsBefore(a, previous, row)) continue;
    if (next < 0 || StandsBefore(a, row, next)) next = row;
  }
  return next;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_SEGMENT_ORDER_H_
