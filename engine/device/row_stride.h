// SPDX-License-Identifier: Apache-2.0
// How far apart the rows of a matrix lie that we lay out ourselves: values of a plan, and whatever is to be timed as
// one. Apart from views.h, which all kernels include: they take any stride.
#ifndef VICINAL_ENGINE_DEVICE_ROW_STRIDE_H_
#define VICINAL_ENGINE_DEVICE_ROW_STRIDE_H_

#include <cstdint>

namespace vicinal {

// Elements from one row to the next: rows of up to 16 floats never straddle a cache line, longer ones begin at one.
constexpr int64_t RowStrideFor(int64_t width) {
  if (width > 16) return (width + 15) / 16 * 16;
  int64_t stride = 1;
  while (stride < width) stride *= 2;
  return stride;
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_ROW_STRIDE_H_
