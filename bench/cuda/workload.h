// SPDX-License-Identifier: Apache-2.0
// One operation on one graph at one width, ready to run. Inputs are on the device in three rotating sets, so that a set
// does not stay in the L2 between its runs. Offers every kernel of the backend in every configuration, and the same
// problem for cuSPARSE.
#ifndef VICINAL_BENCH_CUDA_WORKLOAD_H_
#define VICINAL_BENCH_CUDA_WORKLOAD_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/cuda/configurations.h"
#include "bench/cuda/cusparse_peer.h"
#include "bench/cuda/device_graph.h"
#include "bench/cuda/gpu.h"
#include "bench/cuda/operations.h"
#include "engine/kernels/operations.h"
#include "engine/kernels/registry.h"

namespace vicinal::bench {

// A kernel in one of its configurations.
struct Contestant {
  std::string kernel;
  std::string parameters;       // "tile=64 rows=2"; empty: none, or all zero
  bool first_choice = false;    // what a plan takes without tuning
  bool deterministic = true;    // false: runs only if forced
  int64_t reduction_order = 0;  // Kernel::ReductionOrder
  size_t scratch_bytes = 0;
  int64_t layout_bytes = 0;  // of the layout that it prepared from the graph
  double layout_seconds = 0;
  std::function<Status(int set, void* scratch)> launch;
};

struct Entrants {
  std::vector<Contestant> contestants;
  std::vector<KernelRefusal> refusals;  // of problems, and of graphs for which no layout is made
};

// Bytes moved by an operation, the floors to which times are compared.
struct Traffic {
  double floor = 0;   // every input read once, the result written once
  double gather = 0;  // every edge reads its neighbour's row
};

class Workload {
 public:
  // REQUIRES: operation.heads divides width.
  Workload(Gpu& gpu, const DeviceGraph& graph, const Operation& operation, int64_t width);

  // Kernels of the backend that `choice` wants, in the backend's order. The workload must outlive what is returned.
  Entrants Kernels(const Choice& choice) const;
  Traffic traffic() const;
  // [nodes * width], or [edges] for edge scores.
  float* result(int set) const { return result_[set].as<float>(); }
  size_t result_bytes() const { return result_[0].bytes(); }

  // REQUIRES: operation.family is kAggregate. `value` from DeviceGraph::PeerValues.
  SpmmPeer spmm(const Buffer& value, Storage result_storage) const;
  // REQUIRES: operation.family is kEdgeScores.
  SddmmPeer sddmm() const;

 private:
  // Uploads kSets buffers of nodes x columns numbers.
  void Fill(std::vector<Buffer>* sets, uint64_t numbers, int64_t columns, Storage storage);
  ConstMatrixView Rows(const std::vector<Buffer>& sets, int set, int64_t columns) const;
  AggregateArgs Aggregate(int set) const;
  AttentionArgs Attend(int set) const;
  EdgeScoresArgs EdgeProducts(int set) const;

  Gpu& gpu_;
  const DeviceGraph& graph_;
  const Operation operation_;
  const int64_t width_;
  std::vector<Buffer> source_, target_, key_, source_scores_, target_scores_, result_;
  Buffer score_vector_;
};

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_WORKLOAD_H_
