// SPDX-License-Identifier: Apache-2.0
// What settings of kernels do on small communities (tune/communities.h), measured once per kind of work and size of
// communities, and kept for all graphs.
#ifndef VICINAL_ENGINE_TUNING_COMMUNITY_LIBRARY_H_
#define VICINAL_ENGINE_TUNING_COMMUNITY_LIBRARY_H_

#include <cstdint>
#include <map>
#include <string>

#include "engine/api/graph_profile.h"
#include "engine/base/status.h"
#include "engine/tune/communities.h"
#include "engine/tune/estimate.h"
#include "engine/tuning/leased_runs.h"

namespace vicinal {

// Nodes of a typical community of a graph: the power of two above the median size of its communities, between 16 and
// 256. Where communities are not known, 64.
int64_t TypicalCommunity(const CommunityProfile& profile);

// Used by one thread at a time.
class CommunityLibrary {
 public:
  // The findings for `input.key` on communities of `size` nodes. The first time, measures them by `runs`, for at most
  // `budget_seconds`: at each of kCommunityDensities some random settings of each kernel that can be searched, a few
  // runs each. What was measured in part is not kept. Without such kernels, there are no findings, and nothing runs.
  // Errors of LeasedRuns::Sample, Trial::Make and of memory. The pointer is valid until the next call.
  StatusOr<const CommunityFindings*> Find(const TuningTools& tools, const EstimateInput& input, int64_t size,
                                          double budget_seconds, LeasedRuns* runs);

 private:
  std::map<std::string, CommunityFindings> findings_;
  CommunityFindings incomplete_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_COMMUNITY_LIBRARY_H_
