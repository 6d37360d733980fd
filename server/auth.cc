// SPDX-License-Identifier: Apache-2.0
#include "server/auth.h"

#include <strings.h>

#include "engine/base/error.h"

namespace vicinal::server {
namespace {

constexpr std::string_view kScheme = "Bearer ";

Status Refuse(StatusCode code, const char* reason, const char* message) {
  ErrorDetail detail;
  detail.reason = reason;
  return MakeError(code, message, detail);
}

}  // namespace

bool ConstantTimeEquals(std::string_view given, std::string_view secret) {
  if (secret.empty()) return given.empty();
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]);
  }
  return difference == 0;
}

Status Auth::Check(std::string_view authorization, Role needed, std::string_view* role) const {
  std::string_view ignored;
  std::string_view& who = role != nullptr ? *role : ignored;
  MutexLock lock(&mutex_);
  const bool closed = needed == Role::kAdmin ? !admin_token_.empty() : !infer_token_.empty();
  who = "none needed";
  if (!closed) return OkStatus();
  who = "no token";
  if (authorization.size() <= kScheme.size() ||
      strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) != 0) {
    return Refuse(StatusCode::kUnauthenticated, "TOKEN_MISSING",
                  "this method needs a token; send the metadata 'authorization: Bearer TOKEN'");
  }
  const std::string_view token = authorization.substr(kScheme.size());
  // Always compares both, so that the time does not show which one is similar.
  const bool admin = !admin_token_.empty() && ConstantTimeEquals(token, admin_token_);
  const bool infer = !infer_token_.empty() && ConstantTimeEquals(token, infer_token_);
  who = admin ? "admin" : infer ? "infer" : "unknown";
  if (admin || (infer && needed == Role::kInfer)) return OkStatus();
  if (infer) {
    return Refuse(StatusCode::kPermissionDenied, "ROLE_TOO_LOW",
                  "this token is for inference and reading only; uploads, deletes and tuning need the admin token");
  }
  return Refuse(StatusCode::kUnauthenticated, "TOKEN_UNKNOWN", "the token is not known to this server");
}

bool Auth::Replace(Role role, const std::string& token) {
  MutexLock lock(&mutex_);
  std::string& kept = role == Role::kAdmin ? admin_token_ : infer_token_;
  if (kept == token) return false;
  kept = token;
  return true;
}

}  // namespace vicinal::server
