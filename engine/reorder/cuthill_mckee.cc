// SPDX-License-Identifier: Apache-2.0
// A component is numbered breadth-first from a node at its rim, neighbours by rising degree, and that numbering is
// reversed: neighbours end up close together. Components follow each other by their lowest id, so the result depends on
// the graph alone, whatever the threads do: of a search only the sets of nodes in each level count, and for numbering
// each node of the next level belongs to its first neighbour in this one, and a level is sorted by (that neighbour's
// place, degree, id).
//
// A level is found from whichever side has fewer entries (Beamer, Asanovic and Patterson 2012): downwards, by the
// entries of the level before, or upwards, by those of the nodes that have not been reached, of which a search looks
// only at as many as it takes to find one neighbour in the level before. In a dense graph that is a small share of all.
// Cost: O(E + N log N); at most 64 bytes per node.
#include "engine/reorder/cuthill_mckee.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "engine/reorder/parallel.h"

namespace vicinal::internal {
namespace {

// Levels of fewer entries are searched by one thread.
constexpr int64_t kWideEntries = int64_t{1} << 16;
constexpr int64_t kTasksPerThread = 8;
// A handful suffices in practice; the bound keeps a path-like graph from being searched once per node.
constexpr int kMaxSearches = 8;

constexpr NodeId kNowhere = -1;
constexpr NodeId kNoParent = std::numeric_limits<NodeId>::max();

// No restriction: every neighbour counts.
struct Everywhere {
  bool operator()(NodeId) const { return true; }
};

// Only neighbours in the same part count.
struct InsidePart {
  const std::vector<NodeId>& part_of;
  NodeId part;
  bool operator()(NodeId v) const { return part_of[v] == part; }
};

// What is known of the nodes. Parts that are numbered at the same time touch nodes of their own alone.
struct NodeState {
  explicit NodeState(int64_t nodes) : place(nodes, kNowhere), mark(nodes, 0) {}

  std::vector<NodeId> place;  // in the numbering of its part, before the component is reversed; or kNowhere
  std::vector<uint8_t> mark;  // of the last search that met the node
  std::vector<NodeId>
      first_parent;  // least place of a neighbour in the level before; only where several threads search
};

// A node of the next level.
struct Child {
  int64_t degree;
  NodeId parent_place, node;
  bool operator<(const Child& other) const {
    return std::tie(parent_place, degree, node) < std::tie(other.parent_place, other.degree, other.node);
  }
};

// Kept between parts.
struct Scratch {
  std::vector<NodeId> queue;
  std::vector<Child> children;
};

// Numbers `members`, ascending, as seen through `Counts`, which is true of them alone.
template <class Counts>
class Numbering {
 public:
  // Writes to order[0 .. members.size()). `pool`: null if the calling thread is to work alone.
  Numbering(const UndirectedGraph& graph, const Counts& counts, std::span<const NodeId> members, ThreadPool* pool,
            NodeState* state, Scratch* scratch, NodeId* order)
      : graph_(graph),
        counts_(counts),
        members_(members),
        pool_(pool),
        unplaced_entries_(EntriesOf(members)),
        order_(order),
        place_(state->place),
        first_parent_(state->first_parent),
        mark_(state->mark),
        queue_(scratch->queue),
        children_(scratch->children) {}

  void Run() {
    for (const NodeId v : members_) {
      if (place_[v] == kNowhere) NumberComponent(v);
    }
  }

 private:
  struct Levels {
    int64_t depth = 0;       // levels after the root's
    int64_t last_begin = 0;  // where the last level begins in the queue
  };

  void NumberComponent(NodeId start) {
    const int64_t first = placed_;
    Place(FindRim(start));
    for (int64_t begin = first, end = placed_; begin < end; begin = end, end = placed_) PlaceNextLevel(begin, end);
    std::reverse(order_ + first, order_ + placed_);
  }

  void Place(NodeId v) {
    place_[v] = static_cast<NodeId>(placed_);
    order_[placed_++] = v;
    unplaced_entries_ -= graph_.Degree(v);
  }

  // The level after order_[begin .. end).
  void PlaceNextLevel(int64_t begin, int64_t end) {
    const std::span<const NodeId> level(order_ + begin, static_cast<size_t>(end - begin));
    const int64_t entries = EntriesOf(level);
    if (entries > unplaced_entries_ + num_members()) {
      PlaceSorted(FindUpwards<Child>(unplaced_entries_, [&](NodeId v, std::vector<Child>* found) {
        if (place_[v] != kNowhere) return;
        NodeId parent = kNoParent;
        for (const NodeId u : graph_.Neighbours(v)) {
          if (counts_(u) && place_[u] != kNowhere) parent = std::min(parent, place_[u]);
        }
        if (parent != kNoParent) found->push_back({graph_.Degree(v), parent, v});
      }));
    } else if (IsWide(entries)) {
      PlaceSorted(ChildrenDownwards(level, entries));
    } else {
      for (const NodeId head : level) PlaceChildren(head);
    }
  }

