// SPDX-License-Identifier: Apache-2.0
// A graph under measurement: on the host, where sampled rows are checked, and on the device in both forms, 64-bit row
// offsets for us and 32-bit ones for cuSPARSE; and what kernels prepare from it, once.
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

// Where the numbers (numbers.h) of each input begin.
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
  // 1 / sqrt(in-degree + 1) of each node: a rank-1 weight is the product of its edge's two.
  const std::vector<float>& factors() const { return factors_; }

  CsrView view(bool weighted) const;
  const float* device_factors() const { return device_factors_.as<float>(); }
  PeerMatrix peer() const;
  // What `kernel` works on beside the adjacency, made by `make` and kept under its name (Kernel::LayoutName). All go
  // when they hold more than the device should spare; the user of one holds it.
  struct Layout {
    AdjacencyLayoutRef layout;
    double seconds = 0;  // that it took to make
  };
  StatusOr<Layout> FindLayout(Gpu& gpu, bool weighted, const std::string& kernel, const std::string& name,
                              const LayoutMaker& make) const;
  // The values that make cuSPARSE's sum the same as the operation, in the operation's storage.
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
