// SPDX-License-Identifier: Apache-2.0
// Decides which values of a program a kernel compiled for it stores in registers of the tile, and which it computes
// where they are read, in the processor's registers: FeatGraph's fusion of a message function with its aggregation
// (section III-B), for any program. Host code; needs no GPU.
#ifndef VICINAL_ENGINE_CUDA_COMPILE_FUSE_PROGRAM_H_
#define VICINAL_ENGINE_CUDA_COMPILE_FUSE_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "engine/cuda/message/expression/encode_program.h"

namespace vicinal::cuda {

// Products of at most so many inputs may be computed where they are read, a column at a time. Those of more pay for
// being computed in blocks of edges and columns.
inline constexpr int32_t kNarrowInputs = 8;

// Kept columns of an edge at most: beyond, so few blocks fit a multiprocessor that gathering twice is faster.
inline constexpr int32_t kMostKeptColumns = 128;

struct FusedInstruction {
  bool nested = false;     // computed where it is read; its registers are gone
  int32_t a = -1, b = -1;  // the nested instruction that computes an operand; -1: it stands in memory
};

// Rows of sources that several stored values or results read: gathered once, by the first of them, and kept.
struct KeptColumns {
  int32_t matrix = 0, first = 0, width = 0;  // of the sources
  int32_t to = 0;                            // the first of width + 4 registers in whose place they stand, row by row
  int32_t keeper = 0;                        // the instruction that reads them from memory

  bool AreOf(const TileOperand& operand) const {
    return operand.place == TilePlace::kSource && operand.matrix == matrix && operand.first == first &&
           operand.width == width;
  }
};

struct FusedProgram {
  TileProgram program;  // registers are renumbered, those of nested values left out
  std::vector<FusedInstruction> instructions;
  std::vector<int32_t> messages;  // by result: the nested instruction that computes its messages, or -1
  std::vector<KeptColumns> kept;
};

// A value is nested if one stored value or result is computed from it, column by column, or if it is a copy of what
// stands in memory; and if what it reads is still there where it is read. Sources are kept if their first reader is a
// sum over columns, as of scores, which takes each column of an edge once.
FusedProgram FuseProgram(const TileProgram& program);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_FUSE_PROGRAM_H_
