// SPDX-License-Identifier: Apache-2.0
// From the rows of a request's nodes to the scores of its links.
#ifndef VICINAL_ENGINE_EXECUTE_LINKS_RUN_LINKS_H_
#define VICINAL_ENGINE_EXECUTE_LINKS_RUN_LINKS_H_

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/work_limits.h"
#include "engine/device/device.h"
#include "engine/execute/queued_request.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"

namespace vicinal {

// The rows that a run computed, or that were kept.
struct LinkRows {
  ConstMatrixView rows;          // in the device's memory
  std::vector<int64_t> places;   // of the request's node ids; of all nodes: of the client's ids in their order
  bool in_client_order = false;  // of all nodes: places[i] is i, although the graph may be renumbered
};

struct LinkRun {
  DeviceContext* context = nullptr;
  const KernelRegistry* registry = nullptr;
  MemoryBudget* budget = nullptr;
  const StopCheck* stop = nullptr;
};

// Fills rows, width, values, links and held of `result`. Errors: those of `stop`, of the budget, and of kernels
// (KERNEL_UNKNOWN, KERNEL_REFUSED where "edge_scores" is forced). On the context's thread.
Status ScoreLinks(const QueuedRequest& request, const LinkRows& rows, const LinkRun& run, InferenceResult* result);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_LINKS_RUN_LINKS_H_
