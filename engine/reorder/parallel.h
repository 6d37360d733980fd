// SPDX-License-Identifier: Apache-2.0
// Loops over a pool that may be missing. Private to this folder.
#ifndef VICINAL_ENGINE_REORDER_PARALLEL_H_
#define VICINAL_ENGINE_REORDER_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "engine/base/thread_pool.h"

namespace vicinal::internal {

inline int NumThreads(ThreadPool* pool) { return pool != nullptr ? pool->num_threads() : 1; }

// body(task, thread) for each task in [0, num_tasks); on the calling thread where `pool` is null.
template <class Body>
void ForTasks(ThreadPool* pool, int64_t num_tasks, const Body& body) {
  if (pool != nullptr) return pool->ParallelFor(num_tasks, body);
  for (int64_t task = 0; task < num_tasks; ++task) body(task, 0);
}

// body(begin, end, thread) over [0, count) in ranges of `grain`, the last one shorter.
template <class Body>
void ForRanges(ThreadPool* pool, int64_t count, int64_t grain, const Body& body) {
  ForTasks(pool, (count + grain - 1) / grain,
           [&](int64_t task, int thread) { body(task * grain, std::min(count, (task + 1) * grain), thread); });
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_REORDER_PARALLEL_H_
