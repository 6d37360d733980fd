// SPDX-License-Identifier: Apache-2.0
// The kernel settings of one graph: what was measured or forced for each kind of work, and how often plans use it. It
// lives with the prepared graph; plans ask it when they are built, the tuner writes it.
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

// A kind of work and the adjacency that it is measured on: that of the first plan which asked.
struct TuningWork {
  TuningKey key;
  AdjacencySpec adjacency;
};

// Thread-safe.
class TuningTable {
 public:
  // Counts runs of steps with one key; lives as long as the table.
  using Uses = std::atomic<int64_t>;

  TuningTable() = default;
  TuningTable(const TuningTable&) = delete;
  TuningTable& operator=(const TuningTable&) = delete;

  // What a plan is to take for `key`; nothing: the registry's default.
  std::optional<KernelSetting> Find(const TuningKey& key) const;
  // Makes the key known, if it is not. Whoever runs such steps adds to what is returned.
  Uses* Note(const TuningWork& work);

  // Changes whenever Find may answer differently than before: what was built with an older revision is out of date.
  int64_t revision() const { return revision_.load(std::memory_order_acquire); }

  // A record of every key that is known, in the order they came to be known; or that of one.
  std::vector<TuningRecord> Records() const;
  std::optional<TuningRecord> Record(const TuningKey& key) const;
  std::vector<TuningWork> Works() const;

  // Of the keys in state kDefault that were never tried, the one used most.
  std::optional<TuningWork> MostWanted() const;

  // A known key waits for its turn to be measured: kQueued, unless it is measured right now. Its choice stays as it is.
  void Queue(const TuningKey& key);
  // Its turn comes: kRunning. False, and nothing changes, where it was forced or reset while it waited.
  bool Begin(const TuningKey& key);
  // Replaces the record of a known key (but its uses). True when plans built from now on take something else.
  bool Put(TuningRecord record);
  // The same, unless the key left the state kRunning meanwhile because it was forced or reset: then nothing changes.
  bool PutIfRunning(TuningRecord record);
  // Back to the registry's default, and not wanted again. True as Put.
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
