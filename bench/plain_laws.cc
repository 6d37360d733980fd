// SPDX-License-Identifier: Apache-2.0
// The laws without weights: fans, R-MAT, roads, molecules, proteins, and a graph that lacks few pairs.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "bench/graph_laws.h"
#include "bench/node_pairs.h"
#include "bench/shuffled_ids.h"

namespace vicinal::bench {
namespace {

// Quarters of the matrix, again and again; pairs that fall outside are drawn again.
NodePair DrawQuarters(int64_t nodes, CountedRandom& random) {
  constexpr double kFirst = 0.45, kSide = 0.15;
  NodePair pair;
  do {
    pair = {};
    for (int64_t side = 1; side < nodes; side *= 2) {
      const double x = random.Unit();
      const int quarter = x < kFirst ? 0 : x < kFirst + kSide ? 1 : x < kFirst + kSide + kSide ? 2 : 3;
      pair.target = 2 * pair.target + quarter / 2;
      pair.source = 2 * pair.source + quarter % 2;
    }
  } while (pair.target >= nodes || pair.source >= nodes);
  return pair;
}

// A square grid of crossings, row by row; the last row may be short.
class Grid {
 public:
  explicit Grid(int64_t nodes) : nodes_(nodes) {
    while (side_ * side_ < nodes) ++side_;
  }

  // Its edges, in random order.
  std::vector<NodePair> ShuffledEdges() const {
    std::vector<std::pair<uint64_t, NodePair>> keyed;
    const auto add = [&](int64_t one, int64_t other) {
      const auto item = static_cast<uint64_t>(keyed.size());
      keyed.push_back(
          {CountedRandom(kGraphSeed, item).Next(), {static_cast<int32_t>(one), static_cast<int32_t>(other)}});
    };
    for (int64_t site = 0; site < nodes_; ++site) {
      if (site % side_ + 1 < side_ && site + 1 < nodes_) add(site, site + 1);
      if (site + side_ < nodes_) add(site, site + side_);
    }
    std::sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<NodePair> edges;
    edges.reserve(keyed.size());
    for (const auto& [key, edge] : keyed) edges.push_back(edge);
    return edges;
  }

  // New ids of the crossings: row by row inside tiles of kTile x kTile, tiles row by row.
  std::vector<int32_t> TiledIds() const {
    constexpr int64_t kTile = 64;
    std::vector<int32_t> ids(nodes_);
    int32_t next = 0;
    for (int64_t top = 0; top < side_; top += kTile) {
      for (int64_t left = 0; left < side_; left += kTile) {
        for (int64_t row = top; row < std::min(top + kTile, side_); ++row) {
          for (int64_t column = left; column < std::min(left + kTile, side_); ++column) {
            if (const int64_t site = row * side_ + column; site < nodes_) ids[site] = next++;
          }
        }
      }
    }
    return ids;
  }

 private:
  int64_t nodes_;
  int64_t side_ = 1;
};

// Sets of nodes that are joined (union-find with halved paths).
class JoinedNodes {
 public:
  explicit JoinedNodes(int64_t nodes) : parent_(nodes) { std::iota(parent_.begin(), parent_.end(), 0); }

  // Returns false if they were joined before.
  bool Join(int32_t one, int32_t other) {
    one = Root(one);
    other = Root(other);
    parent_[one] = other;
    return one != other;
  }

 private:
  int32_t Root(int32_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }

  std::vector<int32_t> parent_;
};

// The places of a chain that folds: a random walk that is pulled back to the middle. Whole numbers, so that distances
// are the same on every machine.
std::vector<std::array<int64_t, 3>> FoldedChain(int64_t elements, CountedRandom& random) {
  constexpr uint32_t kStep = 1000;
  std::vector<std::array<int64_t, 3>> places(elements, {0, 0, 0});
  for (int64_t element = 1; element < elements; ++element) {
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t before = places[element - 1][axis];
      places[element][axis] = before - before / 16 + int64_t{random.Below(2 * kStep + 1)} - kStep;
    }
  }
  return places;
}

// The elements in order of their distance from one of them, which is the first.
std::vector<int32_t> ByDistance(const std::vector<std::array<int64_t, 3>>& places, int64_t from) {
  std::vector<std::pair<int64_t, int32_t>> far;
  for (size_t to = 0; to < places.size(); ++to) {
    int64_t square = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t along = places[to][axis] - places[from][axis];
      square += along * along;
    }
    far.emplace_back(static_cast<int64_t>(to) == from ? -1 : square, static_cast<int32_t>(to));
  }
  std::sort(far.begin(), far.end());
  std::vector<int32_t> elements;
  elements.reserve(far.size());
  for (const auto& [square, element] : far) elements.push_back(element);
  return elements;
}

}  // namespace

