// SPDX-License-Identifier: Apache-2.0
// Splits rows among threads: tasks of equal work (weighted edges and rows), cut by binary search on row_ptr, so that a
// hub does not delay one thread. Allocates nothing. A row is never split, so that its bits do not depend on the number
// of threads.
#ifndef VICINAL_ENGINE_KERNELS_CPU_WORK_H_
#define VICINAL_ENGINE_KERNELS_CPU_WORK_H_

#include <algorithm>
#include <cstdint>

#include "engine/base/thread_pool.h"

namespace vicinal::internal {

// Estimated cost of a loop over rows, in nanoseconds of one core.
struct RowWork {
  const int64_t* row_ptr = nullptr;  // [rows + 1], or null when rows have no edges
  int64_t rows = 0;
  double edge_ns = 0;
  double row_ns = 1;

  // Cost of the rows before `row`.
  double Before(int64_t row) const {
    const int64_t edges = row_ptr != nullptr ? row_ptr[row] - row_ptr[0] : 0;
    return edge_ns * static_cast<double>(edges) + row_ns * static_cast<double>(row);
  }

  // The first row that has at least `cost` before it.
  int64_t Cut(double cost) const {
    int64_t low = 0, high = rows;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (Before(middle) < cost) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

// A worker that polls for work (thread_pool.cc) joins within a microsecond, a sleeping one after 5 to 50 us, and the
// caller waits for neither. So work below the first bound stays on the calling thread, and tasks are not smaller than
// the second. Measured with two threads on two cores of an EPYC: an aggregation of 26 us takes 0.8 of its time, one of
// 45 us 0.6.
inline constexpr double kAloneNs = 12'000;
inline constexpr double kTaskNs = 10'000;
// Tasks are not larger than this either: a cancelled loop (ThreadPool::StopScope) stops between tasks. Costs are
// estimates, and slow memory can multiply them.
inline constexpr double kLongestTaskNs = 2'000'000;

// The number of tasks of a pass of that cost.
inline int64_t NumTasks(double total_ns, int num_threads) {
  const double by_size = num_threads > 1 ? total_ns / kTaskNs : 0;
  const double most = 16.0 * num_threads, least = total_ns / kLongestTaskNs;
  return static_cast<int64_t>(std::max(std::min(by_size, most - 1), least)) + 1;
}

// Calls body(pass, begin_row, end_row, thread) for ranges that cover [0, rows), each row once in each of `passes`. Each
// thread has ranges of its own (ThreadPool) and makes one pass after the other over them, so all are in about the same
// pass. `work` is the cost of one pass.
template <class Body>
void ForPasses(ThreadPool* pool, const RowWork& work, int64_t passes, const Body& body) {
  if (work.rows == 0) return;
  const double total = work.Before(work.rows);
  const double alone = pool != nullptr && pool->num_threads() > 1 ? kAloneNs : kLongestTaskNs;
  if (pool == nullptr || total * static_cast<double>(passes) < alone) {
    for (int64_t pass = 0; pass < passes; ++pass) body(pass, int64_t{0}, work.rows, 0);
    return;
  }
  const int64_t fewest = NumTasks(total, pool->num_threads());
  const int64_t owners = fewest >= pool->num_threads() ? pool->num_threads() : 1;
  const int64_t of_owner = (fewest + owners - 1) / owners, tasks = owners * of_owner;
  pool->ParallelFor(passes * tasks, [&](int64_t turn, int thread) {
    const int64_t owner = turn / (passes * of_owner), own = turn % (passes * of_owner);
    const int64_t pass = own / of_owner, task = owner * of_owner + own % of_owner;
    const double share = total / static_cast<double>(tasks);
    const int64_t begin = task == 0 ? 0 : work.Cut(share * static_cast<double>(task));
    const int64_t end = task + 1 == tasks ? work.rows : work.Cut(share * static_cast<double>(task + 1));
    if (begin < end) body(pass, begin, end, thread);
  });
}

// The same in one pass: body(begin_row, end_row, thread).
template <class Body>
void ForRows(ThreadPool* pool, const RowWork& work, const Body& body) {
  ForPasses(pool, work, 1, [&](int64_t, int64_t begin, int64_t end, int thread) { body(begin, end, thread); });
}

// For loops over the edges of rows of any length, within a task: whether to leave out the rest, as its loop was stopped
// (ThreadPool::StopScope). Asks once per kLongestTaskNs of estimated work. What a stopped task computed is discarded.
class StopWithin {
 public:
  // `pool` null: never stopped. `edge_ns`: as in RowWork.
  StopWithin(const ThreadPool* pool, double edge_ns)
      : pool_(pool),
        edges_unasked_(std::max<int64_t>(1, static_cast<int64_t>(kLongestTaskNs / std::max(edge_ns, 0.1)))),
        left_(edges_unasked_) {}

  // To be called before work on `edges` more edges.
  bool Before(int64_t edges) {
    left_ -= edges;
    if (left_ > 0 || pool_ == nullptr) return false;
    if (pool_->ShouldStop()) return true;
    left_ = edges_unasked_;
    return false;
  }

 private:
  const ThreadPool* pool_;
  int64_t edges_unasked_, left_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_WORK_H_
