// SPDX-License-Identifier: Apache-2.0
// The laws that draw nodes by weight: communities, papers, the web.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "bench/graph_laws.h"
#include "bench/node_pairs.h"
#include "bench/shuffled_ids.h"
#include "bench/weighted_index.h"

namespace vicinal::bench {
namespace {

constexpr uint64_t kWeightSeed = kGraphSeed ^ 0x51, kOutWeightSeed = kGraphSeed ^ 0xa3, kHostSeed = kGraphSeed ^ 0x1f7;

// First nodes of parts with these shares, and the end of the last.
std::vector<int32_t> BoundsOf(const std::vector<double>& share, int64_t nodes) {
  const double all = std::accumulate(share.begin(), share.end(), 0.0);
  std::vector<int32_t> bounds = {0};
  double before = 0.0;
  for (size_t part = 0; part + 1 < share.size(); ++part) {
    before += share[part];
    bounds.push_back(static_cast<int32_t>(before / all * static_cast<double>(nodes)));
  }
  bounds.push_back(static_cast<int32_t>(nodes));
  return bounds;
}

// Communities differ in size by up to three times.
std::vector<int32_t> CommunityBounds(int communities, int64_t nodes) {
  CountedRandom random(kGraphSeed, 5);
  std::vector<double> share(communities);
  for (double& x : share) x = 0.5 + random.Unit();
  return BoundsOf(share, nodes);
}

// The part of each node.
std::vector<int32_t> PartOfNode(const std::vector<int32_t>& bounds) {
  std::vector<int32_t> part(bounds.back());
  for (size_t p = 0; p + 1 < bounds.size(); ++p) {
    std::fill(part.begin() + bounds[p], part.begin() + bounds[p + 1], static_cast<int32_t>(p));
  }
  return part;
}

// The page that a link from `page`, on the host [begin, end), leads to.
int32_t LinkTarget(const WebLaw& law, const WeightedIndex& by_in_weight, int32_t page, int32_t begin, int32_t end,
                   CountedRandom& random) {
  constexpr double kReach = 1024.0;
  const double kind = random.Unit();
  if (kind < law.near) {
    const auto distance = static_cast<int32_t>(std::pow(kReach, random.Unit()));
    const int32_t target = random.Below(2) == 0 ? page - distance : page + distance;
    if (target >= begin && target < end) return target;
  }
  return kind < law.inside ? by_in_weight.Among(begin, end, random.Unit()) : by_in_weight.AmongAll(random.Unit());
}

}  // namespace

BinaryGraph Draw(const CommunitiesLaw& law, ThreadPool& pool) {
  const WeightedIndex by_weight(PowerLawWeights(law.nodes, law.exponent, law.cap, kWeightSeed));
  const std::vector<int32_t> bounds = CommunityBounds(law.communities, law.nodes);
  const std::vector<int32_t> community = PartOfNode(bounds);
  std::vector<int32_t> id;
  if (law.shuffled) id = ShuffledIds(law.nodes);
  std::vector<NodePair> pairs(static_cast<size_t>(static_cast<double>(law.edges) / 2.0 * law.excess));
  ForParts(pool, static_cast<int64_t>(pairs.size()), kPairsOfStep, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CountedRandom random(kGraphSeed, i);
      const int32_t one = by_weight.AmongAll(random.Unit());
      int64_t from = 0, to = law.nodes;
      if (random.Unit() < law.inside) {
        from = bounds[community[one]];
        to = bounds[community[one] + 1];
      }
      const int32_t other = by_weight.Among(from, to, random.Unit());
      pairs[i] = law.shuffled ? NodePair{id[one], id[other]} : NodePair{one, other};
    }
  });
  return GraphOfPairs(law.nodes, std::move(pairs), Direction::kBothWays, pool);
}

BinaryGraph Draw(const PapersLaw& law, ThreadPool& pool) {
  const WeightedIndex by_weight(PowerLawWeights(law.authors, law.exponent, law.cap, kWeightSeed));
  const std::vector<int32_t> bounds = CommunityBounds(law.groups, law.authors);
  const std::vector<int32_t> group = PartOfNode(bounds), id = ShuffledIds(law.authors);
  std::vector<NodePair> pairs;
  std::vector<int32_t> authors;
  for (int64_t paper = 0; paper < law.papers; ++paper) {
    CountedRandom random(kGraphSeed, paper);
    const auto more = static_cast<int>(-std::log(1.0 - random.Unit()) * (law.more_authors + 0.5));
    const int count = std::min(law.most_authors, 2 + more);
    authors.assign(1, by_weight.AmongAll(random.Unit()));
    const int32_t home = group[authors.front()];
    while (static_cast<int>(authors.size()) < count) {
      const bool inside = random.Unit() < law.inside;
      authors.push_back(inside ? by_weight.Among(bounds[home], bounds[home + 1], random.Unit())
                               : by_weight.AmongAll(random.Unit()));
    }
    for (size_t a = 1; a < authors.size(); ++a) {
      for (size_t b = 0; b < a; ++b) pairs.push_back({id[authors[a]], id[authors[b]]});
    }
  }
  return GraphOfPairs(law.authors, std::move(pairs), Direction::kBothWays, pool);
}

BinaryGraph Draw(const WebLaw& law, ThreadPool& pool) {
  constexpr double kHostExponent = 1.9, kLargestHost = 40.0;  // by the mean one
  const WeightedIndex by_in_weight(PowerLawWeights(law.pages, law.in_exponent, law.in_cap, kWeightSeed));
  const WeightedIndex by_out_weight(PowerLawWeights(law.pages, law.out_exponent, law.out_cap, kOutWeightSeed));
  const std::vector<int32_t> bounds =
      BoundsOf(PowerLawWeights(law.hosts, kHostExponent, kLargestHost, kHostSeed), law.pages);
  const std::vector<int32_t> host = PartOfNode(bounds);
  std::vector<NodePair> pairs(static_cast<size_t>(static_cast<double>(law.links) * law.excess));
  ForParts(pool, static_cast<int64_t>(pairs.size()), kPairsOfStep, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CountedRandom random(kGraphSeed, i);
      NodePair& pair = pairs[i];
      do {
        pair.source = by_out_weight.AmongAll(random.Unit());
        const int32_t home = host[pair.source];
        pair.target = LinkTarget(law, by_in_weight, pair.source, bounds[home], bounds[home + 1], random);
      } while (pair.target == pair.source);
    }
  });
  return GraphOfPairs(law.pages, std::move(pairs), Direction::kAsDrawn, pool);
}

}  // namespace vicinal::bench
