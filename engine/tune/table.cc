// SPDX-License-Identifier: Apache-2.0
// A list with linear search: a graph has about a dozen keys, and only plan building and the tuner search it.
#include "engine/tune/table.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/tune/program_work.h"

namespace vicinal {

TuningTable::Entry* TuningTable::FindEntry(const TuningKey& key) const {
  for (const auto& entry : entries_)
    if (entry->work.key == key) return entry.get();
  return nullptr;
}

std::optional<KernelSetting> TuningTable::ChoiceOf(const TuningRecord& record) {
  const TuningCandidate* choice = record.choice();
  return choice != nullptr ? std::optional<KernelSetting>(choice->setting) : std::nullopt;
}

TuningRecord TuningTable::Snapshot(const Entry& entry) {
  TuningRecord record = entry.record;
  record.uses = entry.uses.load(std::memory_order_relaxed);
  return record;
}

std::optional<KernelSetting> TuningTable::Find(const TuningKey& key) const {
  MutexLock lock(&mutex_);
  if (const Entry* entry = FindEntry(key)) return ChoiceOf(entry->record);
  for (const TuningEntry& seed : seeds_)
    if (seed.work.key == key) return ChoiceOf(seed.record);
  return std::nullopt;
}

TuningTable::Entry* TuningTable::NoteEntry(const TuningWork& work) {
  if (Entry* entry = FindEntry(work.key)) {
    if (entry->work.program == nullptr) entry->work.program = work.program;
    return entry;
  }
  auto entry = std::make_unique<Entry>();
  entry->work = work;
  entry->record.key = work.key;
  const auto seed =
      std::find_if(seeds_.begin(), seeds_.end(), [&](const TuningEntry& other) { return other.work.key == work.key; });
  if (seed != seeds_.end()) {
    entry->record = std::move(seed->record);
    entry->decided = TuningState::kSeeded;
    seeds_.erase(seed);
  }
  entries_.push_back(std::move(entry));
  return entries_.back().get();
}

TuningTable::Uses* TuningTable::Note(const TuningWork& work) {
  MutexLock lock(&mutex_);
  return &NoteEntry(work)->uses;
}

std::vector<TuningRecord> TuningTable::Records() const {
  MutexLock lock(&mutex_);
  std::vector<TuningRecord> records;
  for (const auto& entry : entries_) records.push_back(Snapshot(*entry));
  return records;
}

std::optional<TuningRecord> TuningTable::Record(const TuningKey& key) const {
  MutexLock lock(&mutex_);
  const Entry* entry = FindEntry(key);
  return entry != nullptr ? std::optional<TuningRecord>(Snapshot(*entry)) : std::nullopt;
}

std::vector<TuningWork> TuningTable::Works() const {
  MutexLock lock(&mutex_);
  std::vector<TuningWork> works;
  for (const auto& entry : entries_) works.push_back(entry->work);
  return works;
}

std::optional<TuningWork> TuningTable::MostWanted() const {
  MutexLock lock(&mutex_);
  const Entry* best = nullptr;
  for (const auto& entry : entries_) {
    const TuningState state = entry->record.state;
    if (entry->tried || (state != TuningState::kDefault && state != TuningState::kSeeded)) continue;
    if (IsExpression(entry->work.key) && entry->work.program == nullptr) continue;
    if (best == nullptr || entry->uses.load() > best->uses.load()) best = entry.get();
  }
  return best != nullptr ? std::optional<TuningWork>(best->work) : std::nullopt;
}

void TuningTable::Queue(const TuningKey& key) {
  MutexLock lock(&mutex_);
  Entry* entry = FindEntry(key);
  VICINAL_CHECK(entry != nullptr);
  // The result of a measurement is written only if the key is still kRunning.
  if (entry->record.state != TuningState::kRunning) entry->record.state = TuningState::kQueued;
}

bool TuningTable::Begin(const TuningKey& key) {
  MutexLock lock(&mutex_);
  Entry* entry = FindEntry(key);
  VICINAL_CHECK(entry != nullptr);
  const TuningState state = entry->record.state;
  const bool reset = state == TuningState::kDefault && entry->tried;
  if (state == TuningState::kForced || reset) return false;
  entry->record.state = TuningState::kRunning;
  return true;
}

// The setting for new plans: the choice, unless it is the default, with which untuned plans are built, too.
std::optional<KernelSetting> TuningTable::ServingOf(const TuningRecord& record) {
  const bool may_be_first = record.state == TuningState::kForced || record.state == TuningState::kSeeded;
  const bool is_default = !may_be_first && record.chosen == 0;
  return is_default ? std::nullopt : ChoiceOf(record);
}

bool TuningTable::Replace(Entry* entry, TuningRecord record) {
  const std::optional<KernelSetting> before = ServingOf(entry->record);
  used_seconds_ += record.used_seconds;
  entry->record = std::move(record);
  entry->decided = entry->record.state;
  entry->tried = true;
  const bool changed = ServingOf(entry->record) != before;
  if (changed) revision_.fetch_add(1, std::memory_order_release);
  return changed;
}

bool TuningTable::Put(TuningRecord record) {
  MutexLock lock(&mutex_);
  Entry* entry = FindEntry(record.key);
  VICINAL_CHECK(entry != nullptr);
  return Replace(entry, std::move(record));
}

TuningRecord TuningTable::ResetRecord(const TuningKey& key) {
  TuningRecord record;
  record.key = key;
  return record;
}

bool TuningTable::Wants(const TuningChange& change) const {
  if (!change.if_running) return true;
  MutexLock lock(&mutex_);
  for (const TuningEntry& entry : change.entries) {
    const Entry* const known = FindEntry(entry.work.key);
    if (known == nullptr || known->record.state != TuningState::kRunning) return false;
  }
  return true;
}

bool TuningTable::Apply(const TuningChange& change) {
  if (!Wants(change)) return false;
  MutexLock lock(&mutex_);
  bool changed = false;
  for (const TuningEntry& entry : change.entries) {
    Entry* const known = NoteEntry(entry.work);
    if (change.if_running && known->record.state != TuningState::kRunning) continue;
    changed = Replace(known, entry.record) || changed;
  }
  return changed;
}

void TuningTable::Abandon(const TuningKey& key, const std::string& note) {
  MutexLock lock(&mutex_);
  Entry* const entry = FindEntry(key);
  VICINAL_CHECK(entry != nullptr);
  if (entry->record.state != TuningState::kRunning) return;
  if (!entry->tried && entry->decided != TuningState::kSeeded) entry->decided = TuningState::kFailed;
  entry->record.state = entry->decided;
  entry->record.note = note;
  entry->tried = true;
}

bool TuningTable::IsDecision(const TuningRecord& record) {
  if (record.state == TuningState::kFailed) return false;
  return !record.incomplete || ServingOf(record).has_value();
}

std::vector<TuningEntry> TuningTable::Decided() const {
  MutexLock lock(&mutex_);
  std::vector<TuningEntry> decided;
  for (const auto& entry : entries_) {
    const bool is_decided = entry->tried || entry->decided == TuningState::kSeeded;
    if (!is_decided) continue;
    TuningRecord record = Snapshot(*entry);
    record.state = entry->decided;
    if (IsDecision(record)) decided.push_back({entry->work, std::move(record)});
  }
  decided.insert(decided.end(), seeds_.begin(), seeds_.end());
  return decided;
}

void TuningTable::Seed(const std::vector<TuningEntry>& seeds) {
  MutexLock lock(&mutex_);
  for (const TuningEntry& seed : seeds) {
    if (FindEntry(seed.work.key) == nullptr) seeds_.push_back(seed);
  }
  revision_.fetch_add(1, std::memory_order_release);
}

void TuningTable::Restore(const TuningEntry& entry) {
  if (entry.record.state == TuningState::kSeeded) return Seed({entry});
  MutexLock lock(&mutex_);
  Entry* const known = NoteEntry(entry.work);
  Replace(known, entry.record);
  known->tried = entry.record.state != TuningState::kDefault || entry.record.note.empty();
}

double TuningTable::used_seconds() const {
  MutexLock lock(&mutex_);
  return used_seconds_;
}

}  // namespace vicinal
