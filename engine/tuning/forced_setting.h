// SPDX-License-Identifier: Apache-2.0
// Forces a kernel on a graph: checks that it supports the work, and builds its layout of the graph, before the choice
// is published. Otherwise a kernel that cannot use the graph (no dense tile) would fail in every later plan until a
// reset.
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
  // Called before a layout is built, with an upper bound of its bytes.
  std::function<Status(int64_t bytes)> admit;
};

// Returns one record of state kForced for each of `works`; the caller puts them into the graph's table. Layouts are
// kept with the graph. INVALID_ARGUMENT: KERNEL_MISSING, NamedCandidate's errors, and KERNEL_REFUSED with the kernel's
// message if it does not support the graph. Errors of `admit` and of the device are passed on.
StatusOr<std::vector<TuningRecord>> ForcedRecords(const ForceTools& tools, const PreparedGraph& graph,
                                                  const std::vector<TuningWork>& works,
                                                  const ForcedConfiguration& forced);

// Builds the layout that `setting` needs for `work`, and keeps it with the graph. Errors as above, but KERNEL_MISSING.
Status MakeLayoutOf(const ForceTools& tools, const PreparedGraph& graph, const TuningWork& work,
                    const KernelSetting& setting);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_FORCED_SETTING_H_