BinaryGraph Draw(const FanLaw& law, ThreadPool& pool) {
  constexpr int64_t kEvery = 5, kMany = 2000, kFew = 100;
  const auto begin_of = [](int64_t node) { return node * kFew + (node + kEvery - 1) / kEvery * (kMany - kFew); };
  std::vector<NodePair> pairs(begin_of(law.nodes));
  ForParts(pool, law.nodes, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t node = begin; node < end; ++node) {
      CountedRandom random(kGraphSeed, node);
      for (int64_t k = begin_of(node); k < begin_of(node + 1); ++k) {
        const auto one = static_cast<int32_t>(node), other = static_cast<int32_t>(random.Below(law.nodes));
        pairs[k] = law.outward ? NodePair{other, one} : NodePair{one, other};
      }
    }
  });
  return GraphOfPairs(law.nodes, std::move(pairs), Direction::kAsDrawn, pool);
}

BinaryGraph Draw(const RmatLaw& law, ThreadPool& pool) {
  std::vector<NodePair> pairs(static_cast<size_t>(static_cast<double>(law.edges) * law.excess));
  ForParts(pool, static_cast<int64_t>(pairs.size()), kPairsOfStep, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CountedRandom random(kGraphSeed, i);
      pairs[i] = DrawQuarters(law.nodes, random);
    }
  });
  return GraphOfPairs(law.nodes, std::move(pairs), Direction::kAsDrawn, pool);
}

// Kruskal's algorithm on the shuffled edges of the grid; what it leaves out are the further roads.
BinaryGraph Draw(const RoadsLaw& law, ThreadPool& pool) {
  const Grid grid(law.crossings);
  const std::vector<int32_t> id = law.shuffled ? ShuffledIds(law.crossings) : grid.TiledIds();
  JoinedNodes joined(law.crossings);
  std::vector<NodePair> roads, others;
  for (const NodePair& edge : grid.ShuffledEdges()) {
    std::vector<NodePair>& list = joined.Join(edge.target, edge.source) ? roads : others;
    list.push_back({id[edge.target], id[edge.source]});
  }
  roads.insert(roads.end(), others.begin(), others.begin() + (law.roads - static_cast<int64_t>(roads.size())));
  return GraphOfPairs(law.crossings, std::move(roads), Direction::kBothWays, pool);
}

BinaryGraph Draw(const FoldsLaw& law, ThreadPool& pool) {
  std::vector<NodePair> pairs;
  uint64_t protein = 0;
  for (int64_t first = 0; first < law.elements;) {
    CountedRandom random(kGraphSeed, protein++);
    const int64_t elements =
        std::min<int64_t>(law.elements - first, law.fewest + random.Below(law.most - law.fewest + 1));
    const auto id = [first](int64_t element) { return static_cast<int32_t>(first + element); };
    const auto places = FoldedChain(elements, random);
    for (int64_t element = 0; element < elements; ++element) {
      if (element > 0) pairs.push_back({id(element), id(element - 1)});
      const std::vector<int32_t> others = ByDistance(places, element);
      for (int64_t k = 1; k <= std::min<int64_t>(law.nearest, elements - 1); ++k) {
        pairs.push_back({id(element), id(others[k])});
      }
    }
    first += elements;
  }
  return GraphOfPairs(law.elements, std::move(pairs), Direction::kBothWays, pool);
}

BinaryGraph Draw(const MoleculesLaw& law, ThreadPool& pool) {
  constexpr uint32_t kReach = 3, kRing = 5;
  std::vector<NodePair> pairs;
  uint64_t molecule = 0;
  for (int64_t first = 0; first < law.atoms;) {
    CountedRandom random(kGraphSeed, molecule++);
    const int64_t atoms = std::min<int64_t>(law.atoms - first, law.fewest + random.Below(law.most - law.fewest + 1));
    const auto id = [first](int64_t atom) { return static_cast<int32_t>(first + atom); };
    for (int64_t atom = 1; atom < atoms; ++atom) {
      const int64_t back = 1 + random.Below(std::min<uint32_t>(static_cast<uint32_t>(atom), kReach));
      pairs.push_back({id(atom), id(atom - back)});
      if (random.Unit() < law.rings && atom >= kRing) pairs.push_back({id(atom), id(atom - kRing)});
    }
    first += atoms;
  }
  return GraphOfPairs(law.atoms, std::move(pairs), Direction::kBothWays, pool);
}

BinaryGraph Draw(const NearCompleteLaw& law, ThreadPool& pool) {
  constexpr int32_t kPoints = 81;
  const int32_t nodes = law.nodes;
  const auto apart = [](int32_t a, int32_t b) {
    if (a > b) std::swap(a, b);
    if (b < kPoints) return a == b;
    if (a < kPoints) return a == (b - kPoints) % kPoints;
    return (a - kPoints) / 3 == (b - kPoints) / 3;
  };
  std::vector<NodePair> pairs;
  pairs.reserve(static_cast<size_t>(nodes) * nodes);
  for (int32_t target = 0; target < nodes; ++target) {
    for (int32_t source = 0; source < nodes; ++source) {
      if (!apart(target, source)) pairs.push_back({target, source});
    }
  }
  return GraphOfPairs(nodes, std::move(pairs), Direction::kAsDrawn, pool);
}

}  // namespace vicinal::bench
