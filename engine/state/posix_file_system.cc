// SPDX-License-Identifier: Apache-2.0
#include "engine/state/posix_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/state/file_error.h"

namespace vicinal::state {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr mode_t kDirectoryMode = 0700, kFileMode = 0600;
constexpr int64_t kMostHolderBytes = 4096;

// Repeats a system call that a signal interrupted.
template <class Call>
auto Retry(const Call& call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

FileKind KindOf(mode_t mode) {
  return S_ISREG(mode) ? FileKind::kFile : S_ISDIR(mode) ? FileKind::kDirectory : FileKind::kOther;
}

Status WriteAll(int fd, const std::string& path, int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = Retry([&] { return pwrite(fd, bytes.data(), bytes.size(), offset); });
    if (written < 0) return FileError("write", path, errno);
    bytes.remove_prefix(written);
    offset += written;
  }
  return OkStatus();
}

// Reads up to `bytes`; fewer only at the end of the file.
StatusOr<int64_t> ReadUpTo(int fd, const std::string& path, int64_t offset, char* to, int64_t bytes) {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t read = Retry([&] { return pread(fd, to + done, bytes - done, offset + done); });
    if (read < 0) return FileError("read", path, errno);
    if (read == 0) break;
    done += read;
  }
  return done;
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, Descriptor fd) : WritableFile(std::move(path)), fd_(std::move(fd)) {}

 protected:
  Status DoWrite(int64_t offset, std::string_view bytes) override { return WriteAll(fd_.get(), path(), offset, bytes); }
  // No retry on EINTR either: what fsync had found is then unknown.
  Status DoSync() override { return fsync(fd_.get()) == 0 ? OkStatus() : FileError("fsync", path(), errno); }

 private:
  const Descriptor fd_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(std::string path, Descriptor fd) : ReadableFile(std::move(path)), fd_(std::move(fd)) {}

  StatusOr<int64_t> Size() const override {
    struct stat info;
    if (fstat(fd_.get(), &info) != 0) return FileError("stat", path(), errno);
    return static_cast<int64_t>(info.st_size);
  }
  Status ReadAt(int64_t offset, char* to, int64_t bytes) const override {
    VICINAL_ASSIGN_OR_RETURN(const int64_t read, ReadUpTo(fd_.get(), path(), offset, to, bytes));
    if (read == bytes) return OkStatus();
    return Damaged(path(), "it ends at byte " + std::to_string(offset + read) + ", bytes up to " +
                               std::to_string(offset + bytes) + " expected");
  }
  void Prefetch(int64_t offset, int64_t bytes) const override {
    posix_fadvise(fd_.get(), offset, bytes, POSIX_FADV_WILLNEED);
  }
  bool IsInMemory(int64_t offset) const override {
    char byte = 0;
    const iovec to = {&byte, 1};
    return preadv2(fd_.get(), &to, 1, offset, RWF_NOWAIT) == 1;
  }
  void DropFromMemory() const override { posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED); }

 private:
  const Descriptor fd_;
};

class PosixFileLock final : public FileLock {
 public:
  PosixFileLock(std::string path, Descriptor fd, Descriptor directory)
      : path_(std::move(path)), fd_(std::move(fd)), directory_(std::move(directory)) {}

  Status SetHolder(std::string_view holder) override {
    VICINAL_RETURN_IF_ERROR(WriteAll(fd_.get(), path_, 0, holder));
    const auto bytes = static_cast<off_t>(holder.size());
    return Retry([&] { return ftruncate(fd_.get(), bytes); }) == 0 ? OkStatus() : FileError("truncate", path_, errno);
  }

 private:
  const std::string path_;
  const Descriptor fd_, directory_;  // closing them releases the locks
};

