// SPDX-License-Identifier: Apache-2.0
// Kept answers: the rows of all nodes for one output of one model on one version of a graph and of its feature sets. A
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
#include "engine/base/clock.h"
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
  std::string edge_feature_set;  // empty: the graph's own features of edges, or none are read
  int64_t edge_feature_set_version = 0;
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
                      key.edge_feature_set, key.edge_feature_set_version, key.output, key.precision,
                      key.product_precision);
  }
};

// When answers of the key, or those that they replaced, were last asked for.
struct AnswerUse {
  AnswerKey key;
  MonotonicTime last_hit{};
};

// Immutable but for the tuning revision and the time. Thread-safe.
struct KeptAnswers {
  std::vector<float> values;  // [rows, width], by the client's ids
  int64_t rows = 0;
  int64_t width = 0;
  int64_t numerics_revision = 0;
  // Of the graph's tuning table, when it was last seen that a plan has this numerics revision.
  mutable std::atomic<int64_t> tuning_revision{0};
  // When a request was last answered from them, or from those that they replaced; the smallest time: none ever was.
  mutable std::atomic<MonotonicTime> last_hit{MonotonicTime::min()};

  int64_t size_bytes() const { return static_cast<int64_t>(values.size() * sizeof(float)); }
  // The rows of `nodes`, in their order. REQUIRES: ids in range.
  std::vector<float> Gather(const NodeSelection& nodes) const;
};
using KeptAnswersHandle = std::shared_ptr<const KeptAnswers>;

// What answers were computed from before all of it was published: it has no version numbers yet.
struct AnswerVersions {
  std::weak_ptr<const PreparedGraph> graph;
  std::weak_ptr<const FeatureMatrix> features;
  std::weak_ptr<const Model> model;
  std::optional<std::weak_ptr<const EdgeMatrix>> edges = std::nullopt;  // nullopt: no set was read

  bool expired() const {
    return graph.expired() || features.expired() || model.expired() || (edges && edges->expired());
  }
};

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
    // `names`, with the numbers of the versions that serve; nullopt unless these are exactly `versions`. Called as
    // is_current is.
    std::function<std::optional<AnswerKey>(const AnswerKey& names, const AnswerVersions& versions)> key_once_serving;
  };
  // The budget and stats must outlive the cache.
  explicit AnswerCache(Options options) : options_(std::move(options)) {}

  // Null when there are none. Makes them the most recently used ones.
  KeptAnswersHandle Find(const AnswerKey& key);
  bool Fits(int64_t bytes) const { return bytes <= options_.max_bytes; }
  // Bytes of the budget that answers could take now, in place of all that are kept.
  int64_t Room() const;
  // RESOURCE_EXHAUSTED (BUDGET_FULL): answers of `bytes` have no room. Drops nothing.
  Status CheckRoom(int64_t bytes) const;
  // Memory for answers of `bytes`, for Account::kAnswers. Drops the least recently used ones where max_bytes would be
  // exceeded or the budget is full, and evicts nothing else; where some are `spared`, neither these nor what was used
  // more recently. RESOURCE_EXHAUSTED or FAILED_PRECONDITION: they do not fit.
  StatusOr<Reservation> Reserve(int64_t bytes, const std::vector<AnswerKey>& spared = {});
  // Keeps the answers, in place of earlier ones of the same key, unless the versions no longer serve. `memory` comes
  // from Reserve.
  void Insert(const AnswerKey& key, std::shared_ptr<const KeptAnswers> answers, Reservation memory);
  // Keeps answers of versions of which one is not published yet; `names` has no version numbers. They count as kept
  // from the moment on at which all of `versions` serve, and go once one of these is gone.
  void InsertAhead(AnswerKey names, AnswerVersions versions, std::shared_ptr<const KeptAnswers> answers,
                   Reservation memory);
  // Drops answers of versions that no longer serve. Call it after each change of what serves, and after a publication
  // that failed.
  void PurgeStale();
  // Drops least recently used answers until `bytes` are freed. Returns the bytes freed.
  int64_t Evict(int64_t bytes);
  // Answers that serve and were hit at `since` or later, most recently used first.
  std::vector<AnswerUse> InUse(MonotonicTime since) const;

  int64_t count() const;

 private:
  struct Entry {
    AnswerKey key;
    KeptAnswersHandle answers;  // with the reservation of its bytes
    int64_t bytes = 0;
  };
  using Entries = std::list<Entry>;  // most recently used first
  struct Ahead {
    Entries entry;  // one
    AnswerVersions versions;
  };

  // Moves the entry to `dropped`, to be freed without the lock.
  void Drop(Entries::iterator entry, Entries* dropped) VICINAL_REQUIRES(mutex_);
  void DropAhead(std::list<Ahead>::iterator ahead, Entries* dropped) VICINAL_REQUIRES(mutex_);
  // Drops from the end until `bytes` are freed, and then what was made ahead.
  int64_t DropLeastUsed(int64_t bytes, Entries* dropped) VICINAL_REQUIRES(mutex_);
  // What Reserve may drop.
  int64_t DroppableBytes(const std::vector<AnswerKey>& spared) const VICINAL_REQUIRES(mutex_);
  // Puts the entry in front, in place of one of the same key.
  void Keep(Entries* entry, Entries* dropped) VICINAL_REQUIRES(mutex_);
  // Keeps what was made ahead and now serves.
  void KeepPublished(Entries* dropped) VICINAL_REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  Entries entries_ VICINAL_GUARDED_BY(mutex_);
  std::unordered_map<AnswerKey, Entries::iterator, absl::Hash<AnswerKey>> by_key_ VICINAL_GUARDED_BY(mutex_);
  std::list<Ahead> ahead_ VICINAL_GUARDED_BY(mutex_);
  int64_t held_bytes_ VICINAL_GUARDED_BY(mutex_) = 0;  // of both
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_ANSWER_CACHE_H_
