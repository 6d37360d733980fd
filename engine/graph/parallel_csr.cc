// SPDX-License-Identifier: Apache-2.0
// Building sorts by digits in buckets (bucketed_csr.h) where memory allows. Else entries are scattered into their rows
// in any order and each row is then sorted by (column, place), which is the order that a stable sort would give.
// Where entries carry nothing, equal ones are the same, and no places are needed.
#include "engine/graph/parallel_csr.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "engine/graph/bucketed_csr.h"
#include "engine/graph/digit_sort.h"

namespace vicinal {
namespace {

// Of a task: enough that taking one costs nothing, few enough that the threads end together.
constexpr int64_t kEdgesPerTask = int64_t{1} << 16;
constexpr int64_t kRowsPerTask = 256;

// Fewer threads are slower than one that counts. With two, building by comparison takes 2 to 3 times as long as by
// counting, and renumbering 0.8 to 0.9 times (20 million edges, 0.23 million nodes, two cores, 2026-11-26).
constexpr int kBuildingThreads = 8, kRenumberingThreads = 2, kExaminingThreads = 4;
// Building in buckets.
constexpr int kBucketThreads = 2;
// Mean entries of a row, for each thread.
constexpr int64_t kLongRows = 8;

// Rows of so many entries are sorted by digits: that is faster there, and copies fit in a core's second cache.
constexpr int64_t kFewestByDigits = 256, kMostByDigits = int64_t{1} << 15;

// Positions of entries, of which there are less than 2^32.
using Place = uint32_t;

template <class Body>
void ForRanges(ThreadPool& pool, int64_t count, int64_t per_task, const Body& body) {
  pool.ParallelFor((count + per_task - 1) / per_task,
                   [&](int64_t task, int) { body(task * per_task, std::min(count, (task + 1) * per_task)); });
}

// Calls body(row, begin, end, thread) for the entries of each row.
template <class Body>
void ForRows(ThreadPool& pool, const std::vector<EdgeId>& row_ptr, const Body& body) {
  const int64_t rows = static_cast<int64_t>(row_ptr.size()) - 1;
  pool.ParallelFor((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int thread) {
    for (int64_t row = task * kRowsPerTask; row < std::min(rows, (task + 1) * kRowsPerTask); ++row) {
      body(row, row_ptr[row], row_ptr[row + 1], thread);
    }
  });
}

// Digits of ids below `num_ids`, which begin at bit `begin` of a key.
std::vector<internal::Digit> DigitsOfIds(int begin, int64_t num_ids) {
  return internal::DigitsOf(begin,
                            static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(1, num_ids) - 1))));
}

// Sorts rows of ids: long ones by digits, in a copy for each thread.
class RowSorter {
 public:
  RowSorter(int64_t num_ids, int threads)
      : digits_(DigitsOfIds(0, num_ids)), copy_(static_cast<size_t>(threads), std::vector<NodeId>(kMost)) {}

  void Sort(NodeId* ids, int64_t count, int thread) {
    if (count < kFewestByDigits || count > kMost) {
      std::sort(ids, ids + count);
      return;
    }
    const auto key_of = [](NodeId id) { return static_cast<uint32_t>(id); };
    const NodeId* sorted =
        internal::SortByDigits(std::span<const internal::Digit>(digits_), key_of, ids, copy_[thread].data(), count);
    if (sorted != ids) std::copy_n(sorted, count, ids);
  }

 private:
  static constexpr int64_t kMost = kMostByDigits;

  const std::vector<internal::Digit> digits_;
  std::vector<std::vector<NodeId>> copy_;
};

// Sorts the entries of a row by column, stably, as keys: the column in the upper half, the place in the row in the
// lower one. Each thread has room for the longest of its rows, so that together they take no more than all entries.
class EntrySorter {
 public:
  EntrySorter(int64_t num_columns, int threads) : digits_(DigitsOfIds(32, num_columns)), room_(threads) {}

