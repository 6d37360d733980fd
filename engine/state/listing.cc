// SPDX-License-Identifier: Apache-2.0
// What is there: walks the directories, reads manifests, deletes what belongs to no version. Entries that vanish
// meanwhile are skipped: a reader looks while the writer works.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/state/file_error.h"
#include "engine/state/sealed_json.h"
#include "engine/state/state_directory.h"

namespace vicinal::state {
namespace {

constexpr int kMaxDepth = 80;  // of directories that one name takes: kMaxNameBytes of three characters, 200 a level

bool EndsWith(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Of the feature sets of the graph version in `graph`.
std::string PathIn(const std::string& graph, Store store) { return graph + "/" + std::string(ToString(store)); }

// Whether this product writes files of that name.
bool IsOurs(const std::string& name) {
  if (name == kManifestName || IsDataFileName(name)) return true;
  const std::string whole = EndsWith(name, ".tmp") ? name.substr(0, name.size() - 4) : name;
  return whole == kManifestName ||
         (EndsWith(whole, ".json") && IsDocumentName(std::string_view(whole).substr(0, whole.size() - 5)));
}

// A symbolic link, mostly, that somebody has put in the place of what was moved elsewhere: it is not followed, and must
// not pass for nothing.
void NoteLink(const std::string& path, std::vector<ListedProblem>* problems) {
  if (problems != nullptr) problems->push_back({path, std::nullopt, FileError("open directory", path, ENOTDIR)});
}

}  // namespace

Status StateDirectory::VisitNames(const std::string& directory, const std::string& prefix, int depth,
                                  const NameVisitor& visit, std::vector<ListedProblem>* problems) const {
  const auto entries = files_->List(directory);
  if (entries.status().code() == StatusCode::kNotFound) return OkStatus();
  if (!entries.ok()) return entries.status();
  for (const DirectoryEntry& entry : *entries) {
    const bool goes_on = EndsWith(entry.name, "+");
    const auto part = DecodeComponent(std::string_view(entry.name).substr(0, entry.name.size() - (goes_on ? 1 : 0)));
    if (part && entry.kind == FileKind::kOther) NoteLink(Join(directory, entry.name), problems);
    if (!part || entry.kind != FileKind::kDirectory) continue;
    const std::string path = Join(directory, entry.name), name = prefix + *part;
    if (!goes_on) {
      visit(name, path);
    } else if (depth < kMaxDepth) {
      Status status = VisitNames(path, name, depth + 1, visit, problems);
      if (!status.ok() && problems != nullptr) problems->push_back({path, std::nullopt, std::move(status)});
    }
  }
  return OkStatus();
}

Status StateDirectory::VisitVersions(const VersionId& owner, const std::string& directory, const VersionVisitor& visit,
                                     std::vector<ListedProblem>* problems) const {
  const NameVisitor versions = [&](const std::string& name, const std::string& path) {
    const auto entries = files_->List(path);
    if (entries.status().code() == StatusCode::kNotFound) return;
    if (!entries.ok()) {
      if (problems != nullptr) problems->push_back({path, std::nullopt, entries.status()});
      return;
    }
    for (const DirectoryEntry& entry : *entries) {
      const auto version = ParseVersion(entry.name);
      if (version && entry.kind == FileKind::kOther) NoteLink(Join(path, entry.name), problems);
      if (entry.kind != FileKind::kDirectory || !version) continue;
      VersionId id = owner;
      id.name = name;
      id.version = *version;
      visit(id, Join(path, entry.name));
    }
  };
  return VisitNames(directory, "", 0, versions, problems);
}

Status StateDirectory::VisitAll(const VersionVisitor& visit, std::vector<ListedProblem>* problems) const {
  VICINAL_RETURN_IF_ERROR(VisitVersions({Store::kModels, "", 0, "", 0}, "models", visit, problems));
  const VersionVisitor graphs = [&](const VersionId& id, const std::string& path) {
    visit(id, path);
    for (const Store store : kStoresOfGraphs) {
      const std::string directory = PathIn(path, store);
      Status status = VisitVersions({store, "", 0, id.name, id.version}, directory, visit, problems);
      if (!status.ok() && problems != nullptr) problems->push_back({directory, std::nullopt, std::move(status)});
    }
  };
  return VisitVersions({Store::kGraphs, "", 0, "", 0}, "graphs", graphs, problems);
}

StatusOr<Manifest> StateDirectory::ReadManifest(const VersionId& id, const std::string& path) const {
  const std::string file = path + "/" + kManifestName;
  VICINAL_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(*files_, file, internal::kMaxDocumentBytes));
  VICINAL_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(file, text));
  if (manifest.id != id) return Damaged(file, "it is the manifest of " + Describe(manifest.id));
  for (const ManifestFile& listed : manifest.files) {
    const std::string data = path + "/" + listed.name;
    const auto info = files_->Stat(data);
    if (info.status().code() == StatusCode::kNotFound) {
      VICINAL_ASSIGN_OR_RETURN(const bool published, HasManifest(path));
      if (published) return Damaged(data, "it is missing");
    }
    VICINAL_RETURN_IF_ERROR(info.status());
    if (info->bytes != listed.summary.bytes) {
      return Damaged(data, "it has " + std::to_string(info->bytes) + " bytes, " + std::to_string(listed.summary.bytes) +
                               " expected by the manifest");
    }
  }
  return manifest;
}

