// SPDX-License-Identifier: Apache-2.0
// Graphs that come with a request or with a model's reference. A few bytes can declare any number of nodes, so sizes
// are checked against each other and against the server's limit, and memory is reserved, before anything is allocated.
#ifndef VICINAL_ENGINE_PREPARE_INLINE_GRAPH_H_
#define VICINAL_ENGINE_PREPARE_INLINE_GRAPH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/memory/memory_budget.h"
#include "engine/prepare/prepare.h"

namespace vicinal {

// One graph as sent; views. `x` has two extents, [N, F].
struct GraphTensors {
  TensorView edge_index, x;
  std::optional<TensorView> edge_weight, edge_attr;
};

// A prepared graph with its features. If they are large, each owns a reservation.
struct InlineGraph {
  std::shared_ptr<const PreparedGraph> graph;
  std::shared_ptr<const FeatureMatrix> features;
};

// Thread-safe. Budget and device must outlive it.
class InlineGraphMaker {
 public:
  // `max_nodes` 0: no limit.
  InlineGraphMaker(MemoryBudget* budget, Device* device, int64_t max_nodes)
      : budget_(*budget), device_(*device), max_nodes_(max_nodes) {}

  // `features_field`: as in AssembleFeatures. `model_columns`: the required width of the features; below 0:
  // any. Errors: INVALID_ARGUMENT of PrepareBatch and AssembleFeatures, FEATURE_WIDTH, LIMIT_EXCEEDED (max_nodes), and
  // those of MemoryBudget.
  StatusOr<InlineGraph> MakeBatch(const BatchTensors& batch, const FeatureTensors& features,
                                  std::string_view features_field, int64_t model_columns = -1) const;

  // One graph, in the order sent. Checks the tensors like those of an upload; errors as above.
  StatusOr<InlineGraph> MakeGraph(const GraphTensors& tensors, const Clock& clock) const;

 private:
  // `field`: the request's field that gives the number of nodes.
  Status CheckNodes(int64_t nodes, std::string_view field) const;
  // Reserves the lasting bytes of both, in place of `preparing`. Adds the graph's part to the graph; the features' part
  // is returned.
  StatusOr<Reservation> ReserveKept(const PreparedGraph& graph, int64_t feature_bytes, std::string_view what,
                                    Reservation preparing) const;

  MemoryBudget& budget_;
  Device& device_;
  const int64_t max_nodes_;
};

// INVALID_ARGUMENT (FEATURE_WIDTH).
Status CheckFeatureWidth(int64_t columns, int64_t model_columns);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_INLINE_GRAPH_H_