  // For the thread to fill, until its next call.
  uint64_t* Keys(int64_t count, int thread) {
    Room& room = room_[thread];
    if (room.entries < count) {
      room.keys.reset();  // before the larger one is there
      room.keys.reset(new uint64_t[count + std::min(count, kMostByDigits)]);
      room.entries = count;
    }
    return room.keys.get();
  }

  // The thread's keys, sorted. REQUIRES: places ascended.
  const uint64_t* Sort(int64_t count, int thread) {
    uint64_t* const keys = room_[thread].keys.get();
    if (count < kFewestByDigits || count > kMostByDigits) {
      std::sort(keys, keys + count);
      return keys;
    }
    const auto key_of = [](uint64_t key) { return key; };
    return internal::SortByDigits(std::span<const internal::Digit>(digits_), key_of, keys, keys + count, count);
  }

 private:
  struct Room {
    std::unique_ptr<uint64_t[]> keys;
    int64_t entries = 0;
  };

  const std::vector<internal::Digit> digits_;
  std::vector<Room> room_;
};

// [num_rows + 1]
std::vector<EdgeId> CountRows(const std::vector<NodeId>& rows, int64_t num_rows, ThreadPool& pool) {
  std::vector<EdgeId> row_ptr(num_rows + 1, 0);
  ForRanges(pool, static_cast<int64_t>(rows.size()), kEdgesPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e)
      std::atomic_ref<EdgeId>(row_ptr[rows[e] + 1]).fetch_add(1, std::memory_order_relaxed);
  });
  std::partial_sum(row_ptr.begin(), row_ptr.end(), row_ptr.begin());
  return row_ptr;
}

// Calls put(where, e) for each entry e of rows[e], with a place of its own in that row.
template <class Put>
void Scatter(const std::vector<NodeId>& rows, const std::vector<EdgeId>& row_ptr, ThreadPool& pool, const Put& put) {
  std::vector<EdgeId> next(row_ptr.begin(), row_ptr.end() - 1);
  ForRanges(pool, static_cast<int64_t>(rows.size()), kEdgesPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e)
      put(std::atomic_ref<EdgeId>(next[rows[e]]).fetch_add(1, std::memory_order_relaxed), e);
  });
}

// Sorts places[begin .. end) by (column_of(place), place).
template <class ColumnOf>
void SortPlaces(std::vector<Place>* places, EdgeId begin, EdgeId end, const ColumnOf& column_of) {
  std::sort(places->begin() + begin, places->begin() + end, [&](Place a, Place b) {
    const NodeId column_a = column_of(a), column_b = column_of(b);
    return column_a != column_b ? column_a < column_b : a < b;
  });
}

// Rows [0, num_rows) in parts of about as many entries: the first row of each, and the end.
std::vector<int64_t> RowsOfEqualEntries(const Csr& csr, int64_t parts) {
  std::vector<int64_t> begin(parts + 1, csr.num_rows);
  for (int64_t part = 0; part < parts; ++part) {
    begin[part] =
        std::lower_bound(csr.row_ptr.begin(), csr.row_ptr.end() - 1, csr.nnz() * part / parts) - csr.row_ptr.begin();
  }
  begin[0] = 0;
  return begin;
}

