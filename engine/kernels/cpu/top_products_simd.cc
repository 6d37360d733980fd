// SPDX-License-Identifier: Apache-2.0
// The best products of queries with candidates, without storing any product (kernels/top_products.h).
//
// Idea: queries are packed into panels of 16, column by column, so that a vector holds the same column of several
// queries; an element of a candidate is broadcast to them. A tile of a few candidates by 1 to 4 panels stays in
// registers. When it is complete, each vector is compared with the thresholds of its queries, the scores of the worst
// results so far. Almost always all are below, and the tile is forgotten. What remains goes into the query's heap.
//
// When it wins: a product that is stored and scanned afterwards writes and reads 4 bytes for every pair; here a pair
// costs D multiply-adds in registers and a sixteenth of a comparison. About k ln(N / k) candidates of each query reach
// its heap.
//
// Bytes moved: 4 N D, once per group of queries whose panels fit the second cache; the panels once per block of
// kCandidateBlock candidates.
//
// Determinism: a score is one chain of multiply-adds over the columns, the same in any tile. The best k under a total
// order do not depend on the order of visits.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/kernels/top_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/top_products_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/register_tiles-inl.h"
#include "engine/kernels/cpu/vector-inl.h"

#ifndef VICINAL_ENGINE_KERNELS_CPU_TOP_PRODUCTS_ONCE_
#define VICINAL_ENGINE_KERNELS_CPU_TOP_PRODUCTS_ONCE_
namespace vicinal::internal {

// Candidates that meet a group of panels while these are in the first cache.
inline constexpr int64_t kCandidateBlock = 96;

// What one thread fills.
struct TopLists {
  TopEntry* lists;
  float* thresholds;
};

// Scores of candidate `row` for the queries from `query` on: those at or above their thresholds are results so far.
inline void TakeScores(const TopProductsJob& job, int64_t row, int64_t query, const float* scores, int64_t count,
                       const TopLists& top) {
  const int32_t id = job.ids != nullptr ? job.ids[row] : static_cast<int32_t>(row);
  for (int64_t q = query; q < std::min(query + count, job.num_queries); ++q) {
    const TopEntry entry = {scores[q - query], id};
    TopEntry* const list = top.lists + q * job.k;
    if (!entry.Better(list[0]) || (job.excluded != nullptr && job.excluded[q].Contains(id))) continue;
    ReplaceWorst(entry, list, job.k);
    top.thresholds[q] = list[0].score;
  }
}

}  // namespace vicinal::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

inline constexpr int kPanelVectors = static_cast<int>(kQueriesOfPanel / kLanes);

// Candidates [row, row + kRows) by the queries of kPanels panels from `panel` on.
template <int kRows, int kPanels>
HWY_NOINLINE void ProductTile(const TopProductsJob& job, int64_t row, int64_t panel, const TopLists& top) {
  constexpr int kVectors = kPanels * kPanelVectors;
  const Floats d;
  const int64_t width = job.candidates.cols, stride = job.candidates.stride;
  const float* queries = job.queries + panel * kQueriesOfPanel * width;
  const float* candidates = job.candidates.row(row);
  VF acc[kRows][kVectors];
  VICINAL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    VICINAL_UNROLL
    for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
  }
  for (int64_t c = 0; c < width; ++c) {
    VF b[kVectors];
    VICINAL_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      b[v] = hn::LoadU(d, queries + (v / kPanelVectors) * kQueriesOfPanel * width + c * kQueriesOfPanel +
                              (v % kPanelVectors) * kLanes);
    }
    VICINAL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VF a = hn::Set(d, candidates[r * stride + c]);
      VICINAL_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(a, b[v], acc[r][v]);
    }
  }
  const int64_t query = panel * kQueriesOfPanel;
  VICINAL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (job.scale != nullptr) {
      const VF scale = hn::Set(d, job.scale[row + r]);
      VICINAL_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Mul(acc[r][v], scale);
    }
    auto reached = hn::Ge(acc[r][0], hn::LoadU(d, top.thresholds + query));
    VICINAL_UNROLL
    for (int v = 1; v < kVectors; ++v) {
      reached = hn::Or(reached, hn::Ge(acc[r][v], hn::LoadU(d, top.thresholds + query + v * kLanes)));
    }
    if (HWY_LIKELY(hn::AllFalse(d, reached))) continue;
    HWY_ALIGN float scores[kVectors * kLanes];
    VICINAL_UNROLL
    for (int v = 0; v < kVectors; ++v) hn::Store(acc[r][v], d, scores + v * kLanes);
    TakeScores(job, row + r, query, scores, kVectors * kLanes, top);
  }
}

