// SPDX-License-Identifier: Apache-2.0
// Graphs that come with a request or with a model's reference. A few bytes of them can claim any number of nodes, so
// sizes are compared with each other and with the server's limit, and memory is admitted, before anything is made.
#ifndef VICINAL_ENGINE_PREPARE_INLINE_GRAPH_H_
#define VICINAL_ENGINE_PREPARE_INLINE_GRAPH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/memory/memory_budget.h"
#include "engine/prepare/prepare.h"

namespace vicinal {

// A graph ready to run on, with its features. Both count against the budget as long as the features live.
struct InlineGraph {
  std::shared_ptr<const PreparedGraph> graph;
  std::shared_ptr<const FeatureMatrix> features;
};

// Thread-safe. What it looks at must outlive it.
class InlineGraphMaker {
 public:
  // `max_nodes` 0: no limit.
  InlineGraphMaker(MemoryBudget* budget, Device* device, int64_t max_nodes)
      : budget_(*budget), device_(*device), max_nodes_(max_nodes) {}

  // `features_field`: as AssembleFeatures takes it. `model_columns`: the width that features must have, in their field
  // "features"; below 0: any. INVALID_ARGUMENT as PrepareBatch and AssembleFeatures, LIMIT_EXCEEDED (max_nodes);
  // MemoryBudget's.
  StatusOr<InlineGraph> MakeBatch(const BatchTensors& batch, const FeatureTensors& features,
                                  std::string_view features_field, int64_t model_columns = -1) const;

  // One graph, in the order sent. As an upload of these tensors, and as above.
  StatusOr<InlineGraph> MakeGraph(const TensorView& edge_index, const std::optional<TensorView>& edge_weight,
                                  const TensorView& x, const Clock& clock) const;

 private:
  // `field`: where the number of nodes comes from.
  Status CheckNodes(int64_t nodes, std::string_view field) const;
  StatusOr<std::shared_ptr<const void>> HoldKept(const PreparedGraph& graph, int64_t feature_bytes,
                                                 std::string_view what) const;

  MemoryBudget& budget_;
  Device& device_;
  const int64_t max_nodes_;
};

// INVALID_ARGUMENT (FEATURE_WIDTH).
Status CheckFeatureWidth(int64_t columns, int64_t model_columns);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_INLINE_GRAPH_H_
