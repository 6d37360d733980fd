// SPDX-License-Identifier: Apache-2.0
// What people do with a state directory while no server does it for them: look at it, check it, clean it up, and make a
// copy usable (docs/state.md, "Copies"). The first two write nothing and may run beside a server.
#ifndef VICINAL_ENGINE_STATE_INSPECT_H_
#define VICINAL_ENGINE_STATE_INSPECT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/state/file_system.h"
#include "engine/state/names.h"
#include "engine/state/state_directory.h"

namespace vicinal::state {

struct VersionInfo {
  VersionId id;
  int64_t files = 0;       // the manifest not counted
  int64_t bytes = 0;       // of files and manifest, holes included
  int64_t disk_bytes = 0;  // that they take
  WallTime publish_time{};
  bool replaced = false;  // by a later one, or with its graph version: a server removes it a minute or two later
};

// A kernel configuration that servers on such a device do not run any more.
struct QuarantinedKernel {
  std::string device;
  std::string configuration;
  std::string reason;
};

struct Inventory {
  std::string incarnation;           // empty: damaged
  std::optional<LockHolder> holder;  // who writes, or wrote last
  std::vector<VersionInfo> versions;
  std::vector<ListedProblem> problems;   // versions that cannot be used
  std::vector<std::string> unpublished;  // directories of versions without a manifest, which Sweep deletes
  std::vector<std::string> quarantined;  // directories below quarantine/
  std::vector<LostVersion> lost;         // in whose place nothing serves; empty also if LOST is damaged
  std::vector<QuarantinedKernel> kernels;
};
// Errors of StateDirectory::Open (read-only) and of the file system.
StatusOr<Inventory> TakeInventory(FileSystem& files);

struct FileVerdict {
  std::string path;
  int64_t bytes = 0;
  Status status;  // DATA_LOSS: not as it was written; FAILED_PRECONDITION: cannot be read, or a newer format
};
// Reads every byte of every published version and of the documents beside them, and compares all checksums. Calls back
// after each file. A file that a server removed meanwhile has no verdict. Errors: as TakeInventory; what is wrong with
// a file is no error.
Status CheckFiles(FileSystem& files, const std::function<void(const FileVerdict& verdict)>& on_file);

// Deletes what belongs to no published version, if nothing in its directory changed within `grace`.
// FAILED_PRECONDITION: STATE_LOCKED while a server writes, STATE_NOT_INITIALIZED if this is no state directory.
StatusOr<SweepReport> SweepOffline(FileSystem& files, const LockHolder& self, std::chrono::seconds grace,
                                   const Clock& clock);

// Lets servers run a kernel configuration again, on every kind of device. NOT_FOUND: it is not quarantined. Otherwise
// as SweepOffline.
Status LiftQuarantine(FileSystem& files, const LockHolder& self, const std::string& configuration, const Clock& clock);

struct Restored {
  std::string incarnation;
  std::string former_incarnation;    // empty: it was damaged
  std::vector<std::string> repairs;  // besides
  SweepReport swept;
};
// Gives a copy a new incarnation, so that its versions cannot pass for those that the original published later, and
// deletes what was half-written when it was copied. Errors as SweepOffline; it can be repeated after any of them.
StatusOr<Restored> Restore(FileSystem& files, const LockHolder& self, const Clock& clock);

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_INSPECT_H_
