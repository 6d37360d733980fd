// SPDX-License-Identifier: Apache-2.0
#include "server/token_files.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/read_token_file.h"

namespace vicinal::server {

TokenFiles::TokenFiles(const Config& config, Auth* auth, JsonLog* log)
    : auth_(*auth),
      log_(*log),
      admin_{config.admin_token_file, "admin_token_file"},
      infer_{config.infer_token_file, "infer_token_file"},
      principals_{config.principals_file, "principals_file"},
      current_(config.credentials) {}

void TokenFiles::Reread() {
  // Reads all before using any, so that a token that moves from one file to another never belongs to two principals.
  Credentials next;
  next.admin_token = ReadToken(current_.admin_token, &admin_);
  next.infer_token = ReadToken(current_.infer_token, &infer_);
  next.principals = ReadListed();
  if (next == current_) {
    refused_.clear();
    return;
  }
  const Status status = CheckCredentials(next);
  if (status.ok()) {
    refused_.clear();
    return Take(std::move(next));
  }
  std::string why(status.message());
  if (why != refused_) {
    log_.Log(LogLevel::kWarning, "tokens not read again; the old ones stay valid", {{"error", why}});
    refused_ = std::move(why);
  }
}

std::string TokenFiles::ReadToken(const std::string& current, File* file) {
  if (file->path.empty()) return current;
  // A pipe delivers its token once; reading again would block.
  std::error_code ignored;
  const auto type = std::filesystem::status(file->path, ignored).type();
  if (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::character) return current;
  StatusOr<std::string> token = ReadTokenFile(file->path, file->flag, std::chrono::milliseconds(0));
  Note(token.status(), "token not read again; the old one stays valid", file);
  return token.ok() ? *std::move(token) : current;
}

std::vector<Principal> TokenFiles::ReadListed() {
  if (principals_.path.empty()) return current_.principals;
  StatusOr<std::vector<Principal>> listed = ReadPrincipals(principals_.path);
  Note(listed.status(), "principals not read again; the old ones stay valid", &principals_);
  return listed.ok() ? *std::move(listed) : current_.principals;
}

void TokenFiles::Note(const Status& error, const char* message, File* file) {
  std::string text(error.message());
  if (text == file->error) return;
  if (!error.ok()) log_.Log(LogLevel::kError, message, {{"error", text}});
  file->error = std::move(text);
}

void TokenFiles::Take(Credentials next) {
  auth_.Replace(next);
  const auto replaced = [this](const char* message, const File& file) {
    log_.Log(LogLevel::kInfo, message, {{"flag", file.flag}, {"file", file.path}});
  };
  if (next.admin_token != current_.admin_token) replaced("token replaced", admin_);
  if (next.infer_token != current_.infer_token) replaced("token replaced", infer_);
  if (next.principals != current_.principals) replaced("principals replaced", principals_);
  current_ = std::move(next);
}

}  // namespace vicinal::server
