// SPDX-License-Identifier: Apache-2.0
// A kernel that a client forces on a graph: whether it takes the work, and what it prepares of the graph, made before
// anything is published. Else a kernel that finds nothing to do on the graph (no dense tile) would be refused to every
// request that follows, until somebody resets it.
#ifndef VICINAL_ENGINE_TUNING_FORCED_SETTING_H_
#define VICINAL_ENGINE_TUNING_FORCED_SETTING_H_

#include <functional>
#include <vector>

#include "engine/api/requests.h"
#include "engine/api/tuning.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/kernels/registry.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/tune/table.h"

namespace vicinal {

// All must outlive the call.
struct ForceTools {
  const KernelRegistry* registry = nullptr;
  DeviceKind device = DeviceKind::kCpu;
  const Clock* clock = nullptr;
  // Asked before a layout is made, for the most bytes that it takes.
  std::function<Status(int64_t bytes)> admit;
};

// The records that say so, one for each of `works`, to be put into the graph's table; layouts stay with the graph.
// INVALID_ARGUMENT: KERNEL_MISSING, and NamedCandidate's; KERNEL_REFUSED also where the kernel finds that the graph is
// not for it, in its words. Errors of `admit` and of the device as they come.
StatusOr<std::vector<TuningRecord>> ForcedRecords(const ForceTools& tools, const PreparedGraph& graph,
                                                  const std::vector<TuningWork>& works,
                                                  const ForcedConfiguration& forced);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_FORCED_SETTING_H_
