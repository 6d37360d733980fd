// SPDX-License-Identifier: Apache-2.0
// Kept answers: the rows of all nodes for one output of one model on one version of a graph and of a feature set. A
// query of nodes becomes a copy of rows. Whether keeping pays is decided by AnswerKeeper.
//
// Invariant: kept rows have the bits that a run would have, for the numerics revision that is kept with them. Keys are
// values, and no version number is given twice within an incarnation, so kept rows can be dropped late but never serve
// another version.
#ifndef VICINAL_ENGINE_EXECUTE_ANSWER_CACHE_H_
#define VICINAL_ENGINE_EXECUTE_ANSWER_CACHE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/execute/queued_request.h"
#include "engine/memory/memory_budget.h"

namespace vicinal {

// All that the rows of a model's output depend on, but for the numerics revision.
struct AnswerKey {
  std::string incarnation;
  GraphVersion graph;
  ModelVersion model;
  std::string feature_set;
  int64_t feature_set_version = 0;
  std::string output;
  Storage precision = Storage::kFloat32;
  ProductPrecision product_precision = ProductPrecision::kFloat32;

  // Nothing for requests that are always computed: those that bring features or a graph, or force kernels or a
  // receptive field.
  static std::optional<AnswerKey> Of(const QueuedRequest& request);

  friend bool operator==(const AnswerKey&, const AnswerKey&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const AnswerKey& key) {
    return H::combine(std::move(hash), key.incarnation, key.graph, key.model, key.feature_set, key.feature_set_version,
                      key.output, key.precision, key.product_precision);
  }
};

// Immutable but for the tuning revision. Thread-safe.
struct KeptAnswers {
  std::vector<float> values;  // [rows, width], by the client's ids
  int64_t rows = 0;
  int64_t width = 0;
  int64_t numerics_revision = 0;
  // Of the graph's tuning table, when it was last seen that a plan has this numerics revision.
  mutable std::atomic<int64_t> tuning_revision{0};

  int64_t size_bytes() const { return static_cast<int64_t>(values.size() * sizeof(float)); }
  // The rows of `nodes`, in their order. REQUIRES: ids in range.
  std::vector<float> Gather(const NodeSelection& nodes) const;
};
using KeptAnswersHandle = std::shared_ptr<const KeptAnswers>;

// Thread-safe.
class AnswerCache {
 public:
  struct Options {
    int64_t max_bytes = 0;  // of all kept answers; 0: none are kept
    MemoryBudget* budget = nullptr;
    StatsSink* stats = nullptr;
    // True if the versions that a key names serve. Called under the cache's lock: it must not call the cache or reserve
    // memory.
    std::function<bool(const AnswerKey& key)> is_current;
  };
  // The budget and stats must outlive the cache.
  explicit AnswerCache(Options options) : options_(std::move(options)) {}

  // Null when there are none. Makes them the most recently used ones.
  KeptAnswersHandle Find(const AnswerKey& key);
  bool Fits(int64_t bytes) const { return bytes <= options_.max_bytes; }
  // Memory for answers of `bytes`, for Account::kAnswers. Drops the least recently used ones where max_bytes would be
  // exceeded or the
  // budget is full, and evicts nothing else. RESOURCE_EXHAUSTED or FAILED_PRECONDITION: they do not fit.
  StatusOr<Reservation> Reserve(int64_t bytes);
  // Keeps the answers, in place of earlier ones of the same key, unless the versions no longer serve. `memory` comes
  // from Reserve.
  void Insert(const AnswerKey& key, std::shared_ptr<const KeptAnswers> answers, Reservation memory);
  // Drops answers of versions that no longer serve. Call it after each change of what serves.
  void PurgeStale();
  // Drops least recently used answers until `bytes` are freed. Returns the bytes freed.
  int64_t Evict(int64_t bytes);
  // Keys that are kept now and for which `wanted` is true, most recently used first.
  std::vector<AnswerKey> Keys(const std::function<bool(const AnswerKey& key)>& wanted) const;

  int64_t count() const;

 private:
  struct Entry {
    AnswerKey key;
    KeptAnswersHandle answers;  // with the reservation of its bytes
    int64_t bytes = 0;
  };
  using Entries = std::list<Entry>;  // most recently used first

  // Moves the entry to `dropped`, to be freed without the lock.
  void Drop(Entries::iterator entry, Entries* dropped) VICINAL_REQUIRES(mutex_);
  // Drops from the end until `bytes` are freed.
  int64_t DropLeastUsed(int64_t bytes, Entries* dropped) VICINAL_REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  Entries entries_ VICINAL_GUARDED_BY(mutex_);
  std::unordered_map<AnswerKey, Entries::iterator, absl::Hash<AnswerKey>> by_key_ VICINAL_GUARDED_BY(mutex_);
  int64_t held_bytes_ VICINAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_ANSWER_CACHE_H_
