// SPDX-License-Identifier: Apache-2.0
// Reports on cells (cell.h): a line per kernel during the run and a summary at its end, also of earlier runs. Needs no
// GPU.
#ifndef VICINAL_BENCH_CUDA_REPORT_H_
#define VICINAL_BENCH_CUDA_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace vicinal::bench {

// Completes a cell in place. Adds the ratios of each kernel that ran (above 1: ours is faster) and two indices into
// "kernels": "best", the fastest of those that are right and deterministic, and "first", the choice of a plan without
// tuning.
//   times_cusparse    cuSPARSE's best time for the same result by ours
//   times_sum         where cuSPARSE has no such operation, or float32 rows are compared with 16-bit ones: its
//                     weighted float32 sum's time by ours
//   times_listed      the best listed peer's time, scaled to this run, by ours
//   over_dram_floor, over_gather_floor, gather_gbps
void Complete(nlohmann::ordered_json* cell);

// Lines of a completed cell: the best configuration of each kernel, or why it refused.
std::string Lines(const nlohmann::ordered_json& cell);

// Markdown: geometric means by operation, then the worst cells against cuSPARSE and against the listed peers. Each
// order of a graph is a cell of its own. If one of them is "none", another table compares the best order with the
// peers' times on "none".
std::string Summary(const std::vector<nlohmann::ordered_json>& cells);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_REPORT_H_
