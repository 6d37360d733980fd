// SPDX-License-Identifier: Apache-2.0
// A graph under measurement. The host copy serves to check sampled rows. The device holds both forms, with 64-bit row
// offsets for our kernels and 32-bit ones for cuSPARSE, and the layouts that kernels prepare from it.
#ifndef VICINAL_BENCH_CUDA_DEVICE_GRAPH_H_
#define VICINAL_BENCH_CUDA_DEVICE_GRAPH_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bench/binary_graph.h"
#include "bench/cuda/cusparse_peer.h"
#include "bench/cuda/gpu.h"
#include "bench/cuda/operations.h"
#include "bench/renumbered.h"
#include "engine/device/views.h"
#include "engine/kernels/adjacency_layout.h"

namespace vicinal::bench {

// First index of the random numbers (numbers.h) of each input.
inline constexpr uint64_t kSourceNumbers = 0, kEdgeNumbers = uint64_t{1} << 40, kTargetNumbers = uint64_t{2} << 40,
                          kKeyNumbers = uint64_t{3} << 40, kSourceScores = uint64_t{4} << 40,
                          kTargetScores = uint64_t{5} << 40, kScoreVector = uint64_t{6} << 40;

class DeviceGraph {
 public:
  DeviceGraph(Gpu& gpu, std::string name, std::string order, RenumberedGraph graph);

  const std::string& name() const { return name_; }
  const std::string& order() const { return order_; }  // "as_sent", "rcm", ...
  const BinaryGraph& host() const { return host_; }
  int64_t nodes() const { return host_.nodes; }
  int64_t edges() const { return host_.edges(); }
  // 1 / sqrt(in-degree + 1) of each node. The rank-1 weight of an edge is the product of the factors of its two nodes.
  const std::vector<float>& factors() const { return factors_; }

  CsrView view(bool weighted) const;
  const float* device_factors() const { return device_factors_.as<float>(); }
  PeerMatrix peer() const;
  // The layout that `kernel` needs besides the adjacency. `make` creates it, and it is cached under its name
  // (Kernel::LayoutName). All are evicted when together they hold more memory than the device should spare; callers
  // keep theirs alive by the reference.
  struct Layout {
    AdjacencyLayoutRef layout;
    double seconds = 0;  // time to create it
  };
  StatusOr<Layout> FindLayout(Gpu& gpu, bool weighted, const std::string& kernel, const std::string& name,
                              const LayoutMaker& make) const;
  // Edge values with which cuSPARSE's sum equals the operation, in the operation's storage.
  Buffer PeerValues(Gpu& gpu, const Operation& operation) const;

 private:
  std::string name_, order_;
  BinaryGraph host_;
  std::vector<int64_t> blocks_;
  std::vector<float> factors_;
  mutable std::map<std::tuple<bool, std::string, std::string>, Layout> layouts_;
  Buffer offsets_, narrow_, col_, value_, device_factors_;
};

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_DEVICE_GRAPH_H_
