// SPDX-License-Identifier: Apache-2.0
// The ten paths whose instructions are counted. A CPU server spends its time there:
// - A GCN pass on a graph of Cora's size is a sparse product (41 % of the time), sums of narrow rows (43 %) and a dense
//   product (14 %): docs/notebook/cpu_kernels.md. Models on wider rows aggregate wide rows: sums, maxima (GraphSAGE),
//   and sums of bfloat16 where a request asks for it.
// - Attention is the slowest step of every model that has it: 217 us there, where the whole GCN takes 127 us.
// - Requests run a plan: over the full graph, or over the receptive field of a few nodes, which is searched first.
// - An upload waits for its preparation: assemble, validate, CSR, renumber, profile.
// Left out: EdgeConv's messages, which few models have; row-wise steps, which memory bounds and not instructions;
// decoding of requests, which is protobuf's.
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
