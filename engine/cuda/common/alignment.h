// SPDX-License-Identifier: Apache-2.0
// How rows lie in memory, and so how much of one a lane may read at once.
#ifndef VICINAL_ENGINE_CUDA_COMMON_ALIGNMENT_H_
#define VICINAL_ENGINE_CUDA_COMMON_ALIGNMENT_H_

#include <cstdint>

namespace vicinal::cuda {

// What a lane reads or writes at once, at most: from a multiple of that many bytes on.
inline constexpr int kPackBytes = 16;

// How a lane reaches the columns that it holds of a row: one by one, or all at once, 16 bytes each. Packs need aligned
// rows and a number of columns that is a multiple of a lane's.
// Kernels compare this, and other enums of two values in their parameters, with the value that is zero: the compiler
// then tests the byte as it tests a bool. Comparing with the other value took up to 4 registers and 1 % more
// instructions.
enum class Access : bool { kElements, kPacks };
inline Access PacksIf(bool packs) { return packs ? Access::kPacks : Access::kElements; }

inline int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Floats from one row of a matrix of our own to the next: all begin at multiples of 16 bytes.
inline int64_t PackedStride(int64_t width) { return RoundUp(width, kPackBytes / int64_t{sizeof(float)}); }

// Whether all rows of a matrix, `stride` elements apart, begin at multiples of `pack` elements.
inline bool InPacks(const void* data, int64_t stride, int64_t element_bytes, int64_t pack) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(element_bytes * pack) == 0 && stride % pack == 0;
}

// The same of a view that knows its elements; if nothing else is said, of as many as a lane may read.
template <class View, int64_t kElementBytes = sizeof(*View::data)>
bool InPacks(const View& view, int64_t pack = kPackBytes / kElementBytes) {
  return InPacks(view.data, view.stride, kElementBytes, pack);
}

// Floats of a row that can be read at once: 4, 2 or 1.
template <class View>
int PackWidth(const View& rows) {
  static_assert(sizeof(*View::data) == sizeof(float));
  return InPacks(rows) ? 4 : InPacks(rows, 2) ? 2 : 1;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_ALIGNMENT_H_
