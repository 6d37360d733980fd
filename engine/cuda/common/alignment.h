// SPDX-License-Identifier: Apache-2.0
// The alignment of rows in memory, which limits how much of a row a lane may read at once.
#ifndef VICINAL_ENGINE_CUDA_COMMON_ALIGNMENT_H_
#define VICINAL_ENGINE_CUDA_COMMON_ALIGNMENT_H_

#include <cstdint>

namespace vicinal::cuda {

// Maximum bytes that a lane reads or writes at once, which is also their alignment.
inline constexpr int kPackBytes = 16;

// How a lane accesses its columns of a row: one by one, or in packs of 16 bytes. Packs need aligned rows, and a number
// of columns that is a multiple of a lane's.
//
// Kernels compare this, and every other enum of two values in their parameters, with the value that is zero. The
// compiler then tests the byte like a bool; comparing with the other value took up to 4 registers and 1 % more
// instructions.
enum class Access : bool { kElements, kPacks };
inline Access PacksIf(bool packs) { return packs ? Access::kPacks : Access::kElements; }

inline int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// The stride, in floats, of matrices that the engine allocates: every row is aligned to 16 bytes.
inline int64_t PackedStride(int64_t width) { return RoundUp(width, kPackBytes / int64_t{sizeof(float)}); }

// True if all rows of a matrix, `stride` elements apart, are aligned to `pack` elements.
inline bool InPacks(const void* data, int64_t stride, int64_t element_bytes, int64_t pack) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(element_bytes * pack) == 0 && stride % pack == 0;
}

// The same for a view; by default, for packs of kPackBytes bytes.
template <class View, int64_t kElementBytes = sizeof(*View::data)>
bool InPacks(const View& view, int64_t pack = kPackBytes / kElementBytes) {
  return InPacks(view.data, view.stride, kElementBytes, pack);
}

// The number of floats of a row that a lane can read at once: 4, 2 or 1.
template <class View>
int PackWidth(const View& rows) {
  static_assert(sizeof(*View::data) == sizeof(float));
  return InPacks(rows) ? 4 : InPacks(rows, 2) ? 2 : 1;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_ALIGNMENT_H_
