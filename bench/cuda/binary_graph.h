// SPDX-License-Identifier: Apache-2.0
// Graphs of benchmarks as files: int64 nodes, int64 edges, int32 row_ptr[nodes + 1], int32 col[edges], little-endian.
#ifndef VICINAL_BENCH_CUDA_BINARY_GRAPH_H_
#define VICINAL_BENCH_CUDA_BINARY_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace vicinal::bench {

struct BinaryGraph {
  int64_t nodes = 0;
  std::vector<int32_t> row_ptr;
  std::vector<int32_t> col;
};

// INVALID_ARGUMENT when the file is not there, cut short, or its row_ptr is not one.
StatusOr<BinaryGraph> ReadBinaryGraph(const std::string& path);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_BINARY_GRAPH_H_
