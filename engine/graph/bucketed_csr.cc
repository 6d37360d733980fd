// SPDX-License-Identifier: Apache-2.0
// Two levels. First, edges go into buckets by target, each bucket some consecutive rows: each thread writes to as many
// places at once as there are buckets, and reads in order. Then each bucket, which fits in a core's second cache, is
// sorted by (target, source) there, digit by digit. Both are stable, so equal edges keep the order they were sent in.
//
// Where an edge goes depends on counts alone, so that threads do not show. Cost: two passes over the edges, and for
// each of them as many steps inside the cache as its ids have digits of kDigitBits. Memory beside the result: 2 bytes
// per edge, and for each thread two copies of the largest bucket.
#include "engine/graph/bucketed_csr.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/graph/digit_sort.h"

namespace vicinal::internal {
namespace {

// Of a graph with few enough nodes. More would not fit the translation buffers of a core.
constexpr int64_t kBuckets = 2048;
// The row of an entry inside its bucket has 16 bits.
constexpr int kMostRowBits = 16;
constexpr int64_t kChunksPerThread = 2;

// An edge inside a bucket: its row there in the upper half of `key`, its source in the lower one.
struct PlainEntry {
  uint64_t key;
};
struct WeightedEntry {
  uint64_t key;
  float value;
};
// With its place in the edge list, by which its weight is found, too.
struct TracedEntry {
  uint64_t key;
  uint32_t edge;
};

template <class Entry>
class Builder {
 public:
  // `sent` is null unless entries are traced.
  Builder(const EdgeList& edges, ThreadPool& pool, std::vector<EdgeId>* sent)
      : edges_(edges),
        pool_(pool),
        sent_(sent),
        num_edges_(edges.num_edges()),
        row_bits_(std::min(kMostRowBits, RowBits(edges.num_nodes))),
        buckets_(((edges.num_nodes - 1) >> row_bits_) + 1),
        chunks_(kChunksPerThread * pool.num_threads()) {}

  std::optional<Csr> Run() {
    const int64_t most = 2 * num_edges_;  // bytes, beside 2 per edge for the rows
    const int64_t count_bytes = chunks_ * buckets_ * static_cast<int64_t>(sizeof(int64_t));
    if (num_edges_ == 0 || count_bytes > most) return std::nullopt;
    CountBuckets();
    const int64_t largest = LargestBucket();
    const int64_t scratch_bytes = int64_t{2} * pool_.num_threads() * largest * static_cast<int64_t>(sizeof(Entry));
    if (count_bytes + scratch_bytes > most) return std::nullopt;
    Csr csr;
    csr.num_rows = csr.num_cols = edges_.num_nodes;
    csr.row_ptr.assign(edges_.num_nodes + 1, 0);
    csr.col.resize(num_edges_);
    if (edges_.weighted()) csr.value.resize(num_edges_);
    if constexpr (kTraced) sent_->resize(num_edges_);
    FillBuckets(&csr);
    SortBuckets(largest, &csr);
    return csr;
  }

 private:
  static constexpr bool kWeighted = std::is_same_v<Entry, WeightedEntry>;
  static constexpr bool kTraced = std::is_same_v<Entry, TracedEntry>;

  // The fewest such that there are at most kBuckets.
  static int RowBits(int64_t nodes) {
    int bits = 0;
    while (((nodes - 1) >> bits) >= kBuckets) ++bits;
    return bits;
  }

  // Calls visit(edge, &entry of `at_` for its chunk and bucket) for all edges, in order within a chunk.
  template <class Visit>
  void ForEachEdge(const Visit& visit) {
    pool_.ParallelFor(chunks_, [&](int64_t chunk, int) {
      int64_t* const at = at_.data() + chunk * buckets_;
      const int64_t end = num_edges_ * (chunk + 1) / chunks_;
      for (int64_t e = num_edges_ * chunk / chunks_; e < end; ++e) visit(e, &at[edges_.target[e] >> row_bits_]);
    });
  }

  // at_ becomes the place of each chunk's first edge in each bucket: bucket by bucket, inside one chunk by chunk.
  void CountBuckets() {
    at_.assign(chunks_ * buckets_, 0);
    ForEachEdge([](int64_t, int64_t* count) { ++*count; });
    begin_.assign(buckets_ + 1, 0);
    int64_t before = 0;
    for (int64_t bucket = 0; bucket < buckets_; ++bucket) {
      begin_[bucket] = before;
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        before += std::exchange(at_[chunk * buckets_ + bucket], before);
      }
    }
    begin_[buckets_] = before;
  }

