// SPDX-License-Identifier: Apache-2.0
// For each query row the candidates with the largest dot products, on the CPU: exact, and without storing the products
// (cpu/top_products_simd.cc). Shapes: Q queries, N candidates, D columns, k results per query.
#ifndef VICINAL_ENGINE_KERNELS_TOP_PRODUCTS_H_
#define VICINAL_ENGINE_KERNELS_TOP_PRODUCTS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "engine/device/views.h"

namespace vicinal {

// A candidate with its score. A higher score is better, then a lower id: a total order, as long as ids differ, so the
// best k are the same whatever the order of visits. A score that is NaN is never taken.
struct TopEntry {
  float score = -std::numeric_limits<float>::infinity();
  int32_t id = std::numeric_limits<int32_t>::max();

  bool Better(const TopEntry& other) const { return score > other.score || (score == other.score && id < other.id); }
};

// The best `k` entries offered so far, in memory of the caller [k], which Clear fills with entries that all others
// beat: a heap whose root, entries[0], is the worst.
void ClearTop(TopEntry* entries, int64_t k);
// Puts `entry` in place of the worst one. REQUIRES: it is better.
void ReplaceWorst(TopEntry entry, TopEntry* entries, int64_t k);
inline void OfferTop(TopEntry entry, TopEntry* entries, int64_t k) {
  if (entry.Better(entries[0])) ReplaceWorst(entry, entries, k);
}
// Best first; those never replaced come last.
void SortTop(TopEntry* entries, int64_t k);

// Queries of a panel: they share the vectors of a tile.
inline constexpr int64_t kQueriesOfPanel = 16;
inline int64_t PaddedQueries(int64_t queries) {
  return (queries + kQueriesOfPanel - 1) / kQueriesOfPanel * kQueriesOfPanel;
}
// Writes `queries` [Q, D] as panels to `packed` [PaddedQueries(Q) * D], zeros beyond Q.
void PackQueries(ConstMatrixView queries, float* packed);

// Ascending.
struct ExcludedIds {
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;

  bool Contains(int32_t id) const { return std::binary_search(begin, end, id); }
};

struct TopProductsJob {
  ConstMatrixView candidates;             // [N, D]
  const int32_t* ids = nullptr;           // [N], distinct; null: the row's number
  const float* scale = nullptr;           // [N] or null: what the products of a candidate are multiplied by
  const float* queries = nullptr;         // packed
  int64_t num_queries = 0;                // Q
  int64_t k = 1;                          // at least 1
  const ExcludedIds* excluded = nullptr;  // [Q], ids that a query does not get; null: none
};
// Offers rows [begin, end) of the candidates to all queries. `lists` [Q, k] and `thresholds` [PaddedQueries(Q)] belong
// to one thread; StartTop prepares them. A score is one chain of multiply-adds in the order of columns, whatever the
// range and the other queries.
void StartTop(const TopProductsJob& job, TopEntry* lists, float* thresholds);
void OfferProducts(const TopProductsJob& job, int64_t begin, int64_t end, TopEntry* lists, float* thresholds);
// Nanoseconds of one core that a candidate takes, without results.
double OfferNanoseconds(const TopProductsJob& job);

// 1 / max(|row|, 1e-12) of rows [begin, end).
void InverseLengths(ConstMatrixView rows, int64_t begin, int64_t end, float* lengths);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_TOP_PRODUCTS_H_
