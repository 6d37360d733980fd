// SPDX-License-Identifier: Apache-2.0
// What the layouts (kernels/adjacency_layout.h) of a plan's adjacencies may take; for admission.
#ifndef VICINAL_ENGINE_PLAN_LAYOUT_BYTES_H_
#define VICINAL_ENGINE_PLAN_LAYOUT_BYTES_H_

#include <cstdint>

#include "engine/kernels/registry.h"
#include "engine/plan/plan.h"

namespace vicinal {

// Upper bound of the bytes of layouts that building a plan for `request` may make, those that the graph has already
// included: one for each step over neighbourhoods, of the kernel that the request forces, or of the largest that the
// registry or the graph's tuning table may choose.
int64_t LayoutBytesBound(const PlanRequest& request, const KernelRegistry& registry, DeviceKind device);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PLAN_LAYOUT_BYTES_H_
