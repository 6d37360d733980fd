// SPDX-License-Identifier: Apache-2.0
#include "engine/state/inspect.h"

#include <memory>
#include <utility>

#include "engine/base/error.h"

namespace vicinal::state {
namespace {

StatusOr<std::unique_ptr<StateDirectory>> OpenToInspect(FileSystem& files) {
  StateDirectory::Options options;
  options.inspect = true;
  return StateDirectory::Open(&files, std::move(options));
}

// As a writer, but never of a directory that is not there yet.
StatusOr<std::unique_ptr<StateDirectory>> OpenToWrite(FileSystem& files, const LockHolder& self, const Clock& clock,
                                                      bool new_incarnation) {
  VICINAL_RETURN_IF_ERROR(OpenToInspect(files).status());
  StateDirectory::Options options;
  options.holder = self;
  options.clock = &clock;
  options.new_incarnation = new_incarnation;
  return StateDirectory::Open(&files, std::move(options));
}

// Adds a file of a version; one that vanished counts nothing.
void Count(const FileSystem& files, const std::string& path, VersionInfo* info) {
  const auto file = files.Stat(path);
  if (!file.ok()) return;
  info->bytes += file->bytes;
  info->disk_bytes += file->disk_bytes;
}

FileVerdict VerdictOf(const FileSystem& files, std::string path, Status status) {
  const auto info = files.Stat(path);
  return {std::move(path), info.ok() ? info->bytes : 0, std::move(status)};
}

bool IsGone(const FileSystem& files, const std::string& path) {
  return files.Stat(path + "/" + kManifestName).status().code() == StatusCode::kNotFound;
}

Status CheckVersion(const FileSystem& files, const StateDirectory& directory, const Manifest& manifest,
                    const std::function<void(const FileVerdict& verdict)>& on_file) {
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(manifest.id));
  on_file(VerdictOf(files, Join(path, kManifestName), OkStatus()));
  for (const ManifestFile& file : manifest.files) {
    const auto reader = directory.OpenFile(manifest, file.name);
    Status status = reader.ok() ? (*reader)->Verify() : reader.status();
    if (!status.ok() && IsGone(files, path)) return OkStatus();
    on_file({Join(path, file.name), file.summary.bytes, std::move(status)});
  }
  return OkStatus();
}

}  // namespace

StatusOr<Inventory> TakeInventory(FileSystem& files) {
  VICINAL_ASSIGN_OR_RETURN(const auto directory, OpenToInspect(files));
  VICINAL_ASSIGN_OR_RETURN(Listing listing, directory->List());
  Inventory inventory;
  inventory.incarnation = directory->incarnation();
  if (auto holder = directory->ReadHolder(); holder.ok()) inventory.holder = *std::move(holder);
  inventory.problems = std::move(listing.problems);
  for (const Manifest& manifest : listing.published) {
    VersionInfo info;
    info.id = manifest.id;
    info.files = static_cast<int64_t>(manifest.files.size());
    VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(manifest.id));
    if (const auto stat = files.Stat(Join(path, kManifestName)); stat.ok()) info.publish_time = stat->modify_time;
    Count(files, Join(path, kManifestName), &info);
    for (const ManifestFile& file : manifest.files) Count(files, Join(path, file.name), &info);
    inventory.versions.push_back(std::move(info));
  }
  VICINAL_ASSIGN_OR_RETURN(inventory.unpublished, directory->Unpublished());
  const auto entries = files.List("quarantine");
  if (!entries.ok() && entries.status().code() != StatusCode::kNotFound) return entries.status();
  for (const DirectoryEntry& entry : entries.value_or(std::vector<DirectoryEntry>())) {
    if (entry.kind == FileKind::kDirectory) inventory.quarantined.push_back("quarantine/" + entry.name);
  }
  return inventory;
}

Status CheckFiles(FileSystem& files, const std::function<void(const FileVerdict& verdict)>& on_file) {
  VICINAL_ASSIGN_OR_RETURN(const auto directory, OpenToInspect(files));
  on_file(VerdictOf(files, "FORMAT", OkStatus()));  // else it would not be open
  on_file(VerdictOf(files, "INCARNATION", directory->CheckIncarnation()));
  on_file(VerdictOf(files, "VERSIONS", directory->CheckReservations()));
  VICINAL_ASSIGN_OR_RETURN(const Listing listing, directory->List());
  for (const ListedProblem& problem : listing.problems) {
    const bool of_version = problem.id.has_value();
    on_file(VerdictOf(files, of_version ? Join(problem.path, kManifestName) : problem.path, problem.error));
  }
  for (const Manifest& manifest : listing.published) {
    VICINAL_RETURN_IF_ERROR(CheckVersion(files, *directory, manifest, on_file));
  }
  return OkStatus();
}

StatusOr<SweepReport> SweepOffline(FileSystem& files, const LockHolder& self, std::chrono::seconds grace,
                                   const Clock& clock) {
  VICINAL_ASSIGN_OR_RETURN(const auto directory, OpenToWrite(files, self, clock, /*new_incarnation=*/false));
  return directory->Sweep(grace);
}

StatusOr<Restored> Restore(FileSystem& files, const LockHolder& self, const Clock& clock) {
  Restored restored;
  {
    VICINAL_ASSIGN_OR_RETURN(const auto copy, OpenToInspect(files));
    restored.former_incarnation = copy->incarnation();
  }
  VICINAL_ASSIGN_OR_RETURN(const auto directory, OpenToWrite(files, self, clock, /*new_incarnation=*/true));
  restored.incarnation = directory->incarnation();
  restored.repairs = directory->repairs();
  // Nobody else knows of the copy, so nothing in it needs time.
  VICINAL_ASSIGN_OR_RETURN(restored.swept, directory->Sweep(std::chrono::seconds(-1)));
  return restored;
}

}  // namespace vicinal::state
