// SPDX-License-Identifier: Apache-2.0
#include "engine/prepared/graph_picture.h"

#include <algorithm>
#include <bit>

namespace vicinal {

GraphPicture PictureOf(const PreparedGraph& graph, int side, int64_t most_edges) {
  const PreparedGraph::Parts& parts = graph.parts();
  const Csr& csr = parts.csr;
  const int64_t nodes = csr.num_rows;
  GraphPicture picture;
  picture.graph = parts.name;
  picture.version = parts.version;
  picture.node_count = nodes;
  picture.edge_count = csr.nnz();
  picture.order = parts.order;
  for (int64_t row = 0; row < nodes; ++row) {
    const auto degree = static_cast<uint64_t>(csr.row_ptr[row + 1] - csr.row_ptr[row]);
    const auto digits = static_cast<size_t>(std::bit_width(degree));
    if (picture.degree_counts.size() <= digits) picture.degree_counts.resize(digits + 1);
    ++picture.degree_counts[digits];
  }
  picture.side = static_cast<int>(std::min<int64_t>(side, nodes));
  picture.row_stride = std::max<int64_t>(1, (csr.nnz() + most_edges - 1) / most_edges);
  const int64_t tiles = picture.side;
  picture.before.assign(static_cast<size_t>(tiles * tiles), 0);
  picture.after = picture.before;
  const auto tile = [&](int64_t node) { return node * tiles / nodes; };
  const Permutation& permutation = parts.permutation;
  for (int64_t row = 0; row < nodes; row += picture.row_stride) {
    const int64_t after = tile(row) * tiles, before = tile(permutation.ToOld(static_cast<NodeId>(row))) * tiles;
    for (EdgeId edge = csr.row_ptr[row]; edge < csr.row_ptr[row + 1]; ++edge) {
      const NodeId source = csr.col[edge];
      ++picture.after[static_cast<size_t>(after + tile(source))];
      ++picture.before[static_cast<size_t>(before + tile(permutation.ToOld(source)))];
    }
  }
  return picture;
}

}  // namespace vicinal
