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
      admin_{config.admin_token_file, "admin_token_file", Role::kAdmin, config.admin_token},
      infer_{config.infer_token_file, "infer_token_file", Role::kInfer, config.infer_token} {}

void TokenFiles::Reread() {
  // Reads both before using either, so that a token that moves from one file to the other never belongs to both roles.
  const std::string admin = Read(&admin_), infer = Read(&infer_);
  if (!admin.empty() && admin == infer) {
    if (!same_) {
      log_.Log(LogLevel::kWarning, "tokens not read again; the old ones stay valid",
               {{"error", "--infer_token_file has the same token as --admin_token_file"}});
    }
    same_ = true;
    return;
  }
  same_ = false;
  Take(admin, &admin_);
  Take(infer, &infer_);
}

std::string TokenFiles::Read(File* file) {
  if (file->path.empty()) return file->token;
  // A pipe delivers its token once; reading again would block.
  std::error_code ignored;
  const auto type = std::filesystem::status(file->path, ignored).type();
  if (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::character) return file->token;
  StatusOr<std::string> token = ReadTokenFile(file->path, file->flag, std::chrono::milliseconds(0));
  if (token.ok()) {
    file->error.clear();
    return *std::move(token);
  }
  const std::string error(token.status().message());
  if (error != file->error) {
    file->error = error;
    log_.Log(LogLevel::kError, "token not read again; the old one stays valid", {{"error", error}});
  }
  return file->token;
}

void TokenFiles::Take(const std::string& token, File* file) {
  if (token.empty()) return;
  file->token = token;
  if (!auth_.Replace(file->role, token)) return;
  log_.Log(LogLevel::kInfo, "token replaced", {{"flag", file->flag}, {"file", file->path}});
}

}  // namespace vicinal::server
