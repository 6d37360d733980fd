// SPDX-License-Identifier: Apache-2.0
// Tuning records that outlive this build: kept in the state directory, or exported (record_json.h writes them). A
// record names kernels, parameters and the version of the order in which the chosen kernel adds, and never positions in
// a list: another build can tell whether it still means the same (Usable).
#ifndef VICINAL_ENGINE_TUNE_KEPT_RECORD_H_
#define VICINAL_ENGINE_TUNE_KEPT_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/graph/adjacency.h"
#include "engine/kernels/registry.h"
#include "engine/tune/table.h"

namespace vicinal {

// Maximum number of floats of a row, over all heads.
inline constexpr int64_t kMaxTuningColumns = 65'536;
// Maximum number of keys in a graph's table that requests and documents may reach.
inline constexpr int64_t kMaxTuningKeys = 1024;

// A record with the version of its chosen kernel (Kernel::declared_order). Candidates of one that was parsed have
// parameters, but no configuration yet.
struct KeptRecord {
  TuningEntry entry;
  std::string order;  // empty: nothing is chosen
  int64_t order_version = 0;
};

// Adds what `registry` says of the chosen kernel.
KeptRecord Keep(const KernelRegistry& registry, DeviceKind device, const TuningEntry& entry);

// Drops the evidence, but for that of the default and the choice: what others than this graph may want to know.
void Thin(KeptRecord* kept);

// The entry for a graph whose adjacency has that shape (AdjacencyShape of entry.work.adjacency), with the
// configurations of this build. INVALID_ARGUMENT if its choice does not mean here what it meant: KERNEL_UNKNOWN,
// KERNEL_REFUSED (with the kernel's reason), PARAMETER_UNKNOWN, PARAMETER_RANGE; KERNEL_VERSION: the kernel adds in
// another order than when the record was made; ADJACENCY_MISMATCH: the graph has edge weights and the record's has not,
// or the reverse.
StatusOr<TuningEntry> Usable(const KernelRegistry& registry, DeviceKind device, const AdjacencyShape& shape,
                             bool graph_weighted, const KeptRecord& kept);

// The id of the order in which `key` is computed on that adjacency with `setting`, or by default (Kernel::
// ReductionOrder). 0 also if no kernel supports it.
int64_t ReductionOrderOf(const KernelRegistry& registry, DeviceKind device, const AdjacencyShape& shape,
                         const TuningKey& key, const std::optional<KernelSetting>& setting);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_KEPT_RECORD_H_
