// SPDX-License-Identifier: Apache-2.0
// A plan's host memory besides scratch and weights: its launches, their descriptions, and their entries for receptive
// fields. A few KiB for small models, tens of MiB for tens of thousands of steps.
#ifndef VICINAL_ENGINE_PLAN_BUILD_PLAN_BYTES_H_
#define VICINAL_ENGINE_PLAN_BUILD_PLAN_BYTES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/run/launch.h"

namespace vicinal::internal {

// REQUIRES: the kernels are chosen and described; views need not be set.
int64_t StepBytes(const std::vector<std::unique_ptr<Launch>>& launches, const std::vector<std::string>& decisions);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_PLAN_BYTES_H_