// Candidates [begin, end): full tiles, then the rest in halves.
template <int kRows, int kPanels>
VICINAL_INLINE void ProductTiles(const TopProductsJob& job, int64_t begin, int64_t end, int64_t panel,
                                 const TopLists& top) {
  for (; begin + kRows <= end; begin += kRows) ProductTile<kRows, kPanels>(job, begin, panel, top);
  if constexpr (kRows > 1) {
    if (begin < end) ProductTiles<kRows / 2, kPanels>(job, begin, end, panel, top);
  }
}

template <int kPanels>
HWY_NOINLINE void ProductGroup(const TopProductsJob& job, int64_t begin, int64_t end, int64_t panel,
                               const TopLists& top) {
  ProductTiles<TileRows<kPanels>(), kPanels>(job, begin, end, panel, top);
}

void OfferRows(const TopProductsJob& job, int64_t begin, int64_t end, TopEntry* lists, float* thresholds) {
  const TopLists top = {lists, thresholds};
  const int64_t panels = DivideUp(job.num_queries, kQueriesOfPanel);
  for (int64_t block = begin; block < end; block += kCandidateBlock) {
    const int64_t block_end = Smaller(end, block + kCandidateBlock);
    ForPanelGroups(panels,
                   [&](auto kPanels, int64_t panel) { ProductGroup<kPanels>(job, block, block_end, panel, top); });
  }
}

void LengthsOfRows(ConstMatrixView rows, int64_t begin, int64_t end, float* lengths) {
  const Floats d;
  for (int64_t i = begin; i < end; ++i) {
    const float* const row = rows.row(i);
    VF sum = hn::Zero(d);
    for (int64_t c = 0; c < rows.cols; c += kLanes) {
      const VF v = LoadSome(row + c, rows.cols - c);
      sum = hn::MulAdd(v, v, sum);
    }
    lengths[i] = 1.0f / std::max(std::sqrt(hn::GetLane(hn::SumOfLanes(d, sum))), 1e-12f);
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal {
namespace internal {
namespace {

HWY_EXPORT(OfferRows);
HWY_EXPORT(LengthsOfRows);

void Offer(const TopProductsJob& job, int64_t begin, int64_t end, TopEntry* lists, float* thresholds) {
  HWY_DYNAMIC_DISPATCH(OfferRows)(job, begin, end, lists, thresholds);
}
void Lengths(ConstMatrixView rows, int64_t begin, int64_t end, float* lengths) {
  HWY_DYNAMIC_DISPATCH(LengthsOfRows)(rows, begin, end, lengths);
}

}  // namespace
}  // namespace internal

void ClearTop(TopEntry* entries, int64_t k) { std::fill_n(entries, k, TopEntry()); }

void ReplaceWorst(TopEntry entry, TopEntry* entries, int64_t k) {
  int64_t place = 0;
  for (int64_t child = 1; child < k; child = 2 * place + 1) {
    if (child + 1 < k && entries[child].Better(entries[child + 1])) ++child;
    if (!entry.Better(entries[child])) break;
    entries[place] = entries[child];
    place = child;
  }
  entries[place] = entry;
}

void SortTop(TopEntry* entries, int64_t k) {
  std::sort(entries, entries + k, [](const TopEntry& a, const TopEntry& b) { return a.Better(b); });
}

void PackQueries(ConstMatrixView queries, float* packed) {
  std::memset(packed, 0, static_cast<size_t>(PaddedQueries(queries.rows) * queries.cols) * sizeof(float));
  for (int64_t q = 0; q < queries.rows; ++q) {
    float* const panel = packed + q / kQueriesOfPanel * kQueriesOfPanel * queries.cols + q % kQueriesOfPanel;
    for (int64_t c = 0; c < queries.cols; ++c) panel[c * kQueriesOfPanel] = queries.row(q)[c];
  }
}

void StartTop(const TopProductsJob& job, TopEntry* lists, float* thresholds) {
  ClearTop(lists, job.num_queries * job.k);
  const int64_t padded = PaddedQueries(job.num_queries);
  std::fill_n(thresholds, job.num_queries, -std::numeric_limits<float>::infinity());
  // Nothing reaches the thresholds of queries that only fill the last panel.
  std::fill(thresholds + job.num_queries, thresholds + padded, std::numeric_limits<float>::quiet_NaN());
}

void OfferProducts(const TopProductsJob& job, int64_t begin, int64_t end, TopEntry* lists, float* thresholds) {
  internal::Offer(job, begin, end, lists, thresholds);
}

double OfferNanoseconds(const TopProductsJob& job) {
  // A core does about 50 multiply-adds per nanosecond, and reads 10 bytes.
  const auto width = static_cast<double>(job.candidates.cols);
  return std::max(width * static_cast<double>(PaddedQueries(job.num_queries)) / 50, width * 4 / 10) + 2;
}

void InverseLengths(ConstMatrixView rows, int64_t begin, int64_t end, float* lengths) {
  internal::Lengths(rows, begin, end, lengths);
}

}  // namespace vicinal
#endif  // HWY_ONCE