StatusOr<Listing> StateDirectory::List() const {
  Listing listing;
  std::set<VersionId> graphs;
  const VersionVisitor visit = [&](const VersionId& id, const std::string& path) {
    // Feature sets come after their graph version, and mean nothing without it.
    if (BelongsToGraph(id.store) && !graphs.contains(GraphOf(id))) return;
    auto manifest = ReadManifest(id, path);
    if (manifest.ok()) {
      if (id.store == Store::kGraphs) graphs.insert(id);
      listing.published.push_back(*std::move(manifest));
    } else if (manifest.status().code() != StatusCode::kNotFound) {
      listing.problems.push_back({path, id, manifest.status()});
    }
  };
  VICINAL_RETURN_IF_ERROR(VisitAll(visit, &listing.problems));
  std::sort(listing.published.begin(), listing.published.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return listing;
}

StatusOr<Listing> StateDirectory::ListGraph(const VersionId& graph) const {
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(graph));
  Listing listing;
  const auto add = [&](const VersionId& id, const std::string& at) -> Status {
    auto manifest = ReadManifest(id, at);
    Status status = manifest.status();
    if (status.ok()) {
      listing.published.push_back(*std::move(manifest));
    } else if (status.code() != StatusCode::kNotFound) {
      listing.problems.push_back({at, id, status});
    }
    return status;
  };
  if (const Status status = add(graph, path); !status.ok()) {
    if (status.code() == StatusCode::kNotFound) return NotFound("graph version", Describe(graph), "it is not on disk");
    return listing;
  }
  const VersionVisitor visit = [&](const VersionId& id, const std::string& at) { add(id, at).IgnoreError(); };
  for (const Store store : kStoresOfGraphs) {
    VICINAL_RETURN_IF_ERROR(
        VisitVersions({store, "", 0, graph.name, graph.version}, PathIn(path, store), visit, &listing.problems));
  }
  std::sort(listing.published.begin() + 1, listing.published.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return listing;
}

StatusOr<std::set<VersionId>> StateDirectory::ListPublished(std::vector<ListedProblem>* problems) const {
  std::set<VersionId> published;
  const VersionVisitor visit = [&](const VersionId& id, const std::string& path) {
    // Feature sets come after their graph version, and mean nothing without it.
    if (BelongsToGraph(id.store) && !published.contains(GraphOf(id))) return;
    const StatusOr<bool> found = HasManifest(path);
    if (found.value_or(false)) published.insert(id);
    if (!found.ok() && problems != nullptr) problems->push_back({path, id, found.status()});
  };
  VICINAL_RETURN_IF_ERROR(VisitAll(visit, problems));
  return published;
}

StatusOr<Manifest> StateDirectory::GetManifest(const VersionId& id) const {
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(id));
  return ReadManifest(id, path);
}

int64_t StateDirectory::DiskBytes(const Manifest& manifest) const {
  const auto path = PathOf(manifest.id);
  int64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) {
    const auto info = path.ok() ? files_->Stat(Join(*path, file.name)) : path.status();
    if (info.ok()) bytes += info->disk_bytes;
  }
  if (manifest.id.store != Store::kGraphs || !path.ok()) return bytes;
  for (const DirectoryEntry& entry : files_->List(*path + "/layouts").value_or(std::vector<DirectoryEntry>())) {
    const auto info = files_->Stat(*path + "/layouts/" + entry.name);
    if (entry.kind == FileKind::kFile && info.ok()) bytes += info->disk_bytes;
  }
  return bytes;
}