// As the serial one, each thread for a part of the rows: with cursors of its own, which begin where that part's ids do.
bool MeetsReversesInParts(const Csr& csr, ThreadPool& pool) {
  const int64_t parts = pool.num_threads();
  const std::vector<int64_t> begin = RowsOfEqualEntries(csr, parts);
  std::vector<std::vector<EdgeId>> cursors(parts, std::vector<EdgeId>(csr.num_rows));
  std::atomic<bool> symmetric{true};
  pool.ParallelFor(parts, [&](int64_t part, int) {
    std::vector<EdgeId>& cursor = cursors[part];
    for (int64_t s = 0; s < csr.num_rows; ++s) {
      const auto first = csr.col.begin() + csr.row_ptr[s], last = csr.col.begin() + csr.row_ptr[s + 1];
      cursor[s] = std::lower_bound(first, last, static_cast<NodeId>(begin[part])) - csr.col.begin();
    }
    for (int64_t t = begin[part]; t < begin[part + 1] && symmetric.load(std::memory_order_relaxed); ++t) {
      for (EdgeId e = csr.row_ptr[t]; e < csr.row_ptr[t + 1]; ++e) {
        const NodeId s = csr.col[e];
        if (cursor[s] < csr.row_ptr[s + 1] && csr.col[cursor[s]] == t) {
          ++cursor[s];
        } else {
          symmetric.store(false, std::memory_order_relaxed);
        }
      }
    }
  });
  return symmetric.load();
}

bool Serves(const ThreadPool* pool, int threads, int64_t entries) {
  return pool != nullptr && pool->num_threads() >= threads && entries <= std::numeric_limits<Place>::max();
}

}  // namespace

Csr BuildCsrByTarget(const EdgeList& edges, ThreadPool* pool, std::vector<EdgeId>* sent) {
  if (!Serves(pool, kBucketThreads, edges.num_edges())) return BuildCsrByTarget(edges, sent);
  if (std::optional<Csr> csr = internal::BuildCsrInBuckets(edges, *pool, sent)) return *std::move(csr);
  if (pool->num_threads() < kBuildingThreads) return BuildCsrByTarget(edges, sent);
  Csr csr;
  csr.num_rows = csr.num_cols = edges.num_nodes;
  csr.row_ptr = CountRows(edges.target, edges.num_nodes, *pool);
  csr.col.resize(edges.num_edges());
  if (!edges.weighted() && sent == nullptr) {
    Scatter(edges.target, csr.row_ptr, *pool, [&](EdgeId at, int64_t e) { csr.col[at] = edges.source[e]; });
    ForRows(*pool, csr.row_ptr,
            [&](int64_t, EdgeId begin, EdgeId end, int) { std::sort(csr.col.begin() + begin, csr.col.begin() + end); });
    return csr;
  }
  std::vector<Place> places(edges.num_edges());
  Scatter(edges.target, csr.row_ptr, *pool, [&](EdgeId at, int64_t e) { places[at] = static_cast<Place>(e); });
  if (edges.weighted()) csr.value.resize(edges.num_edges());
  if (sent != nullptr) sent->resize(edges.num_edges());
  ForRows(*pool, csr.row_ptr, [&](int64_t, EdgeId begin, EdgeId end, int) {
    SortPlaces(&places, begin, end, [&](Place e) { return edges.source[e]; });
    for (EdgeId at = begin; at < end; ++at) {
      csr.col[at] = edges.source[places[at]];
      if (edges.weighted()) csr.value[at] = edges.weight[places[at]];
      if (sent != nullptr) (*sent)[at] = places[at];
    }
  });
  return csr;
}

