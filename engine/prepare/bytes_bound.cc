// SPDX-License-Identifier: Apache-2.0
// Upper bound of the memory that each stage of preparation holds at once, from the sizes of the tensors. Uses numbers
// of bytes, which whoever announces an upload has bounded, not shapes, so nothing can overflow.
#include <algorithm>
#include <limits>
#include <optional>

#include "engine/graph/adjacency.h"
#include "engine/graph/validate.h"
#include "engine/prepare/measure_orders.h"
#include "engine/prepare/measure_tuned_orders.h"
#include "engine/prepare/prepare.h"

namespace vicinal {
namespace {

constexpr int64_t kFloat = sizeof(float);

int64_t BytesOf(const std::optional<TensorSize>& tensor) { return tensor ? tensor->bytes : 0; }

// Number of elements, times `element_bytes`.
int64_t HostBytes(const std::optional<TensorSize>& tensor, int64_t element_bytes) {
  return tensor ? BytesOf(tensor) / SizeOf(tensor->dtype) * element_bytes : 0;
}

std::optional<TensorSize> SizeOfTensor(const std::optional<HostTensor>& tensor) {
  if (!tensor) return std::nullopt;
  return TensorSize{tensor->dtype, static_cast<int64_t>(tensor->bytes.size())};
}
std::optional<TensorSize> SizeOfTensor(const std::optional<TensorView>& tensor) {
  if (!tensor) return std::nullopt;
  return TensorSize{tensor->dtype, static_cast<int64_t>(tensor->bytes.size())};
}

// As sent.
int64_t TensorBytes(const FeatureSizes& sizes) {
  return BytesOf(sizes.dense) + BytesOf(sizes.indptr) + BytesOf(sizes.indices) + BytesOf(sizes.values);
}

// As kept.
int64_t KeptBytes(const FeatureSizes& sizes) {
  return HostBytes(sizes.dense, kFloat) + HostBytes(sizes.indptr, sizeof(EdgeId)) +
         HostBytes(sizes.indices, sizeof(NodeId)) + HostBytes(sizes.values, kFloat);
}

// What publishing makes beside the tensors. Dense rows are written once, where they stay; a device with memory of its
// own gets them from a copy. Sparse ones are assembled, and again in execution order or in their final place.
int64_t PublishedBytes(const FeatureSizes& sizes, DeviceKind device) {
  const bool once = sizes.dense && device == DeviceKind::kCpu;
  return (once ? 1 : 2) * KeptBytes(sizes);
}

// What choosing an order may hold beside the graph: see engine/reorder for what each keeps.
int64_t OrderBytes(OrderKind order, AutoOrders among, DeviceKind device, int64_t nodes, int64_t edges) {
  const int64_t permutation = 2 * nodes * static_cast<int64_t>(sizeof(NodeId));
  // The graph in both directions, and cursors while it is made.
  const int64_t undirected = 2 * edges * static_cast<int64_t>(sizeof(NodeId)) + 16 * nodes;
  // What is known of each node, and the nodes of a level.
  const int64_t rcm = 64 * nodes;
  // Labels, sums, batches and groups of the nodes. Three graphs of a neighbour and a weight for each end of an edge: a
  // level, the next one in pieces, and that laid end to end; and an eighth for what the allocator loses. On random
  // edges levels hardly shrink, and 47 bytes an edge were measured.
  const int64_t communities = undirected + 56 * edges + 48 * nodes;
  // The graph for METIS, and inside it as many levels as it takes to halve the nodes to a few per part, with a
  // neighbour and a weight for each end of an edge in all of them: ten cover random and skewed graphs, of which 168
  // bytes an edge were measured; what shrinks fast takes a fifth of that.
  const int64_t metis = undirected + 16 * edges + int64_t{10} * 16 * edges + 120 * nodes;
  switch (order) {
    case OrderKind::kNone:
    case OrderKind::kDegree:
      return permutation;
    case OrderKind::kRcm:
      return undirected + permutation + rcm;
    case OrderKind::kCommunity:
      return communities + permutation;
    case OrderKind::kMetis:
      return metis + permutation;
    case OrderKind::kAuto:
      if (among == AutoOrders::kAsSent) return permutation;
      // As sent and three candidates; at most two of them are measured, when the communities are there no more.
      return 4 * permutation +
             std::max(among == AutoOrders::kAll ? communities : undirected + rcm,
                      undirected + (device == DeviceKind::kCpu ? MeasureBytesBound(nodes, edges)
                                                               : TunedMeasureBytesBound(nodes, edges)));
  }
  return 0;
}

int64_t CsrBytes(int64_t nodes, int64_t edges, int64_t weight_bytes) {
  return (nodes + 1) * static_cast<int64_t>(sizeof(EdgeId)) + edges * static_cast<int64_t>(sizeof(NodeId)) +
         weight_bytes;
}

// Of the edge that each entry of a CSR is, where edges have features to be put in its order.
int64_t OriginBytes(bool wanted, int64_t edges) { return wanted ? edges * static_cast<int64_t>(sizeof(EdgeId)) : 0; }

}  // namespace

int64_t AssembledBytesBound(const FeatureTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& tensor : {tensors.dense, tensors.indptr, tensors.indices, tensors.values}) {
    if (!tensor) continue;
    const auto size = static_cast<int64_t>(tensor->bytes.size());
    bytes += SizeOf(tensor->dtype) < kFloat ? 2 * size : size;
  }
  return bytes;
}

FeatureSizes SizesOf(const FeatureTensors& tensors) {
  return {SizeOfTensor(tensors.dense), SizeOfTensor(tensors.indptr), SizeOfTensor(tensors.indices),
          SizeOfTensor(tensors.values)};
}

