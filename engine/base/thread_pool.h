// SPDX-License-Identifier: Apache-2.0
// A pool of threads for data-parallel loops. ParallelFor never allocates, so that runs of plans can use it. StopScope
// makes the loops of its thread stoppable; the loops themselves need no check.
#ifndef VICINAL_ENGINE_BASE_THREAD_POOL_H_
#define VICINAL_ENGINE_BASE_THREAD_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

namespace vicinal {

// One caller at a time runs a loop; the calling thread works too. A pool of one thread has no workers.
class ThreadPool {
 public:
  // `num_threads` >= 1 counts the caller. `cores`, one per thread or empty: processors that the threads have to
  // themselves. Each worker then keeps to one of them, never to the one that the caller is on when a loop begins.
  explicit ThreadPool(int num_threads, const std::vector<int>& cores = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(task, thread) for every task in [0, num_tasks), each once, in parallel; `thread` in [0, num_threads())
  // says whose scratch may be used. Thread t starts with its part of [0, num_tasks), and idle threads help the others,
  // so results must not depend on which thread runs a task. REQUIRES: num_tasks < 2^32. Returns when all tasks are
  // done, or, if a StopScope of the caller stopped it, those that had started. Callers on different threads take turns.
  // Does not allocate. `body` must not throw, and must not call ParallelFor of the same pool.
  template <class Body>
  void ParallelFor(int64_t num_tasks, const Body& body) {
    Run(
        num_tasks, [](const void* b, int64_t task, int thread) { (*static_cast<const Body*>(b))(task, thread); },
        &body);
  }

  // While it lives, loops that the thread which made it runs on the pool stop early: before each of its tasks that
  // thread asks `should_stop`, and after the first true no task is begun any more, on any thread, in that loop or a
  // later one. What was computed is then incomplete, and to be thrown away. Loops of other callers go on as ever.
  class StopScope {
   public:
    // `pool` null: nothing is ever asked. One scope per thread at a time; `should_stop` must outlive it.
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

  // To be asked inside a task that runs for long: whether it may leave out the rest, because its loop was stopped.
  bool ShouldStop() const;

 private:
  // Of the calling thread, where it has one for this pool; else null.
  StopScope* Scope() const;

  using Thunk = void (*)(const void* body, int64_t task, int thread);
  void Run(int64_t num_tasks, Thunk thunk, const void* body);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_THREAD_POOL_H_
