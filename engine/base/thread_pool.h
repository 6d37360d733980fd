// SPDX-License-Identifier: Apache-2.0
// A pool of threads for data-parallel loops. ParallelFor never allocates, so that the execute stage can use it.
#ifndef VICINAL_ENGINE_BASE_THREAD_POOL_H_
#define VICINAL_ENGINE_BASE_THREAD_POOL_H_

#include <cstdint>
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
  // says whose scratch may be used. Tasks are handed out dynamically, so results must not depend on who runs what.
  // Returns when all are done. Callers on different threads take turns. Does not allocate. `body` must not throw, and
  // must not call ParallelFor of the same pool.
  template <class Body>
  void ParallelFor(int64_t num_tasks, const Body& body) {
    Run(
        num_tasks, [](const void* b, int64_t task, int thread) { (*static_cast<const Body*>(b))(task, thread); },
        &body);
  }

 private:
  using Thunk = void (*)(const void* body, int64_t task, int thread);
  void Run(int64_t num_tasks, Thunk thunk, const void* body);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_THREAD_POOL_H_
