// SPDX-License-Identifier: Apache-2.0
#include "server/health_states.h"

#include <utility>

namespace vicinal::server {

HealthStates::HealthStates(const std::vector<std::string>& services) : names_(services.begin(), services.end()) {
  names_.insert({"", "readiness"});
}

void HealthStates::SetReady(bool ready) {
  // One change is told before the next one is made.
  MutexLock watchers_lock(&watchers_mutex_);
  {
    MutexLock lock(&mutex_);
    if (std::exchange(ready_, ready) == ready) return;
  }
  for (const auto& [id, on_change] : watchers_) on_change();
}

std::optional<bool> HealthStates::Serves(const std::string& name) const {
  if (name == "liveness") return true;
  if (!names_.contains(name)) return std::nullopt;
  MutexLock lock(&mutex_);
  return ready_;
}

int64_t HealthStates::Watch(std::function<void()> on_change) {
  MutexLock lock(&watchers_mutex_);
  watchers_[next_] = std::move(on_change);
  return next_++;
}

void HealthStates::Forget(int64_t id) {
  MutexLock lock(&watchers_mutex_);
  watchers_.erase(id);
}

}  // namespace vicinal::server
