// SPDX-License-Identifier: Apache-2.0
#include "engine/state/file_system.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/state/file_error.h"

namespace vicinal::state {

Status WritableFile::Append(std::string_view bytes) { return WriteAt(size_, bytes); }

Status WritableFile::WriteAt(int64_t offset, std::string_view bytes) {
  if (error_.ok()) error_ = DoWrite(offset, bytes);
  if (error_.ok()) size_ = std::max(size_, offset + static_cast<int64_t>(bytes.size()));
  return error_;
}

Status WritableFile::Sync() {
  if (error_.ok()) error_ = DoSync();
  return error_;
}

Status FileSystem::SyncDirectory(const std::string& path) {
  {
    MutexLock lock(&mutex_);
    const auto failed = failed_.find(path);
    if (failed != failed_.end()) {
      return Annotate(failed->second, "an earlier fsync of this directory failed, restart to try again");
    }
  }
  Status status = DoSyncDirectory(path);
  // A directory that is gone says nothing about one made later under its name, and a full disk nothing about later.
  if (!status.ok() && status.code() != StatusCode::kNotFound && status.code() != StatusCode::kResourceExhausted) {
    MutexLock lock(&mutex_);
    failed_.emplace(path, status);
  }
  return status;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

std::string Join(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

StatusOr<std::string> ReadSmallFile(const FileSystem& files, const std::string& path, int64_t most) {
  VICINAL_ASSIGN_OR_RETURN(const auto file, files.Open(path));
  VICINAL_ASSIGN_OR_RETURN(const int64_t bytes, file->Size());
  if (bytes > most) {
    return Damaged(path, "it has " + std::to_string(bytes) + " bytes, at most " + std::to_string(most) + " expected");
  }
  std::string text(bytes, '\0');
  VICINAL_RETURN_IF_ERROR(file->ReadAt(0, text.data(), bytes));
  return text;
}

Status ReplaceFile(FileSystem& files, const std::string& path, std::string_view bytes) {
  const std::string temporary = path + ".tmp";
  Status removed = files.Unlink(temporary);
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  {
    VICINAL_ASSIGN_OR_RETURN(const auto file, files.Create(temporary));
    Status written = file->Append(bytes);
    if (written.ok()) written = file->Sync();
    if (!written.ok()) {
      files.Unlink(temporary).IgnoreError();
      return written;
    }
  }
  VICINAL_RETURN_IF_ERROR(files.Rename(temporary, path));
  return files.SyncDirectory(ParentOf(path));
}

}  // namespace vicinal::state
