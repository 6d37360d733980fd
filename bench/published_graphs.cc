// SPDX-License-Identifier: Apache-2.0
#include "bench/published_graphs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/counted_random.h"
#include "bench/node_pairs.h"
#include "engine/base/error.h"

namespace vicinal::bench {
namespace {

constexpr uint64_t kSeed = 7;
constexpr int64_t kPairsOfStep = 1 << 16;

enum class Law { kCommunities, kFanIn, kFanOut, kRmat, kMolecules, kNearComplete };

struct Recipe {
  std::string_view name;
  Law law = Law::kCommunities;
  int64_t nodes = 0;
  int64_t edges = 0;    // wanted, both directions counted
  double excess = 1.0;  // pairs drawn by pairs wanted: some fall together
  int communities = 1;
  double inside = 0.0;    // probability that both ends are of one community
  double exponent = 2.6;  // of the degrees' power law
  double cap = 0.0;       // largest weight by mean weight
  bool shuffled = true;
};

constexpr Recipe kRecipes[] = {
    {"cora", Law::kCommunities, 2708, 10556, 1.040, 7, 0.81, 2.6, 40},
    {"citeseer", Law::kCommunities, 3327, 9104, 1.030, 6, 0.74, 2.6, 35},
    {"pubmed", Law::kCommunities, 19717, 88648, 1.010, 3, 0.80, 2.6, 38},
    {"artist", Law::kCommunities, 50515, 1638396, 1.02, 20, 0.5, 2.8, 45},
    {"blogcatalog", Law::kCommunities, 88784, 2093195, 1.195, 39, 0.4, 2.1, 250},
    {"amazon0505", Law::kCommunities, 410236, 4878874, 1.17, 1500, 0.85, 2.6, 230},
    {"amazon0505-ord", Law::kCommunities, 410236, 4878874, 1.17, 1500, 0.85, 2.6, 230, false},
    {"reddit", Law::kCommunities, 232965, 114615892, 1.285, 41, 0.78, 2.4, 44},
    {"proteins", Law::kCommunities, 132534, 79122504, 1.183, 60, 0.7, 3.0, 13},
    {"rand-100K", Law::kFanIn, 100000},
    {"rand-100K-out", Law::kFanOut, 100000},
    {"rmat5", Law::kRmat, 10240, 10500000, 1.6},
    {"molecules", Law::kMolecules, 1900000},
    {"mann-a81", Law::kNearComplete, 3321},
};

// Draws an index with probability by its weight: the index whose stretch of the summed weights holds a number. A table
// of starting places makes that a few steps.
class WeightedIndex {
 public:
  explicit WeightedIndex(const std::vector<double>& weights) : sum_(weights.size() + 1, 0.0), start_(kPlaces) {
    for (size_t i = 0; i < weights.size(); ++i) sum_[i + 1] = sum_[i] + weights[i];
    for (int64_t place = 0; place < kPlaces; ++place) {
      const double x = total() * static_cast<double>(place) / kPlaces;
      start_[place] = static_cast<int32_t>(std::upper_bound(sum_.begin(), sum_.end() - 1, x) - sum_.begin() - 1);
    }
  }

  double total() const { return sum_.back(); }
  // Sum of the weights before `index`.
  double before(int64_t index) const { return sum_[index]; }
  // REQUIRES: 0 <= x <= total().
  int32_t At(double x) const {
    const auto last = static_cast<int32_t>(sum_.size()) - 2;
    int32_t index = start_[std::min<int64_t>(kPlaces - 1, static_cast<int64_t>(x / total() * kPlaces))];
    while (index > 0 && sum_[index] > x) --index;
    while (index < last && sum_[index + 1] <= x) ++index;
    return index;
  }

 private:
  static constexpr int64_t kPlaces = 1 << 16;

