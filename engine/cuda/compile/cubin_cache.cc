// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/compile/cubin_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

namespace vicinal::cuda {
namespace {

constexpr char kMagic[] = "vicinal.cubin/1\n";
constexpr size_t kMagicBytes = sizeof kMagic - 1;

// FNV-1a.
uint64_t Hash(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

constexpr uint64_t kFirstBasis = 0xcbf29ce484222325u, kSecondBasis = 0x84222325cbf29ce4u;

std::string Digits(std::string_view text) {
  return absl::StrCat(absl::Hex(Hash(text, kFirstBasis), absl::kZeroPad16),
                      absl::Hex(Hash(text, kSecondBasis), absl::kZeroPad16));
}

// A file is kMagic, the digits of what follows, a line end, and the cubin, together with the key, so that a file under
// another's name is found out.
std::string ChecksumOf(const std::string& key, const std::string& cubin) { return Digits(absl::StrCat(key, cubin)); }

bool WriteAndSync(const std::string& path, std::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  bool ok = true;
  while (ok && !bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    ok = count > 0;
    if (ok) bytes.remove_prefix(static_cast<size_t>(count));
  }
  ok = fsync(file) == 0 && ok;
  return close(file) == 0 && ok;
}

}  // namespace

std::string KeyOf(const CompileRequest& request) { return Digits(request.Encode()); }

std::string CubinCache::PathOf(const std::string& key) const { return absl::StrCat(directory_, "/", key, ".cubin"); }

std::optional<std::string> CubinCache::Load(const std::string& key) const {
  if (directory_.empty()) return std::nullopt;
  std::ifstream file(PathOf(key), std::ios::binary);
  if (!file) return std::nullopt;
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string_view all = bytes;
  const size_t header = kMagicBytes + 33;
  if (all.size() > header && all.substr(0, kMagicBytes) == kMagic) {
    std::string cubin(all.substr(header));
    if (all.substr(kMagicBytes, 32) == ChecksumOf(key, cubin)) {
      utimensat(AT_FDCWD, PathOf(key).c_str(), nullptr, 0);  // its last use
      return cubin;
    }
  }
  std::remove(PathOf(key).c_str());
  return std::nullopt;
}

bool CubinCache::Store(const std::string& key, const std::string& cubin) const {
  if (directory_.empty()) return false;
  mkdir(directory_.c_str(), 0700);
  const std::string path = PathOf(key), whole = absl::StrCat(path, ".", getpid());
  if (WriteAndSync(whole, absl::StrCat(kMagic, ChecksumOf(key, cubin), "\n", cubin)) &&
      std::rename(whole.c_str(), path.c_str()) == 0) {
    Sweep();
    return true;
  }
  std::remove(whole.c_str());
  return false;
}

// Files that a process left half-written have no use either, and go like the others.
void CubinCache::Sweep() const {
  namespace fs = std::filesystem;
  struct File {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().find(".cubin") == std::string::npos) continue;
    std::error_code gone;  // by another process
    const auto bytes = static_cast<int64_t>(at->file_size(gone));
    const fs::file_time_type used = at->last_write_time(gone);
    if (gone) continue;
    files.push_back({used, bytes, at->path()});
    total += bytes;
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (size_t i = 0; i < files.size() && total > most_bytes_; ++i) {
    fs::remove(files[i].path, error);
    total -= files[i].bytes;
  }
}

}  // namespace vicinal::cuda
