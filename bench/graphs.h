// SPDX-License-Identifier: Apache-2.0
// Generated inputs of the kernel benchmark: the same on every machine.
#ifndef VICINAL_BENCH_GRAPHS_H_
#define VICINAL_BENCH_GRAPHS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/device/views.h"

namespace vicinal::bench {

// CSR with values, owning its arrays.
struct Csr {
  int64_t rows = 0, cols = 0;
  std::vector<int64_t> row_ptr;
  std::vector<int32_t> col;
  std::vector<float> value;

  int64_t nnz() const { return static_cast<int64_t>(col.size()); }
  CsrView View(bool weighted) const {
    return {rows, cols, nnz(), row_ptr.data(), col.data(), weighted ? value.data() : nullptr};
  }
};

// `edges` edges between uniformly drawn nodes.
Csr Uniform(int64_t rows, int64_t cols, int64_t edges, uint64_t seed);
// R-MAT (Chakrabarti et al., SDM 2004) with the probabilities 0.57, 0.19, 0.19, 0.05: skewed degrees, as social graphs
// have them.
Csr RMat(int log2_nodes, int64_t edges, uint64_t seed);

// Numbers in [-1, 1).
std::vector<float> RandomFloats(int64_t count, uint64_t seed);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_GRAPHS_H_
