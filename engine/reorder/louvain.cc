// SPDX-License-Identifier: Apache-2.0
// Two steps in turn: Mover moves the nodes of a level between communities, Contract makes the communities the nodes of
// the next. Weights are counts of entries, so sums are exact and do not depend on who adds first; a gain is a function
// of such sums, and of equal gains the lowest label wins. Hence the result is the same for any number of threads: what
// is done in parallel reads what the batch before left, or adds integers.
#include "engine/reorder/louvain.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "engine/base/check.h"
#include "engine/reorder/cuthill_mckee.h"
#include "engine/reorder/parallel.h"

namespace vicinal::internal {
namespace {

// Levels with fewer entries move one node after the other: a better result, and less time than threads would save.
constexpr int64_t kSerialEntries = int64_t{1} << 19;
// Larger levels go through blocks of consecutive nodes, whose rows then stay in the cache, and through each block in
// batches. Neighbours in one batch do not see each other move; a block has as many nodes as keep the threads busy.
constexpr int kBatchBits = 3;
constexpr int64_t kBatchesPerBlock = int64_t{1} << kBatchBits;
constexpr int64_t kBlocks = 16;
constexpr int64_t kSmallestBlock = int64_t{1} << 12;
constexpr int64_t kLargestBlock = int64_t{1} << 16;
// A level ends when a round moves fewer than this share of its nodes, or after so many rounds.
constexpr double kFewMoves = 0.005;
constexpr int kMaxRounds = 12;
// Another level is begun only if the last one left at most this share of its nodes.
constexpr double kWorthwhileShrink = 0.98;
constexpr int kMaxLevels = 20;
// Nodes that a thread takes at a time: as many as have about so many entries, so that a batch of busy nodes, too,
// keeps all threads busy.
constexpr int64_t kEntriesPerTask = int64_t{1} << 12;
constexpr int64_t kMostNodesPerTask = 256;

// A hash of a node that differs from round to round: MurmurHash3's finaliser (Appleby).
uint32_t Mix(uint32_t node, uint32_t round) {
  uint32_t h = node ^ (round * 0x9E3779B9u);
  h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13)) * 0xC2B2AE35u;
  return h ^ (h >> 16);
}

// The graph of one level. An entry from a node to itself holds the edges inside it.
struct Level {
  std::span<const EdgeId> row_ptr;  // [n + 1]
  std::span<const NodeId> col;
  std::span<const uint32_t> weight;  // as long as col, or empty: all ones
  std::vector<int64_t> degree;       // [n], sum of a row's weights
  int64_t total = 0;                 // of all weights; the same on each level

  int64_t num_nodes() const { return static_cast<int64_t>(degree.size()); }
  int64_t num_entries() const { return static_cast<int64_t>(col.size()); }
  uint32_t WeightOf(EdgeId e) const { return weight.empty() ? 1 : weight[e]; }
};

// A level that owns its arrays; `view` points into them.
struct OwnedLevel {
  std::vector<EdgeId> row_ptr;
  std::vector<NodeId> col;
  std::vector<uint32_t> weight;
  Level view;
};

// For `nodes` nodes that have `entries` in all.
int64_t NodesPerTask(int64_t nodes, int64_t entries) {
  return std::clamp<int64_t>(kEntriesPerTask * nodes / std::max<int64_t>(1, entries), 1, kMostNodesPerTask);
}

Level LevelOf(const UndirectedGraph& graph) {
  Level level;
  level.row_ptr = graph.row_ptr();
  level.col = graph.col();
  level.degree.resize(graph.num_nodes());
  for (int64_t v = 0; v < graph.num_nodes(); ++v) level.degree[v] = graph.Degree(static_cast<NodeId>(v));
  level.total = graph.num_entries();
  return level;
}

// Sums of weights by community, in the order the communities came: a hash table with linear probing, small enough for
// the first cache for all but the hubs. One for each thread.
class WeightsByCommunity {
 public:
  struct Slot {
    NodeId community = -1;
    uint32_t weight = 0;
  };

