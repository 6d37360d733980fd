// SPDX-License-Identifier: Apache-2.0
// The gathers of the sampled sources are collected in one pass over the edges, which costs a multiplication and a
// comparison for each; their reuse distances are then counted in a binary indexed tree over the sampled times, in which
// only the latest gather of each source stands.
#include "engine/profile/reuse.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "engine/profile/rows_in_parallel.h"

namespace vicinal {
namespace {

// A hash of a source in [0, 2^32): a multiplication, xorshifted so that neither neighbours nor strides stay together.
uint32_t Hash(NodeId source) {
  uint32_t h = static_cast<uint32_t>(source) * 0x9E3779B1u;
  h ^= h >> 15;
  return h * 0x85EBCA77u;
}

// The gathers of sources with Hash(source) < threshold, in order.
struct Sample {
  std::vector<NodeId> gathers;
  uint64_t threshold = uint64_t{1} << 32;
  double rate() const { return static_cast<double>(threshold) * 0x1p-32; }
};

// Halves the threshold until the sample is small enough.
void Shrink(size_t most, Sample* sample) {
  while (sample->gathers.size() > most && sample->threshold > 0) {
    sample->threshold /= 2;
    std::erase_if(sample->gathers, [&](NodeId source) { return Hash(source) >= sample->threshold; });
  }
}

// The rows [first, last) of `row_order`.
void CollectRows(const Csr& graph, std::span<const NodeId> row_order, int64_t first, int64_t last, size_t most,
                 Sample* sample) {
  for (int64_t i = first; i < last; ++i) {
    const int64_t row = row_order.empty() ? i : row_order[i];
    for (EdgeId e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
      if (Hash(graph.col[e]) < sample->threshold) sample->gathers.push_back(graph.col[e]);
    }
    Shrink(most, sample);
  }
}

// As many as were asked for, where the sources' counts are even; a source with very many edges may bring many at once,
// so that the threshold is halved until they are few enough again. A part of the rows is only halved where all of them
// would be, so the parts do not show.
Sample CollectSample(const Csr& graph, std::span<const NodeId> row_order, int64_t wanted, ThreadPool* pool) {
  Sample sample;
  if (graph.nnz() > wanted) {
    sample.threshold = static_cast<uint64_t>(0x1p32 * static_cast<double>(wanted) / static_cast<double>(graph.nnz()));
  }
  const size_t most = static_cast<size_t>(4 * wanted);
  std::vector<Sample> parts(pool != nullptr ? 2 * static_cast<size_t>(pool->num_threads()) : 1, sample);
  internal::ForRowRanges(pool, graph.num_rows, static_cast<int64_t>(parts.size()),
                         [&](int64_t first, int64_t last, int64_t task) {
                           CollectRows(graph, row_order, first, last, most, &parts[task]);
                         });
  for (const Sample& part : parts) sample.threshold = std::min(sample.threshold, part.threshold);
  for (Sample& part : parts) {
    std::copy_if(part.gathers.begin(), part.gathers.end(), std::back_inserter(sample.gathers),
                 [&](NodeId source) { return Hash(source) < sample.threshold; });
    part.gathers = {};
  }
  Shrink(most, &sample);
  return sample;
}

// Counts of marked times; Sum(t) those before t. A binary indexed tree (Fenwick 1994).
class MarkedTimes {
 public:
  explicit MarkedTimes(size_t size) : tree_(size + 1, 0) {}
  void Add(size_t time, int32_t by) {
    for (size_t i = time + 1; i < tree_.size(); i += i & -i) tree_[i] += by;
  }
  int64_t Sum(size_t time) const {
    int64_t sum = 0;
    for (size_t i = time; i > 0; i -= i & -i) sum += tree_[i];
    return sum;
  }

 private:
  std::vector<int32_t> tree_;
};

// Calls visit(distance) for each gather but the first of its source: how many other sampled sources came since the
// last.
template <class Visit>
void ForEachDistance(const std::vector<NodeId>& gathers, const Visit& visit) {
  MarkedTimes latest(gathers.size());
  std::unordered_map<NodeId, size_t> last;
  for (size_t now = 0; now < gathers.size(); ++now) {
    const auto [at, is_new] = last.try_emplace(gathers[now], now);
    if (!is_new) {
      visit(latest.Sum(now) - latest.Sum(at->second + 1));
      latest.Add(at->second, -1);
      at->second = now;
    }
    latest.Add(now, 1);
  }
}

// Hits of one cache among the sampled gathers.
struct Counter {
  double rows = 0.0;  // that the cache holds, scaled as distances are
  int64_t hits = 0;
};

// The sample should have held rate * E gathers. Those that it lacks, or has too many, belong to few busy sources, whose
// distances are short: they count as hits. (Taking shares of the sample as it is errs by 0.28 instead of 0.09 on
// R-MAT.)
double ShareOf(int64_t hits, const Sample& sample, int64_t num_edges) {
  const double expected = sample.rate() * static_cast<double>(num_edges);
  if (expected <= 0.0) return 1.0;  // one source has all edges
  const double missing = expected - static_cast<double>(sample.gathers.size());
  return std::clamp((static_cast<double>(hits) + missing) / expected, 0.0, 1.0);
}

}  // namespace

std::array<ReuseEstimate, kReuseWidths.size()> EstimateReuse(const Csr& graph, std::span<const NodeId> row_order,
                                                             const CacheSizes& caches, int64_t sample_size,
                                                             ThreadPool* pool) {
  std::array<ReuseEstimate, kReuseWidths.size()> estimates = {};
  if (graph.nnz() == 0) return estimates;
  const Sample sample = CollectSample(graph, row_order, sample_size, pool);
  std::array<Counter, 2 * kReuseWidths.size()> counters;
  for (size_t i = 0; i < kReuseWidths.size(); ++i) {
    const int64_t row_bytes = kReuseWidths[i] * static_cast<int64_t>(sizeof(float));
    const int64_t l2_rows = caches.l2_bytes / row_bytes, llc_rows = caches.llc_bytes / row_bytes;
    counters[2 * i].rows = sample.rate() * static_cast<double>(l2_rows);
    counters[2 * i + 1].rows = sample.rate() * static_cast<double>(llc_rows);
  }
  ForEachDistance(sample.gathers, [&](int64_t distance) {
    for (Counter& counter : counters) counter.hits += static_cast<double>(distance) < counter.rows;
  });
  for (size_t i = 0; i < kReuseWidths.size(); ++i) {
    estimates[i].l2 = ShareOf(counters[2 * i].hits, sample, graph.nnz());
    estimates[i].llc = ShareOf(counters[2 * i + 1].hits, sample, graph.nnz());
  }
  return estimates;
}

}  // namespace vicinal
