// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/merged_graphs.h"

#include <utility>

#include "engine/prepare/counted_features.h"

namespace vicinal {
namespace {

// Appends the rows of `block`, whose columns begin at `first_col` of `csr`.
void AppendBlock(const Csr& block, int64_t first_col, Csr* csr) {
  const EdgeId before = csr->nnz();
  for (int64_t row = 0; row < block.num_rows; ++row) csr->row_ptr.push_back(before + block.row_ptr[row + 1]);
  for (const NodeId col : block.col) csr->col.push_back(col + static_cast<NodeId>(first_col));
  csr->value.insert(csr->value.end(), block.value.begin(), block.value.end());
}

int64_t BytesOf(const std::vector<const QueuedRequest*>& requests) {
  int64_t bytes = 0;
  for (const QueuedRequest* request : requests) bytes += request->graph->size_bytes() + request->features->size_bytes();
  return bytes;
}

}  // namespace

StatusOr<MergedGraphs> MergeGraphs(const std::vector<const QueuedRequest*>& requests, MemoryBudget* budget,
                                   Device* device) {
  MergedGraphs merged;
  VICINAL_ASSIGN_OR_RETURN(merged.memory, ReserveLarge(BytesOf(requests), "batches of graphs together", budget));
  const QueuedRequest& first = *requests.front();
  PreparedGraph::Parts parts;
  parts.numerics_revision = first.graph->parts().numerics_revision;
  parts.requested_order = parts.order = first.graph->parts().order;
  parts.order_reason = first.graph->parts().order_reason;
  parts.edge_feature_width = first.graph->edge_feature_width();
  parts.csr.row_ptr = {0};
  parts.segments = {0};
  std::vector<const FeatureMatrix*> features;
  for (const QueuedRequest* request : requests) {
    const PreparedGraph::Parts& block = request->graph->parts();
    const int64_t first_node = parts.segments.back();
    merged.first_graph.push_back(static_cast<int64_t>(parts.segments.size()) - 1);
    for (size_t g = 1; g < block.segments.size(); ++g) parts.segments.push_back(first_node + block.segments[g]);
    AppendBlock(block.csr, first_node, &parts.csr);
    parts.edge_attr.insert(parts.edge_attr.end(), block.edge_attr.begin(), block.edge_attr.end());
    features.push_back(request->features.get());
  }
  merged.first_graph.push_back(static_cast<int64_t>(parts.segments.size()) - 1);
  const int64_t nodes = parts.segments.back();
  parts.csr.num_rows = parts.csr.num_cols = nodes;
  parts.permutation = Permutation::Identity(nodes);
  parts.profile.num_nodes = nodes;
  parts.profile.num_edges = parts.csr.nnz();
  parts.profile.mean_degree = static_cast<double>(parts.csr.nnz()) / static_cast<double>(nodes);
  merged.graph = std::make_shared<const PreparedGraph>(std::move(parts), device);
  VICINAL_ASSIGN_OR_RETURN(merged.features, FeatureMatrix::Concatenate(features, *device));
  return merged;
}

}  // namespace vicinal