  // Empties it and makes room for `most` communities, fewer than 2^31.
  void Clear(int64_t most) {
    for (size_t i = 0; i < size_; ++i) slots_[used_[i]] = Slot();
    size_ = 0;
    int bits = kMinBits;
    while ((int64_t{1} << bits) < 2 * most) ++bits;
    if (slots_.size() < (size_t{1} << bits)) {
      slots_.resize(size_t{1} << bits);
      used_.resize(size_t{1} << bits);
    }
    mask_ = static_cast<uint32_t>((uint64_t{1} << bits) - 1);  // bits may be 32
    shift_ = 32 - bits;
  }
  void Add(NodeId community, uint32_t weight) {
    const uint32_t at = Find(community);
    Slot& slot = slots_[at];
    // Without a branch: whether a community is new cannot be predicted.
    used_[size_] = at;
    size_ += slot.community < 0;
    slot.community = community;
    slot.weight += weight;
  }
  uint32_t WeightOf(NodeId community) const { return slots_[Find(community)].weight; }
  template <class Visit>
  void ForEach(const Visit& visit) const {
    for (size_t i = 0; i < size_; ++i) visit(slots_[used_[i]].community, slots_[used_[i]].weight);
  }
  size_t size() const { return size_; }

 private:
  uint32_t Find(NodeId community) const {
    // Multiplicative hashing (Knuth): the high bits of the product.
    uint32_t at = static_cast<uint32_t>(community) * 2654435769u >> shift_;
    while (slots_[at].community >= 0 && slots_[at].community != community) at = (at + 1) & mask_;
    return at;
  }

  static constexpr int kMinBits = 6;

  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << kMinBits);
  std::vector<uint32_t> used_ = std::vector<uint32_t>(size_t{1} << kMinBits);  // slots, the first size_ of them
  size_t size_ = 0;
  uint32_t mask_ = 0;
  int shift_ = 0;
};

void AddTo(int64_t* sum, int64_t by) { std::atomic_ref(*sum).fetch_add(by, std::memory_order_relaxed); }

// Moves the nodes of one level between communities, each a label in [0, n).
class Mover {
 public:
  Mover(const Level& level, ThreadPool* pool, const GivenUp& given_up)
      : level_(level),
        pool_(pool),
        given_up_(given_up),
        community_(level.num_nodes()),
        total_(level.degree),
        active_(level.num_nodes(), 1),
        per_task_(NodesPerTask(level.num_nodes(), level.num_entries())),
        tables_(NumThreads(pool)) {
    std::iota(community_.begin(), community_.end(), 0);
  }

  std::vector<NodeId> Run() {
    const bool serial = level_.num_entries() < kSerialEntries;
    const int64_t few = static_cast<int64_t>(kFewMoves * static_cast<double>(level_.num_nodes()));
    for (int round = 0; round < kMaxRounds; ++round) {
      if ((serial ? SerialRound() : BatchedRound(round)) <= few || IsGivenUp(given_up_)) break;
    }
    return std::move(community_);
  }

 private:
  int64_t SerialRound() {
    int64_t moved = 0;
    for (NodeId v = 0; v < level_.num_nodes(); ++v) {
      if (!active_[v]) continue;
      active_[v] = 0;
      const NodeId best = BestCommunity(v, &tables_[0]);
      if (best == community_[v]) continue;
      Move(v, best);
      WakeNeighbours(v);
      ++moved;
    }
    return moved;
  }

  int64_t BatchedRound(int round) {
    DrawBatches(round);
    int64_t moved = 0;
    for (size_t batch = 0; batch + 1 < batch_begin_.size(); ++batch) {
      if (IsGivenUp(given_up_)) break;
      const int64_t begin = batch_begin_[batch], count = batch_begin_[batch + 1] - begin;
      ForRanges(pool_, count, per_task_, [&](int64_t first, int64_t last, int thread) {
        for (int64_t i = begin + first; i < begin + last; ++i) {
          best_[i] = BestCommunity(drawn_[i], &tables_[thread]);
        }
      });
      ForRanges(pool_, count, kMostNodesPerTask, [&](int64_t first, int64_t last, int) {
        int64_t moved_here = 0;
        for (int64_t i = begin + first; i < begin + last; ++i) {
          if (best_[i] == community_[drawn_[i]]) {
            best_[i] = kStays;
            continue;
          }
          Move(drawn_[i], best_[i]);
          ++moved_here;
        }
        AddTo(&moved, moved_here);
      });
      // After all have moved, so that who is woken does not depend on who moved first.
      ForRanges(pool_, count, per_task_, [&](int64_t first, int64_t last, int) {
        for (int64_t i = begin + first; i < begin + last; ++i) {
          if (best_[i] != kStays) WakeNeighbours(drawn_[i]);
        }
      });
    }
    return moved;
  }

