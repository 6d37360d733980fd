// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_BENCH_TUNE_HERE_H_
#define VICINAL_BENCH_TUNE_HERE_H_

#include "bench/worker_tasks.h"

namespace vicinal::bench {

// Measures what plans asked of the graph, as a server's tuning does but on this thread and with nobody else about, and
// writes the winners into the graph's table: plans built afterwards take them.
Status TuneHere(Bench& bench, const PreparedGraph& graph);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_TUNE_HERE_H_
