// SPDX-License-Identifier: Apache-2.0
// Makes a TileProgram from an EdgeCode. Host code; needs no GPU.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_ENCODE_PROGRAM_H_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_ENCODE_PROGRAM_H_

#include <vector>

#include "engine/cuda/message/expression/tile_program.h"
#include "engine/kernels/expression.h"

namespace vicinal::cuda {

struct TileProgram {
  TileShape shape;
  std::vector<TileInstruction> instructions;
  std::vector<TileResult> results;
};

// For its sizes.
TileProgram ProgramWithoutParameters(const EdgeCode& code);

// Registers are packed without gaps. Messages and scores that are no registers are copied into some. `parameters`:
// device addresses, one per parameter of the program.
TileProgram EncodeProgram(const EdgeCode& code, const std::vector<const void*>& parameters);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_ENCODE_PROGRAM_H_