Status AlreadyLocked(int fd, const std::string& path) {
  std::string holder(kMostHolderBytes, '\0');
  const auto read = ReadUpTo(fd, path, 0, holder.data(), kMostHolderBytes);
  holder.resize(read.ok() ? *read : 0);
  return WithMetadata(FailedPrecondition("STATE_LOCKED", "'" + path + "' is locked by another process"), "holder",
                      holder);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

StatusOr<std::unique_ptr<PosixFileSystem>> PosixFileSystem::Open(const std::string& root, Root create) {
  if (create == Root::kCreate) {
    if (mkdir(root.c_str(), kDirectoryMode) != 0 && errno != EEXIST) return FileError("mkdir", root, errno);
  }
  Descriptor fd(Retry([&] { return open(root.c_str(), kDirectoryFlags); }));
  if (fd.get() < 0) return FileError("open directory", root, errno);
  if (create == Root::kCreate) {
    // Also where the root was there: whoever made it may have crashed before this.
    const Descriptor parent(Retry([&] { return openat(fd.get(), "..", kDirectoryFlags); }));
    // A parent that this user may not read was not changed by this user either.
    if (parent.get() >= 0 && fsync(parent.get()) != 0 && errno != EINVAL && errno != EROFS) {
      return FileError("fsync directory", root + "/..", errno);
    }
  }
  return std::unique_ptr<PosixFileSystem>(new PosixFileSystem(root, std::move(fd)));
}

StatusOr<Descriptor> PosixFileSystem::OpenDirectory(const std::string& path) const {
  Descriptor at(Retry([&] { return openat(root_.get(), ".", kDirectoryFlags); }));
  if (at.get() < 0) return FileError("open directory", path, errno);
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    VICINAL_CHECK(!name.empty() && name != "." && name != "..");
    Descriptor next(Retry([&] { return openat(at.get(), name.c_str(), kDirectoryFlags | O_NOFOLLOW); }));
    if (next.get() < 0) return FileError("open directory", path, errno);
    at = std::move(next);
    begin = end + 1;
  }
  return at;
}

StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::Create(const std::string& path) {
  VICINAL_ASSIGN_OR_RETURN(const Descriptor parent, OpenDirectory(ParentOf(path)));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Descriptor fd(Retry([&] { return openat(parent.get(), NameOf(path).c_str(), kFlags, kFileMode); }));
  if (fd.get() < 0) return FileError("create", path, errno);
  return std::make_unique<PosixWritableFile>(path, std::move(fd));
}

StatusOr<std::unique_ptr<ReadableFile>> PosixFileSystem::Open(const std::string& path) const {
  VICINAL_ASSIGN_OR_RETURN(const Descriptor parent, OpenDirectory(ParentOf(path)));
  // O_NONBLOCK: opening a pipe that somebody put there must not wait for its other end.
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  Descriptor fd(Retry([&] { return openat(parent.get(), NameOf(path).c_str(), kFlags); }));
  if (fd.get() < 0) return FileError("open", path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return FileError("stat", path, errno);
  if (!S_ISREG(info.st_mode)) return Damaged(path, "it is not a regular file");
  return std::make_unique<PosixReadableFile>(path, std::move(fd));
}

Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  VICINAL_ASSIGN_OR_RETURN(const Descriptor old_parent, OpenDirectory(ParentOf(from)));
  VICINAL_ASSIGN_OR_RETURN(const Descriptor new_parent, OpenDirectory(ParentOf(to)));
  if (renameat(old_parent.get(), NameOf(from).c_str(), new_parent.get(), NameOf(to).c_str()) == 0) return OkStatus();
  return FileError("rename", from, errno);
}

Status PosixFileSystem::Unlink(const std::string& path) {
  VICINAL_ASSIGN_OR_RETURN(const Descriptor parent, OpenDirectory(ParentOf(path)));
  return unlinkat(parent.get(), NameOf(path).c_str(), 0) == 0 ? OkStatus() : FileError("unlink", path, errno);
}

Status PosixFileSystem::MakeDirectory(const std::string& path) {
  VICINAL_ASSIGN_OR_RETURN(const Descriptor parent, OpenDirectory(ParentOf(path)));
  const int made = mkdirat(parent.get(), NameOf(path).c_str(), kDirectoryMode);
  return made == 0 ? OkStatus() : FileError("mkdir", path, errno);
}

