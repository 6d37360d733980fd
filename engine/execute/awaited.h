// SPDX-License-Identifier: Apache-2.0
// A value that another thread brings: how to wait for the callback of work given to an executor.
#ifndef VICINAL_ENGINE_EXECUTE_AWAITED_H_
#define VICINAL_ENGINE_EXECUTE_AWAITED_H_

#include <optional>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/mutex.h"

namespace vicinal {

// One thread calls Set once, another calls Take once. May live on the stack of the waiting thread: Set does not touch
// it after Take can return. REQUIRES: Set will be called, by another thread than Take's.
template <class T>
class Awaited {
 public:
  void Set(T value) {
    MutexLock lock(&mutex_);
    VICINAL_CHECK(!value_.has_value());
    value_ = std::move(value);
    came_.NotifyOne();  // under the lock: Take may destroy this object once the lock is released
  }

  T Take() {
    MutexLock lock(&mutex_);
    while (!value_.has_value()) came_.Wait(&mutex_);
    return *std::move(value_);
  }

 private:
  Mutex mutex_;
  CondVar came_;
  std::optional<T> value_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_AWAITED_H_
