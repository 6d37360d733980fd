// SPDX-License-Identifier: Apache-2.0
// Loops with or without threads, and what they agree on. Private to this folder.
#ifndef VICINAL_ENGINE_GRAPH_TASKS_H_
#define VICINAL_ENGINE_GRAPH_TASKS_H_

#include <atomic>
#include <cstdint>

#include "engine/base/thread_pool.h"

namespace vicinal::internal {

// body(task) for each task in [0, tasks); on the calling thread where `pool` is null.
template <class Body>
void ForTasks(ThreadPool* pool, int64_t tasks, const Body& body) {
  if (pool != nullptr) return pool->ParallelFor(tasks, [&](int64_t task, int) { body(task); });
  for (int64_t task = 0; task < tasks; ++task) body(task);
}

// The lowest of the numbers that any thread takes, so that an error names the first fault whatever the threads do.
class Lowest {
 public:
  explicit Lowest(int64_t none) : value_(none) {}
  void Take(int64_t value) {
    int64_t lowest = value_.load(std::memory_order_relaxed);
    while (value < lowest && !value_.compare_exchange_weak(lowest, value)) {
    }
  }
  int64_t value() const { return value_.load(); }

 private:
  std::atomic<int64_t> value_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_GRAPH_TASKS_H_
