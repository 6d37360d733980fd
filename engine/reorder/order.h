// SPDX-License-Identifier: Apache-2.0
// Orders: renumbering of nodes for locality. An order is a pure function from a graph to a permutation, the same for
// any number of threads; the permutation is kept in both directions and never shows in answers. To add one: its kind
// in api/order_kind.h, and a function here.
#ifndef VICINAL_ENGINE_REORDER_ORDER_H_
#define VICINAL_ENGINE_REORDER_ORDER_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/order_kind.h"
#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/graph/communities.h"
#include "engine/graph/csr.h"

namespace vicinal {

// False for what this build leaves out: kMetis where libmetis was not there.
bool IsAvailable(OrderKind kind);

// Rows of a block that a core's second cache holds: 4,096 rows of 64 floats are 1 MiB.
inline constexpr int64_t kBlockNodes = 4096;

// Both directions of a renumbering of [0, N). Immutable.
class Permutation {
 public:
  static Permutation Identity(int64_t num_nodes);
  // REQUIRES: `new_of_old` is a permutation.
  static Permutation FromNewOfOld(std::vector<NodeId> new_of_old);
  // REQUIRES: `old_of_new` is a permutation: the node that comes first, the one that comes second, ...
  static Permutation FromOldOfNew(std::vector<NodeId> old_of_new);

  bool is_identity() const { return identity_; }
  int64_t size() const { return static_cast<int64_t>(new_of_old_.size()); }
  NodeId ToNew(NodeId old_id) const { return new_of_old_[old_id]; }
  NodeId ToOld(NodeId new_id) const { return old_of_new_[new_id]; }
  const std::vector<NodeId>& new_of_old() const { return new_of_old_; }
  const std::vector<NodeId>& old_of_new() const { return old_of_new_; }
  int64_t size_bytes() const { return 2 * size() * static_cast<int64_t>(sizeof(NodeId)); }

 private:
  bool identity_ = true;
  std::vector<NodeId> new_of_old_;
  std::vector<NodeId> old_of_new_;
};

// Polled by orders that take long: true if the result is no longer wanted. The result is then still a permutation, but
// not a good order, and the caller must drop it. Called from one thread. May be empty.
using GivenUp = std::function<bool()>;
inline bool IsGivenUp(const GivenUp& given_up) { return given_up && given_up(); }

// Computes orders of one graph, and keeps what they share: the graph taken as undirected. For one thread, which is
// joined by those of `pool` (null: none).
class OrderComputer {
 public:
  // `graph` and `pool` must outlive it. Only kCommunity, which takes longest, asks `given_up`.
  explicit OrderComputer(const Csr& graph, ThreadPool* pool = nullptr, GivenUp given_up = {});
  ~OrderComputer();

  // O(E) for kNone, O(N log N) for kDegree, O(E log max degree) for kRcm, a few passes over the edges for kCommunity.
  // FAILED_PRECONDITION, reason METIS_MISSING or GRAPH_TOO_LARGE: kMetis in a build without it, or of more nodes or
  // edges than its 32-bit indices take; kCommunity of 2^31 edges and more. REQUIRES: kind != kAuto.
  //
  // kMetis: METIS takes the handlers of SIGTERM and SIGABRT while it runs, one partition at a time in the process.
  // Signals are blocked in the calling thread meanwhile, and the handlers put back as they were; REQUIRES that the
  // process's other threads block SIGTERM, as vicinal-server's do.
  StatusOr<Permutation> Compute(OrderKind kind);

  // The communities that kCommunity found; null before.
  const Communities* communities() const;
  // Gives them away.
  std::optional<Communities> TakeCommunities();
  // Gives away the borders between the parts that kMetis made, in its order: ascending, from 0 to N. Empty before.
  std::vector<int64_t> TakeMetisBorders();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One order of one graph; see OrderComputer::Compute.
StatusOr<Permutation> ComputeOrder(OrderKind kind, const Csr& graph, ThreadPool* pool = nullptr);

// The communities that kCommunity is made from. REQUIRES: fewer than 2^31 edges.
Communities FindCommunities(const Csr& graph, ThreadPool* pool = nullptr);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_REORDER_ORDER_H_
