// SPDX-License-Identifier: Apache-2.0
// Several batches of small graphs as one, so that they share a plan and a run. Each row of the result has the bits that
// it has alone: the order of a plan's steps does not depend on sizes, and a plan for a batch, which is never tuned,
// takes kernels that add the terms of a row in the standard order.
#ifndef VICINAL_ENGINE_EXECUTE_MERGED_GRAPHS_H_
#define VICINAL_ENGINE_EXECUTE_MERGED_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/execute/queued_request.h"
#include "engine/memory/memory_budget.h"

namespace vicinal {

// A batch of all the graphs, in the order of the requests.
struct MergedGraphs {
  Reservation memory;  // of both, if they are large
  std::shared_ptr<const PreparedGraph> graph;
  std::shared_ptr<const FeatureMatrix> features;
  std::vector<int64_t> first_graph;  // of each request; then the number of graphs
};

// REQUIRES: MayShareRun of all of them, and each has a batch of graphs. Errors of MemoryBudget and of the device.
StatusOr<MergedGraphs> MergeGraphs(const std::vector<const QueuedRequest*>& requests, MemoryBudget* budget,
                                   Device* device);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_MERGED_GRAPHS_H_
