// SPDX-License-Identifier: Apache-2.0
// One pass over the edges for what depends on them, one over the degrees, one for symmetry, those of locality.cc. O(N +
// E) time, 12 bytes per node of memory.
#include "engine/profile/graph_profile.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include "engine/graph/parallel_csr.h"
#include "engine/profile/rows_in_parallel.h"

namespace vicinal {
namespace {

void ProfileDegrees(const Csr& graph, GraphProfile* profile) {
  std::vector<int64_t> degrees(graph.num_rows);
  double squares = 0.0;
  for (int64_t v = 0; v < graph.num_rows; ++v) {
    degrees[v] = graph.row_ptr[v + 1] - graph.row_ptr[v];
    const double off = static_cast<double>(degrees[v]) - profile->mean_degree;
    squares += off * off;
  }
  profile->degree_deviation = std::sqrt(squares / static_cast<double>(graph.num_rows));
  profile->max_degree = *std::max_element(degrees.begin(), degrees.end());
  constexpr double kQuantiles[] = {0.5, 0.9, 0.99};
  for (size_t i = 0; i < profile->degree_quantiles.size(); ++i)
    profile->degree_quantiles[i] = Quantile(kQuantiles[i], degrees);
}

void ProfileEdges(const Csr& graph, ThreadPool* pool, GraphProfile* profile) {
  std::vector<char> connected(graph.num_rows, 0);
  const auto connect = [&](int64_t node) {
    const std::atomic_ref<char> flag(connected[node]);
    if (flag.load(std::memory_order_relaxed) == 0) flag.store(1, std::memory_order_relaxed);
  };
  const auto [loops, duplicates] = internal::SumOverRows<2>(pool, graph.num_rows, [&](int64_t first, int64_t last) {
    std::array<int64_t, 2> sums = {};
    for (int64_t t = first; t < last; ++t) {
      const EdgeId begin = graph.row_ptr[t], end = graph.row_ptr[t + 1];
      if (begin < end) connect(t);
      for (EdgeId e = begin; e < end; ++e) {
        connect(graph.col[e]);
        sums[0] += graph.col[e] == t;
        sums[1] += e > begin && graph.col[e] == graph.col[e - 1];
      }
    }
    return sums;
  });
  profile->self_loops = loops;
  profile->duplicate_edges = duplicates;
  profile->isolated_nodes = std::count(connected.begin(), connected.end(), 0);
}

}  // namespace

int64_t Quantile(double q, std::span<int64_t> values) {
  const int64_t count = static_cast<int64_t>(values.size());
  const int64_t rank =
      std::clamp<int64_t>(static_cast<int64_t>(std::ceil(q * static_cast<double>(count))) - 1, 0, count - 1);
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[rank];
}

GraphProfile ProfileStructure(const Csr& graph, const ProfileOptions& options) {
  GraphProfile profile;
  profile.num_nodes = graph.num_rows;
  profile.num_edges = graph.nnz();
  profile.window = options.window;
  profile.caches = options.caches;
  if (graph.num_rows == 0) return profile;
  profile.mean_degree = static_cast<double>(profile.num_edges) / static_cast<double>(profile.num_nodes);
  ProfileDegrees(graph, &profile);
  ProfileEdges(graph, options.pool, &profile);
  profile.symmetric = IsPatternSymmetric(graph, options.pool);
  return profile;
}

GraphProfile ProfileGraph(const Csr& graph, const ProfileOptions& options) {
  GraphProfile profile = ProfileStructure(graph, options);
  profile.before = ProfileLocality(graph, options);
  return profile;
}

}  // namespace vicinal