StatusOr<std::vector<std::string>> StateDirectory::Unpublished() const {
  std::vector<std::string> paths;
  std::set<VersionId> graphs;
  const VersionVisitor visit = [&](const VersionId& id, const std::string& path) {
    const bool has_graph = !BelongsToGraph(id.store) || graphs.contains(GraphOf(id));
    if (!has_graph || files_->Stat(path + "/" + kManifestName).status().code() == StatusCode::kNotFound) {
      paths.push_back(path);
    } else if (id.store == Store::kGraphs) {
      graphs.insert(id);
    }
  };
  VICINAL_RETURN_IF_ERROR(VisitAll(visit, nullptr));
  return paths;
}

StatusOr<std::unique_ptr<SectionFileReader>> StateDirectory::OpenFile(const Manifest& manifest,
                                                                      const std::string& name) const {
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(manifest.id));
  for (const ManifestFile& file : manifest.files) {
    if (file.name != name) continue;
    VICINAL_ASSIGN_OR_RETURN(auto reader, SectionFileReader::Open(*files_, path + "/" + name));
    if (IsListed(reader->summary(), file.summary)) return reader;
    return Damaged(path + "/" + name, "it is another file than the manifest's");
  }
  return NotFound("file", name, "the manifest of " + Describe(manifest.id) + " does not list it");
}

bool StateDirectory::IsRecent(const std::string& path, WallTime since) const {
  const auto info = files_->Stat(path);
  if (!info.ok() || info->modify_time > since) return true;
  const auto entries = files_->List(path);
  if (!entries.ok()) return true;
  return std::any_of(entries->begin(), entries->end(), [&](const DirectoryEntry& entry) {
    if (entry.kind != FileKind::kFile) return false;
    const auto file = files_->Stat(Join(path, entry.name));
    return !file.ok() || file->modify_time > since;
  });
}

void StateDirectory::DeleteFiles(const std::string& path, const std::set<std::string>& keep, SweepReport* report) {
  const auto entries = files_->List(path);
  if (!entries.ok()) return;
  for (const DirectoryEntry& entry : *entries) {
    if (entry.kind != FileKind::kFile || !IsOurs(entry.name) || keep.contains(entry.name)) continue;
    const auto info = files_->Stat(Join(path, entry.name));
    if (!files_->Unlink(Join(path, entry.name)).ok()) continue;
    ++report->files;
    if (info.ok()) report->bytes += info->bytes;
  }
}

// The directories that this product makes below a version: features, names, versions.
void StateDirectory::DeleteTree(const std::string& path, SweepReport* report) {
  DeleteFiles(path, {}, report);
  const auto entries = files_->List(path);
  if (!entries.ok()) return;
  for (const DirectoryEntry& entry : *entries) {
    if (entry.kind == FileKind::kDirectory) DeleteTree(Join(path, entry.name), report);
  }
  files_->RemoveDirectory(path).IgnoreError();  // stays if there are files of others
}

void StateDirectory::RemoveEmptyParents(const std::string& path) {
  for (std::string at = ParentOf(path); at.find('/') != std::string::npos; at = ParentOf(at)) {
    // A version's own directory stays with the version, even when its last feature set goes.
    if (ParseVersion(at.substr(at.rfind('/') + 1)) || !files_->RemoveDirectory(at).ok()) return;
  }
}

StatusOr<SweepReport> StateDirectory::Sweep(std::chrono::seconds grace) {
  VICINAL_CHECK(!options_.read_only);
  const WallTime since = options_.clock->WallNow() - grace;
  MutexLock lock(&mutex_);
  std::vector<std::pair<VersionId, std::string>> versions;
  VICINAL_RETURN_IF_ERROR(
      VisitAll([&](const VersionId& id, const std::string& path) { versions.emplace_back(id, path); }, nullptr));
  SweepReport report;
  for (const auto& [id, path] : versions) {
    if (staged_.contains(path) || IsRecent(path, since)) continue;
    const auto manifest = ReadManifest(id, path);
    if (manifest.ok()) {
      std::set<std::string> keep = {kManifestName};
      for (const ManifestFile& file : manifest->files) keep.insert(file.name);
      DeleteFiles(path, keep, &report);
      if (id.store == Store::kGraphs) SweepLayouts(id, path, since, &report);
    } else if (manifest.status().code() == StatusCode::kNotFound && !HasManifest(path).value_or(true)) {
      // Never what is damaged: it may be of use to somebody. Never where a Remove could not be made durable: the
      // manifest could come back without its files.
      if (!files_->SyncDirectory(path).ok()) continue;
      DeleteTree(path, &report);
      RemoveEmptyParents(path);
    }
  }
  return report;
}

}  // namespace vicinal::state
