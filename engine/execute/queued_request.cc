// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/queued_request.h"

#include <atomic>

#include "engine/plan/plan.h"

namespace vicinal {
namespace {

// A batch of graphs of a stored model. A model that is not stored yet belongs to one request. A kernel that is forced
// may add the terms of a row in an order that depends on the other graphs.
bool BringsBatch(const QueuedRequest& request) {
  return request.key.private_id != 0 && request.key.model.version != 0 && request.graph != nullptr &&
         !request.graph->parts().segments.empty() && request.key.options.kernels.empty();
}

bool SameForm(const FeatureMatrix& a, const FeatureMatrix& b) {
  const FeatureShape of_a = FeatureShape::Of(a), of_b = FeatureShape::Of(b);
  return of_a.sparse == of_b.sparse && of_a.cols == of_b.cols && of_a.crowded == of_b.crowded;
}

}  // namespace

uint64_t NewPrivateId() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool MayShareRun(const QueuedRequest& a, const QueuedRequest& b) {
  if (a.brings_features || b.brings_features || a.kept != nullptr || b.kept != nullptr) return false;
  if (a.key.private_id == 0) return a.key == b.key && a.features == b.features && a.edges == b.edges;
  return BringsBatch(a) && BringsBatch(b) && a.model == b.model && a.key.options == b.key.options &&
         a.graph->weighted() == b.graph->weighted() && a.graph->edge_feature_width() == b.graph->edge_feature_width() &&
         SameForm(*a.features, *b.features);
}

ServedBy ServedByOf(const QueuedRequest& request) {
  ServedBy served_by;
  served_by.graph = request.key.graph.name;
  served_by.graph_version = request.key.graph.version;
  served_by.model = request.key.model.name;
  served_by.model_version = request.key.model.version;
  served_by.feature_set = request.feature_set;
  served_by.feature_set_version = request.feature_set_version;
  served_by.edge_feature_set = request.edge_feature_set;
  served_by.edge_feature_set_version = request.edge_feature_set_version;
  served_by.incarnation = std::string(request.incarnation);
  const bool forced = !request.key.options.kernels.empty();
  served_by.numerics_revision = forced ? 0 : request.graph->parts().numerics_revision;
  return served_by;
}

}  // namespace vicinal
