// SPDX-License-Identifier: Apache-2.0
// METIS wants each pair of neighbours once from either side, no self-loops, and 32-bit indices; copies of an edge
// become its weight. It is serial, draws random numbers from the process's generator (seeded by itself) and takes
// signal handlers, so one partition runs at a time. Memory: the graph for METIS, 8 bytes per entry and 4 per node, and
// about as much again inside METIS.
#include "engine/reorder/metis_order.h"

#include <metis.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/mutex.h"
#include "engine/reorder/cuthill_mckee.h"
#include "engine/reorder/signals_blocked.h"

namespace vicinal::internal {
namespace {

static_assert(sizeof(idx_t) == sizeof(NodeId), "METIS is taken with 32-bit indices, as Debian builds it");

struct MetisGraph {
  std::vector<idx_t> row_ptr;  // [N + 1]
  std::vector<idx_t> col;
  std::vector<idx_t> weight;  // as long as col
};

MetisGraph MakeMetisGraph(const UndirectedGraph& graph) {
  const int64_t n = graph.num_nodes();
  MetisGraph out;
  out.row_ptr.assign(n + 1, 0);
  out.col.reserve(graph.num_entries());
  out.weight.reserve(graph.num_entries());
  std::vector<NodeId> row;
  for (NodeId v = 0; v < n; ++v) {
    const std::span<const NodeId> neighbours = graph.Neighbours(v);
    row.assign(neighbours.begin(), neighbours.end());
    std::sort(row.begin(), row.end());
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i] == v) continue;
      if (i > 0 && row[i] == row[i - 1]) {
        ++out.weight.back();
        continue;
      }
      out.col.push_back(row[i]);
      out.weight.push_back(1);
    }
    out.row_ptr[v + 1] = static_cast<idx_t>(out.col.size());
  }
  return out;
}

Status CheckSize(const UndirectedGraph& graph) {
  constexpr int64_t kMax = std::numeric_limits<idx_t>::max();
  if (graph.num_entries() <= kMax) return OkStatus();
  return FailedPrecondition(
      "GRAPH_TOO_LARGE",
      absl::StrCat("METIS takes graphs of up to ", kMax, " edges, both directions counted; this one has ",
                   graph.num_entries(), ": ask for another order (community is the nearest to it)"));
}

Status MetisError(int code) {
  if (code == METIS_ERROR_MEMORY) {
    return ResourceExhausted("OUT_OF_MEMORY", "METIS found no memory for this graph; retry later, or ask for community",
                             std::chrono::seconds(1));
  }
  return Internal(absl::StrCat("METIS refused a graph that was made for it (its code ", code, ")"));
}

// Part of each node, in [0, num_parts); some may be empty.
StatusOr<std::vector<NodeId>> Partition(MetisGraph graph, int64_t num_parts) {
  static Mutex* const one_at_a_time = new Mutex;  // never destroyed: a thread may wait for it while the process ends
  idx_t num_nodes = static_cast<idx_t>(graph.row_ptr.size()) - 1;
  idx_t constraints = 1, parts = static_cast<idx_t>(num_parts), cut = 0;
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = 1;
  std::vector<idx_t> part_of(num_nodes, 0);
  int code = METIS_OK;
  {
    MutexLock lock(one_at_a_time);
    const SignalsBlocked blocked;
    code = METIS_PartGraphKway(&num_nodes, &constraints, graph.row_ptr.data(), graph.col.data(), nullptr, nullptr,
                               graph.weight.data(), &parts, nullptr, nullptr, options, &cut, part_of.data());
  }
  if (code != METIS_OK) return MetisError(code);
  return part_of;
}

}  // namespace

const bool kHaveMetis = true;

StatusOr<MetisOrder> NumberMetisParts(const UndirectedGraph& graph, int64_t block_nodes, ThreadPool* pool) {
  VICINAL_RETURN_IF_ERROR(CheckSize(graph));
  const int64_t num_parts = (graph.num_nodes() + block_nodes - 1) / block_nodes;
  if (num_parts <= 1) return MetisOrder{NumberWhole(graph, pool), {0, graph.num_nodes()}};
  VICINAL_ASSIGN_OR_RETURN(std::vector<NodeId> part_of, Partition(MakeMetisGraph(graph), num_parts));
  Parts parts = PartsFrom(std::move(part_of), num_parts);
  MetisOrder order = {NumberInsideParts(graph, parts, pool), std::move(parts.begin)};
  order.borders.erase(std::unique(order.borders.begin(), order.borders.end()), order.borders.end());
  return order;
}

}  // namespace vicinal::internal