  std::vector<double> sum_;
  std::vector<int32_t> start_;
};

// Power-law weights, the largest cut down to `cap` times the mean. Cutting lowers the mean, so it is done three times.
std::vector<double> NodeWeights(const Recipe& recipe) {
  constexpr uint64_t kWeightSeed = kSeed ^ 0x51;
  std::vector<double> weights(recipe.nodes);
  for (int64_t i = 0; i < recipe.nodes; ++i) {
    weights[i] = std::pow(1.0 - CountedRandom(kWeightSeed, i).Unit(), -1.0 / (recipe.exponent - 1.0));
  }
  const auto mean = [&] {
    return std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(recipe.nodes);
  };
  for (int round = 0; round < 3; ++round) {
    const double most = recipe.cap * mean();
    for (double& weight : weights) weight = std::min(weight, most);
  }
  return weights;
}

// First nodes of the communities, which differ in size by up to three times, and the end of the last.
std::vector<int32_t> CommunityBounds(const Recipe& recipe) {
  CountedRandom random(kSeed, 5);
  std::vector<double> share(recipe.communities);
  for (double& x : share) x = 0.5 + random.Unit();
  const double all = std::accumulate(share.begin(), share.end(), 0.0);
  std::vector<int32_t> bounds = {0};
  double before = 0.0;
  for (int c = 0; c + 1 < recipe.communities; ++c) {
    before += share[c];
    bounds.push_back(static_cast<int32_t>(before / all * static_cast<double>(recipe.nodes)));
  }
  bounds.push_back(static_cast<int32_t>(recipe.nodes));
  return bounds;
}

std::vector<int32_t> ShuffledIds(int64_t nodes) {
  std::vector<int32_t> ids(nodes);
  std::iota(ids.begin(), ids.end(), 0);
  CountedRandom random(kSeed, 999);
  for (auto last = static_cast<uint32_t>(nodes) - 1; last > 0; --last)
    std::swap(ids[last], ids[random.Below(last + 1)]);
  return ids;
}

// Both ends by weight; the second inside the first's community with the probability that the recipe says.
BinaryGraph DrawCommunities(const Recipe& recipe, ThreadPool& pool) {
  const WeightedIndex by_weight(NodeWeights(recipe));
  const std::vector<int32_t> bounds = CommunityBounds(recipe);
  std::vector<int32_t> community(recipe.nodes);
  for (int c = 0; c < recipe.communities; ++c) {
    std::fill(community.begin() + bounds[c], community.begin() + bounds[c + 1], c);
  }
  std::vector<int32_t> id;
  if (recipe.shuffled) id = ShuffledIds(recipe.nodes);
  std::vector<NodePair> pairs(static_cast<size_t>(static_cast<double>(recipe.edges) / 2.0 * recipe.excess));
  ForParts(pool, static_cast<int64_t>(pairs.size()), kPairsOfStep, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CountedRandom random(kSeed, i);
      const int32_t one = by_weight.At(random.Unit() * by_weight.total());
      double from = 0.0, to = by_weight.total();
      if (random.Unit() < recipe.inside) {
        from = by_weight.before(bounds[community[one]]);
        to = by_weight.before(bounds[community[one] + 1]);
      }
      const int32_t other = by_weight.At(from + random.Unit() * (to - from));
      pairs[i] = recipe.shuffled ? NodePair{id[one], id[other]} : NodePair{one, other};
    }
  });
  return GraphOfPairs(recipe.nodes, std::move(pairs), Direction::kBothWays, pool);
}

// Every fifth node has 2,000 in-edges from nodes drawn at random, the others 100; for kFanOut the edges turned round.
BinaryGraph DrawFan(const Recipe& recipe, ThreadPool& pool) {
  constexpr int64_t kEvery = 5, kMany = 2000, kFew = 100;
  const auto begin_of = [](int64_t node) { return node * kFew + (node + kEvery - 1) / kEvery * (kMany - kFew); };
  std::vector<NodePair> pairs(begin_of(recipe.nodes));
  ForParts(pool, recipe.nodes, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t node = begin; node < end; ++node) {
      CountedRandom random(kSeed, node);
      for (int64_t k = begin_of(node); k < begin_of(node + 1); ++k) {
        const auto one = static_cast<int32_t>(node), other = static_cast<int32_t>(random.Below(recipe.nodes));
        pairs[k] = recipe.law == Law::kFanIn ? NodePair{one, other} : NodePair{other, one};
      }
    }
  });
  return GraphOfPairs(recipe.nodes, std::move(pairs), Direction::kAsDrawn, pool);
}

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