  // The active nodes, by batch, rising within one; none is active afterwards. A round draws anew, so that neighbours
  // which move at once in one round do not in the next.
  void DrawBatches(int round) {
    const int64_t n = level_.num_nodes();
    const int64_t block = std::clamp(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n / kBlocks))),
                                     kSmallestBlock, kLargestBlock);
    const auto batch_of = [&](int64_t v) {
      return v / block * kBatchesPerBlock +
             (Mix(static_cast<uint32_t>(v), static_cast<uint32_t>(round)) >> (32 - kBatchBits));
    };
    batch_begin_.assign((n / block + 1) * kBatchesPerBlock + 1, 0);
    for (int64_t v = 0; v < n; ++v) batch_begin_[batch_of(v) + 1] += active_[v];
    std::partial_sum(batch_begin_.begin(), batch_begin_.end(), batch_begin_.begin());
    drawn_.resize(batch_begin_.back());
    best_.resize(batch_begin_.back());
    std::vector<int64_t> next(batch_begin_.begin(), batch_begin_.end() - 1);
    for (int64_t v = 0; v < n; ++v) {
      if (!active_[v]) continue;
      active_[v] = 0;
      drawn_[next[batch_of(v)]++] = static_cast<NodeId>(v);
    }
  }

  // The community in which v adds most to the modularity, times 2E: the weight of its edges into it, less what chance
  // would give. Its own where no other is better.
  NodeId BestCommunity(NodeId v, WeightsByCommunity* weights) const {
    const EdgeId begin = level_.row_ptr[v], end = level_.row_ptr[v + 1];
    weights->Clear(std::min(end - begin, level_.num_nodes()));  // a hub's edges may all be duplicates
    for (EdgeId e = begin; e < end; ++e) {
      if (level_.col[e] != v) weights->Add(community_[level_.col[e]], level_.WeightOf(e));
    }
    const NodeId own = community_[v];
    const int64_t degree = level_.degree[v];
    const double chance = static_cast<double>(degree) / static_cast<double>(level_.total);
    NodeId best = own;
    double best_gain = weights->WeightOf(own) - chance * static_cast<double>(total_[own] - degree);
    weights->ForEach([&](NodeId community, uint32_t weight) {
      if (community == own) return;
      const double gain = weight - chance * static_cast<double>(total_[community]);
      if (gain < best_gain || (gain == best_gain && (best == own || community > best))) return;
      best = community;
      best_gain = gain;
    });
    return best;
  }

  void Move(NodeId v, NodeId to) {
    AddTo(&total_[community_[v]], -level_.degree[v]);
    AddTo(&total_[to], level_.degree[v]);
    community_[v] = to;
  }

  // What a neighbour in another community had best may have changed.
  void WakeNeighbours(NodeId v) {
    for (EdgeId e = level_.row_ptr[v]; e < level_.row_ptr[v + 1]; ++e) {
      const NodeId u = level_.col[e];
      if (community_[u] == community_[v]) continue;
      // Looks first: most are awake already, and writing would take the line from the other threads.
      const std::atomic_ref<char> active(active_[u]);
      if (active.load(std::memory_order_relaxed) == 0) active.store(1, std::memory_order_relaxed);
    }
  }

  static constexpr NodeId kStays = -1;

  const Level& level_;
  ThreadPool* const pool_;
  const GivenUp& given_up_;
  std::vector<NodeId> community_;
  std::vector<int64_t> total_;  // of each community, its nodes' degrees
  std::vector<char> active_;
  const int64_t per_task_;
  std::vector<int64_t> batch_begin_;
  std::vector<NodeId> drawn_, best_;
  std::vector<WeightsByCommunity> tables_;  // of each thread
};

// Labels renamed to 0, 1, ... in the order of the label; how many there are.
int64_t Compact(std::vector<NodeId>* label) {
  std::vector<NodeId> name(label->size(), 0);
  for (const NodeId l : *label) name[l] = 1;
  NodeId count = 0;
  for (NodeId& n : name) n = n == 0 ? -1 : count++;
  for (NodeId& l : *label) l = name[l];
  return count;
}

// The level whose nodes are the communities of `level`.
class Contraction {
 public:
  Contraction(const Level& level, const std::vector<NodeId>& parent, int64_t count, ThreadPool* pool)
      : level_(level), count_(count), pool_(pool), groups_(PartsFrom(parent, count)) {}

