// SPDX-License-Identifier: Apache-2.0
#include "engine/prepared/fill_rows.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace vicinal {
namespace {

constexpr int64_t kNumberBytes = sizeof(float);

// Where parts go.
struct Target {
  Device& device;
  float* data;
  int64_t rows, cols, stride;

  // Of the number `index` in row-major order; one past the last one stands after all padding.
  int64_t PlaceOf(int64_t index) const { return index / cols * stride + index % cols; }

  // The numbers [begin, begin + count). The padding after a row goes with the row's last number.
  Status Copy(int64_t begin, int64_t count, const float* from) const {
    const int64_t first = PlaceOf(begin), end = PlaceOf(begin + count);
    const auto bytes = static_cast<size_t>((end - first) * kNumberBytes);
    if (stride == cols) return device.CopyFromHost(data + first, from, bytes);
    std::vector<float> apart(static_cast<size_t>(end - first));
    for (int64_t at = begin; at < begin + count;) {
      const int64_t of_row = std::min(cols - at % cols, begin + count - at);
      std::copy_n(from + (at - begin), of_row, apart.data() + (PlaceOf(at) - first));
      at += of_row;
    }
    return device.CopyFromHost(data + first, apart.data(), bytes);
  }
};

}  // namespace

StatusOr<Buffer> FillRows(int64_t rows, int64_t cols, int64_t stride, Device& device, const FillNumbers& fill,
                          int64_t part) {
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(static_cast<size_t>(rows * stride * kNumberBytes)));
  const Target target = {device, buffer.as<float>(), rows, cols, stride};
  const int64_t all = rows * cols;
  // Not cleared: what is read is what was filled.
  std::unique_ptr<float[]> parts[2];
  for (auto& memory : parts) memory = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(std::min(all, part)));
  std::future<Status> copying;  // of the part before; its end is awaited also where `fill` fails
  int64_t next = 0;
  for (int64_t begin = 0; begin < all; begin += part, next ^= 1) {
    const int64_t count = std::min(part, all - begin);
    float* const numbers = parts[next].get();
    VICINAL_RETURN_IF_ERROR(fill(begin, count, numbers));
    if (copying.valid()) VICINAL_RETURN_IF_ERROR(copying.get());
    copying =
        std::async(std::launch::async, [target, begin, count, numbers] { return target.Copy(begin, count, numbers); });
  }
  if (copying.valid()) VICINAL_RETURN_IF_ERROR(copying.get());
  return buffer;
}

}  // namespace vicinal
