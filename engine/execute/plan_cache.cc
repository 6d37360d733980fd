// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vicinal {

PlanKey PlanKey::Of(const PlanRequest& request) {
  const FeatureShape& features = request.features;
  return {request.graph.get(), request.model.get(),   features.sparse,         features.crowded,
          features.cols,       request.edge_set_cols, request.output,          request.forced,
          request.precision,   request.products,      request.tuning_revision, request.quarantine_revision};
}

size_t PlanKeyHash::operator()(const PlanKey& key) const {
  size_t hash = std::hash<const void*>()(key.graph);
  const auto mix = [&hash](size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL + (hash >> 29); };
  mix(std::hash<const void*>()(key.model));
  mix(static_cast<size_t>(key.output) * 4 + (key.crowded ? 2 : 0) + (key.sparse ? 1 : 0));
  mix(static_cast<size_t>(key.precision) * 4 + static_cast<size_t>(key.products));
  mix(static_cast<size_t>(key.edge_set_cols));
  mix(static_cast<size_t>(key.tuning_revision));
  mix(static_cast<size_t>(key.quarantine_revision));
  for (const auto& [operation, kernel] : key.forced)
    mix(std::hash<std::string>()(operation)), mix(std::hash<std::string>()(kernel));
  return hash;
}

std::shared_ptr<Plan> PlanCache::Use(Entries::iterator entry, bool* first_use) {
  const bool unused = std::exchange(entry->unused, false);
  if (first_use != nullptr) *first_use = unused;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->plan;
}

std::shared_ptr<Plan> PlanCache::Find(const PlanKey& key, bool* first_use) {
  MutexLock lock(&mutex_);
  const auto found = by_key_.find(key);
  return found != by_key_.end() ? Use(found->second, first_use) : nullptr;
}

std::shared_ptr<Plan> PlanCache::Peek(const PlanKey& key) const {
  MutexLock lock(&mutex_);
  const auto found = by_key_.find(key);
  return found != by_key_.end() ? found->second->plan : nullptr;
}

std::shared_ptr<Plan> PlanCache::FindOrEarlier(const PlanKey& key, bool* first_use) {
  MutexLock lock(&mutex_);
  const auto found = by_key_.find(key);
  const auto entry = found != by_key_.end() ? found->second : FindEarlier(key);
  return entry != entries_.end() ? Use(entry, first_use) : nullptr;
}

PlanCache::Entries::iterator PlanCache::FindEarlier(const PlanKey& key) {
  return std::find_if(entries_.begin(), entries_.end(), [&key](const Entry& entry) {
    PlanKey other = entry.key;
    other.tuning_revision = key.tuning_revision;
    return other == key;
  });
}

bool PlanCache::Serves(const Entry& entry) const {
  return is_current_(*entry.built.request.graph, entry.built.model_name, *entry.built.request.model);
}

bool PlanCache::IsOutdated(const Entry& entry) {
  return entry.key.tuning_revision != entry.built.request.graph->tuning().revision();
}

std::shared_ptr<Plan> PlanCache::Insert(const PlanRequest& request, const std::string& model_name,
                                        std::shared_ptr<Plan> plan) {
  return Keep(request, model_name, std::move(plan), /*ahead=*/false);
}

void PlanCache::InsertAhead(const PlanRequest& request, const std::string& model_name, std::shared_ptr<Plan> plan) {
  Keep(request, model_name, std::move(plan), /*ahead=*/true);
}

std::shared_ptr<Plan> PlanCache::Keep(const PlanRequest& request, const std::string& model_name,
                                      std::shared_ptr<Plan> plan, bool ahead) {
  Entries dropped;
  Retirees taken;
  Entry entry = {PlanKey::Of(request), {request, model_name}, plan, ahead};
  MutexLock lock(&mutex_);
  const auto found = by_key_.find(entry.key);
  if (found != by_key_.end()) return found->second->plan;
  if (max_plans_ <= 0 || IsOutdated(entry) || (!ahead && !Serves(entry))) return plan;
  if (const auto earlier = FindEarlier(entry.key); earlier != entries_.end()) {
    plan->ContinueCounts(earlier->plan->Steps());
    entry.unused = ahead && earlier->unused;
    Drop(earlier, &dropped);
  } else if (const auto before = FindRetired(entry.key); before != retired_.end()) {
    plan->ContinueCounts(before->steps);
    taken.splice(taken.begin(), retired_, before);
  }
  // What nobody has used yet takes the place of its like only.
  if (ahead && static_cast<int64_t>(entries_.size()) >= max_plans_) {
    const auto unused = std::find_if(entries_.rbegin(), entries_.rend(), [](const Entry& kept) { return kept.unused; });
    if (unused == entries_.rend()) return plan;
    Drop(std::prev(unused.base()), &dropped);
  }
  while (static_cast<int64_t>(entries_.size()) >= max_plans_) Drop(std::prev(entries_.end()), &dropped);
  entries_.push_front(std::move(entry));
  by_key_.emplace(entries_.front().key, entries_.begin());
  return plan;
}

