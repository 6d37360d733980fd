// SPDX-License-Identifier: Apache-2.0
// Edges out of their tensors. Everything here comes from outside: shapes are checked against the bytes before anything
// is allocated, ids while they are narrowed. Invariant: an EdgeList that is returned needs no further check. O(E), no
// copy of the tensors.
#include "engine/graph/validate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/graph/check_tensor.h"
#include "engine/graph/parallel_csr.h"
#include "engine/graph/tasks.h"

namespace vicinal {
namespace {

Status CheckNodeCount(int64_t num_nodes) {
  if (num_nodes >= 1 && num_nodes <= std::numeric_limits<NodeId>::max()) return OkStatus();
  return InvalidArgument("BAD_NODE_COUNT", "node_count",
                         absl::StrCat("node_count is ", num_nodes, "; a graph has between 1 and ",
                                      std::numeric_limits<NodeId>::max(), " nodes"));
}

// Ids that a thread takes at a time.
constexpr int64_t kIdsPerTask = int64_t{1} << 18;

// Narrows the ids [begin, end) of `bytes`. Stops at one out of range; returns where, or `end`.
template <class T>
int64_t NarrowIds(const char* bytes, int64_t begin, int64_t end, int64_t num_nodes, NodeId* ids) {
  for (int64_t e = begin; e < end; ++e) {
    T id;
    std::memcpy(&id, bytes + e * static_cast<int64_t>(sizeof(T)), sizeof(T));
    if (id < 0 || static_cast<int64_t>(id) >= num_nodes) return e;
    ids[e] = static_cast<NodeId>(id);
  }
  return end;
}

// Narrows one row of edge_index. REQUIRES: `ids` has as many elements as there are edges.
template <class T>
Status DecodeIds(const TensorView& edge_index, int64_t row, int64_t num_nodes, ThreadPool* pool,
                 std::vector<NodeId>* ids) {
  const auto num_edges = static_cast<int64_t>(ids->size());
  const char* bytes = edge_index.bytes.data() + row * num_edges * static_cast<int64_t>(sizeof(T));
  internal::Lowest first_fault(num_edges);
  internal::ForTasks(pool, (num_edges + kIdsPerTask - 1) / kIdsPerTask, [&](int64_t task) {
    const int64_t begin = task * kIdsPerTask, end = std::min(num_edges, begin + kIdsPerTask);
    const int64_t fault = NarrowIds<T>(bytes, begin, end, num_nodes, ids->data());
    if (fault < end) first_fault.Take(fault);
  });
  const int64_t e = first_fault.value();
  if (e == num_edges) return OkStatus();
  T id;
  std::memcpy(&id, bytes + e * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return InvalidArgument(
      "ID_OUT_OF_RANGE", "edge_index",
      absl::StrCat("edge_index[", row, ", ", e, "] is ", id, "; ids must be within 0..", num_nodes - 1));
}

template <class T>
Status DecodeEdges(const TensorView& edge_index, ThreadPool* pool, EdgeList* edges) {
  const int64_t num_edges = edge_index.shape[1];
  // Memory is taken here, and touched for the first time by a thread for each: half of the time is that.
  std::array<std::vector<NodeId>*, 2> ends = {&edges->source, &edges->target};
  for (std::vector<NodeId>* ids : ends) ids->reserve(num_edges);
  internal::ForTasks(pool, 2, [&](int64_t row) { ends[row]->resize(num_edges); });
  for (int64_t row = 0; row < 2; ++row) {
    VICINAL_RETURN_IF_ERROR(DecodeIds<T>(edge_index, row, edges->num_nodes, pool, ends[row]));
  }
  return OkStatus();
}

Status DecodeWeights(const TensorView& edge_weight, EdgeList* edges) {
  VICINAL_RETURN_IF_ERROR(internal::CheckTensor(edge_weight, "edge_weight", {DataType::kFloat32}, 1));
  if (edge_weight.shape[0] != edges->num_edges()) {
    return InvalidArgument("COUNT_MISMATCH", "edge_weight",
                           absl::StrCat("edge_weight has ", edge_weight.shape[0], " values, but edge_index has ",
                                        edges->num_edges(), " edges; send one weight per edge, or none at all"));
  }
  VICINAL_ASSIGN_OR_RETURN(edges->weight, ToFloats(edge_weight, "edge_weight"));
  return CheckFinite(edges->weight.data(), edges->num_edges(), 0, "edge_weight");
}

}  // namespace

StatusOr<EdgeList> AssembleEdges(int64_t num_nodes, const TensorView& edge_index,
                                 const std::optional<TensorView>& edge_weight) {
  return AssembleEdges(num_nodes, edge_index, edge_weight, nullptr);
}

StatusOr<EdgeList> AssembleEdges(int64_t num_nodes, const TensorView& edge_index,
                                 const std::optional<TensorView>& edge_weight, ThreadPool* pool) {
  VICINAL_RETURN_IF_ERROR(CheckNodeCount(num_nodes));
  VICINAL_RETURN_IF_ERROR(internal::CheckTensor(edge_index, "edge_index", {DataType::kInt32, DataType::kInt64}, 2));
  if (edge_index.shape[0] != 2) {
    return InvalidArgument("BAD_SHAPE", "edge_index",
                           absl::StrCat("edge_index has shape ", ShapeToString(edge_index.shape),
                                        "; it must be [2, E]: sources, then targets"));
  }
  EdgeList edges;
  edges.num_nodes = num_nodes;
  VICINAL_RETURN_IF_ERROR(edge_index.dtype == DataType::kInt32 ? DecodeEdges<int32_t>(edge_index, pool, &edges)
                                                               : DecodeEdges<int64_t>(edge_index, pool, &edges));
  if (edge_weight) VICINAL_RETURN_IF_ERROR(DecodeWeights(*edge_weight, &edges));
  return edges;
}

}  // namespace vicinal
