// SPDX-License-Identifier: Apache-2.0
// Versions come and go: begin, publish, remove.
#include <cerrno>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/state/file_error.h"
#include "engine/state/state_directory.h"

namespace vicinal::state {
namespace {

std::string ManifestOf(const std::string& path) { return path + "/" + kManifestName; }

Status NotPublished(const VersionId& id) {
  return NotFound("version", Describe(id), "it is not in the state directory");
}

}  // namespace

StatusOr<bool> StateDirectory::HasManifest(const std::string& path) const {
  const Status found = files_->Stat(ManifestOf(path)).status();
  if (!found.ok() && found.code() != StatusCode::kNotFound) return found;
  return found.ok();
}

// Whether a feature set of that graph version may be published: the graph is, or is being written.
Status StateDirectory::CheckGraph(const VersionId& graph) const {
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(graph));
  if (staged_.contains(path)) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(const bool published, HasManifest(path));
  return published ? OkStatus() : NotPublished(graph);
}

StatusOr<std::unique_ptr<VersionWriter>> StateDirectory::BeginVersion(const VersionId& id) {
  VICINAL_CHECK(!options_.read_only);
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(id));
  MutexLock lock(&mutex_);
  if (BelongsToGraph(id.store)) VICINAL_RETURN_IF_ERROR(CheckGraph(GraphOf(id)));
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const Status made = files_->MakeDirectory(path.substr(0, slash));
    if (!made.ok() && made.code() != StatusCode::kAlreadyExists) return made;
  }
  VICINAL_RETURN_IF_ERROR(files_->MakeDirectory(path));
  staged_.insert(path);
  return std::unique_ptr<VersionWriter>(new VersionWriter(this, id, path));
}

Status StateDirectory::Remove(const VersionId& id, Data data) {
  VICINAL_CHECK(!options_.read_only);
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(id));
  MutexLock lock(&mutex_);
  Status unlinked = files_->Unlink(ManifestOf(path));
  if (!unlinked.ok() && unlinked.code() != StatusCode::kNotFound) return unlinked;
  // Also where the manifest is gone: an earlier Remove may have failed just here.
  const Status synced = files_->SyncDirectory(path);
  if (!unlinked.ok() && (synced.ok() || synced.code() == StatusCode::kNotFound)) return NotPublished(id);
  VICINAL_RETURN_IF_ERROR(synced);
  if (data == Data::kDelete) {
    SweepReport report;
    DeleteTree(path, &report);
    RemoveEmptyParents(path);
  }
  return OkStatus();
}

Status StateDirectory::Discard(const VersionId& id) {
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(id));
  MutexLock lock(&mutex_);
  if (unsettled_.contains(path)) {
    Status unlinked = files_->Unlink(ManifestOf(path));
    if (!unlinked.ok() && unlinked.code() != StatusCode::kNotFound) return unlinked;
    VICINAL_RETURN_IF_ERROR(files_->SyncDirectory(path));
    unsettled_.erase(path);
  }
  SweepReport report;
  DeleteTree(path, &report);
  const auto left = files_->Stat(path);
  if (left.ok()) return FileError("rmdir", path, ENOTEMPTY);
  return left.status().code() == StatusCode::kNotFound ? OkStatus() : left.status();
}

VersionWriter::~VersionWriter() {
  files_.clear();
  MutexLock lock(&directory_->mutex_);
  directory_->staged_.erase(path_);
  if (may_be_published_) return;
  SweepReport report;
  directory_->DeleteTree(path_, &report);
  directory_->RemoveEmptyParents(path_);
}

StatusOr<SectionFileWriter*> VersionWriter::AddFile(const std::string& name, std::vector<SectionSpec> sections) {
  VICINAL_CHECK(!may_be_published_);
  const std::string file = name + ".vsec";
  if (!IsDataFileName(file)) return InvalidArgument("BAD_NAME", "", "names of files match [a-z0-9_]{1,60}");
  VICINAL_ASSIGN_OR_RETURN(auto writer,
                           SectionFileWriter::Create(*directory_->files_, path_ + "/" + file, std::move(sections)));
  files_.push_back(std::move(writer));
  return files_.back().get();
}

Status VersionWriter::Publish(std::string metadata) {
  VICINAL_CHECK(!may_be_published_);
  Manifest manifest{id_, {}, std::move(metadata)};
  for (const auto& file : files_) {
    VICINAL_CHECK(file->finished());
    manifest.files.push_back({file->path().substr(path_.size() + 1), file->summary()});
  }
  VICINAL_ASSIGN_OR_RETURN(const std::string text, EncodeManifest(manifest));
  FileSystem& files = *directory_->files_;
  const std::string target = ManifestOf(path_), temporary = target + ".tmp";
  {
    VICINAL_ASSIGN_OR_RETURN(const auto file, files.Create(temporary));
    VICINAL_RETURN_IF_ERROR(file->Append(text));
    VICINAL_RETURN_IF_ERROR(file->Sync());
  }
  // The names of the files and of every directory above, which this version's or an earlier writer has made.
  for (std::string at = path_;; at = ParentOf(at)) {
    VICINAL_RETURN_IF_ERROR(files.SyncDirectory(at));
    if (at.empty()) break;
  }
  MutexLock lock(&directory_->mutex_);
  if (BelongsToGraph(id_.store)) VICINAL_RETURN_IF_ERROR(directory_->CheckGraph(GraphOf(id_)));
  may_be_published_ = true;
  VICINAL_RETURN_IF_ERROR(files.Rename(temporary, target));
  Status synced = files.SyncDirectory(path_);
  if (!synced.ok()) directory_->unsettled_.insert(path_);
  return synced;
}

}  // namespace vicinal::state
