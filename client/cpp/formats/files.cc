// SPDX-License-Identifier: Apache-2.0
// Plain C streams: they report errors by errno, which a user can act on, where iostreams only say "failed".
#include "client/cpp/formats/files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace vicinal::client {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

absl::Status SystemError(const std::string& path, const char* what, int error) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  struct stat about;
  if (stat(path.c_str(), &about) != 0) return SystemError(path, "cannot read", errno);
  if (S_ISDIR(about.st_mode)) return SystemError(path, "cannot read", EISDIR);
  const File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return SystemError(path, "cannot read", errno);
  std::string bytes;
  if (S_ISREG(about.st_mode)) bytes.reserve(static_cast<size_t>(about.st_size));
  constexpr size_t kPiece = size_t{1} << 20;
  while (true) {
    const size_t before = bytes.size();
    bytes.resize(before + kPiece);
    const size_t got = std::fread(&bytes[before], 1, kPiece, file.get());
    bytes.resize(before + got);
    if (got < kPiece) break;
  }
  if (std::ferror(file.get())) return SystemError(path, "cannot read", errno);
  return bytes;
}

absl::Status WriteFile(const std::string& path, std::string_view bytes) {
  File file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (file == nullptr) return SystemError(path, "cannot write", errno);
  if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) {
    return SystemError(path, "cannot write", errno);
  }
  if (std::fclose(file.release()) != 0) return SystemError(path, "cannot write", errno);
  return absl::OkStatus();
}

absl::Status FileError(const std::string& path, int64_t line, std::string_view message) {
  const absl::string_view text(message.data(), message.size());
  if (line > 0) return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", text));
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", text));
}

}  // namespace vicinal::client
