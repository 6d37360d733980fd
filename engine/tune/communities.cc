// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/communities.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace vicinal {
namespace {

constexpr size_t kSeedsPerDensity = 2;

// Adds what the runs of one kernel at one density say.
void Conclude(const std::string& kernel, std::vector<const CommunityRun*> runs, CommunityFindings* findings) {
  std::stable_sort(runs.begin(), runs.end(), [](const CommunityRun* a, const CommunityRun* b) {
    return a->floats_per_second > b->floats_per_second;
  });
  std::vector<KernelConfig>& seeds = findings->seeds[kernel];
  for (size_t i = 0; i < std::min(runs.size(), kSeedsPerDensity); ++i) {
    const KernelConfig& config = runs[i]->setting.config;
    if (std::find(seeds.begin(), seeds.end(), config) == seeds.end()) seeds.push_back(config);
  }
  for (const CommunityRun* run : runs) {
    if (run->lane_floats <= 0.0 || run->floats_per_second < kFullThroughput * runs[0]->floats_per_second) continue;
    double& limit = findings->lane_floats[kernel];
    limit = std::max(limit, run->lane_floats);
  }
}

}  // namespace

Csr MakeCommunities(int64_t size, int64_t count, double density, bool weighted, const RandomBits& random) {
  const auto threshold = static_cast<uint64_t>(std::ldexp(density, 32));
  Csr csr;
  csr.num_rows = csr.num_cols = size * count;
  csr.row_ptr.push_back(0);
  for (int64_t row = 0; row < csr.num_rows; ++row) {
    const int64_t first = row / size * size;
    for (int64_t col = first; col < first + size; ++col) {
      if ((random() >> 32) < threshold) csr.col.push_back(static_cast<NodeId>(col));
    }
    csr.row_ptr.push_back(csr.nnz());
  }
  if (weighted) csr.value.assign(csr.col.size(), 1.0f);
  return csr;
}

CommunityFindings FindingsOf(const std::vector<std::vector<CommunityRun>>& runs) {
  CommunityFindings findings;
  for (const std::vector<CommunityRun>& density : runs) {
    std::map<std::string, std::vector<const CommunityRun*>> by_kernel;
    for (const CommunityRun& run : density) {
      if (run.floats_per_second > 0.0) by_kernel[run.setting.kernel].push_back(&run);
    }
    for (auto& [kernel, of_kernel] : by_kernel) Conclude(kernel, std::move(of_kernel), &findings);
  }
  return findings;
}

}  // namespace vicinal
