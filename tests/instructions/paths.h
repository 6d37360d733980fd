// SPDX-License-Identifier: Apache-2.0
// The ten paths whose instructions are counted. They are where a CPU server spends its time:
// - A GCN pass on a graph of Cora's size is a sparse product (41 %), sums of narrow rows (43 %) and a dense product
//   (14 %); docs/notebook/cpu_kernels.md has the times. Models on wider rows spend theirs in sums of wide rows
//   (GraphSAGE: maxima), in bfloat16 where it is asked for, and in sums with the next product fused in.
// - Attention is the slowest step of every model that has it.
// - Queries for a few nodes search a receptive field and run the plan over it: most requests of a server.
// - Preparing a graph (assemble, CSR, renumber, profile) is what an upload waits for.
// Left out: EdgeConv's messages and row-wise steps, which few models have or which are bound by memory.
#ifndef VICINAL_TESTS_INSTRUCTIONS_PATHS_H_
#define VICINAL_TESTS_INSTRUCTIONS_PATHS_H_

#include <functional>
#include <span>

namespace vicinal::instructions {

// Runs a path once. Owns its inputs; uses one thread; ends the program on errors.
using Run = std::function<void()>;

struct Path {
  const char* name;
  Run (*make)();  // generates the inputs, which are the same on every machine
};

std::span<const Path> Paths();

}  // namespace vicinal::instructions

#endif  // VICINAL_TESTS_INSTRUCTIONS_PATHS_H_
