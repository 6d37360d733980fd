// SPDX-License-Identifier: Apache-2.0
// What device headers need of the standard library and of CUDA's, for a compiler on a machine that has neither. Only
// what these headers use, with the same layout.
#ifndef VICINAL_ENGINE_CUDA_COMPILE_STANDARD_HEADERS_H_
#define VICINAL_ENGINE_CUDA_COMPILE_STANDARD_HEADERS_H_

#include <span>

namespace vicinal::cuda {

struct HeaderText {
  const char* name;  // as it stands in #include
  const char* text;
};

// Standard headers, and cuda_runtime_api.h.
std::span<const HeaderText> StandardHeaders();
// The engine's headers that expression_blocks.cuh includes, as they were when this was built.
std::span<const HeaderText> DeviceHeaders();

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_STANDARD_HEADERS_H_
