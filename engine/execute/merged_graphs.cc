// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/merged_graphs.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/prepare/counted_features.h"

namespace vicinal {
namespace {

// Appends the rows of `block`, whose columns begin at `first_col` of `csr`.
void AppendBlock(CsrView block, int64_t first_col, bool weighted, Csr* csr) {
  const EdgeId before = csr->nnz();
  for (int64_t row = 0; row < block.rows; ++row) csr->row_ptr.push_back(before + block.row_ptr[row + 1]);
  for (int64_t e = 0; e < block.nnz; ++e) csr->col.push_back(block.col[e] + static_cast<NodeId>(first_col));
  if (!weighted) return;
  for (int64_t e = 0; e < block.nnz; ++e) csr->value.push_back(block.value != nullptr ? block.value[e] : 1.0f);
}

void AppendFeatures(const FeatureMatrix& features, HostFeatures* all) {
  if (features.sparse()) {
    AppendBlock(features.csr(), 0, /*weighted=*/true, &all->csr);
    return;
  }
  const ConstMatrixView rows = features.dense();
  for (int64_t row = 0; row < rows.rows; ++row) {
    all->dense.insert(all->dense.end(), rows.row(row), rows.row(row) + rows.cols);
  }
}

// While merging there is one more copy of the features.
int64_t BytesOf(const std::vector<const QueuedRequest*>& requests) {
  int64_t bytes = 0;
  for (const QueuedRequest* request : requests) {
    bytes += request->graph->size_bytes() + 2 * request->features->size_bytes();
  }
  return bytes;
}

}  // namespace

StatusOr<MergedGraphs> MergeGraphs(const std::vector<const QueuedRequest*>& requests, MemoryBudget* budget,
                                   Device* device) {
  VICINAL_CHECK(device->kind() == DeviceKind::kCpu);
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
  HostFeatures features;
  features.sparse = first.features->sparse();
  features.cols = first.features->cols();
  if (features.sparse) features.csr.row_ptr = {0};
  for (const QueuedRequest* request : requests) {
    const PreparedGraph::Parts& block = request->graph->parts();
    const int64_t first_node = parts.segments.back();
    merged.first_graph.push_back(static_cast<int64_t>(parts.segments.size()) - 1);
    for (size_t g = 1; g < block.segments.size(); ++g) parts.segments.push_back(first_node + block.segments[g]);
    AppendBlock(block.csr.view(), first_node, first.graph->weighted(), &parts.csr);
    parts.edge_attr.insert(parts.edge_attr.end(), block.edge_attr.begin(), block.edge_attr.end());
    AppendFeatures(*request->features, &features);
  }
  merged.first_graph.push_back(static_cast<int64_t>(parts.segments.size()) - 1);
  const int64_t nodes = parts.segments.back();
  parts.csr.num_rows = parts.csr.num_cols = nodes;
  features.rows = features.csr.num_rows = nodes;
  features.csr.num_cols = features.cols;
  parts.permutation = Permutation::Identity(nodes);
  parts.profile.num_nodes = nodes;
  parts.profile.num_edges = parts.csr.nnz();
  parts.profile.mean_degree = static_cast<double>(parts.csr.nnz()) / static_cast<double>(nodes);
  merged.graph = std::make_shared<const PreparedGraph>(std::move(parts), device);
  VICINAL_ASSIGN_OR_RETURN(merged.features, FeatureMatrix::Upload(features, *device));
  return merged;
}

}  // namespace vicinal
