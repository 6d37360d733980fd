// SPDX-License-Identifier: Apache-2.0
// Translates the names in a TuneGraphRequest into kinds of work. Checks the whole request, except the graph's name and
// a forced kernel.
#ifndef VICINAL_ENGINE_TUNING_TUNING_REQUEST_H_
#define VICINAL_ENGINE_TUNING_TUNING_REQUEST_H_

#include <vector>

#include "engine/api/requests.h"
#include "engine/kernels/registry.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/tune/table.h"

namespace vicinal {

// Maximum number of combinations in one request.
inline constexpr int64_t kMaxTuningWorks = 256;

// Whether `request` lists no work.
bool NamesNothing(const TuneGraphRequest& request);

// The works that `request` lists. Without widths: the works in `graph`'s table that match the rest of the request. If a
// kernel is forced without an operation: of the operations of `registry` that have that kernel on `device`. Errors of
// Engine::TuneGraph.
StatusOr<std::vector<TuningWork>> WorksOf(const TuneGraphRequest& request, const PreparedGraph& graph,
                                          const KernelRegistry& registry, DeviceKind device);

// FAILED_PRECONDITION (TUNING_TABLE_FULL) if the table would have too many keys with `works`.
Status CheckRoom(const std::vector<TuningWork>& works, const TuningTable& table);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_TUNING_REQUEST_H_
