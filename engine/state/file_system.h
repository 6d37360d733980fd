// SPDX-License-Identifier: Apache-2.0
// What the state directory asks of a file system, as an interface, so that tests can cut the power (docs/state.md).
//
// Durability, exactly:
//   - Bytes of a file survive a power failure once WritableFile::Sync has returned OK. Before, each block may be there,
//     be missing, torn or zero, and the file may have any length up to the one written.
//   - Names survive (created, renamed, removed) once SyncDirectory of the directory has returned OK. Before, each
//     change may have happened or not; changes of one name happen in order. Rename is atomic: the old file or the new.
//   - Sync of a file says nothing about its name, SyncDirectory nothing about the bytes of its files.
//   - A failed Sync or SyncDirectory is final: the kernel may have dropped what it could not write and would report
//     success next time. The same error comes back for that file, or that directory of that FileSystem, ever after.
//     One exception: SyncDirectory that fails for lack of space or descriptors can be repeated. File systems reserve
//     the space for a name before they accept it, so nothing of a directory is dropped when the disk is full.
//
// Paths are relative to one root, with '/' between components; "" is the root itself. Components are never ".", ".." or
// empty (VICINAL_CHECK). Symbolic links are not followed anywhere below the root. Errors: file_error.h.
#ifndef VICINAL_ENGINE_STATE_FILE_SYSTEM_H_
#define VICINAL_ENGINE_STATE_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace vicinal::state {

enum class FileKind { kFile, kDirectory, kOther };

struct FileInfo {
  FileKind kind = FileKind::kOther;
  int64_t bytes = 0;
  int64_t disk_bytes = 0;  // that it takes: fewer than `bytes` if it has holes
  WallTime modify_time{};
};

struct DirectoryEntry {
  std::string name;
  FileKind kind = FileKind::kOther;
};

// A file that was created empty. One thread at a time. After the first error every call returns that error.
class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes; syncs nothing

  // Writes all of `bytes`, wherever they end.
  Status Append(std::string_view bytes);
  // Overwrites or extends at `offset`; a gap becomes a hole. The position of Append becomes the end if that is further.
  Status WriteAt(int64_t offset, std::string_view bytes);
  // Returns when all bytes written before are durable.
  Status Sync();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }

 protected:
  explicit WritableFile(std::string path) : path_(std::move(path)) {}
  virtual Status DoWrite(int64_t offset, std::string_view bytes) = 0;
  virtual Status DoSync() = 0;

 private:
  const std::string path_;
  int64_t size_ = 0;
  Status error_;  // the first one
};

// Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual StatusOr<int64_t> Size() const = 0;
  // Reads exactly `bytes` bytes. DATA_LOSS if the file ends before.
  virtual Status ReadAt(int64_t offset, char* to, int64_t bytes) const = 0;
  // A hint that this range will be read soon: starts reading it from disk and returns.
  virtual void Prefetch(int64_t offset, int64_t bytes) const = 0;
  // Whether the byte can be read without waiting for the disk. False if nobody knows.
  virtual bool IsInMemory(int64_t offset) const = 0;
  // A hint that later reads should come from the disk, not from memory: to measure what they take.
  virtual void DropFromMemory() const {}

  const std::string& path() const { return path_; }

 protected:
  explicit ReadableFile(std::string path) : path_(std::move(path)) {}

 private:
  const std::string path_;
};

// Held until destroyed or until the process ends, however it ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
  // Replaces what the file says of who holds it. A reader may see part of it meanwhile.
  virtual Status SetHolder(std::string_view holder) = 0;
};

// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // ALREADY_EXISTS if there is anything of that name. Mode 0600.
  virtual StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  virtual StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) const = 0;
  // Replaces a file `to` atomically. A directory is moved; `to` must not exist then.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Unlink(const std::string& path) = 0;
  // Mode 0700. ALREADY_EXISTS.
  virtual Status MakeDirectory(const std::string& path) = 0;
  // ALREADY_EXISTS if it is not empty.
  virtual Status RemoveDirectory(const std::string& path) = 0;
  virtual StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) const = 0;  // by name
  virtual StatusOr<FileInfo> Stat(const std::string& path) const = 0;
  // Locks the file against others, making it if need be, and writes `holder` into it for people and other programs.
  // Never waits: FAILED_PRECONDITION (STATE_LOCKED) while another process or lock holds it, with the holder's text in
  // metadata "holder" (empty if the holder has not written it yet).
  virtual StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, std::string_view holder) = 0;

  // Bytes that new files may take before the disk is full. Quotas, which it does not know, may allow less.
  virtual StatusOr<int64_t> FreeBytes() const = 0;

  // FAILED_PRECONDITION (STATE_DIRECTORY_GONE) once the root is not at its place any more: it was removed, renamed or
  // unmounted.
  virtual Status CheckReachable() const = 0;
  // What is at the root's place now, perhaps another directory than the one that this object keeps open.
  virtual StatusOr<std::unique_ptr<FileSystem>> Reopen() const = 0;

  // Returns when all changes of names made in that directory before are durable. After a failure, that failure.
  Status SyncDirectory(const std::string& path);

 protected:
  virtual Status DoSyncDirectory(const std::string& path) = 0;

 private:
  Mutex mutex_;
  std::map<std::string, Status> failed_ VICINAL_GUARDED_BY(mutex_);
};

// "a/b" -> "a"; "a" -> "".
std::string ParentOf(const std::string& path);
// "a", "b" -> "a/b"; "", "b" -> "b".
std::string Join(const std::string& directory, const std::string& name);

// Reads a whole file of at most `most` bytes. DATA_LOSS if it is larger.
StatusOr<std::string> ReadSmallFile(const FileSystem& files, const std::string& path, int64_t most);
// Creates or replaces `path` durably: writes PATH.tmp, syncs it, renames it, syncs the directory. On an error before
// the rename, `path` is as before; on one after it (a failed SyncDirectory), a crash leaves the old or the new file.
// REQUIRES: no other call for `path` runs. Deletes a PATH.tmp that an earlier crash left.
Status ReplaceFile(FileSystem& files, const std::string& path, std::string_view bytes);

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_FILE_SYSTEM_H_
