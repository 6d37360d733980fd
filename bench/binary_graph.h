// SPDX-License-Identifier: Apache-2.0
// Graphs of benchmarks as files: int64 nodes, int64 edges, int32 row_ptr[nodes + 1], int32 col[edges], little-endian.
#ifndef VICINAL_BENCH_BINARY_GRAPH_H_
#define VICINAL_BENCH_BINARY_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace vicinal::bench {

// CSR by target: row t lists the sources of t's in-edges.
struct BinaryGraph {
  int64_t nodes = 0;
  std::vector<int32_t> row_ptr;
  std::vector<int32_t> col;

  int64_t edges() const { return static_cast<int64_t>(col.size()); }
};

// INVALID_ARGUMENT when the file is not there, cut short, or its row_ptr is not one.
StatusOr<BinaryGraph> ReadBinaryGraph(const std::string& path);

// INVALID_ARGUMENT when the file cannot be written.
Status WriteBinaryGraph(const BinaryGraph& graph, const std::string& path);

// FNV-1a, 64 bits, over the bytes of row_ptr, then of col: by which a graph made elsewhere is known to be the same.
uint64_t Checksum(const BinaryGraph& graph);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_BINARY_GRAPH_H_
