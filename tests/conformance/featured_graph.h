// SPDX-License-Identifier: Apache-2.0
// Graphs whose edges have features, for kernels that read them: edges as sent, or with one self-loop per node in place
// of those sent. What each edge of the adjacency has is found here by walking along the edges, not by offsets.
#ifndef VICINAL_TESTS_CONFORMANCE_FEATURED_GRAPH_H_
#define VICINAL_TESTS_CONFORMANCE_FEATURED_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/kernels/operations.h"
#include "tests/conformance/machine.h"

namespace vicinal::conformance {

enum class Loops { kAsSent, kOwn, kShared };  // replaced by one per node, with features per node or the same for all
inline constexpr Loops kAllLoops[] = {Loops::kAsSent, Loops::kOwn, Loops::kShared};

struct FeaturedGraph {
  Loops loops = Loops::kAsSent;
  int64_t width = 0;               // A
  HostGraph sent;                  // square, columns ascend
  HostGraph adjacency;             // [R, N]: that of all nodes, or of some as a receptive field has them
  std::vector<float> values;       // [E, A]
  std::vector<float> loop_values;  // [N, A] or [A]
  std::vector<int32_t> nodes;      // of the adjacency's rows; empty: row i is node i
  std::vector<int64_t> rows_of;    // for each edge of the adjacency its row of `values`, or -1 - node for a loop

  // The features of edge `e` of the adjacency, [A].
  const float* Of(int64_t e) const;
};

// `degrees`: in-edges of each node, from random nodes, loops and duplicates among them.
FeaturedGraph MakeFeatured(const std::string& name, const std::vector<int64_t>& degrees, int64_t width, Loops loops);
// Some rows as a receptive field has them: every third from the last on, with sources numbered from the last one down.
FeaturedGraph FieldOf(const FeaturedGraph& whole);

class DeviceFeatures {
 public:
  DeviceFeatures(Device& device, const FeaturedGraph& graph);
  CsrView adjacency(bool weighted) const { return adjacency_.view(weighted); }
  EdgeFeaturesView view() const { return view_; }

 private:
  DeviceGraph sent_, adjacency_;
  DeviceArray<float> values_, loop_values_;
  DeviceArray<int32_t> nodes_;
  EdgeFeaturesView view_;
};

}  // namespace vicinal::conformance

#endif  // VICINAL_TESTS_CONFORMANCE_FEATURED_GRAPH_H_
