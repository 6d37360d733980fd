// SPDX-License-Identifier: Apache-2.0
// Expands the field level by level. The number of a level's edges, the sum of its degrees, is known before they are
// followed, so the search stops as soon as the field costs more than the limit.
#include "engine/plan/receptive_field/receptive_field.h"

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"
#include "engine/graph/adjacency.h"

namespace vicinal {
namespace {

// Prefetch distances in rows: rows and the local numbers of their sources are random accesses.
constexpr int64_t kAhead = 8, kSoon = 2;

}  // namespace

int64_t HostEdges::Degree(NodeId node) const {
  const int64_t sent = csr.row_ptr[node + 1] - csr.row_ptr[node];
  if (!one_loop_each) return sent;
  const LoopRange loops = LoopsOf(csr, node);
  return sent - (loops.end - loops.begin) + 1;
}

ReceptiveFieldFinder::ReceptiveFieldFinder(Device* device, const MemoryPurpose& purpose)
    : device_(device), purpose_(purpose), local_of_(device, purpose), nodes_(device, purpose) {}

StatusOr<bool> ReceptiveFieldFinder::Find(const ReceptiveFieldShape& shape, const std::vector<int64_t>& ids,
                                          const Permutation& permutation, double limit, int num_threads) {
  VICINAL_DCHECK(shape.refusal.empty());
  limit_ = limit;
  VICINAL_RETURN_IF_ERROR(Begin(shape, num_threads));
  VICINAL_RETURN_IF_ERROR(TakeAsked(ids, permutation));
  const int deepest = static_cast<int>(shape.levels.size()) - 1;
  for (int depth = 0; depth < deepest; ++depth) {
    rows_[depth] = num_nodes_;
    spent_ += static_cast<double>(num_nodes_) * shape.levels[depth].row_cost;
    for (const ReceptiveFieldShape::Edges& edges : shape.levels[depth].edges) {
      if (MinCost(depth) > limit_) return false;
      VICINAL_RETURN_IF_ERROR(Expand(shape.adjacencies[edges.adjacency], edges, depth, &locals_[edges.adjacency]));
    }
    if (MinCost(depth) > limit_) return false;
  }
  rows_[deepest] = num_nodes_;
  cost_ = static_cast<double>(num_nodes_) * cost_from_[deepest] + spent_;
  return cost_ <= limit_;
}

Status ReceptiveFieldFinder::Begin(const ReceptiveFieldShape& shape, int num_threads) {
  num_nodes_ = 0;
  spent_ = shape.run_cost;
  scan_cost_ = kEdgeNs * num_threads + shape.edge_cost;
  if (shape.num_nodes > local_of_.capacity()) {
    VICINAL_RETURN_IF_ERROR(local_of_.Reserve(shape.num_nodes));
    std::memset(local_of_.data(), 0, static_cast<size_t>(local_of_.capacity()) * sizeof(int32_t));
  }
  largest_graph_ = std::max(largest_graph_, shape.num_nodes);
  rows_.assign(shape.levels.size(), 0);
  cost_from_.assign(shape.levels.size() + 1, 0.0);
  cost_from_.back() = shape.node_cost + kNodeNs * num_threads;
  for (size_t depth = shape.levels.size(); depth-- > 0;)
    cost_from_[depth] = cost_from_[depth + 1] + shape.levels[depth].row_cost;
  while (locals_.size() < shape.adjacencies.size()) locals_.emplace_back(device_, purpose_);
  for (size_t i = 0; i < shape.adjacencies.size(); ++i) {
    locals_[i].rows = locals_[i].longest = 0;
    locals_[i].weighted = shape.adjacencies[i].csr.value != nullptr;
    VICINAL_RETURN_IF_ERROR(locals_[i].row_ptr.Reserve(1));
    locals_[i].row_ptr.data()[0] = 0;
  }
  return OkStatus();
}

Status ReceptiveFieldFinder::TakeAsked(const std::vector<int64_t>& ids, const Permutation& permutation) {
  const int64_t most = std::min(static_cast<int64_t>(ids.size()), permutation.size());
  VICINAL_RETURN_IF_ERROR(nodes_.Reserve(most));
  for (const int64_t id : ids) {
    Discover(permutation.is_identity() ? static_cast<NodeId>(id) : permutation.ToNew(static_cast<NodeId>(id)));
  }
  return OkStatus();
}

int32_t ReceptiveFieldFinder::Discover(NodeId node) {
  const int32_t known = local_of_.data()[node];
  if (IsIn(node, known)) return known;
  const int32_t fresh = static_cast<int32_t>(num_nodes_++);
  local_of_.data()[node] = fresh;
  nodes_.data()[fresh] = node;
  return fresh;
}

void ReceptiveFieldFinder::Follow(const HostEdges& full, NodeId node, int32_t* col) {
  const CsrView& csr = full.csr;
  const int64_t begin = csr.row_ptr[node], end = csr.row_ptr[node + 1];
  const LoopRange loops = full.one_loop_each ? LoopsOf(csr, node) : LoopRange{end, end};
  for (int64_t e = begin; e < loops.begin; ++e) *col++ = Discover(csr.col[e]);
  if (full.one_loop_each) *col++ = Discover(node);
  for (int64_t e = loops.end; e < end; ++e) *col++ = Discover(csr.col[e]);
}

void ReceptiveFieldFinder::PrefetchNumbers(const CsrView& csr, NodeId node) const {
  for (int64_t e = csr.row_ptr[node]; e < csr.row_ptr[node + 1]; ++e) {
    __builtin_prefetch(local_of_.data() + csr.col[e]);
  }
}

Status ReceptiveFieldFinder::Expand(const HostEdges& full, const ReceptiveFieldShape::Edges& edges, int depth,
                                    LocalCsr* local) {
  const int64_t first = local->rows, last = rows_[depth], had = local->row_ptr.data()[first];
  int64_t more = 0;
  for (int64_t row = first; row < last; ++row) {
    if (row + kAhead < last) __builtin_prefetch(full.csr.row_ptr + nodes_.data()[row + kAhead]);
    const int64_t degree = full.Degree(nodes_.data()[row]);
    more += degree;
    local->longest = std::max(local->longest, degree);
  }
  spent_ += static_cast<double>(had + more) * edges.cost + static_cast<double>(more) * scan_cost_ +
            static_cast<double>(local->longest) * edges.longest_cost;
  if (MinCost(depth) > limit_) return OkStatus();

  VICINAL_RETURN_IF_ERROR(local->row_ptr.Reserve(last + 1, first + 1));
  VICINAL_RETURN_IF_ERROR(local->col.Reserve(had + more, had));
  if (local->weighted) VICINAL_RETURN_IF_ERROR(local->value.Reserve(had + more, had));
  VICINAL_RETURN_IF_ERROR(nodes_.Reserve(std::min(full.csr.rows, num_nodes_ + more), num_nodes_));
  int64_t* const row_ptr = local->row_ptr.data();
  int32_t* const col = local->col.data();
  for (int64_t row = first; row < last; ++row) {
    const NodeId node = nodes_.data()[row];
    if (row + kAhead < last) __builtin_prefetch(full.csr.col + full.csr.row_ptr[nodes_.data()[row + kAhead]]);
    if (row + kSoon < last) PrefetchNumbers(full.csr, nodes_.data()[row + kSoon]);
    const int64_t degree = full.Degree(node), at = row_ptr[row];
    Follow(full, node, col + at);
    if (local->weighted) std::copy_n(full.csr.value + full.csr.row_ptr[node], degree, local->value.data() + at);
    row_ptr[row + 1] = at + degree;
    local->rows = row + 1;
    if (MinCost(depth) > limit_) break;
  }
  return OkStatus();
}

CsrView ReceptiveFieldFinder::Adjacency(int index, int depth) const {
  const LocalCsr& local = locals_[index];
  VICINAL_CHECK(rows_[depth] <= local.rows);
  return {rows_[depth],         rows_[depth + 1], local.row_ptr.data()[rows_[depth]],
          local.row_ptr.data(), local.col.data(), local.weighted ? local.value.data() : nullptr};
}

CsrView ReceptiveFieldFinder::Adjacency(int index) const {
  const LocalCsr& local = locals_[index];
  const int64_t* row_ptr = local.row_ptr.data();
  return {local.rows, num_nodes_,       row_ptr[local.rows],
          row_ptr,    local.col.data(), local.weighted ? local.value.data() : nullptr};
}

}  // namespace vicinal