Csr RenumberCsr(const Csr& csr, const std::vector<NodeId>& new_of_old, ThreadPool* pool, std::vector<EdgeId>* sent) {
  if (!Serves(pool, kRenumberingThreads, csr.nnz())) return RenumberCsr(csr, new_of_old, sent);
  std::vector<NodeId> old_of_new(new_of_old.size());
  for (size_t v = 0; v < new_of_old.size(); ++v) old_of_new[new_of_old[v]] = static_cast<NodeId>(v);
  Csr renumbered;
  renumbered.num_rows = csr.num_rows;
  renumbered.num_cols = csr.num_cols;
  renumbered.row_ptr.assign(csr.num_rows + 1, 0);
  for (int64_t row = 0; row < csr.num_rows; ++row) {
    const NodeId old_row = old_of_new[row];
    renumbered.row_ptr[row + 1] = renumbered.row_ptr[row] + csr.row_ptr[old_row + 1] - csr.row_ptr[old_row];
  }
  renumbered.col.resize(csr.nnz());
  if (csr.value.empty() && sent == nullptr) {
    RowSorter sorter(csr.num_cols, pool->num_threads());
    ForRows(*pool, renumbered.row_ptr, [&](int64_t row, EdgeId begin, EdgeId end, int thread) {
      const EdgeId old_begin = csr.row_ptr[old_of_new[row]];
      for (EdgeId at = begin; at < end; ++at) renumbered.col[at] = new_of_old[csr.col[old_begin + at - begin]];
      sorter.Sort(renumbered.col.data() + begin, end - begin, thread);
    });
    return renumbered;
  }
  renumbered.value.resize(csr.value.size());
  std::vector<EdgeId> renumbered_sent(sent != nullptr ? csr.nnz() : 0);
  EntrySorter sorter(csr.num_cols, pool->num_threads());
  ForRows(*pool, renumbered.row_ptr, [&](int64_t row, EdgeId begin, EdgeId end, int thread) {
    const EdgeId old_begin = csr.row_ptr[old_of_new[row]];
    uint64_t* const keys = sorter.Keys(end - begin, thread);
    for (EdgeId k = 0; k < end - begin; ++k) {
      keys[k] = uint64_t{static_cast<uint32_t>(new_of_old[csr.col[old_begin + k]])} << 32 | static_cast<Place>(k);
    }
    const uint64_t* const sorted = sorter.Sort(end - begin, thread);
    for (EdgeId k = 0; k < end - begin; ++k) {
      const EdgeId from = old_begin + static_cast<Place>(sorted[k]);
      renumbered.col[begin + k] = static_cast<NodeId>(sorted[k] >> 32);
      if (!csr.value.empty()) renumbered.value[begin + k] = csr.value[from];
      if (sent != nullptr) renumbered_sent[begin + k] = (*sent)[from];
    }
  });
  if (sent != nullptr) *sent = std::move(renumbered_sent);
  return renumbered;
}

bool IsPatternSymmetric(const Csr& csr, ThreadPool* pool) {
  // Where rows are long, setting a cursor in each row for each thread costs less than searching for each edge.
  if (pool != nullptr && pool->num_threads() > 1 && csr.nnz() >= kLongRows * csr.num_rows * pool->num_threads()) {
    return MeetsReversesInParts(csr, *pool);
  }
  if (!Serves(pool, kExaminingThreads, csr.nnz())) return IsPatternSymmetric(csr);
  // Each edge from a lower id has as many reverses as there are of it; then all others are such reverses, if they are
  // as many in all.
  std::atomic<bool> symmetric{true};
  std::atomic<int64_t> from_lower{0}, from_higher{0};
  ForRanges(*pool, csr.num_rows, kRowsPerTask, [&](int64_t first, int64_t last) {
    int64_t lower = 0, higher = 0;
    for (int64_t target = first; target < last && symmetric.load(std::memory_order_relaxed); ++target) {
      const auto begin = csr.col.begin() + csr.row_ptr[target], end = csr.col.begin() + csr.row_ptr[target + 1];
      for (auto edge = begin; edge != end && *edge < target;) {
        const auto next = std::upper_bound(edge, end, *edge);
        const auto reverses = std::equal_range(csr.col.begin() + csr.row_ptr[*edge],
                                               csr.col.begin() + csr.row_ptr[*edge + 1], static_cast<NodeId>(target));
        if (reverses.second - reverses.first != next - edge) symmetric.store(false, std::memory_order_relaxed);
        lower += next - edge;
        edge = next;
      }
      higher += end - std::upper_bound(begin, end, static_cast<NodeId>(target));
    }
    from_lower.fetch_add(lower, std::memory_order_relaxed);
    from_higher.fetch_add(higher, std::memory_order_relaxed);
  });
  return symmetric.load() && from_lower.load() == from_higher.load();
}

}  // namespace vicinal
