// SPDX-License-Identifier: Apache-2.0
#include "server/ready_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {
namespace {

Status CannotWrite(const std::string& path, const std::string& why) {
  return FailedPrecondition("CANNOT_WRITE", absl::StrCat("--ready_file: cannot write ", path, ": ", why));
}

// Links are not followed: a name in /dev may be one.
Status CheckIsOurs(const std::string& path) {
  struct stat about;
  if (lstat(path.c_str(), &about) != 0 || S_ISREG(about.st_mode)) return OkStatus();
  return CannotWrite(path, "it exists and is not a regular file");
}

}  // namespace

Status RemoveReadyFile(const std::string& path) {
  VICINAL_RETURN_IF_ERROR(CheckIsOurs(path));
  // A missing folder is reported when the file is written.
  if (unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return OkStatus();
  return CannotWrite(path, std::strerror(errno));
}

Status WriteReadyFile(const std::string& path, const std::string& grpc, const std::string& metrics,
                      const std::string& health, const std::string& status_page) {
  nlohmann::ordered_json json = {{"grpc", grpc}, {"metrics", metrics}};
  if (!health.empty()) json["health"] = health;
  if (!status_page.empty()) json["status"] = status_page;
  const std::string text = json.dump() + "\n";
  const std::string temporary = absl::StrCat(path, ".", getpid());
  VICINAL_RETURN_IF_ERROR(RemoveReadyFile(temporary));
  std::FILE* file = std::fopen(temporary.c_str(), "wx");
  bool ok = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) ok = std::fclose(file) == 0 && ok;
  Status status = ok ? CheckIsOurs(path) : CannotWrite(path, std::strerror(errno));
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = CannotWrite(path, std::strerror(errno));
  }
  if (!status.ok() && file != nullptr) unlink(temporary.c_str());
  return status;
}

}  // namespace vicinal::server
