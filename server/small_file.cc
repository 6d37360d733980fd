// SPDX-License-Identifier: Apache-2.0
#include "server/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace vicinal::server {
namespace {

Status Wrong(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

}  // namespace

StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  // Opening a pipe must not wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return Wrong(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  struct stat about;
  std::string text;
  int error = fstat(file, &about) == 0 ? 0 : errno;
  const bool regular = error == 0 && S_ISREG(about.st_mode);
  while (regular && text.size() <= max_bytes) {
    char buffer[16384];
    const ssize_t got = read(file, buffer, sizeof(buffer));
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) error = errno;
    if (got == 0 || error != 0) break;
  }
  close(file);
  if (error != 0) return Wrong(path, absl::StrCat("cannot be read: ", std::strerror(error)));
  if (!regular) return Wrong(path, "is not a regular file");
  if (text.size() > max_bytes) return Wrong(path, absl::StrCat("has more than ", max_bytes, " bytes"));
  return text;
}

}  // namespace vicinal::server
