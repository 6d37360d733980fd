// SPDX-License-Identifier: Apache-2.0
// Dense rows into the memory of a GPU, a part at a time: while one part is copied, the host makes the next one. All of
// them at once would take as much memory on the host, and making and copying would wait for each other.
#ifndef VICINAL_ENGINE_PREPARED_FILL_ROWS_H_
#define VICINAL_ENGINE_PREPARED_FILL_ROWS_H_

#include <cstdint>
#include <functional>

#include "engine/base/status.h"
#include "engine/device/device.h"

namespace vicinal {

// Writes the numbers [begin, begin + count) of a matrix [rows, cols] in row-major order to host memory.
using FillNumbers = std::function<Status(int64_t begin, int64_t count, float* to)>;

// Every part but the last has so many numbers.
inline constexpr int64_t kPartNumbers = int64_t{16} << 20;

// A matrix [rows, stride] on `device`, whose columns from `cols` on are 0. `fill` is called for one part after the
// other, on this thread; parts have `part` numbers. Takes two parts of memory on the host, and with padding another.
// Errors of `fill` and of the device. REQUIRES: 0 < cols <= stride.
StatusOr<Buffer> FillRows(int64_t rows, int64_t cols, int64_t stride, Device& device, const FillNumbers& fill,
                          int64_t part = kPartNumbers);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARED_FILL_ROWS_H_