BinaryGraph DrawRmat(const Recipe& recipe, ThreadPool& pool) {
  std::vector<NodePair> pairs(static_cast<size_t>(static_cast<double>(recipe.edges) * recipe.excess));
  ForParts(pool, static_cast<int64_t>(pairs.size()), kPairsOfStep, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CountedRandom random(kSeed, i);
      pairs[i] = DrawQuarters(recipe.nodes, random);
    }
  });
  return GraphOfPairs(recipe.nodes, std::move(pairs), Direction::kAsDrawn, pool);
}

// Molecules of 20 to 60 atoms: each atom hangs on one of the three before it, and a few close a ring with the fifth.
BinaryGraph DrawMolecules(const Recipe& recipe, ThreadPool& pool) {
  constexpr uint32_t kMin = 20, kMax = 60, kReach = 3, kRing = 5;
  constexpr double kRings = 0.08;
  std::vector<NodePair> pairs;
  uint64_t molecule = 0;
  for (int64_t first = 0; first < recipe.nodes;) {
    CountedRandom random(kSeed, molecule++);
    const int64_t atoms = std::min<int64_t>(recipe.nodes - first, kMin + random.Below(kMax - kMin + 1));
    const auto id = [first](int64_t atom) { return static_cast<int32_t>(first + atom); };
    for (int64_t atom = 1; atom < atoms; ++atom) {
      const int64_t back = 1 + random.Below(std::min<uint32_t>(static_cast<uint32_t>(atom), kReach));
      pairs.push_back({id(atom), id(atom - back)});
      if (random.Unit() < kRings && atom >= kRing) pairs.push_back({id(atom), id(atom - kRing)});
    }
    first += atoms;
  }
  return GraphOfPairs(recipe.nodes, std::move(pairs), Direction::kBothWays, pool);
}

// DIMACS' MANN_a81 in form: all pairs of 3,321 nodes but those within 1,080 triples of nodes, and those of a triple's
// nodes with the three of 81 points that the triple stands for. Which points these are is made up.
BinaryGraph DrawNearComplete(const Recipe& recipe, ThreadPool& pool) {
  constexpr int32_t kPoints = 81;
  const auto nodes = static_cast<int32_t>(recipe.nodes);
  const auto apart = [](int32_t a, int32_t b) {
    if (a > b) std::swap(a, b);
    if (b < kPoints) return a == b;
    if (a < kPoints) return a == (b - kPoints) % kPoints;
    return (a - kPoints) / 3 == (b - kPoints) / 3;
  };
  std::vector<NodePair> pairs;
  pairs.reserve(recipe.nodes * recipe.nodes);
  for (int32_t target = 0; target < nodes; ++target) {
    for (int32_t source = 0; source < nodes; ++source) {
      if (!apart(target, source)) pairs.push_back({target, source});
    }
  }
  return GraphOfPairs(recipe.nodes, std::move(pairs), Direction::kAsDrawn, pool);
}

BinaryGraph Draw(const Recipe& recipe, ThreadPool& pool) {
  switch (recipe.law) {
    case Law::kCommunities:
      return DrawCommunities(recipe, pool);
    case Law::kFanIn:
    case Law::kFanOut:
      return DrawFan(recipe, pool);
    case Law::kRmat:
      return DrawRmat(recipe, pool);
    case Law::kMolecules:
      return DrawMolecules(recipe, pool);
    case Law::kNearComplete:
      return DrawNearComplete(recipe, pool);
  }
  return {};
}

}  // namespace

std::vector<std::string> PublishedGraphNames() {
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) names.emplace_back(recipe.name);
  return names;
}

StatusOr<BinaryGraph> MakePublishedGraph(std::string_view name, ThreadPool& pool, int64_t edges) {
  std::string known;
  for (Recipe recipe : kRecipes) {
    if (recipe.name == name) {
      if (edges != 0 && recipe.law != Law::kCommunities) {
        return InvalidArgument("FIXED_SIZE", "edges",
                               absl::StrCat("the edges of '", std::string(name), "' cannot be chosen"));
      }
      if (edges != 0) recipe.edges = edges;
      return Draw(recipe, pool);
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(recipe.name));
  }
  return InvalidArgument("UNKNOWN_GRAPH", "graph",
                         absl::StrCat("there is no graph '", std::string(name), "'; there are: ", known));
}

}  // namespace vicinal::bench
