// SPDX-License-Identifier: Apache-2.0
// Plain C streams: they report errors by errno, which a user can act on, where iostreams only say "failed".
#include "client/cpp/formats/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

absl::Status SystemError(const std::string& path, const char* what, int error) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

// Null, and errno, when it cannot be opened.
File OpenToWrite(const std::string& path, const char* mode) { return {std::fopen(path.c_str(), mode), std::fclose}; }

// `path` is for the message. REQUIRES: if `file` is null, errno has the reason.
absl::Status WriteInto(File file, const std::string& path, std::string_view bytes) {
  if (file == nullptr) return SystemError(path, "cannot write", errno);
  if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) {
    return SystemError(path, "cannot write", errno);
  }
  if (std::fclose(file.release()) != 0) return SystemError(path, "cannot write", errno);
  return absl::OkStatus();
}

std::string WithoutLinks(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), std::free);
  return real == nullptr ? path : real.get();
}

// Links to descriptors of this process: opening a pipe by them does not wait for a writer.
bool IsOpenAlready(const std::string& path) {
  return path == "/dev/stdin" || absl::StartsWith(path, "/dev/fd/") || absl::StartsWith(path, "/proc/self/fd/");
}

}  // namespace

absl::Status CheckReadable(const std::string& path) {
  // The system would see the part before it.
  if (path.find('\0') != std::string::npos) {
    return FileError(path.substr(0, path.find('\0')), 0, "cannot read: the path contains a zero byte");
  }
  struct stat about;
  if (stat(path.c_str(), &about) != 0) return SystemError(path, "cannot read", errno);
  if (S_ISDIR(about.st_mode)) return SystemError(path, "cannot read", EISDIR);
  if (S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode)) return FileError(path, 0, "cannot read: a device, not a file");
  if (S_ISSOCK(about.st_mode) || (S_ISFIFO(about.st_mode) && !IsOpenAlready(path))) {
    return FileError(path, 0, "cannot read: a pipe or socket, not a file; to read a pipe, give /dev/stdin");
  }
  return absl::OkStatus();
}

absl::Status CheckRegular(const std::string& path) {
  CLIENT_RETURN_IF_ERROR(CheckReadable(path));
  struct stat about;
  if (stat(path.c_str(), &about) != 0) return SystemError(path, "cannot read", errno);
  if (S_ISREG(about.st_mode)) return absl::OkStatus();
  return FileError(path, 0, "cannot read: a pipe, not a file; it must be possible to read it more than once");
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  CLIENT_RETURN_IF_ERROR(CheckReadable(path));
  const File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return SystemError(path, "cannot read", errno);
  std::string bytes;
  struct stat about;
  if (fstat(fileno(file.get()), &about) == 0 && S_ISREG(about.st_mode))
    bytes.reserve(static_cast<size_t>(about.st_size));
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
  struct stat about;
  const bool there = stat(path.c_str(), &about) == 0;
  if (there && !S_ISREG(about.st_mode)) return WriteInto(OpenToWrite(path, "wb"), path, bytes);
  // Renaming would get round it.
  if (there && access(path.c_str(), W_OK) != 0) return SystemError(path, "cannot write", errno);
  const std::string target = there ? WithoutLinks(path) : path;
  const std::string beside = absl::StrCat(target, ".", getpid(), ".tmp");
  File file = OpenToWrite(beside, "wbx");
  if (file == nullptr && there) return WriteInto(OpenToWrite(path, "wb"), path, bytes);
  const bool made = file != nullptr;
  if (made && there) fchmod(fileno(file.get()), about.st_mode & 07777);
  absl::Status status = WriteInto(std::move(file), path, bytes);
  if (status.ok() && std::rename(beside.c_str(), target.c_str()) != 0) {
    status = SystemError(path, "cannot write", errno);
  }
  if (made && !status.ok()) std::remove(beside.c_str());
  return status;
}

absl::Status CheckWritable(const std::string& path) {
  struct stat about;
  const bool there = stat(path.c_str(), &about) == 0;
  if (there && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)) return absl::OkStatus();
  const File file(std::fopen(path.c_str(), "ab"), std::fclose);
  if (file == nullptr) return SystemError(path, "cannot write", errno);
  if (!there) std::remove(path.c_str());
  return absl::OkStatus();
}

absl::Status CheckText(std::string_view text, const std::string& path) {
  const std::string_view mark = text.substr(0, 2);
  if (mark == "\xFF\xFE" || mark == "\xFE\xFF") return FileError(path, 0, "is UTF-16 text: save it as UTF-8");
  const auto line_of = [&](size_t at) {
    return std::count(text.begin(), text.begin() + static_cast<long>(at), '\n') + 1;
  };
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return FileError(path, line_of(zero), "contains a zero byte, so it is not a text file");
  }
  for (size_t at = text.find('\r'); at != std::string_view::npos && at + 1 < text.size();
       at = text.find('\r', at + 1)) {
    if (text[at + 1] == '\n') continue;
    return FileError(path, line_of(at),
                     "contains a carriage return (CR) without a line feed (LF), the line end of old Macs: use LF or "
                     "CR LF (convert it with tr '\\r' '\\n' < FILE)");
  }
  return absl::OkStatus();
}

absl::Status FileError(const std::string& path, int64_t line, std::string_view message) {
  const absl::string_view text(message.data(), message.size());
  if (line > 0) return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", text));
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", text));
}

}  // namespace vicinal::client