GraphSizes SizesOf(const GraphSource& source) {
  return {source.node_count,
          {source.edge_index.dtype, static_cast<int64_t>(source.edge_index.bytes.size())},
          SizeOfTensor(source.edge_weight),
          SizeOfTensor(source.edge_attr),
          source.keep_edge_order,
          {SizeOfTensor(source.x), SizeOfTensor(source.x_indptr), SizeOfTensor(source.x_indices),
           SizeOfTensor(source.x_values)},
          source.order};
}

bool CanTake(const FeatureSizes& sizes, DeviceKind device) {
  return sizes.dense.has_value() && device == DeviceKind::kCpu;
}

int64_t TakenFeaturesBytesBound(const FeatureSizes& sizes) {
  const int64_t tensors = TensorBytes(sizes), kept = std::max(KeptBytes(sizes), tensors);
  // A bit per row, of which there are no more than elements; and of the tensors what has not been given back.
  return kept + kept / 32 + std::min(kTakeRowsBytes, tensors);
}

int64_t FeaturePreparationBytesBound(const FeatureSizes& sizes, DeviceKind device, int64_t reserved_bytes) {
  return std::max<int64_t>(TensorBytes(sizes) - reserved_bytes, 0) + PublishedBytes(sizes, device);
}

int64_t EdgeFeaturePreparationBytesBound(const EdgeFeatureSizes& sizes, DeviceKind device, int64_t reserved_bytes) {
  // Means are on the host before they are sent.
  const int64_t means = device == DeviceKind::kCpu ? 1 : 2;
  return std::max<int64_t>(sizes.edge_attr.bytes - reserved_bytes, 0) +
         EdgeMatrix::BytesOn(means * sizes.node_count, sizes.edge_count, sizes.cols, device);
}

int64_t BatchBytesBound(const BatchTensors& batch, int64_t nodes) {
  const auto ends = static_cast<int64_t>(batch.edge_index.bytes.size());
  const int64_t edges = ends / (2 * SizeOf(batch.edge_index.dtype));
  const int64_t weight_bytes = batch.edge_weight ? static_cast<int64_t>(batch.edge_weight->bytes.size()) : 0;
  const int64_t attr_bytes = batch.edge_attr ? static_cast<int64_t>(batch.edge_attr->bytes.size()) : 0;
  const int64_t ptr = static_cast<int64_t>(batch.ptr.bytes.size());
  const int64_t edge_list = 2 * edges * static_cast<int64_t>(sizeof(NodeId)) + weight_bytes;
  const int64_t csr = CsrBytes(nodes, edges, weight_bytes);
  // The graph of each node; or the CSR by source, that by target and a cursor per node.
  const int64_t check = nodes * static_cast<int64_t>(sizeof(NodeId));
  const int64_t build =
      2 * (csr + OriginBytes(batch.edge_attr.has_value(), edges)) + nodes * static_cast<int64_t>(sizeof(EdgeId));
  const int64_t order = csr + OriginBytes(batch.edge_attr.has_value(), edges) + attr_bytes;
  const int64_t permutation = 2 * nodes * static_cast<int64_t>(sizeof(NodeId));
  return ptr + edge_list + std::max({check, build, order, csr + attr_bytes + permutation});
}

int64_t PreparationBytesBound(const GraphSizes& sizes, DeviceKind device, AutoOrders among) {
  const int64_t nodes = std::clamp<int64_t>(sizes.node_count, 0, std::numeric_limits<NodeId>::max());
  const int64_t edges = sizes.edge_index.bytes / (2 * SizeOf(sizes.edge_index.dtype));
  const int64_t weight_bytes = HostBytes(sizes.edge_weight, kFloat);

  const int64_t edge_tensors = sizes.edge_index.bytes + BytesOf(sizes.edge_weight);
  const int64_t attr = BytesOf(sizes.edge_attr);
  const int64_t feature_tensors = TensorBytes(sizes.features) + attr;
  const int64_t features = KeptBytes(sizes.features);
  // Until they are published, dense features and those of edges stay in their tensors.
  const int64_t waiting = sizes.features.dense ? feature_tensors : features + attr;
  const int64_t edge_list = 2 * edges * static_cast<int64_t>(sizeof(NodeId)) + weight_bytes;
  const int64_t origins = OriginBytes(sizes.edge_attr || sizes.keep_edge_order, edges);
  const int64_t csr = CsrBytes(nodes, edges, weight_bytes), carrying = csr + origins;
  const int64_t permutation = 2 * nodes * static_cast<int64_t>(sizeof(NodeId));
  // Cursors of the scatters, or the scratch of an order: at most three words of 8 bytes per node.
  const int64_t scratch = 3 * nodes * static_cast<int64_t>(sizeof(int64_t));

  const int64_t assemble = edge_tensors + feature_tensors + edge_list;
  const int64_t validate = feature_tensors + edge_list + (sizes.features.dense ? 0 : features);
  const int64_t build = waiting + edge_list + 2 * carrying + scratch;
  const int64_t choose = waiting + carrying + scratch + OrderBytes(sizes.order, among, device, nodes, edges);
  // The graph, a copy on the way, the result; the permutation, and the community of each node.
  const int64_t renumber = waiting + 3 * carrying + 2 * permutation + scratch;
  const int64_t kept_attr = HostBytes(sizes.edge_attr, kFloat);  // as float32
  const int64_t order_attr = waiting + carrying + permutation + kept_attr;
  const int64_t publish = carrying + permutation + kept_attr + (sizes.features.dense ? feature_tensors - attr : 0) +
                          PublishedBytes(sizes.features, device);
  const int64_t serve = carrying + permutation + kept_attr + features + 2 * AdjacencyBytesBound(nodes, edges);
  return std::max({assemble, validate, build, choose, renumber, order_attr, publish, serve});
}

}  // namespace vicinal
