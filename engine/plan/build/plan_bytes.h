// SPDX-License-Identifier: Apache-2.0
// What a plan holds in host memory beside scratch and weights: its launches, what it tells about them, and what runs
// over receptive fields know of them. Of small models a few KiB, of tens of thousands of steps tens of MiB.
#ifndef VICINAL_ENGINE_PLAN_BUILD_PLAN_BYTES_H_
#define VICINAL_ENGINE_PLAN_BUILD_PLAN_BYTES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/run/launch.h"

namespace vicinal::internal {

// `launches` chosen and told about; they need not be bound.
int64_t StepBytes(const std::vector<std::unique_ptr<Launch>>& launches, const std::vector<std::string>& decisions);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_PLAN_BYTES_H_
