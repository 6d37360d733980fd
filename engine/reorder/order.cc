// SPDX-License-Identifier: Apache-2.0
// The permutation, and the orders that are a few lines long.
#include "engine/reorder/order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/reorder/community_order.h"
#include "engine/reorder/cuthill_mckee.h"
#include "engine/reorder/louvain.h"
#include "engine/reorder/metis_order.h"
#include "engine/reorder/undirected.h"

namespace vicinal {

struct OrderComputer::State {
  State(const Csr& graph, ThreadPool* pool, GivenUp given_up)
      : graph(graph), pool(pool), given_up(std::move(given_up)) {}

  const Csr& graph;
  ThreadPool* const pool;
  const GivenUp given_up;
  std::optional<internal::UndirectedGraph> undirected;  // once an order needed it
  std::optional<Communities> communities;
  std::vector<int64_t> metis_borders;

  const internal::UndirectedGraph& Undirected() {
    if (!undirected) undirected.emplace(graph, pool);
    return *undirected;
  }
};

namespace {

using internal::NumberWhole;

Permutation DegreeOrder(const Csr& graph) {
  std::vector<NodeId> by_degree(graph.num_rows);
  std::iota(by_degree.begin(), by_degree.end(), 0);
  const auto degree = [&](NodeId v) { return graph.row_ptr[v + 1] - graph.row_ptr[v]; };
  std::stable_sort(by_degree.begin(), by_degree.end(), [&](NodeId a, NodeId b) { return degree(a) > degree(b); });
  return Permutation::FromOldOfNew(std::move(by_degree));
}

// The two directions of a graph have twice as many entries, which communities count in 32 bits.
constexpr int64_t kMaxCommunityEdges = (int64_t{1} << 31) - 1;

Status CheckCommunitySize(const Csr& graph) {
  if (graph.nnz() <= kMaxCommunityEdges) return OkStatus();
  return FailedPrecondition("GRAPH_TOO_LARGE",
                            absl::StrCat("the order community is for graphs of up to ", kMaxCommunityEdges,
                                         " edges; this one has ", graph.nnz(), ": ask for rcm"));
}

}  // namespace

bool IsAvailable(OrderKind kind) { return kind != OrderKind::kMetis || internal::kHaveMetis; }

Permutation Permutation::Identity(int64_t num_nodes) {
  Permutation permutation;
  permutation.new_of_old_.resize(num_nodes);
  std::iota(permutation.new_of_old_.begin(), permutation.new_of_old_.end(), 0);
  permutation.old_of_new_ = permutation.new_of_old_;
  return permutation;
}

Permutation Permutation::FromNewOfOld(std::vector<NodeId> new_of_old) {
  Permutation permutation = FromOldOfNew(std::move(new_of_old));
  std::swap(permutation.new_of_old_, permutation.old_of_new_);
  return permutation;
}

Permutation Permutation::FromOldOfNew(std::vector<NodeId> old_of_new) {
  Permutation permutation;
  permutation.new_of_old_.resize(old_of_new.size());
  for (size_t new_id = 0; new_id < old_of_new.size(); ++new_id) {
    permutation.new_of_old_[old_of_new[new_id]] = static_cast<NodeId>(new_id);
    if (old_of_new[new_id] != static_cast<NodeId>(new_id)) permutation.identity_ = false;
  }
  permutation.old_of_new_ = std::move(old_of_new);
  return permutation;
}

OrderComputer::OrderComputer(const Csr& graph, ThreadPool* pool, GivenUp given_up)
    : state_(std::make_unique<State>(graph, pool, std::move(given_up))) {}
OrderComputer::~OrderComputer() = default;

StatusOr<Permutation> OrderComputer::Compute(OrderKind kind) {
  const Csr& graph = state_->graph;
  switch (kind) {
    case OrderKind::kAuto:
      break;
    case OrderKind::kNone:
      return Permutation::Identity(graph.num_rows);
    case OrderKind::kDegree:
      return DegreeOrder(graph);
    case OrderKind::kRcm:
      return Permutation::FromOldOfNew(NumberWhole(state_->Undirected(), state_->pool));
    case OrderKind::kCommunity: {
      VICINAL_RETURN_IF_ERROR(CheckCommunitySize(graph));
      internal::CommunityOrder order =
          internal::NumberCommunities(state_->Undirected(), kBlockNodes, state_->pool, state_->given_up);
      state_->communities = std::move(order.communities);
      return Permutation::FromOldOfNew(std::move(order.old_of_new));
    }
    case OrderKind::kMetis: {
      VICINAL_ASSIGN_OR_RETURN(internal::MetisOrder order,
                               internal::NumberMetisParts(state_->Undirected(), kBlockNodes, state_->pool));
      state_->metis_borders = std::move(order.borders);
      return Permutation::FromOldOfNew(std::move(order.old_of_new));
    }
  }
  VICINAL_CHECK(kind != OrderKind::kAuto);
  return Permutation::Identity(graph.num_rows);
}

const Communities* OrderComputer::communities() const { return state_->communities ? &*state_->communities : nullptr; }

std::optional<Communities> OrderComputer::TakeCommunities() { return std::exchange(state_->communities, std::nullopt); }

std::vector<int64_t> OrderComputer::TakeMetisBorders() { return std::exchange(state_->metis_borders, {}); }

StatusOr<Permutation> ComputeOrder(OrderKind kind, const Csr& graph, ThreadPool* pool) {
  return OrderComputer(graph, pool).Compute(kind);
}

Communities FindCommunities(const Csr& graph, ThreadPool* pool) {
  return internal::FindDendrogram(internal::UndirectedGraph(graph), pool).communities;
}

}  // namespace vicinal
