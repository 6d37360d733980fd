// SPDX-License-Identifier: Apache-2.0
// Authorization: who calls, by bearer token or client certificate, and whether that role may call the method. gRPC's
// own metadata processor is not used (it ends the process on plaintext servers); the scope of each call calls Check.
// Thread-safe; the time of a check depends neither on the number of tokens nor on how similar a wrong one is.
#ifndef VICINAL_SERVER_AUTH_H_
#define VICINAL_SERVER_AUTH_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "server/methods.h"
#include "server/principals.h"

namespace vicinal::server {

// What proves who someone is. All of it is exchanged at once.
struct Credentials {
  // The principals `admin` and `infer` of --admin_token_file and --infer_token_file. An empty token leaves its role's
  // methods open, unless there are `principals`.
  std::string admin_token, infer_token;
  // Of --principals_file. If there are any, every method needs a principal.
  std::vector<Principal> principals;

  friend bool operator==(const Credentials&, const Credentials&) = default;
};

// INVALID_ARGUMENT: a token or certificate name belongs to two principals, or no one would have the admin role although
// some method needs a principal. The message names the flags.
Status CheckCredentials(const Credentials& credentials);

// What a call brings.
struct Caller {
  std::string_view authorization;              // the metadata's value, or empty
  bool certificate = false;                    // it has a client certificate, which the transport has verified
  std::vector<std::string> certificate_names;  // "DNS:web.example.com"
};

// Who it is.
struct Identity {
  // The principal's name; without one, the first certificate name; else empty.
  std::string principal;
  // For the log: "admin", "infer", "unknown" (token or certificate), "no token", or "none needed".
  std::string_view role;
  bool interactive = true;  // may send interactive requests
};

class Auth {
 public:
  // `credentials` were checked.
  explicit Auth(const Credentials& credentials);
  Auth(const std::string& admin_token, const std::string& infer_token)
      : Auth(Credentials{admin_token, infer_token, {}}) {}
  ~Auth();

  // A token, where one is sent and any is known here, decides; else the certificate. UNAUTHENTICATED: a principal is
  // required, and there is no token or certificate, or it is unknown. PERMISSION_DENIED: the principal's role does not
  // cover the method. Fills in `identity` in any case.
  Status Check(const Caller& caller, Role needed, Identity* identity) const;

  // Exchanges what is known; calls in progress continue. `credentials` were checked.
  void Replace(const Credentials& credentials);

 private:
  struct Table;
  std::shared_ptr<const Table> table() const;

  mutable Mutex mutex_;
  std::shared_ptr<const Table> table_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_AUTH_H_
