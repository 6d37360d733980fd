// SPDX-License-Identifier: Apache-2.0
// The document of the state directory about kernel configurations on one kind of device: which ended well, which were
// running when it was written, and which are quarantined (docs/state.md, "Kernels").
#ifndef VICINAL_ENGINE_STATE_KERNEL_MARKS_H_
#define VICINAL_ENGINE_STATE_KERNEL_MARKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/state/file_system.h"

namespace vicinal::state {

struct KernelMarks {
  std::string device;
  std::string build;                               // in which `proven` ended well
  std::set<std::string> proven;                    // have ended well
  std::set<std::string> running;                   // for the first time, when this was written
  std::map<std::string, int64_t> interrupted;      // starts that ended while they ran for the first time
  std::map<std::string, std::string> quarantined;  // and why

  friend bool operator==(const KernelMarks&, const KernelMarks&) = default;
};

// "kernels-XXXXXXXX.json", a function of the device; whether a file has such a name.
std::string KernelMarksFile(std::string_view device);
bool IsKernelMarksFile(std::string_view name);

std::string EncodeKernelMarks(const KernelMarks& marks);
// NOT_FOUND; DATA_LOSS (STATE_DAMAGED); FAILED_PRECONDITION (STATE_FORMAT_TOO_NEW).
StatusOr<KernelMarks> ReadKernelMarks(const FileSystem& files, const std::string& file);
// Durable when it returns OK.
Status WriteKernelMarks(FileSystem& files, const KernelMarks& marks);

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_KERNEL_MARKS_H_
