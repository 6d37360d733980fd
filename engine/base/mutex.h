// SPDX-License-Identifier: Apache-2.0
// Mutex and condition variable with clang's thread-safety annotations, over the standard ones. absl::Mutex is not used:
// Debian's Abseil is not instrumented, and the thread sanitizer reports races that are none around it.
#ifndef VICINAL_ENGINE_BASE_MUTEX_H_
#define VICINAL_ENGINE_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define VICINAL_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define VICINAL_THREAD_ATTRIBUTE(x)
#endif

#define VICINAL_GUARDED_BY(m) VICINAL_THREAD_ATTRIBUTE(guarded_by(m))
#define VICINAL_REQUIRES(...) VICINAL_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define VICINAL_EXCLUDES(...) VICINAL_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace vicinal {

class VICINAL_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void Lock() VICINAL_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void Unlock() VICINAL_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class VICINAL_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) VICINAL_THREAD_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() VICINAL_THREAD_ATTRIBUTE(release_capability()) { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// Waits need the mutex held; they may wake for no reason, so callers loop on their condition.
class CondVar {
 public:
  void Wait(Mutex* mutex) VICINAL_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // False if `deadline` passed first.
  bool WaitUntil(Mutex* mutex, std::chrono::steady_clock::time_point deadline) VICINAL_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool in_time = cv_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_MUTEX_H_
