// SPDX-License-Identifier: Apache-2.0
#include "bench/binary_graph.h"

#include <algorithm>
#include <fstream>

#include "engine/base/error.h"

namespace vicinal::bench {
namespace {

std::streamsize BytesOf(const std::vector<int32_t>& values) { return static_cast<std::streamsize>(values.size() * 4); }

uint64_t AddBytes(const std::vector<int32_t>& values, uint64_t hash) {
  constexpr uint64_t kPrime = 1099511628211ull;
  for (const int32_t value : values) {
    auto bytes = static_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i, bytes >>= 8) hash = (hash ^ (bytes & 0xff)) * kPrime;
  }
  return hash;
}

}  // namespace

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
  file.read(reinterpret_cast<char*>(graph.row_ptr.data()), BytesOf(graph.row_ptr));
  file.read(reinterpret_cast<char*>(graph.col.data()), BytesOf(graph.col));
  if (!file || graph.row_ptr.front() != 0 || graph.row_ptr.back() != sizes[1] ||
      !std::is_sorted(graph.row_ptr.begin(), graph.row_ptr.end())) {
    return InvalidArgument("BAD_GRAPH_FILE", "graph", path + " is cut short or its row_ptr is not one");
  }
  return graph;
}

Status WriteBinaryGraph(const BinaryGraph& graph, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  const int64_t sizes[2] = {graph.nodes, graph.edges()};
  file.write(reinterpret_cast<const char*>(sizes), sizeof sizes);
  file.write(reinterpret_cast<const char*>(graph.row_ptr.data()), BytesOf(graph.row_ptr));
  file.write(reinterpret_cast<const char*>(graph.col.data()), BytesOf(graph.col));
  if (!file.flush()) return InvalidArgument("BAD_GRAPH_FILE", "graph", "cannot write " + path);
  return OkStatus();
}

uint64_t Checksum(const BinaryGraph& graph) {
  constexpr uint64_t kBasis = 1469598103934665603ull;
  return AddBytes(graph.col, AddBytes(graph.row_ptr, kBasis));
}

}  // namespace vicinal::bench
