// SPDX-License-Identifier: Apache-2.0
// The best partners of nodes, exactly, on the host. Nodes are taken in batches whose rows fit the second cache; threads
// share the partners, each with lists of its own, which are merged at the end.
#ifndef VICINAL_ENGINE_EXECUTE_LINKS_TOP_LINKS_H_
#define VICINAL_ENGINE_EXECUTE_LINKS_TOP_LINKS_H_

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/base/work_limits.h"
#include "engine/device/views.h"
#include "engine/execute/links/link_query.h"
#include "engine/execute/links/link_scorer.h"
#include "engine/kernels/top_products.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

// What the scores are made of, and where they go.
struct TopLinksJob {
  const LinkQuery* query = nullptr;
  const PreparedGraph* graph = nullptr;
  ConstMatrixView rows;                // of nodes
  const int64_t* node_rows = nullptr;  // [Q] of query->nodes in `rows`
  ConstMatrixView partners;            // [P, D]
  const int32_t* ids = nullptr;        // [P], of the partners, by the client; null: the row's number
  float* scores = nullptr;             // [Q, k]
  int64_t* links = nullptr;            // [Q, k]
};

// For decoders whose score is a product of a row made of the node's and the partner's row, up to a factor: all but
// MLPs. Errors: those of `stop` and of the budget.
Status TopByProducts(const TopLinksJob& job, ThreadPool* pool, MemoryBudget* budget, const StopCheck& stop);

// For any decoder: scores pairs in blocks. The rows are in the device's memory, `partner_rows` [P] are those of the
// partners; job.partners is not used.
Status TopByPairs(const TopLinksJob& job, LinkScorer* scorer, const std::vector<int64_t>& partner_rows,
                  MemoryBudget* budget, const StopCheck& stop);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_LINKS_TOP_LINKS_H_
