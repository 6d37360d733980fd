// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cpu_quota.h"

#include <fstream>

namespace vicinal {
namespace {

// Quota / period; 0 unless both are there and positive ("max" and -1 mean no limit).
double ShareOf(std::istream& quota, std::istream& period) {
  double used = 0, of = 0;
  if (!(quota >> used) || !(period >> of) || used <= 0 || of <= 0) return 0;
  return used / of;
}

}  // namespace

double CpuQuota(const std::string& root) {
  if (std::ifstream both(root + "/cpu.max"); both) return ShareOf(both, both);
  std::ifstream quota(root + "/cpu/cpu.cfs_quota_us"), period(root + "/cpu/cpu.cfs_period_us");
  return ShareOf(quota, period);
}

}  // namespace vicinal
