// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/binary_graph.h"

#include <algorithm>
#include <fstream>

#include "engine/base/error.h"

namespace vicinal::bench {

StatusOr<BinaryGraph> ReadBinaryGraph(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  int64_t sizes[2] = {-1, -1};
  file.read(reinterpret_cast<char*>(sizes), sizeof sizes);
  if (!file || sizes[0] < 0 || sizes[1] < 0 || sizes[0] > INT32_MAX || sizes[1] > INT32_MAX) {
    return InvalidArgument("BAD_GRAPH_FILE", "graph", path + " is not there or not a binary graph");
  }
  BinaryGraph graph;
  graph.nodes = sizes[0];
  graph.row_ptr.resize(sizes[0] + 1);
  graph.col.resize(sizes[1]);
  file.read(reinterpret_cast<char*>(graph.row_ptr.data()), static_cast<std::streamsize>(graph.row_ptr.size() * 4));
  file.read(reinterpret_cast<char*>(graph.col.data()), static_cast<std::streamsize>(graph.col.size() * 4));
  if (!file || graph.row_ptr.front() != 0 || graph.row_ptr.back() != sizes[1] ||
      !std::is_sorted(graph.row_ptr.begin(), graph.row_ptr.end())) {
    return InvalidArgument("BAD_GRAPH_FILE", "graph", path + " is cut short or its row_ptr is not one");
  }
  return graph;
}

}  // namespace vicinal::bench
