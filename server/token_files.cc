// SPDX-License-Identifier: Apache-2.0
#include "server/token_files.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "server/read_token_file.h"

namespace vicinal::server {

TokenFiles::TokenFiles(const Config& config, Auth* auth, JsonLog* log)
    : auth_(*auth),
      log_(*log),
      admin_{config.admin_token_file, "admin_token_file", Role::kAdmin, ""},
      infer_{config.infer_token_file, "infer_token_file", Role::kInfer, ""} {}

void TokenFiles::Reread() {
  Reread(&admin_);
  Reread(&infer_);
}

void TokenFiles::Reread(File* file) {
  if (file->path.empty()) return;
  // A pipe said its token once, and would keep us waiting for another.
  std::error_code ignored;
  const auto type = std::filesystem::status(file->path, ignored).type();
  if (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::character) return;
  const StatusOr<std::string> token = ReadTokenFile(file->path, file->flag, std::chrono::milliseconds(0));
  if (!token.ok()) {
    const std::string error(token.status().message());
    if (error == file->error) return;
    file->error = error;
    log_.Log(LogLevel::kError, "token not read again; the one before it stays", {{"error", error}});
    return;
  }
  file->error.clear();
  if (auth_.Replace(file->role, *token)) {
    log_.Log(LogLevel::kInfo, "token replaced", {{"flag", file->flag}, {"file", file->path}});
  }
}

}  // namespace vicinal::server
