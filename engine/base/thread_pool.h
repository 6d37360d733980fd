// SPDX-License-Identifier: Apache-2.0
// A thread pool for data-parallel loops. ParallelFor never allocates, so that runs of plans can use it. StopScope makes
// the loops of its thread cancellable, without checks in the loops.
#ifndef VICINAL_ENGINE_BASE_THREAD_POOL_H_
#define VICINAL_ENGINE_BASE_THREAD_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

namespace vicinal {

// One loop runs at a time; the calling thread takes part. A pool of one thread has no workers.
class ThreadPool {
 public:
  // `num_threads` >= 1 includes the caller. `cores`, one per thread or empty: processors reserved for these
  // threads. Each worker is then pinned to one of them, other than the caller's processor when a loop begins.
  explicit ThreadPool(int num_threads, const std::vector<int>& cores = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(task, thread) for every task in [0, num_tasks), each once, in parallel; `thread` in [0, num_threads())
  // selects the scratch. Thread t starts with its part of [0, num_tasks), and idle threads help the others, so results
  // must not depend on which thread runs a task. REQUIRES: num_tasks < 2^32. Returns when all tasks are done, or, if a
  // StopScope of the caller stopped it, those that had started. Callers on different threads take turns. Does not
  // allocate. `body` must not throw, and must not call ParallelFor of the same pool.
  template <class Body>
  void ParallelFor(int64_t num_tasks, const Body& body) {
    Run(
        num_tasks, [](const void* b, int64_t task, int thread) { (*static_cast<const Body*>(b))(task, thread); },
        &body);
  }

  // While it lives, loops of the thread that created it can stop early: before each of its tasks, this thread calls
  // `should_stop`. After the first true, no thread starts another task of this loop or a later one. The results are
  // then incomplete and must be discarded. Loops of other callers are not affected.
  class StopScope {
   public:
    // `pool` null: no effect. One scope per thread at a time; `should_stop` must outlive it.
    StopScope(const ThreadPool* pool, const std::function<bool()>& should_stop);
    ~StopScope();
    StopScope(const StopScope&) = delete;
    StopScope& operator=(const StopScope&) = delete;

    bool stopped() const { return stopped_; }

   private:
    friend class ThreadPool;
    bool Ask() { return stopped_ = stopped_ || should_stop_(); }

    const ThreadPool* const pool_;
    const std::function<bool()>& should_stop_;
    bool stopped_ = false;
  };

  // For long tasks: whether the task's loop was stopped, so that it may skip the rest.
  bool ShouldStop() const;

 private:
  // The calling thread's scope for this pool; null: none.
  StopScope* Scope() const;

  using Thunk = void (*)(const void* body, int64_t task, int thread);
  void Run(int64_t num_tasks, Thunk thunk, const void* body);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_THREAD_POOL_H_
