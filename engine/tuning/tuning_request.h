// SPDX-License-Identifier: Apache-2.0
// From a request that speaks in words to the kinds of work it means. All that can be wrong with a TuneGraphRequest, but
// for the graph's name and a forced kernel, is found here.
#ifndef VICINAL_ENGINE_TUNING_TUNING_REQUEST_H_
#define VICINAL_ENGINE_TUNING_TUNING_REQUEST_H_

#include <vector>

#include "engine/api/requests.h"
#include "engine/kernels/registry.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/tune/table.h"

namespace vicinal {

// Floats of a row, over all heads, that tuning takes.
inline constexpr int64_t kMaxTuningColumns = 65'536;
// Combinations that one request may ask for.
inline constexpr int64_t kMaxTuningWorks = 256;
// Kinds of work that requests may make a graph's table know.
inline constexpr int64_t kMaxTuningKeys = 1024;

// The works that `request` names, or, where it names no widths, those that `graph`'s table knows and that fit the rest.
// A forced kernel without an operation is for the operations of `registry` that have it on `device`. Errors as
// Engine::TuneGraph.
StatusOr<std::vector<TuningWork>> WorksOf(const TuneGraphRequest& request, const PreparedGraph& graph,
                                          const KernelRegistry& registry, DeviceKind device);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_TUNING_REQUEST_H_
