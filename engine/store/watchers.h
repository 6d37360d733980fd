// SPDX-License-Identifier: Apache-2.0
// Callbacks for changes of a name. They run without a lock of the store, one at a time per watcher; changes during a
// call cause one more call after it.
#ifndef VICINAL_ENGINE_STORE_WATCHERS_H_
#define VICINAL_ENGINE_STORE_WATCHERS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/subscription.h"
#include "engine/base/mutex.h"

namespace vicinal::internal {

// One subscriber. Thread-safe.
class Watcher {
 public:
  explicit Watcher(std::function<void()> callback) : callback_(std::move(callback)) {}

  // Runs the callback, on this thread or on the one that is running it now.
  void Fire();
  // Waits for a running callback and prevents further ones. Must not be called from the callback.
  void Stop();

 private:
  // Whether another call is due; false ends the loop.
  bool BeginCall();

  const std::function<void()> callback_;
  Mutex mutex_;
  CondVar idle_;
  bool running_ VICINAL_GUARDED_BY(mutex_) = false;
  bool due_ VICINAL_GUARDED_BY(mutex_) = false;
  bool stopped_ VICINAL_GUARDED_BY(mutex_) = false;
};

// Watchers by name. Thread-safe.
class Watchers {
 public:
  std::shared_ptr<Watcher> Add(const std::string& name, std::function<void()> callback);
  // Removes `watcher` and stops it.
  void Remove(const std::string& name, const std::shared_ptr<Watcher>& watcher);
  // Fires the watchers of `name`. Call without locks held.
  void Notify(const std::string& name);

 private:
  Mutex mutex_;
  std::map<std::string, std::vector<std::shared_ptr<Watcher>>> by_name_ VICINAL_GUARDED_BY(mutex_);
};

// Adds a watcher of `name`, which the subscription removes. It keeps `watchers` alive, so that it may outlive the
// store.
std::unique_ptr<Subscription> Watch(std::shared_ptr<Watchers> watchers, std::string name,
                                    std::function<void()> callback);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_STORE_WATCHERS_H_
