// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/answer_cache.h"

#include <algorithm>
#include <iterator>

namespace vicinal {

std::optional<AnswerKey> AnswerKey::Of(const QueuedRequest& request) {
  const ExecutionOptions& options = request.key.options;
  if (request.brings_features || request.key.private_id != 0 || !options.kernels.empty() ||
      options.receptive_field != ReceptiveField::kAuto) {
    return std::nullopt;
  }
  return AnswerKey{std::string(request.incarnation), request.key.graph, request.key.model, request.feature_set,
                   request.feature_set_version,      options.output,    options.precision, options.product_precision};
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
  MutexLock lock(&mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->answers;
}

StatusOr<Reservation> AnswerCache::Reserve(int64_t bytes) {
  Entries dropped;
  {
    MutexLock lock(&mutex_);
    const int64_t excess = held_bytes_ + bytes - options_.max_bytes;
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
    if (held_bytes_ < bytes) return memory;
    DropLeastUsed(bytes, &dropped);
  }
  dropped.clear();
  return reserve();
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
  entries_.splice(entries_.begin(), added);
  by_key_.emplace(key, entries_.begin());
  held_bytes_ += bytes;
}

void AnswerCache::Drop(Entries::iterator entry, Entries* dropped) {
  by_key_.erase(entry->key);
  held_bytes_ -= entry->bytes;
  dropped->splice(dropped->begin(), entries_, entry);
}

int64_t AnswerCache::DropLeastUsed(int64_t bytes, Entries* dropped) {
  int64_t freed = 0;
  while (freed < bytes && !entries_.empty()) {
    freed += entries_.back().bytes;
    Drop(std::prev(entries_.end()), dropped);
    options_.stats->AnswersEvicted();
  }
  return freed;
}

void AnswerCache::PurgeStale() {
  Entries dropped;
  MutexLock lock(&mutex_);
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

std::vector<AnswerKey> AnswerCache::Keys(const std::function<bool(const AnswerKey& key)>& wanted) const {
  std::vector<AnswerKey> keys;
  MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    if (wanted(entry.key)) keys.push_back(entry.key);
  }
  return keys;
}

int64_t AnswerCache::count() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace vicinal
