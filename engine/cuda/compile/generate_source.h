// SPDX-License-Identifier: Apache-2.0
// The source of a kernel for one program of messages: its instructions as constants, carried out by the functions that
// the interpreter calls, with nested values where the interpreter stores them. So both round the same operations in the
// same order.
#ifndef VICINAL_ENGINE_CUDA_COMPILE_GENERATE_SOURCE_H_
#define VICINAL_ENGINE_CUDA_COMPILE_GENERATE_SOURCE_H_

#include <string>

#include "engine/cuda/compile/fuse_program.h"

namespace vicinal::cuda {

// The kernel's name in the compiled code.
inline constexpr char kCompiledKernel[] = "vicinal_expression";

// For tiles of `tile` edges, whose registers fit shared memory or not, and blocks that reduce `part_columns` columns of
// each result (0: all). Weights and rows stay parameters: models with
// equal programs have equal sources.
std::string GenerateSource(const FusedProgram& program, int tile, bool in_shared, int part_columns);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_GENERATE_SOURCE_H_