std::vector<PlanCache::Built> PlanCache::InUse() const {
  std::vector<Built> built;
  MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    if (!entry.unused && Serves(entry)) built.push_back(entry.built);
  }
  return built;
}

std::vector<PlanCache::Built> PlanCache::Outdated() const {
  std::vector<Built> built;
  MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    if (IsOutdated(entry)) built.push_back(entry.built);
  }
  return built;
}

void PlanCache::Drop(Entries::iterator entry, Entries* dropped) {
  by_key_.erase(entry->key);
  dropped->splice(dropped->begin(), entries_, entry);
}

PlanCache::Retirees::iterator PlanCache::FindRetired(PlanKey key) {
  key.tuning_revision = key.quarantine_revision = 0;
  return std::find_if(retired_.begin(), retired_.end(), [&key](const Retired& retired) { return retired.key == key; });
}

void PlanCache::Retire(const Entry& entry, Retirees* dropped) {
  const auto earlier = FindRetired(entry.key);
  if (earlier != retired_.end()) dropped->splice(dropped->begin(), retired_, earlier);
  const PlanRequest& request = entry.built.request;
  retired_.push_front({entry.key, request.graph, request.model, entry.built.model_name, entry.plan->Steps()});
  retired_.front().key.tuning_revision = retired_.front().key.quarantine_revision = 0;
  if (static_cast<int64_t>(retired_.size()) > max_plans_) {
    dropped->splice(dropped->begin(), retired_, std::prev(retired_.end()));
  }
}

void PlanCache::PurgeStale() {
  Entries dropped;
  Retirees forgotten;
  MutexLock lock(&mutex_);
  for (auto retired = retired_.begin(); retired != retired_.end();) {
    const auto next = std::next(retired);
    if (!is_current_(*retired->graph, retired->model_name, *retired->model)) {
      forgotten.splice(forgotten.begin(), retired_, retired);
    }
    retired = next;
  }
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (!Serves(*entry)) Drop(entry, &dropped);
    entry = next;
  }
}

void PlanCache::PurgeOutdated() {
  Entries dropped;
  Retirees forgotten;
  MutexLock lock(&mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (IsOutdated(*entry)) {
      if (Serves(*entry)) Retire(*entry, &forgotten);
      Drop(entry, &dropped);
    }
    entry = next;
  }
}

void PlanCache::Drop(const Plan& plan) {
  Entries dropped;
  Retirees forgotten;
  MutexLock lock(&mutex_);
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&plan](const Entry& kept) { return kept.plan.get() == &plan; });
  if (entry == entries_.end()) return;
  Retire(*entry, &forgotten);
  Drop(entry, &dropped);
}

void PlanCache::Release(const std::string& graph, int64_t version) {
  Entries dropped;
  Retirees forgotten;
  const auto is_of = [&](const PreparedGraph& of) { return of.parts().version == version && of.parts().name == graph; };
  MutexLock lock(&mutex_);
  for (auto retired = retired_.begin(); retired != retired_.end();) {
    const auto next = std::next(retired);
    if (is_of(*retired->graph)) forgotten.splice(forgotten.begin(), retired_, retired);
    retired = next;
  }
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (is_of(*entry->built.request.graph)) Drop(entry, &dropped);
    entry = next;
  }
}

int64_t PlanCache::Evict(int64_t bytes) {
  Entries dropped;
  int64_t dropped_bytes = 0;
  MutexLock lock(&mutex_);
  for (auto next = entries_.end(); dropped_bytes < bytes && next != entries_.begin();) {
    const auto entry = std::prev(next);
    if (entry->plan.use_count() > 1) {
      next = entry;
      continue;
    }
    dropped_bytes += entry->plan->size_bytes();
    Drop(entry, &dropped);
  }
  return dropped_bytes;
}

int64_t PlanCache::count() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace vicinal
