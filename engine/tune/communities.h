// SPDX-License-Identifier: Apache-2.0
// Small generated communities, and what runs on them say about settings: the first half of GNNAdvisor's Estimating
// (Wang et al., OSDI'21, section 7.2). The sizes and shapes of communities differ less between graphs than the graphs
// do, so settings that are fast on communities are good starting points of a search for any graph.
#ifndef VICINAL_ENGINE_TUNE_COMMUNITIES_H_
#define VICINAL_ENGINE_TUNE_COMMUNITIES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/graph/csr.h"
#include "engine/tune/settings_search.h"

namespace vicinal {

// Share of the pairs of a community's nodes that are edges.
inline constexpr double kCommunityDensities[] = {0.9, 0.7, 0.5};

// `count` communities of `size` nodes, side by side, without edges between them. Each of the size * size pairs of a
// community is an edge with probability `density`. `weighted`: with values, all 1.
Csr MakeCommunities(int64_t size, int64_t count, double density, bool weighted, const RandomBits& random);

// One setting on communities of one density.
struct CommunityRun {
  KernelSetting setting;
  double lane_floats = 0.0;        // Kernel::LaneFloats; 0: not said
  double floats_per_second = 0.0;  // gathered; 0: not measured
};

// Per kernel, by name.
struct CommunityFindings {
  std::map<std::string, std::vector<KernelConfig>> seeds;  // the fastest two at each density, each once
  // The most floats per lane of a setting that reached kFullThroughput of the kernel's best at that density. A lane
  // with more is not known to keep the device busy (the paper's computation_capability, Eq. 3).
  std::map<std::string, double> lane_floats;
};
inline constexpr double kFullThroughput = 0.8;

// `runs`: by density.
CommunityFindings FindingsOf(const std::vector<std::vector<CommunityRun>>& runs);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_COMMUNITIES_H_
