// SPDX-License-Identifier: Apache-2.0
// The share of the processors that a container is granted, where it is less than the cores it may run on: with a limit
// of 2 CPUs on a machine of 64 cores, 64 threads would use it up in a moment and all stand still until the next period.
#ifndef VICINAL_ENGINE_DEVICE_CPU_QUOTA_H_
#define VICINAL_ENGINE_DEVICE_CPU_QUOTA_H_

#include <string>

namespace vicinal {

// CPUs that the control group at `root` grants (version 2: cpu.max, version 1: cpu/cpu.cfs_quota_us), as in
// Kubernetes' limits.cpu; 0 where it sets no limit, or none that can be read.
double CpuQuota(const std::string& root = "/sys/fs/cgroup");

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_CPU_QUOTA_H_
