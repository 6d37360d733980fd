// SPDX-License-Identifier: Apache-2.0
// A watcher is a small state machine: idle, running, running with one more call due. The thread that finds it idle runs
// the callback; other threads only mark a call as due. Invariant: at most one thread is inside the callback, and none
// once stopped.
#include "engine/store/watchers.h"

#include <algorithm>
#include <utility>

namespace vicinal::internal {

void Watcher::Fire() {
  {
    MutexLock lock(&mutex_);
    due_ = true;
    if (running_) return;
    running_ = true;
  }
  while (BeginCall()) callback_();
}

bool Watcher::BeginCall() {
  MutexLock lock(&mutex_);
  if (due_ && !stopped_) {
    due_ = false;
    return true;
  }
  running_ = false;
  idle_.NotifyAll();
  return false;
}

void Watcher::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  while (running_) idle_.Wait(&mutex_);
}

std::shared_ptr<Watcher> Watchers::Add(const std::string& name, std::function<void()> callback) {
  auto watcher = std::make_shared<Watcher>(std::move(callback));
  MutexLock lock(&mutex_);
  by_name_[name].push_back(watcher);
  return watcher;
}

void Watchers::Remove(const std::string& name, const std::shared_ptr<Watcher>& watcher) {
  {
    MutexLock lock(&mutex_);
    const auto found = by_name_.find(name);
    if (found != by_name_.end()) {
      std::erase(found->second, watcher);
      if (found->second.empty()) by_name_.erase(found);
    }
  }
  watcher->Stop();
}

void Watchers::Notify(const std::string& name) {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    MutexLock lock(&mutex_);
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return;
    watchers = found->second;
  }
  for (const auto& watcher : watchers) watcher->Fire();
}

std::unique_ptr<Subscription> Watch(std::shared_ptr<Watchers> watchers, std::string name,
                                    std::function<void()> callback) {
  class WatchSubscription final : public Subscription {
   public:
    WatchSubscription(std::shared_ptr<Watchers> watchers, std::string name, std::function<void()> callback)
        : watchers_(std::move(watchers)),
          name_(std::move(name)),
          watcher_(watchers_->Add(name_, std::move(callback))) {}
    ~WatchSubscription() override { watchers_->Remove(name_, watcher_); }

   private:
    const std::shared_ptr<Watchers> watchers_;
    const std::string name_;
    const std::shared_ptr<Watcher> watcher_;
  };
  return std::make_unique<WatchSubscription>(std::move(watchers), std::move(name), std::move(callback));
}

}  // namespace vicinal::internal
