// SPDX-License-Identifier: Apache-2.0
// The prior: predictions before anything runs. Kernels predict their own times (Kernel::PredictSeconds). Trials run
// candidates in this order and drop those far behind (trial.h); Explain shows predicted beside measured times.
// Measurements decide; the prior only saves time.
#ifndef VICINAL_ENGINE_TUNE_PRIOR_H_
#define VICINAL_ENGINE_TUNE_PRIOR_H_

#include <optional>

#include "engine/api/tuning.h"
#include "engine/device/device.h"
#include "engine/kernels/registry.h"
#include "engine/kernels/work_shape.h"

namespace vicinal {

// Predicted seconds of the kernel that serves without tuning: the device's first kernel that supports the work, in its
// default configuration. nullopt if no kernel supports it, or if that kernel makes no predictions.
std::optional<double> PredictDefaultSeconds(const KernelRegistry& registry, DeviceKind device, const TuningKey& key,
                                            const WorkShape& shape);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_PRIOR_H_
