// SPDX-License-Identifier: Apache-2.0
// The kernel settings of one graph: the measured or forced choice for each kind of work, and how often plans use it.
// Belongs to the prepared graph. Plans read it when they are built; the tuner writes it.
#ifndef VICINAL_ENGINE_TUNE_TABLE_H_
#define VICINAL_ENGINE_TUNE_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/base/mutex.h"
#include "engine/base/vocabulary.h"

namespace vicinal {

// A kind of work and the adjacency that it is measured on, that of the first plan with this key.
struct TuningWork {
  TuningKey key;
  AdjacencySpec adjacency;
};

// Thread-safe.
class TuningTable {
 public:
  // Counts runs of steps with one key. Valid as long as the table.
  using Uses = std::atomic<int64_t>;

  TuningTable() = default;
  TuningTable(const TuningTable&) = delete;
  TuningTable& operator=(const TuningTable&) = delete;

  // The setting of `key` for a plan; nullopt: the registry's default.
  std::optional<KernelSetting> Find(const TuningKey& key) const;
  // Registers the key if it is new. Steps with this key count their runs in the returned object.
  Uses* Note(const TuningWork& work);

  // Changes whenever results of Find may change: plans built with an older revision are out of date.
  int64_t revision() const { return revision_.load(std::memory_order_acquire); }

  // The records of all known keys, in order of registration; or the record of one key.
  std::vector<TuningRecord> Records() const;
  std::optional<TuningRecord> Record(const TuningKey& key) const;
  std::vector<TuningWork> Works() const;

  // The most used key in state kDefault that was never tried.
  std::optional<TuningWork> MostWanted() const;

  // Sets a known key to kQueued, unless it is being measured. Its choice stays.
  void Queue(const TuningKey& key);
  // Sets a queued key to kRunning. Returns false and changes nothing if it was forced or reset in the meantime.
  bool Begin(const TuningKey& key);
  // Replaces the record of a known key, except its uses. Returns true if new plans get another setting.
  bool Put(TuningRecord record);
  // Like Put, but changes nothing if the key was forced or reset while it was being measured (no longer kRunning).
  bool PutIfRunning(TuningRecord record);
  // Returns to the registry's default, and excludes the key from background tuning. Returns true as Put does.
  bool Reset(const TuningKey& key);

  // Seconds spent on measuring this graph so far.
  double used_seconds() const;

 private:
  struct Entry {
    TuningWork work;
    TuningRecord record;
    bool tried = false;
    Uses uses{0};
  };

  Entry* FindEntry(const TuningKey& key) const VICINAL_REQUIRES(mutex_);
  static std::optional<KernelSetting> ChoiceOf(const TuningRecord& record);
  static std::optional<KernelSetting> ServingOf(const TuningRecord& record);
  static TuningRecord Snapshot(const Entry& entry);
  bool Replace(Entry* entry, TuningRecord record) VICINAL_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_ VICINAL_GUARDED_BY(mutex_);
  double used_seconds_ VICINAL_GUARDED_BY(mutex_) = 0.0;
  std::atomic<int64_t> revision_{0};
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_TABLE_H_
