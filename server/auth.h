// SPDX-License-Identifier: Apache-2.0
// Authorization: bearer tokens and two roles. gRPC's own metadata processor is not used (it ends the process on
// plaintext servers); the scope of each call calls Check. Thread-safe; one comparison per token, in constant time.
#ifndef VICINAL_SERVER_AUTH_H_
#define VICINAL_SERVER_AUTH_H_

#include <string>
#include <string_view>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "server/methods.h"

namespace vicinal::server {

class Auth {
 public:
  // An empty token leaves its role's methods open.
  Auth(std::string admin_token, std::string infer_token)
      : admin_token_(std::move(admin_token)), infer_token_(std::move(infer_token)) {}

  // `authorization` is the metadata's value, or empty. UNAUTHENTICATED: a token is required, and it is missing or
  // unknown. PERMISSION_DENIED: the token is known, but its role does not cover the method. `role`, if not null, is set
  // to the caller's role, for the log: "admin", "infer", "unknown" (token), "no token", or "none needed".
  Status Check(std::string_view authorization, Role needed, std::string_view* role = nullptr) const;

  // Replaces the role's token by `token`, which must not be empty; the previous one is no longer accepted. False if it
  // was the same token.
  bool Replace(Role role, const std::string& token);

 private:
  mutable Mutex mutex_;
  std::string admin_token_ VICINAL_GUARDED_BY(mutex_);
  std::string infer_token_ VICINAL_GUARDED_BY(mutex_);
};

// Compares in a time that depends only on the length of `given`.
bool ConstantTimeEquals(std::string_view given, std::string_view secret);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_AUTH_H_
