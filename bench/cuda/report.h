// SPDX-License-Identifier: Apache-2.0
// What the cells (cell.h) say: a line per kernel while the run goes, and a summary at its end, also of runs before.
// Needs no GPU.
#ifndef VICINAL_BENCH_CUDA_REPORT_H_
#define VICINAL_BENCH_CUDA_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace vicinal::bench {

// Completes a cell in place: the ratios of each kernel that ran (above 1: we are faster), and which is the best
// ("best", an index into "kernels") of those that are right and give the same bits at every run, and what a plan takes
// untuned
// ("first").
//   times_cusparse    cuSPARSE's best time for the same result by ours
//   times_sum         where cuSPARSE has no such operation, or float32 rows are compared with 16-bit ones: its
//                     weighted float32 sum's time by ours
//   times_listed      the best listed peer's time, scaled to this run, by ours
//   over_dram_floor, over_gather_floor, gather_gbps
void Complete(nlohmann::ordered_json* cell);

// Lines of a completed cell: the best configuration of each kernel, or why it refused.
std::string Lines(const nlohmann::ordered_json& cell);

// Markdown: geometric means by operation, then the cells that are worst against cuSPARSE and against listed peers. Of a
// graph in several orders, each order counts as a cell of its own; where one of them is "none", another table holds the
// best of them against the peers' times on that one.
std::string Summary(const std::vector<nlohmann::ordered_json>& cells);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_REPORT_H_
