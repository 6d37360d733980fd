// SPDX-License-Identifier: Apache-2.0
// Measures one cell of the table: one operation on one graph at one width, with every kernel and the best of cuSPARSE.
#ifndef VICINAL_BENCH_CUDA_CELL_H_
#define VICINAL_BENCH_CUDA_CELL_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cuda/device_graph.h"
#include "bench/cuda/device_speed.h"
#include "bench/cuda/gpu.h"
#include "bench/cuda/operations.h"
#include "bench/cuda/sampled_rows.h"
#include "bench/cuda/workload.h"

namespace vicinal::bench {

using Json = nlohmann::ordered_json;

struct CellOptions {
  double budget_us = 60e3;  // per timing
  Choice choice;
  bool all_configurations = true;  // false: only the default of each kernel
  // A configuration that is slower than the fastest so far by this factor is not measured further: its first few runs
  // count.
  double early_stop_ratio = 1.3;
};

// Cells of one graph. They share the time of cuSPARSE's weighted sum.
class CellBench {
 public:
  CellBench(Gpu& gpu, const DeviceGraph& graph, const DeviceSpeed& speed, const CellOptions& options)
      : gpu_(gpu), graph_(graph), speed_(speed), options_(options) {}

  // Returns {graph, order, nodes, edges, operation, width, floors, cusparse, peers, kernels}, the input of report.h.
  Json Run(const Operation& operation, int64_t width);

 private:
  // The best time of cuSPARSE's weighted float32 sum at that width, by which the listed peers are scaled.
  double SumUs(int64_t width);
  std::vector<PeerRun> TimePeers(const Operation& operation, const Workload& workload, const SampledRows& rows);
  Json TimeKernel(const Contestant& contestant, const Workload& workload, const SampledRows& rows, double* best_us);

  Gpu& gpu_;
  const DeviceGraph& graph_;
  const DeviceSpeed speed_;
  const CellOptions options_;
  std::map<int64_t, double> sum_us_;
};

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_CELL_H_