  void PlaceChildren(NodeId head) {
    children_.clear();
    for (const NodeId v : graph_.Neighbours(head)) {
      if (!counts_(v) || place_[v] != kNowhere) continue;
      place_[v] = 0;  // until it is known; that it has one is enough to meet it once
      children_.push_back({graph_.Degree(v), 0, v});
    }
    std::sort(children_.begin(), children_.end());
    for (const Child& child : children_) Place(child.node);
  }

  void PlaceSorted(std::vector<Child> children) {
    std::sort(children.begin(), children.end());
    for (const Child& child : children) Place(child.node);
  }

  std::vector<Child> ChildrenDownwards(std::span<const NodeId> level, int64_t entries) {
    std::vector<Child> children = FindDownwards<Child>(level, entries, [&](NodeId head, std::vector<Child>* found) {
      const NodeId place = place_[head];
      for (const NodeId v : graph_.Neighbours(head)) {
        if (!counts_(v) || place_[v] != kNowhere) continue;
        std::atomic_ref<NodeId> parent(first_parent_[v]);
        NodeId before = parent.load(std::memory_order_relaxed);
        while (place < before && !parent.compare_exchange_weak(before, place, std::memory_order_relaxed)) {
        }
        // Whoever was the first to touch it reports it; the parent may still change.
        if (before == kNoParent) found->push_back({graph_.Degree(v), kNoParent, v});
      }
    });
    for (Child& child : children) child.parent_place = first_parent_[child.node];
    return children;
  }

  // A pseudo-peripheral node: from the lowest-degree node of the last level again, as long as that makes the levels
  // deeper.
  NodeId FindRim(NodeId start) {
    NodeId root = start;
    Levels levels = Search(root, 1);
    for (int round = 0; round < kMaxSearches && levels.depth > 0; ++round) {
      root = LowestDegreeInLastLevel(levels);
      const Levels next = Search(root, static_cast<uint8_t>(round + 2));
      if (next.depth <= levels.depth) break;
      levels = next;
    }
    return root;
  }

  Levels Search(NodeId root, uint8_t mark) {
    queue_.assign(1, root);
    mark_[root] = mark;
    int64_t unreached = unplaced_entries_ - graph_.Degree(root);
    Levels levels;
    for (size_t begin = 0, end = 1; begin < end; begin = end, end = queue_.size()) {
      levels.last_begin = static_cast<int64_t>(begin);
      const std::vector<NodeId> next = NextLevel(std::span(queue_).subspan(begin), unreached, mark);
      queue_.insert(queue_.end(), next.begin(), next.end());
      unreached -= EntriesOf(next);
      if (!next.empty()) ++levels.depth;
    }
    return levels;
  }

  // The nodes after those of `level`, in any order; marked. `unreached`: entries of nodes without the mark or a place.
  std::vector<NodeId> NextLevel(std::span<const NodeId> level, int64_t unreached, uint8_t mark) {
    const int64_t entries = EntriesOf(level);
    std::vector<NodeId> next;
    if (entries > unreached + num_members()) {
      next = FindUpwards<NodeId>(unreached, [&](NodeId v, std::vector<NodeId>* found) {
        if (place_[v] != kNowhere || mark_[v] == mark) return;
        const std::span<const NodeId> neighbours = graph_.Neighbours(v);
        if (std::any_of(neighbours.begin(), neighbours.end(),
                        [&](NodeId u) { return counts_(u) && mark_[u] == mark; })) {
          found->push_back(v);
        }
      });
      for (const NodeId v : next) mark_[v] = mark;
    } else if (IsWide(entries)) {
      next = FindDownwards<NodeId>(level, entries, [&](NodeId head, std::vector<NodeId>* found) {
        for (const NodeId v : graph_.Neighbours(head)) {
          if (!counts_(v)) continue;
          std::atomic_ref<uint8_t> of_node(mark_[v]);
          if (of_node.load(std::memory_order_relaxed) == mark) continue;
          if (of_node.exchange(mark, std::memory_order_relaxed) != mark) found->push_back(v);
        }
      });
    } else {
      for (const NodeId head : level) {
        for (const NodeId v : graph_.Neighbours(head)) {
          if (!counts_(v) || mark_[v] == mark) continue;
          mark_[v] = mark;
          next.push_back(v);
        }
      }
    }
    return next;
  }

