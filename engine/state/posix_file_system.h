// SPDX-License-Identifier: Apache-2.0
// FileSystem over a directory of this machine. Everything is opened relative to descriptors, component by component,
// with O_NOFOLLOW and O_CLOEXEC: whoever can write below the root cannot lead the server out of it by a link. The root
// itself may be reached through links: the operator named it.
#ifndef VICINAL_ENGINE_STATE_POSIX_FILE_SYSTEM_H_
#define VICINAL_ENGINE_STATE_POSIX_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/state/file_system.h"

namespace vicinal::state {

// Owns a file descriptor, or nothing (-1).
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;

  int get() const { return fd_; }

 private:
  int fd_;
};

// Thread-safe.
class PosixFileSystem final : public FileSystem {
 public:
  enum class Root {
    kMustExist,
    kCreate,  // made with mode 0700 if missing, durably; its parent must exist
  };
  static StatusOr<std::unique_ptr<PosixFileSystem>> Open(const std::string& root, Root create);

  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) const override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Unlink(const std::string& path) override;
  Status MakeDirectory(const std::string& path) override;
  Status RemoveDirectory(const std::string& path) override;
  StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) const override;
  StatusOr<FileInfo> Stat(const std::string& path) const override;
  StatusOr<int64_t> FreeBytes() const override;
  Status CheckReachable() const override;
  StatusOr<std::unique_ptr<FileSystem>> Reopen() const override;
  // An "open file description" lock: gone when the process is, on this host or, over NFS 4, another. Where the file
  // system can, the directory of `path` is locked as well (flock), so that deleting the file lets nobody else in.
  StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, std::string_view holder) override;

 protected:
  Status DoSyncDirectory(const std::string& path) override;

 private:
  PosixFileSystem(std::string path, Descriptor root) : path_(std::move(path)), root_(std::move(root)) {}
  StatusOr<Descriptor> OpenDirectory(const std::string& path) const;

  const std::string path_;  // as it was opened
  const Descriptor root_;
};

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_POSIX_FILE_SYSTEM_H_