  std::unique_ptr<OwnedLevel> Run() {
    // A part's rows are summed into a piece of its own; the pieces are then laid end to end.
    const int64_t per_part = NodesPerTask(count_, level_.num_entries());
    std::vector<Piece> pieces((count_ + per_part - 1) / per_part);
    std::vector<WeightsByCommunity> tables(NumThreads(pool_));
    auto out = std::make_unique<OwnedLevel>();
    out->row_ptr.assign(count_ + 1, 0);
    out->view.degree.assign(count_, 0);
    ForRanges(pool_, count_, per_part, [&](int64_t first, int64_t last, int thread) {
      Piece* piece = &pieces[first / per_part];
      for (int64_t c = first; c < last; ++c) {
        SumRow(c, &tables[thread]);
        out->row_ptr[c + 1] = static_cast<EdgeId>(tables[thread].size());
        tables[thread].ForEach([&](NodeId neighbour, uint32_t weight) {
          piece->col.push_back(neighbour);
          piece->weight.push_back(weight);
          out->view.degree[c] += weight;
        });
      }
      piece->col.shrink_to_fit();
      piece->weight.shrink_to_fit();
    });
    std::partial_sum(out->row_ptr.begin(), out->row_ptr.end(), out->row_ptr.begin());
    out->col.resize(out->row_ptr[count_]);
    out->weight.resize(out->row_ptr[count_]);
    ForRanges(pool_, count_, per_part, [&](int64_t first, int64_t, int) {
      const Piece& piece = pieces[first / per_part];
      std::copy(piece.col.begin(), piece.col.end(), out->col.begin() + out->row_ptr[first]);
      std::copy(piece.weight.begin(), piece.weight.end(), out->weight.begin() + out->row_ptr[first]);
    });
    out->view.row_ptr = out->row_ptr;
    out->view.col = out->col;
    out->view.weight = out->weight;
    out->view.total = level_.total;
    return out;
  }

 private:
  struct Piece {
    std::vector<NodeId> col;
    std::vector<uint32_t> weight;
  };

  void SumRow(int64_t c, WeightsByCommunity* weights) const {
    int64_t entries = 0;
    for (int64_t i = groups_.begin[c]; i < groups_.begin[c + 1]; ++i) {
      const NodeId v = groups_.member[i];
      entries += level_.row_ptr[v + 1] - level_.row_ptr[v];
    }
    weights->Clear(std::min(entries, count_));
    for (int64_t i = groups_.begin[c]; i < groups_.begin[c + 1]; ++i) {
      const NodeId v = groups_.member[i];
      for (EdgeId e = level_.row_ptr[v]; e < level_.row_ptr[v + 1]; ++e) {
        weights->Add(groups_.part_of[level_.col[e]], level_.WeightOf(e));
      }
    }
  }

  const Level& level_;
  const int64_t count_;
  ThreadPool* const pool_;
  const Parts groups_;
};

// Of the communities that are the nodes of `level`.
double Modularity(const Level& level) {
  if (level.total == 0) return 0.0;
  const double total = static_cast<double>(level.total);
  double modularity = 0.0;
  for (NodeId c = 0; c < level.num_nodes(); ++c) {
    uint64_t inside = 0;
    for (EdgeId e = level.row_ptr[c]; e < level.row_ptr[c + 1]; ++e) {
      if (level.col[e] == c) inside += level.WeightOf(e);
    }
    const double share = static_cast<double>(level.degree[c]) / total;
    modularity += static_cast<double>(inside) / total - share * share;
  }
  return modularity;
}

Communities MakeCommunities(const std::vector<std::vector<NodeId>>& parent, const Level& last) {
  Communities communities;
  communities.count = last.num_nodes();
  communities.of_node = parent.front();
  for (size_t k = 1; k < parent.size(); ++k) {
    for (NodeId& c : communities.of_node) c = parent[k][c];
  }
  communities.sizes.assign(communities.count, 0);
  for (const NodeId c : communities.of_node) ++communities.sizes[c];
  communities.modularity = Modularity(last);
  return communities;
}

}  // namespace

Dendrogram FindDendrogram(const UndirectedGraph& graph, ThreadPool* pool, const GivenUp& given_up) {
  VICINAL_CHECK(graph.num_entries() < int64_t{1} << 32);
  Dendrogram dendrogram;
  Level level = LevelOf(graph);
  std::unique_ptr<OwnedLevel> owned;
  for (int depth = 0; depth < kMaxLevels; ++depth) {
    const int64_t before = level.num_nodes();
    std::vector<NodeId> parent = Mover(level, pool, given_up).Run();
    const int64_t count = Compact(&parent);
    if (depth > 0 && static_cast<double>(count) > kWorthwhileShrink * static_cast<double>(before)) break;
    owned = Contraction(level, parent, count, pool).Run();
    level = std::move(owned->view);
    dendrogram.parent.push_back(std::move(parent));
    if (IsGivenUp(given_up)) break;
  }
  dendrogram.communities = MakeCommunities(dendrogram.parent, level);
  return dendrogram;
}

}  // namespace vicinal::internal
