// SPDX-License-Identifier: Apache-2.0
// How rows lie in memory, and so how much of one a lane may read at once.
#ifndef VICINAL_ENGINE_CUDA_ALIGNMENT_H_
#define VICINAL_ENGINE_CUDA_ALIGNMENT_H_

#include <cstdint>

namespace vicinal::cuda {

// Whether all rows of a matrix of float32 begin at multiples of 16 bytes.
template <class View>
bool InPacks(const View& view) {
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.stride % 4 == 0;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ALIGNMENT_H_
