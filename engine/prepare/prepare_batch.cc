// SPDX-License-Identifier: Apache-2.0
// A batch of small graphs as one block-diagonal graph. Invariant: no edge joins two segments. It serves one request, so
// it is neither renumbered nor profiled beyond its counts: O(N + E), a few milliseconds for tens of thousands of nodes.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/graph/check_tensor.h"
#include "engine/graph/edge_features.h"
#include "engine/prepare/prepare.h"

namespace vicinal {
namespace {

StatusOr<std::vector<int64_t>> DecodePtr(const TensorView& tensor) {
  VICINAL_RETURN_IF_ERROR(internal::CheckTensor(tensor, "ptr", {DataType::kInt64}, 1));
  VICINAL_ASSIGN_OR_RETURN(std::vector<int64_t> ptr, ToInts(tensor, "ptr"));
  if (ptr.size() < 2) {
    return InvalidArgument(
        "BAD_PTR", "ptr",
        absl::StrCat("ptr has ", ptr.size(),
                     " elements; it must have one more than the number of graphs, which must be at least 1"));
  }
  if (ptr[0] != 0) return InvalidArgument("BAD_PTR", "ptr", absl::StrCat("ptr[0] is ", ptr[0], "; it must be 0"));
  for (size_t g = 1; g < ptr.size(); ++g) {
    if (ptr[g] >= ptr[g - 1]) continue;
    return InvalidArgument(
        "BAD_PTR", "ptr",
        absl::StrCat("ptr[", g, "] is ", ptr[g], ", below the ", ptr[g - 1], " before it; it must not decrease"));
  }
  constexpr int64_t kMaxNodes = std::numeric_limits<NodeId>::max();
  if (ptr.back() < 1 || ptr.back() > kMaxNodes) {
    return InvalidArgument(
        "BAD_PTR", "ptr",
        absl::StrCat("ptr ends with ", ptr.back(), ", the number of nodes; a batch has between 1 and ", kMaxNodes));
  }
  return ptr;
}

Status CheckInsideSegments(const EdgeList& edges, const std::vector<int64_t>& ptr) {
  std::vector<NodeId> graph_of(edges.num_nodes);
  for (size_t g = 0; g + 1 < ptr.size(); ++g) {
    std::fill(graph_of.begin() + ptr[g], graph_of.begin() + ptr[g + 1], static_cast<NodeId>(g));
  }
  for (int64_t e = 0; e < edges.num_edges(); ++e) {
    const NodeId source = edges.source[e], target = edges.target[e];
    if (graph_of[source] == graph_of[target]) continue;
    return InvalidArgument("EDGE_BETWEEN_GRAPHS", "edge_index",
                           absl::StrCat("edge_index[:, ", e, "] goes from node ", source, " of graph ",
                                        graph_of[source], " to node ", target, " of graph ", graph_of[target],
                                        "; both ends must be in the same graph (ids count over the whole batch)"));
  }
  return OkStatus();
}

}  // namespace

StatusOr<int64_t> BatchNodeCount(const TensorView& ptr) {
  VICINAL_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, DecodePtr(ptr));
  return offsets.back();
}

StatusOr<std::shared_ptr<const PreparedGraph>> PrepareBatch(const BatchTensors& batch, Device& device) {
  VICINAL_ASSIGN_OR_RETURN(std::vector<int64_t> ptr, DecodePtr(batch.ptr));
  VICINAL_ASSIGN_OR_RETURN(const EdgeList edges, AssembleEdges(ptr.back(), batch.edge_index, batch.edge_weight));
  VICINAL_RETURN_IF_ERROR(CheckInsideSegments(edges, ptr));
  PreparedGraph::Parts parts;
  parts.requested_order = OrderKind::kNone;
  parts.order = OrderKind::kNone;
  parts.order_reason = "a batch keeps its order";
  if (batch.edge_attr) {
    VICINAL_ASSIGN_OR_RETURN(parts.edge_feature_width, CheckEdgeFeatures(*batch.edge_attr, edges.num_edges()));
    std::vector<EdgeId> sent;
    parts.csr = BuildCsrByTarget(edges, &sent);
    parts.edge_attr = OrderEdgeFeatures(*batch.edge_attr, sent);
  } else {
    parts.csr = BuildCsrByTarget(edges);
  }
  parts.permutation = Permutation::Identity(edges.num_nodes);
  parts.profile.num_nodes = edges.num_nodes;
  parts.profile.num_edges = edges.num_edges();
  parts.profile.mean_degree = static_cast<double>(edges.num_edges()) / static_cast<double>(edges.num_nodes);
  parts.segments = std::move(ptr);
  return std::make_shared<const PreparedGraph>(std::move(parts), &device);
}

}  // namespace vicinal
