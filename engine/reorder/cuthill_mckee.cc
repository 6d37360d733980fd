// SPDX-License-Identifier: Apache-2.0
// A component is numbered breadth-first from a node at its rim, neighbours by rising degree, and that numbering is
// reversed: neighbours end up close together. Components follow each other by their lowest id, so the result depends on
// the graph alone. Cost: a few breadth-first searches and the sorts, O(E log max degree); 5 bytes per node.
#include "engine/reorder/cuthill_mckee.h"

#include <algorithm>
#include <numeric>

#include "engine/reorder/parallel.h"

namespace vicinal::internal {
namespace {

// How often each node was searched; the last search numbers it. Components do not share nodes, so that each begins with
// zeros.
using Marks = std::vector<uint8_t>;
constexpr uint8_t kPlaced = 255;

// Kept between components and parts.
struct Scratch {
  std::vector<NodeId> queue;
  std::vector<std::pair<int64_t, NodeId>> next;  // (degree, node)
};

// One component of a part.
class Component {
 public:
  Component(const UndirectedGraph& graph, const std::vector<NodeId>& part_of, NodeId part, Marks* marks,
            Scratch* scratch)
      : graph_(graph), part_of_(part_of), part_(part), marks_(*marks), queue_(scratch->queue), next_(scratch->next) {}

  // Writes the reverse Cuthill-McKee order of `start`'s component to `out`; returns how many nodes it has.
  int64_t Number(NodeId start, NodeId* out) {
    const NodeId root = FindRim(start);
    NodeId* end = out;
    *end++ = root;
    marks_[root] = kPlaced;
    for (NodeId* head = out; head < end; ++head) {
      next_.clear();
      for (const NodeId v : graph_.Neighbours(*head)) {
        if (part_of_[v] != part_ || marks_[v] == kPlaced) continue;
        marks_[v] = kPlaced;
        next_.emplace_back(graph_.Degree(v), v);
      }
      std::sort(next_.begin(), next_.end());
      for (const auto& [degree, v] : next_) *end++ = v;
    }
    std::reverse(out, end);
    return end - out;
  }

 private:
  // A handful suffices in practice; the bound keeps a path-like graph from being searched once per node.
  static constexpr int kMaxRounds = 8;

  // Breadth-first levels from one node.
  struct Levels {
    int64_t depth = 0;       // levels after the root's
    int64_t last_begin = 0;  // where the last level begins in the queue
  };

  // A pseudo-peripheral node: from the lowest-degree node of the last level again, as long as that makes the levels
  // deeper.
  NodeId FindRim(NodeId start) {
    NodeId root = start;
    Levels levels = Search(root, 1);
    for (int round = 0; round < kMaxRounds && levels.depth > 0; ++round) {
      root = LowestDegreeInLastLevel(levels);
      const Levels next = Search(root, static_cast<uint8_t>(round + 2));
      if (next.depth <= levels.depth) break;
      levels = next;
    }
    return root;
  }

  Levels Search(NodeId root, uint8_t mark) {
    queue_.assign(1, root);
    marks_[root] = mark;
    Levels levels;
    for (size_t begin = 0, end = 1; begin < end; begin = end, end = queue_.size()) {
      levels.last_begin = static_cast<int64_t>(begin);
      for (size_t i = begin; i < end; ++i) {
        for (const NodeId v : graph_.Neighbours(queue_[i])) {
          if (part_of_[v] != part_ || marks_[v] == mark) continue;
          marks_[v] = mark;
          queue_.push_back(v);
        }
      }
      if (queue_.size() > end) ++levels.depth;
    }
    return levels;
  }

  NodeId LowestDegreeInLastLevel(const Levels& levels) const {
    return *std::min_element(queue_.begin() + levels.last_begin, queue_.end(), [&](NodeId a, NodeId b) {
      return std::pair(graph_.Degree(a), a) < std::pair(graph_.Degree(b), b);
    });
  }

  const UndirectedGraph& graph_;
  const std::vector<NodeId>& part_of_;
  const NodeId part_;
  Marks& marks_;
  std::vector<NodeId>& queue_;
  std::vector<std::pair<int64_t, NodeId>>& next_;
};

}  // namespace

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
  Marks marks(graph.num_nodes(), 0);  // each part's are touched by the thread that numbers it alone
  std::vector<Scratch> scratch(NumThreads(pool));
  ForTasks(pool, count, [&](int64_t part, int thread) {
    Component component(graph, parts.part_of, static_cast<NodeId>(part), &marks, &scratch[thread]);
    NodeId* out = order.data() + parts.begin[part];
    for (int64_t i = parts.begin[part]; i < parts.begin[part + 1]; ++i) {
      if (marks[parts.member[i]] != kPlaced) out += component.Number(parts.member[i], out);
    }
  });
  return order;
}

}  // namespace vicinal::internal
