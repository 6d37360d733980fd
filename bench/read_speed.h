// SPDX-License-Identifier: Apache-2.0
// How fast this machine reads memory that was read a moment ago: what an aggregation that loads each neighbour's row
// once cannot beat, unless rows are reused in registers or in a nearer cache than the working set fits in.
#ifndef VICINAL_BENCH_READ_SPEED_H_
#define VICINAL_BENCH_READ_SPEED_H_

#include <cstddef>

#include "engine/base/thread_pool.h"

namespace vicinal::bench {

// Bytes per second read in order from `working_set` bytes, again and again, all threads together: thread t of n reads
// the t-th n-th of them. The best of the passes within `budget_ms` (at least 3), because this is used as a floor.
double ReadBytesPerSecond(ThreadPool& pool, size_t working_set, double budget_ms);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_READ_SPEED_H_