Status PosixFileSystem::RemoveDirectory(const std::string& path) {
  VICINAL_ASSIGN_OR_RETURN(const Descriptor parent, OpenDirectory(ParentOf(path)));
  const int removed = unlinkat(parent.get(), NameOf(path).c_str(), AT_REMOVEDIR);
  return removed == 0 ? OkStatus() : FileError("rmdir", path, errno);
}

StatusOr<std::vector<DirectoryEntry>> PosixFileSystem::List(const std::string& path) const {
  VICINAL_ASSIGN_OR_RETURN(const Descriptor fd, OpenDirectory(path));
  const int copy = fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);  // closedir closes it
  if (copy < 0) return FileError("list", path, errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(copy), closedir);
  if (stream == nullptr) {
    const int error = errno;
    close(copy);
    return FileError("list", path, error);
  }
  std::vector<DirectoryEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(stream.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info;
    if (fstatat(fd.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed since
      return FileError("stat", Join(path, name), errno);
    }
    entries.push_back({name, KindOf(info.st_mode)});
  }
  if (errno != 0) return FileError("list", path, errno);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

StatusOr<FileInfo> PosixFileSystem::Stat(const std::string& path) const {
  struct stat info;
  if (path.empty()) {
    if (fstat(root_.get(), &info) != 0) return FileError("stat", path, errno);
  } else {
    VICINAL_ASSIGN_OR_RETURN(const Descriptor parent, OpenDirectory(ParentOf(path)));
    if (fstatat(parent.get(), NameOf(path).c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return FileError("stat", path, errno);
    }
  }
  FileInfo result;
  result.kind = KindOf(info.st_mode);
  result.bytes = info.st_size;
  result.disk_bytes = static_cast<int64_t>(info.st_blocks) * 512;
  result.modify_time = WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec)));
  return result;
}

StatusOr<int64_t> PosixFileSystem::FreeBytes() const {
  struct statvfs info;
  if (fstatvfs(root_.get(), &info) != 0) return FileError("stat file system of", path_, errno);
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

Status PosixFileSystem::CheckReachable() const {
  struct stat opened, there;
  const bool is_open = fstat(root_.get(), &opened) == 0;
  if (is_open && stat(path_.c_str(), &there) == 0 && opened.st_dev == there.st_dev && opened.st_ino == there.st_ino) {
    return OkStatus();
  }
  return FailedPrecondition("STATE_DIRECTORY_GONE",
                            "the state directory is not at '" + path_ +
                                "' any more: it was removed, renamed or unmounted; bring it back and restart");
}

StatusOr<std::unique_ptr<FileSystem>> PosixFileSystem::Reopen() const { return Open(path_, Root::kMustExist); }

StatusOr<std::unique_ptr<FileLock>> PosixFileSystem::Lock(const std::string& path, std::string_view holder) {
  VICINAL_ASSIGN_OR_RETURN(Descriptor parent, OpenDirectory(ParentOf(path)));
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  Descriptor fd(Retry([&] { return openat(parent.get(), NameOf(path).c_str(), kFlags, kFileMode); }));
  if (fd.get() < 0) return FileError("open", path, errno);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (Retry([&] { return fcntl(fd.get(), F_OFD_SETLK, &lock); }) != 0) {
    if (errno == EAGAIN || errno == EACCES) return AlreadyLocked(fd.get(), path);
    return FileError("lock", path, errno);
  }
  // Where somebody has deleted the file, another one is not locked, but its directory is. NFS locks no directories.
  if (Retry([&] { return flock(parent.get(), LOCK_EX | LOCK_NB); }) != 0 && errno == EWOULDBLOCK) {
    return AlreadyLocked(fd.get(), path);
  }
  auto locked = std::make_unique<PosixFileLock>(path, std::move(fd), std::move(parent));
  VICINAL_RETURN_IF_ERROR(locked->SetHolder(holder));
  return locked;
}

Status PosixFileSystem::DoSyncDirectory(const std::string& path) {
  VICINAL_ASSIGN_OR_RETURN(const Descriptor fd, OpenDirectory(path));
  return fsync(fd.get()) == 0 ? OkStatus() : FileError("fsync directory", path, errno);
}

}  // namespace vicinal::state
