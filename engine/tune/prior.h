// SPDX-License-Identifier: Apache-2.0
// The prior: what is predicted before anything runs. Kernels predict their own times (Kernel::PredictSeconds); trials
// take candidates in that order and drop those far behind (trial.h), and Explain shows predicted beside measured times.
// The measurement decides; the prior only saves it time.
#ifndef VICINAL_ENGINE_TUNE_PRIOR_H_
#define VICINAL_ENGINE_TUNE_PRIOR_H_

#include <optional>

#include "engine/api/tuning.h"
#include "engine/device/device.h"
#include "engine/kernels/registry.h"
#include "engine/kernels/work_shape.h"

namespace vicinal {

// Predicted seconds of the kernel that serves untuned: the first of the device that takes the work, in its default
// configuration. Nothing where no kernel takes it, or where that kernel has no model of its time.
std::optional<double> PredictDefaultSeconds(const KernelRegistry& registry, DeviceKind device, const TuningKey& key,
                                            const WorkShape& shape);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_PRIOR_H_
