// SPDX-License-Identifier: Apache-2.0
// The Hilbert curve over a square of 2^order x 2^order cells: consecutive cells are neighbours, and any stretch of the
// curve stays within few rows and columns. Visiting (target, source) blocks along it reuses both sides' rows in every
// level of cache without knowing the caches' sizes (FeatGraph, Hu et al., SC'20, section III-C).
#ifndef VICINAL_ENGINE_KERNELS_CPU_HILBERT_H_
#define VICINAL_ENGINE_KERNELS_CPU_HILBERT_H_

#include <cstdint>
#include <utility>

namespace vicinal::internal {

struct HilbertCell {
  int64_t row = 0;
  int64_t col = 0;
};

// The cell at `index` in [0, 4^order) of the curve, order in [0, 30].
inline HilbertCell HilbertCellAt(int order, int64_t index) {
  HilbertCell cell;
  // From the smallest quadrants to the largest: each two bits of the index select the quadrant that the curve so far is
  // put into; in the first and the last of the four it is mirrored at a diagonal.
  for (int level = 0; level < order; ++level, index >>= 2) {
    const int64_t half = int64_t{1} << level;
    const bool lower = (index & 2) != 0, right = lower != ((index & 1) != 0);
    // index & 3:  0 -> (0, 0)  1 -> (0, 1)  2 -> (1, 1)  3 -> (1, 0) as (lower, right).
    if (!right) {
      if (lower) cell = {half - 1 - cell.row, half - 1 - cell.col};
      std::swap(cell.row, cell.col);
    }
    cell.row += lower ? half : 0;
    cell.col += right ? half : 0;
  }
  return cell;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_HILBERT_H_
