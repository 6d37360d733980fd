// SPDX-License-Identifier: Apache-2.0
#include "server/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {
namespace {

Status CannotKeep(const char* what) {
  return FailedPrecondition("CANNOT_WRITE", absl::StrCat("a file in memory: ", what, ": ", std::strerror(errno)));
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

Status MemoryFile::Replace(std::string_view content, int64_t generation) {
  const int next = memfd_create("vicinal", MFD_CLOEXEC);
  if (next < 0) return CannotKeep("memfd_create");
  const timespec time = {static_cast<time_t>(generation), 0};
  const timespec times[2] = {time, time};
  Status status = OkStatus();
  if (fchmod(next, 0600) != 0 || !WriteAll(next, content) || futimens(next, times) != 0) status = CannotKeep("write");
  if (status.ok() && fd_ < 0) {
    fd_ = next;
    return status;
  }
  if (status.ok() && dup3(next, fd_, O_CLOEXEC) < 0) status = CannotKeep("dup3");
  close(next);
  return status;
}

std::string MemoryFile::path() const { return absl::StrCat("/proc/self/fd/", fd_); }

}  // namespace vicinal::server
