// SPDX-License-Identifier: Apache-2.0
// Passes over the rows of a graph by the threads of a pool that may be missing. Private to this folder.
#ifndef VICINAL_ENGINE_PROFILE_ROWS_IN_PARALLEL_H_
#define VICINAL_ENGINE_PROFILE_ROWS_IN_PARALLEL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/thread_pool.h"

namespace vicinal::internal {

// body(first, last, task) for each of `tasks` ranges of about as many of the `rows` rows.
template <class Body>
void ForRowRanges(ThreadPool* pool, int64_t rows, int64_t tasks, const Body& body) {
  const auto run = [&](int64_t task, int) { body(rows * task / tasks, rows * (task + 1) / tasks, task); };
  if (pool != nullptr) return pool->ParallelFor(tasks, run);
  for (int64_t task = 0; task < tasks; ++task) run(task, 0);
}

// The sums of what body(first, last) returns for ranges of rows, each a std::array<int64_t, kCount>.
template <size_t kCount, class Body>
std::array<int64_t, kCount> SumOverRows(ThreadPool* pool, int64_t rows, const Body& body) {
  constexpr int64_t kRowsPerTask = 1024;
  const int64_t tasks = pool != nullptr ? (rows + kRowsPerTask - 1) / kRowsPerTask : 1;
  std::vector<std::array<int64_t, kCount>> parts(static_cast<size_t>(tasks));
  ForRowRanges(pool, rows, tasks, [&](int64_t first, int64_t last, int64_t task) { parts[task] = body(first, last); });
  std::array<int64_t, kCount> sums = {};
  for (const std::array<int64_t, kCount>& part : parts) {
    for (size_t i = 0; i < kCount; ++i) sums[i] += part[i];
  }
  return sums;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PROFILE_ROWS_IN_PARALLEL_H_
