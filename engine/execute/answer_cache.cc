// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/answer_cache.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/budget_error.h"
#include "engine/base/error.h"

namespace vicinal {

std::optional<AnswerKey> AnswerKey::Of(const QueuedRequest& request) {
  const ExecutionOptions& options = request.key.options;
  if (request.brings_features || request.key.private_id != 0 || !options.kernels.empty() ||
      options.receptive_field != ReceptiveField::kAuto) {
    return std::nullopt;
  }
  return AnswerKey{std::string(request.incarnation),
                   request.key.graph,
                   request.key.model,
                   request.feature_set,
                   request.feature_set_version,
                   request.edge_feature_set,
                   request.edge_feature_set_version,
                   options.output,
                   options.precision,
                   options.product_precision};
}

std::vector<float> KeptAnswers::Gather(const NodeSelection& nodes) const {
  if (nodes.all) return values;
  std::vector<float> gathered;
  gathered.reserve(nodes.ids.size() * static_cast<size_t>(width));
  for (const int64_t id : nodes.ids) {
    const float* const row = values.data() + id * width;
    gathered.insert(gathered.end(), row, row + width);
  }
  return gathered;
}

KeptAnswersHandle AnswerCache::Find(const AnswerKey& key) {
  Entries dropped;
  MutexLock lock(&mutex_);
  auto found = by_key_.find(key);
  if (found == by_key_.end() && !ahead_.empty()) {
    KeepPublished(&dropped);
    found = by_key_.find(key);
  }
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->answers;
}

int64_t AnswerCache::DroppableBytes(const std::vector<AnswerKey>& spared) const {
  if (spared.empty()) return held_bytes_;
  int64_t bytes = 0;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (std::find(spared.begin(), spared.end(), entry->key) != spared.end()) break;
    bytes += entry->bytes;
  }
  return bytes;
}

int64_t AnswerCache::Room() const {
  const MemoryUse use = options_.budget->Snapshot();
  return use.budget > 0 ? use.budget - use.total() + use.answers : std::numeric_limits<int64_t>::max();
}

Status AnswerCache::CheckRoom(int64_t bytes) const {
  const int64_t room = Room();
  if (bytes <= room) return OkStatus();
  return ResourceExhausted("BUDGET_FULL",
                           absl::StrCat("the kept answers need ", SizeText(bytes), ", but there is room for ",
                                        SizeText(room), "; raise --memory_budget_bytes"),
                           std::chrono::seconds(1));
}

StatusOr<Reservation> AnswerCache::Reserve(int64_t bytes, const std::vector<AnswerKey>& spared) {
  Entries dropped;
  {
    MutexLock lock(&mutex_);
    const int64_t excess = held_bytes_ + bytes - options_.max_bytes;
    if (!spared.empty() && excess > DroppableBytes(spared)) {
      return ResourceExhausted("ANSWERS_FULL",
                               absl::StrCat("kept answers may take ", options_.max_bytes, " bytes, and ", bytes,
                                            " more do not fit beside those in use; raise --max_answer_bytes"),
                               std::chrono::seconds(1));
    }
    if (Fits(bytes)) DropLeastUsed(excess, &dropped);
  }
  dropped.clear();
  const auto reserve = [&] {
    return options_.budget->Reserve(Account::kAnswers, bytes, "the kept answers", {.evict = false});
  };
  StatusOr<Reservation> memory = reserve();
  if (memory.ok()) return memory;
  {
    MutexLock lock(&mutex_);
    if (DroppableBytes(spared) < bytes) return memory;
    DropLeastUsed(bytes, &dropped);
  }
  dropped.clear();
  return reserve();
}

void AnswerCache::Keep(Entries* entry, Entries* dropped) {
  const AnswerKey& key = entry->front().key;
  if (const auto found = by_key_.find(key); found != by_key_.end()) Drop(found->second, dropped);
  by_key_.emplace(key, entry->begin());
  entries_.splice(entries_.begin(), *entry);
}

void AnswerCache::Insert(const AnswerKey& key, std::shared_ptr<const KeptAnswers> answers, Reservation memory) {
  Entries dropped;
  Entries added;
  const int64_t bytes = answers->size_bytes();
  added.push_back({key, WithReservation(std::move(answers), std::move(memory)), bytes});
  MutexLock lock(&mutex_);
  if (!Fits(bytes) || !options_.is_current(key)) return;
  if (const auto found = by_key_.find(key); found != by_key_.end()) Drop(found->second, &dropped);
  DropLeastUsed(held_bytes_ + bytes - options_.max_bytes, &dropped);
  Keep(&added, &dropped);
  held_bytes_ += bytes;
}

void AnswerCache::InsertAhead(AnswerKey names, AnswerVersions versions, std::shared_ptr<const KeptAnswers> answers,
                              Reservation memory) {
  std::list<Ahead> added(1);
  const int64_t bytes = answers->size_bytes();
  added.front().versions = std::move(versions);
  added.front().entry.push_back({std::move(names), WithReservation(std::move(answers), std::move(memory)), bytes});
  MutexLock lock(&mutex_);
  ahead_.splice(ahead_.begin(), added);
  held_bytes_ += bytes;
}

void AnswerCache::KeepPublished(Entries* dropped) {
  for (auto ahead = ahead_.begin(); ahead != ahead_.end();) {
    const auto next = std::next(ahead);
    Entry& entry = ahead->entry.front();
    if (std::optional<AnswerKey> key = options_.key_once_serving(entry.key, ahead->versions)) {
      entry.key = *std::move(key);
      Keep(&ahead->entry, dropped);
      ahead_.erase(ahead);
    }
    ahead = next;
  }
}

void AnswerCache::Drop(Entries::iterator entry, Entries* dropped) {
  by_key_.erase(entry->key);
  held_bytes_ -= entry->bytes;
  dropped->splice(dropped->begin(), entries_, entry);
}

void AnswerCache::DropAhead(std::list<Ahead>::iterator ahead, Entries* dropped) {
  held_bytes_ -= ahead->entry.front().bytes;
  dropped->splice(dropped->begin(), ahead->entry);
  ahead_.erase(ahead);
}

int64_t AnswerCache::DropLeastUsed(int64_t bytes, Entries* dropped) {
  const int64_t before = held_bytes_;
  while (before - held_bytes_ < bytes && held_bytes_ > 0) {
    if (!entries_.empty()) {
      Drop(std::prev(entries_.end()), dropped);
    } else {
      DropAhead(std::prev(ahead_.end()), dropped);
    }
    options_.stats->AnswersEvicted();
  }
  return before - held_bytes_;
}

void AnswerCache::PurgeStale() {
  Entries dropped;
  MutexLock lock(&mutex_);
  KeepPublished(&dropped);
  for (auto ahead = ahead_.begin(); ahead != ahead_.end();) {
    const auto next = std::next(ahead);
    if (ahead->versions.expired()) DropAhead(ahead, &dropped);
    ahead = next;
  }
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (!options_.is_current(entry->key)) Drop(entry, &dropped);
    entry = next;
  }
}

int64_t AnswerCache::Evict(int64_t bytes) {
  Entries dropped;
  MutexLock lock(&mutex_);
  return DropLeastUsed(bytes, &dropped);
}

std::vector<AnswerUse> AnswerCache::InUse(MonotonicTime since) const {
  std::vector<AnswerUse> uses;
  MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    const MonotonicTime last_hit = entry.answers->last_hit.load(std::memory_order_relaxed);
    if (last_hit >= since && options_.is_current(entry.key)) uses.push_back({entry.key, last_hit});
  }
  return uses;
}

int64_t AnswerCache::count() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace vicinal