  NodeId LowestDegreeInLastLevel(const Levels& levels) const {
    return *std::min_element(queue_.begin() + levels.last_begin, queue_.end(), [&](NodeId a, NodeId b) {
      return std::pair(graph_.Degree(a), a) < std::pair(graph_.Degree(b), b);
    });
  }

  int64_t EntriesOf(std::span<const NodeId> nodes) const {
    int64_t entries = 0;
    for (const NodeId v : nodes) entries += graph_.Degree(v);
    return entries;
  }

  bool IsWide(int64_t entries) const { return pool_ != nullptr && entries >= kWideEntries; }

  // What find(node, &found) reports for the nodes of `level`.
  template <class T, class Find>
  std::vector<T> FindDownwards(std::span<const NodeId> level, int64_t entries, const Find& find) {
    return Collect<T>(static_cast<int64_t>(level.size()), IsWide(entries),
                      [&](int64_t i, std::vector<T>* found) { find(level[i], found); });
  }
  // What find(node, &found) reports for all members, of which those that count have `entries`.
  template <class T, class Find>
  std::vector<T> FindUpwards(int64_t entries, const Find& find) {
    return Collect<T>(num_members(), IsWide(entries + num_members()),
                      [&](int64_t i, std::vector<T>* found) { find(members_[i], found); });
  }

  template <class T, class Body>
  std::vector<T> Collect(int64_t count, bool wide, const Body& body) {
    const int64_t tasks = wide ? kTasksPerThread * NumThreads(pool_) : 1;
    const int64_t grain = std::max<int64_t>(1, (count + tasks - 1) / tasks);
    std::vector<std::vector<T>> found(static_cast<size_t>(wide ? NumThreads(pool_) : 1));
    ForRanges(wide ? pool_ : nullptr, count, grain, [&](int64_t first, int64_t last, int thread) {
      for (int64_t i = first; i < last; ++i) body(i, &found[thread]);
    });
    std::vector<T> all = std::move(found[0]);
    for (size_t thread = 1; thread < found.size(); ++thread) {
      all.insert(all.end(), found[thread].begin(), found[thread].end());
    }
    return all;
  }

  int64_t num_members() const { return static_cast<int64_t>(members_.size()); }

  const UndirectedGraph& graph_;
  const Counts counts_;
  const std::span<const NodeId> members_;
  ThreadPool* const pool_;
  int64_t unplaced_entries_;  // of members that have no place yet
  int64_t placed_ = 0;
  NodeId* const order_;  // the first placed_ are known
  std::vector<NodeId>& place_;
  std::vector<NodeId>& first_parent_;
  std::vector<uint8_t>& mark_;
  std::vector<NodeId>& queue_;
  std::vector<Child>& children_;
};

}  // namespace

std::vector<NodeId> NumberWhole(const UndirectedGraph& graph, ThreadPool* pool) {
  std::vector<NodeId> all(graph.num_nodes());
  std::iota(all.begin(), all.end(), 0);
  std::vector<NodeId> order(graph.num_nodes());
  NodeState state(graph.num_nodes());
  if (pool != nullptr) state.first_parent.assign(graph.num_nodes(), kNoParent);
  Scratch scratch;
  Numbering(graph, Everywhere(), all, pool, &state, &scratch, order.data()).Run();
  return order;
}

Parts PartsFrom(std::vector<NodeId> part_of, int64_t count) {
  Parts parts;
  parts.begin.assign(count + 1, 0);
  for (const NodeId p : part_of) ++parts.begin[p + 1];
  std::partial_sum(parts.begin.begin(), parts.begin.end(), parts.begin.begin());
  parts.member.resize(part_of.size());
  std::vector<int64_t> next(parts.begin.begin(), parts.begin.end() - 1);
  for (size_t v = 0; v < part_of.size(); ++v) parts.member[next[part_of[v]]++] = static_cast<NodeId>(v);
  parts.part_of = std::move(part_of);
  return parts;
}

std::vector<NodeId> NumberInsideParts(const UndirectedGraph& graph, const Parts& parts, ThreadPool* pool) {
  const int64_t count = static_cast<int64_t>(parts.begin.size()) - 1;
  std::vector<NodeId> order(graph.num_nodes());
  NodeState state(graph.num_nodes());
  std::vector<Scratch> scratch(NumThreads(pool));
  ForTasks(pool, count, [&](int64_t part, int thread) {
    const std::span<const NodeId> members(parts.member.data() + parts.begin[part],
                                          parts.member.data() + parts.begin[part + 1]);
    const InsidePart inside = {parts.part_of, static_cast<NodeId>(part)};
    Numbering(graph, inside, members, nullptr, &state, &scratch[thread], order.data() + parts.begin[part]).Run();
  });
  return order;
}

}  // namespace vicinal::internal
