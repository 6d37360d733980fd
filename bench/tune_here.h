// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_BENCH_TUNE_HERE_H_
#define VICINAL_BENCH_TUNE_HERE_H_

#include <functional>

#include "bench/worker_tasks.h"

namespace vicinal::bench {

// Which of `count` candidates is fastest, by a contest as the tuner's: `time` runs a candidate once, for the first time
// to warm up, and says how many seconds it took. No round begins after `budget_seconds`.
StatusOr<int> FindFastest(int count, double budget_seconds,
                          const std::function<StatusOr<double>(int candidate, int round)>& time);

// Measures what plans asked of the graph, as a server's tuning does but on this thread and with nobody else about, and
// writes the winners into the graph's table: plans built afterwards take them.
Status TuneHere(Bench& bench, const PreparedGraph& graph);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_TUNE_HERE_H_
