// SPDX-License-Identifier: Apache-2.0
// Tokens are looked up by a keyed digest, so that timing tells nothing about them; names in certificates are no
// secrets.
#include "server/auth.h"

#include <strings.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/error.h"
#include "proto/tls/digest.h"

namespace vicinal::server {
namespace {

constexpr std::string_view kScheme = "Bearer ";

Status Refuse(StatusCode code, const char* reason, std::string_view message) {
  ErrorDetail detail;
  detail.reason = reason;
  return MakeError(code, message, detail);
}

// Empty: no bearer token.
std::string_view TokenIn(std::string_view authorization) {
  if (authorization.size() <= kScheme.size() ||
      strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) != 0) {
    return {};
  }
  return authorization.substr(kScheme.size());
}

// The two token files are principals, too.
std::vector<Principal> AllOf(const Credentials& credentials) {
  std::vector<Principal> all = credentials.principals;
  if (!credentials.admin_token.empty()) all.push_back({"admin", Role::kAdmin, {credentials.admin_token}, {}, true});
  if (!credentials.infer_token.empty()) all.push_back({"infer", Role::kInfer, {credentials.infer_token}, {}, true});
  return all;
}

}  // namespace

Status CheckCredentials(const Credentials& credentials) {
  const std::vector<Principal> all = AllOf(credentials);
  if (!all.empty() &&
      std::none_of(all.begin(), all.end(), [](const Principal& one) { return one.role == Role::kAdmin; })) {
    const char* const flag = credentials.principals.empty() ? "infer_token_file" : "principals_file";
    return InvalidArgument("BAD_FLAG", flag,
                           absl::StrCat("--", flag, ": no one has the admin role, so no one could upload; add ",
                                        "--admin_token_file, or a principal with the role admin"));
  }
  if (!credentials.admin_token.empty() && credentials.infer_token == credentials.admin_token) {
    return InvalidArgument("BAD_FLAG", "infer_token_file",
                           "--infer_token_file: has the same token as --admin_token_file; the infer role would have "
                           "admin rights");
  }
  return CheckPrincipals(all);
}

struct Auth::Table {
  struct Who {
    std::string name;
    Role role;
    bool interactive;
  };
  struct Secret {
    tls::Digest digest;
    size_t who;
  };

  explicit Table(const Credentials& credentials) {
    const std::vector<Principal> all = AllOf(credentials);
    for (const Principal& principal : all) {
      for (const std::string& token : principal.tokens) {
        const tls::Digest digest = tls::DigestOf(token);
        secrets.emplace(KeyOf(digest), Secret{digest, people.size()});
      }
      for (const std::string& name : principal.certificate_names) certificates.emplace(name, people.size());
      people.push_back({principal.name, principal.role, principal.interactive});
    }
    admin_closed = !credentials.principals.empty() || !credentials.admin_token.empty();
    infer_closed = !credentials.principals.empty() || !credentials.infer_token.empty();
  }

  static uint64_t KeyOf(const tls::Digest& digest) {
    uint64_t key;
    std::memcpy(&key, digest.data(), sizeof(key));
    return key;
  }

  const Who* FindToken(std::string_view token) const {
    const tls::Digest digest = tls::DigestOf(token);
    const auto [begin, end] = secrets.equal_range(KeyOf(digest));
    const Who* found = nullptr;
    for (auto entry = begin; entry != end; ++entry) {
      if (tls::Equal(entry->second.digest, digest)) found = &people[entry->second.who];
    }
    return found;
  }

  // Of a certificate that names several principals, the one with more rights.
  const Who* FindCertificate(const std::vector<std::string>& names) const {
    const Who* found = nullptr;
    for (const std::string& name : names) {
      const auto entry = certificates.find(FoldCertificateName(name));
      if (entry == certificates.end()) continue;
      const Who& who = people[entry->second];
      if (found == nullptr || (who.role == Role::kAdmin && found->role != Role::kAdmin)) found = &who;
    }
    return found;
  }

  std::vector<Who> people;
  std::unordered_multimap<uint64_t, Secret> secrets;
  std::unordered_map<std::string, size_t> certificates;
  bool admin_closed = false, infer_closed = false;
};

namespace {

Status Unknown(bool token, bool tokens_known, const Caller& caller) {
  if (token) return Refuse(StatusCode::kUnauthenticated, "TOKEN_UNKNOWN", "the token is not known to this server");
  if (caller.certificate) {
    return Refuse(StatusCode::kUnauthenticated, "CERTIFICATE_UNKNOWN",
                  absl::StrCat("the names in the client certificate (", absl::StrJoin(caller.certificate_names, ", "),
                               ") are not known to this server; list one in --principals_file, or send a token"));
  }
  if (!tokens_known) {
    return Refuse(StatusCode::kUnauthenticated, "CERTIFICATE_MISSING",
                  "this method needs a client certificate that the server knows");
  }
  return Refuse(StatusCode::kUnauthenticated, "TOKEN_MISSING",
                "this method needs a token; send the metadata 'authorization: Bearer TOKEN'");
}

}  // namespace

Auth::Auth(const Credentials& credentials) : table_(std::make_shared<const Table>(credentials)) {}
Auth::~Auth() = default;

std::shared_ptr<const Auth::Table> Auth::table() const {
  MutexLock lock(&mutex_);
  return table_;
}

Status Auth::Check(const Caller& caller, Role needed, Identity* identity) const {
  const std::shared_ptr<const Table> known = table();
  const std::string_view token = known->secrets.empty() ? std::string_view() : TokenIn(caller.authorization);
  const Table::Who* const who =
      token.empty() ? known->FindCertificate(caller.certificate_names) : known->FindToken(token);
  if (who != nullptr) {
    identity->principal = who->name;
    identity->interactive = who->interactive;
  } else {
    identity->principal = caller.certificate_names.empty() ? std::string() : caller.certificate_names.front();
  }
  identity->role = "none needed";
  if (!(needed == Role::kAdmin ? known->admin_closed : known->infer_closed)) return OkStatus();
  if (who == nullptr) {
    identity->role = token.empty() && !caller.certificate ? "no token" : "unknown";
    return Unknown(!token.empty(), !known->secrets.empty(), caller);
  }
  identity->role = NameOf(who->role);
  if (who->role == Role::kAdmin || needed == Role::kInfer) return OkStatus();
  return Refuse(StatusCode::kPermissionDenied, "ROLE_TOO_LOW",
                absl::StrCat("'", who->name,
                             "' has the role infer, which is for inference and reading; uploads, deletes and tuning "
                             "need the role admin"));
}

void Auth::Replace(const Credentials& credentials) {
  auto table = std::make_shared<const Table>(credentials);
  MutexLock lock(&mutex_);
  table_.swap(table);
}

}  // namespace vicinal::server
