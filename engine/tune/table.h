// SPDX-License-Identifier: Apache-2.0
// The kernel settings of one graph: the measured or forced choice for each kind of work, and how often plans use it.
// Belongs to the prepared graph. Plans read it when they are built; the tuner writes it.
#ifndef VICINAL_ENGINE_TUNE_TABLE_H_
#define VICINAL_ENGINE_TUNE_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/base/edge_program.h"
#include "engine/base/mutex.h"
#include "engine/base/vocabulary.h"

namespace vicinal {

// A kind of work and the adjacency that it is measured on, that of the first plan with this key.
struct TuningWork {
  TuningKey key;
  AdjacencySpec adjacency;
  // Expressions: what `key.program` names; null as long as no plan has asked for it, as with records from a disk.
  std::shared_ptr<const EdgeProgram> program = nullptr;
};

// A record and the work that it is about: what is kept of a table.
struct TuningEntry {
  TuningWork work;
  TuningRecord record;
};

// New records for a table, which are applied together or not at all.
struct TuningChange {
  std::vector<TuningEntry> entries;
  // Measured records: applied only if the key was not forced or reset while it was being measured.
  bool if_running = false;
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
  // Registers the key if it is new, and takes the program of a known one that lacks it. Steps with this key count their
  // runs in the returned object.
  Uses* Note(const TuningWork& work);

  // Changes whenever results of Find may change: plans built with an older revision are out of date.
  int64_t revision() const { return revision_.load(std::memory_order_acquire); }

  // The records of all known keys, in order of registration; or the record of one key.
  std::vector<TuningRecord> Records() const;
  std::optional<TuningRecord> Record(const TuningKey& key) const;
  std::vector<TuningWork> Works() const;

  // The most used key in state kDefault or kSeeded that was never tried, and whose program is known.
  std::optional<TuningWork> MostWanted() const;

  // Sets a known key to kQueued, unless it is being measured. Its choice stays.
  void Queue(const TuningKey& key);
  // Sets a queued key to kRunning. Returns false and changes nothing if it was forced or reset in the meantime.
  bool Begin(const TuningKey& key);
  // Replaces the record of a known key, except its uses. Returns true if new plans get another setting.
  bool Put(TuningRecord record);
  // The record that Reset puts: the registry's default serves, and the key is excluded from background tuning.
  static TuningRecord ResetRecord(const TuningKey& key);
  // Returns true as Put does.
  bool Reset(const TuningKey& key) { return Put(ResetRecord(key)); }
  // Whether Apply would do anything.
  bool Wants(const TuningChange& change) const;
  // Registers the works and puts the records. Returns true if new plans get another setting.
  bool Apply(const TuningChange& change);
  // Ends the measurement of a key without a result: its former choice and state stay, and background tuning does not
  // try it again. No effect if it is no longer kRunning.
  void Abandon(const TuningKey& key, const std::string& note);

  // Whether it stands until something else is decided. Not what could not be measured, and no default that stayed while
  // a kernel was left out: the next start, or load of the graph, tries again.
  static bool IsDecision(const TuningRecord& record);
  // What has been decided (IsDecision), with the state before a measurement that is under way: measured, forced and
  // seeded choices, and resets.
  std::vector<TuningEntry> Decided() const;
  // Choices for keys that this graph has not decided, of state kSeeded: they serve until the key is measured. Not for
  // keys that are known already.
  void Seed(const std::vector<TuningEntry>& seeds);
  // Puts a record of an earlier run. One of state kDefault is a reset if it has no note; with a note, which says why
  // an earlier choice is not used, background tuning may measure the key.
  void Restore(const TuningEntry& entry);

  // Seconds spent on measuring this graph so far.
  double used_seconds() const;

 private:
  struct Entry {
    TuningWork work;
    TuningRecord record;
    TuningState decided = TuningState::kDefault;  // the state that kQueued and kRunning hide
    bool tried = false;
    Uses uses{0};
  };

  Entry* FindEntry(const TuningKey& key) const VICINAL_REQUIRES(mutex_);
  static std::optional<KernelSetting> ChoiceOf(const TuningRecord& record);
  static std::optional<KernelSetting> ServingOf(const TuningRecord& record);
  static TuningRecord Snapshot(const Entry& entry);
  bool Replace(Entry* entry, TuningRecord record) VICINAL_REQUIRES(mutex_);
  Entry* NoteEntry(const TuningWork& work) VICINAL_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_ VICINAL_GUARDED_BY(mutex_);
  std::vector<TuningEntry> seeds_ VICINAL_GUARDED_BY(mutex_);  // of keys that are not noted yet
  double used_seconds_ VICINAL_GUARDED_BY(mutex_) = 0.0;
  std::atomic<int64_t> revision_{0};
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_TABLE_H_
