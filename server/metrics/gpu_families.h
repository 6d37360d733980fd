// SPDX-License-Identifier: Apache-2.0
// The metrics vicinal_gpu_... (docs/metrics.md). Internal to metrics/.
#ifndef VICINAL_SERVER_METRICS_GPU_FAMILIES_H_
#define VICINAL_SERVER_METRICS_GPU_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "server/metrics/nvml.h"

namespace vicinal::server {

// Every series has the label `device`. Nothing for what the GPU does not tell.
std::vector<prometheus::MetricFamily> GpuFamilies(const GpuState& state, const std::string& device);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_GPU_FAMILIES_H_
