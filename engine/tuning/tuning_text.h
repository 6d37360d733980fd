// SPDX-License-Identifier: Apache-2.0
// Tuning decisions as text, to be carried to another graph or another server with the same kind of device.
#ifndef VICINAL_ENGINE_TUNING_TUNING_TEXT_H_
#define VICINAL_ENGINE_TUNING_TUNING_TEXT_H_

#include <string>

#include "engine/base/status.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/tuning/forced_setting.h"

namespace vicinal {

// Longest text that is accepted, in bytes.
inline constexpr size_t kMaxTuningText = size_t{4} << 20;

// The decisions in `graph`'s table as JSON, one member a line (docs/formats.md).
std::string ExportTuning(const KernelRegistry& registry, DeviceKind kind, const std::string& device,
                         const PreparedGraph& graph);

// The decisions in `text` for `graph`, none of them applied; layouts are built and kept with the graph. All or nothing:
// INVALID_ARGUMENT, field "import_text" and below, for the first that cannot be used: BAD_TUNING_TEXT (no such JSON),
// BAD_TUNING_RECORD (a member), DUPLICATE_RECORD, DEVICE_MISMATCH (of another kind of device), and the errors of
// Usable and of a forced kernel. FAILED_PRECONDITION (TUNING_TABLE_FULL). Errors of tools.admit and of the device.
StatusOr<TuningChange> ImportTuning(const ForceTools& tools, const std::string& device, const PreparedGraph& graph,
                                    const std::string& text);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_TUNING_TEXT_H_