  int64_t LargestBucket() const {
    int64_t largest = 0;
    for (int64_t bucket = 0; bucket < buckets_; ++bucket) {
      largest = std::max(largest, begin_[bucket + 1] - begin_[bucket]);
    }
    return largest;
  }

  void FillBuckets(Csr* csr) {
    row_in_bucket_.reset(new uint16_t[num_edges_]);  // not zeroed: each is written once
    const uint32_t mask = (uint32_t{1} << row_bits_) - 1;
    ForEachEdge([&](int64_t e, int64_t* place) {
      const int64_t at = (*place)++;
      csr->col[at] = edges_.source[e];
      row_in_bucket_[at] = static_cast<uint16_t>(static_cast<uint32_t>(edges_.target[e]) & mask);
      if constexpr (kWeighted) csr->value[at] = edges_.weight[e];
      if constexpr (kTraced) (*sent_)[at] = e;
    });
  }

  void SortBuckets(int64_t largest, Csr* csr) {
    std::vector<Digit> digits =
        DigitsOf(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(edges_.num_nodes - 1))));
    const std::vector<Digit> of_row = DigitsOf(32, row_bits_);
    digits.insert(digits.end(), of_row.begin(), of_row.end());
    const auto key_of = [](const Entry& entry) { return entry.key; };
    std::vector<std::unique_ptr<Entry[]>> scratch(static_cast<size_t>(pool_.num_threads()));
    for (auto& entries : scratch) entries.reset(new Entry[2 * largest]);
    pool_.ParallelFor(buckets_, [&](int64_t bucket, int thread) {
      const int64_t begin = begin_[bucket], count = begin_[bucket + 1] - begin;
      Entry* const entries = scratch[thread].get();
      for (int64_t i = 0; i < count; ++i) {
        entries[i].key = uint64_t{row_in_bucket_[begin + i]} << 32 | static_cast<uint32_t>(csr->col[begin + i]);
        if constexpr (kWeighted) entries[i].value = csr->value[begin + i];
        if constexpr (kTraced) entries[i].edge = static_cast<uint32_t>((*sent_)[begin + i]);
      }
      WriteRows(bucket, SortByDigits(std::span<const Digit>(digits), key_of, entries, entries + largest, count), csr);
    });
  }

  // The sorted entries of a bucket into its rows.
  void WriteRows(int64_t bucket, const Entry* entries, Csr* csr) const {
    const int64_t begin = begin_[bucket], count = begin_[bucket + 1] - begin;
    const int64_t first_row = bucket << row_bits_;
    const int64_t rows = std::min(edges_.num_nodes - first_row, int64_t{1} << row_bits_);
    EdgeId* const row_end = csr->row_ptr.data() + first_row + 1;
    for (int64_t i = 0; i < count; ++i) {
      ++row_end[entries[i].key >> 32];
      csr->col[begin + i] = static_cast<NodeId>(static_cast<uint32_t>(entries[i].key));
      if constexpr (kWeighted) csr->value[begin + i] = entries[i].value;
      if constexpr (kTraced) (*sent_)[begin + i] = entries[i].edge;
    }
    if constexpr (kTraced) {
      for (int64_t i = 0; edges_.weighted() && i < count; ++i) csr->value[begin + i] = edges_.weight[entries[i].edge];
    }
    EdgeId before = begin;
    for (int64_t row = 0; row < rows; ++row) before = row_end[row] += before;
  }

  const EdgeList& edges_;
  ThreadPool& pool_;
  std::vector<EdgeId>* const sent_;
  const int64_t num_edges_;
  const int row_bits_;
  const int64_t buckets_, chunks_;
  std::vector<int64_t> at_;                    // [chunks, buckets]
  std::vector<int64_t> begin_;                 // [buckets + 1]
  std::unique_ptr<uint16_t[]> row_in_bucket_;  // [E], by bucket
};

}  // namespace

std::optional<Csr> BuildCsrInBuckets(const EdgeList& edges, ThreadPool& pool, std::vector<EdgeId>* sent) {
  if (sent != nullptr) return Builder<TracedEntry>(edges, pool, sent).Run();
  return edges.weighted() ? Builder<WeightedEntry>(edges, pool, sent).Run()
                          : Builder<PlainEntry>(edges, pool, sent).Run();
}

}  // namespace vicinal::internal
