// SPDX-License-Identifier: Apache-2.0
#include "engine/state/inspect.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "engine/base/error.h"
#include "engine/state/file_error.h"
#include "engine/state/kernel_marks.h"
#include "engine/state/sealed_json.h"

namespace vicinal::state {
namespace {

using OnFile = std::function<void(const FileVerdict& verdict)>;

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

StatusOr<std::vector<std::string>> KernelMarksFiles(const FileSystem& files) {
  VICINAL_ASSIGN_OR_RETURN(const auto entries, files.List(""));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    if (IsKernelMarksFile(entry.name)) names.push_back(entry.name);
  }
  return names;
}

bool IsGone(const FileSystem& files, const std::string& path) {
  return files.Stat(path + "/" + kManifestName).status().code() == StatusCode::kNotFound;
}

// Whether a document is of that graph version.
Status CheckOwner(const VersionId& graph, const std::string& path, const nlohmann::json& json) {
  VICINAL_ASSIGN_OR_RETURN(const std::string named, internal::StringMember(path, json, "graph"));
  VICINAL_ASSIGN_OR_RETURN(const int64_t version,
                           internal::IntegerMember(path, json, "version", 1, std::numeric_limits<int64_t>::max()));
  if (named == graph.name && version == graph.version) return OkStatus();
  return Damaged(path, "it is of graph '" + named + "' version " + std::to_string(version));
}

// Whether a server has written another document, or removed it, since `text` was read.
bool IsReplaced(const StateDirectory& directory, const VersionId& graph, const std::string& name,
                std::string_view text) {
  const auto now = directory.GetDocument(graph, name);
  return !now.ok() || *now != text;
}

// Of tuning decisions: whole, of this graph version, and of the device that its name says. What the records mean is the
// engine's; a server that reads one which it does not understand measures that work again.
Status CheckTuning(const VersionId& graph, const std::string& path, const std::string& name, std::string_view text) {
  VICINAL_ASSIGN_OR_RETURN(const nlohmann::json json, internal::UnsealJson(path, text));
  VICINAL_RETURN_IF_ERROR(internal::CheckMajor(path, json, kTuningMajor));
  VICINAL_RETURN_IF_ERROR(CheckOwner(graph, path, json));
  VICINAL_ASSIGN_OR_RETURN(const std::string device, internal::StringMember(path, json, "device"));
  if (name != TuningDocumentName(device)) return Damaged(path, "it is of the device '" + device + "'");
  const auto records = json.find("records");
  if (records == json.end() || !records->is_array()) return Damaged(path, "records is not an array");
  for (const nlohmann::json& record : *records) {
    if (!record.is_object()) return Damaged(path, "a record is not an object");
    for (const char* const member : {"operation", "kind", "state"}) {
      VICINAL_RETURN_IF_ERROR(internal::StringMember(path, record, member).status());
    }
  }
  return OkStatus();
}

// The list of stored layouts: whole, of this graph version and device; and every file that it lists.
void CheckLayouts(const StateDirectory& directory, const VersionId& graph, const std::string& path,
                  const std::string& name, std::string_view text, const OnFile& on_file) {
  const std::string file = path + "/documents/" + name + ".json";
  const auto listed = [&]() -> StatusOr<std::vector<ManifestFile>> {
    VICINAL_ASSIGN_OR_RETURN(const nlohmann::json json, internal::UnsealJson(file, text));
    VICINAL_RETURN_IF_ERROR(internal::CheckMajor(file, json, kLayoutsMajor));
    VICINAL_RETURN_IF_ERROR(CheckOwner(graph, file, json));
    VICINAL_ASSIGN_OR_RETURN(const std::string device, internal::StringMember(file, json, "device"));
    if (name != LayoutsDocumentName(device)) return Damaged(file, "it is of the device '" + device + "'");
    return LayoutFilesIn(file, text);
  }();
  on_file({file, static_cast<int64_t>(text.size()), listed.status()});
  for (const ManifestFile& layout : listed.value_or(std::vector<ManifestFile>())) {
    const auto reader = directory.OpenLayoutFile(graph, layout);
    if (reader.status().code() == StatusCode::kNotFound && IsReplaced(directory, graph, name, text)) return;
    on_file(
        {path + "/layouts/" + layout.name, layout.summary.bytes, reader.ok() ? (*reader)->Verify() : reader.status()});
  }
}

// The documents beside a graph version. One that is replaced meanwhile is the old one or the new one.
void CheckDocuments(const FileSystem& files, const StateDirectory& directory, const VersionId& graph,
                    const std::string& path, const OnFile& on_file) {
  const std::string documents = Join(path, "documents");
  const auto entries = files.List(documents);
  if (entries.status().code() == StatusCode::kNotFound) return;
  if (!entries.ok()) return on_file({documents, 0, entries.status()});
  for (const DirectoryEntry& entry : *entries) {
    constexpr std::string_view kJson = ".json";
    if (!entry.name.ends_with(kJson)) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - kJson.size());
    if (!IsDocumentName(name)) continue;
    const std::string file = Join(documents, entry.name);
    const auto text = directory.GetDocument(graph, name);
    if (text.status().code() == StatusCode::kNotFound) continue;
    if (text.ok() && name.starts_with("layouts-")) {
      CheckLayouts(directory, graph, path, name, *text, on_file);
    } else {
      on_file(VerdictOf(files, file, text.ok() ? CheckTuning(graph, file, name, *text) : text.status()));
    }
  }
}

Status CheckVersion(const FileSystem& files, const StateDirectory& directory, const Manifest& manifest,
                    const OnFile& on_file) {
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(manifest.id));
  on_file(VerdictOf(files, Join(path, kManifestName), OkStatus()));
  for (const ManifestFile& file : manifest.files) {
    const auto reader = directory.OpenFile(manifest, file.name);
    Status status = reader.ok() ? (*reader)->Verify() : reader.status();
    if (!status.ok() && IsGone(files, path)) return OkStatus();
    on_file({Join(path, file.name), file.summary.bytes, std::move(status)});
  }
  if (manifest.id.store == Store::kGraphs) CheckDocuments(files, directory, manifest.id, path, on_file);
  return OkStatus();
}

void MarkReplaced(std::vector<VersionInfo>* versions) {
  const auto name_of = [](VersionId id) {
    id.version = 0;
    return id;
  };
  std::map<VersionId, int64_t> latest;
  for (const VersionInfo& info : *versions) {
    int64_t& known = latest[name_of(info.id)];
    known = std::max(known, info.id.version);
  }
  const auto is_replaced = [&](const VersionId& id) { return id.version < latest.at(name_of(id)); };
  for (VersionInfo& info : *versions) {
    info.replaced = is_replaced(info.id) || (BelongsToGraph(info.id.store) && is_replaced(GraphOf(info.id)));
  }
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
    const std::string layouts = Join(path, "layouts");
    for (const DirectoryEntry& entry : files.List(layouts).value_or(std::vector<DirectoryEntry>())) {
      if (entry.kind == FileKind::kFile) Count(files, Join(layouts, entry.name), &info);
    }
    inventory.versions.push_back(std::move(info));
  }
  MarkReplaced(&inventory.versions);
  VICINAL_ASSIGN_OR_RETURN(inventory.unpublished, directory->Unpublished());
  VICINAL_ASSIGN_OR_RETURN(const std::set<VersionId> published, directory->ListPublished(nullptr));
  inventory.lost = StillLost(directory->Lost().value_or(std::vector<LostVersion>()), published);
  const auto entries = files.List("quarantine");
  if (!entries.ok() && entries.status().code() != StatusCode::kNotFound) return entries.status();
  VICINAL_ASSIGN_OR_RETURN(const std::vector<std::string> marks_files, KernelMarksFiles(files));
  for (const std::string& file : marks_files) {
    const StatusOr<KernelMarks> marks = ReadKernelMarks(files, file);
    if (!marks.ok()) continue;  // CheckFiles says why; a server begins an empty one
    for (const auto& [configuration, reason] : marks->quarantined) {
      inventory.kernels.push_back({marks->device, configuration, reason});
    }
  }
  for (const DirectoryEntry& entry : entries.value_or(std::vector<DirectoryEntry>())) {
    if (entry.kind == FileKind::kDirectory) inventory.quarantined.push_back("quarantine/" + entry.name);
  }
  return inventory;
}

Status LiftQuarantine(FileSystem& files, const LockHolder& self, const std::string& configuration, const Clock& clock) {
  VICINAL_ASSIGN_OR_RETURN(const auto directory, OpenToWrite(files, self, clock, /*new_incarnation=*/false));
  VICINAL_ASSIGN_OR_RETURN(const std::vector<std::string> marks_files, KernelMarksFiles(files));
  bool found = false;
  for (const std::string& file : marks_files) {
    VICINAL_ASSIGN_OR_RETURN(KernelMarks marks, ReadKernelMarks(files, file));
    if (marks.quarantined.erase(configuration) == 0) continue;
    found = true;
    VICINAL_RETURN_IF_ERROR(WriteKernelMarks(files, marks));
  }
  if (found) return OkStatus();
  return NotFound("quarantined kernel configuration", configuration, "'vicinal state list' shows them");
}

Status CheckFiles(FileSystem& files, const std::function<void(const FileVerdict& verdict)>& on_file) {
  VICINAL_ASSIGN_OR_RETURN(const auto directory, OpenToInspect(files));
  on_file(VerdictOf(files, "FORMAT", OkStatus()));  // else it would not be open
  on_file(VerdictOf(files, "INCARNATION", directory->CheckIncarnation()));
  on_file(VerdictOf(files, "VERSIONS", directory->CheckReservations()));
  if (files.Stat("LOST").ok()) on_file(VerdictOf(files, "LOST", directory->CheckLost()));
  VICINAL_ASSIGN_OR_RETURN(const std::vector<std::string> marks_files, KernelMarksFiles(files));
  for (const std::string& file : marks_files) on_file(VerdictOf(files, file, ReadKernelMarks(files, file).status()));
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
