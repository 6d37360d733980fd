// SPDX-License-Identifier: Apache-2.0
// Who may call: principals by name, each with a role and the credentials that prove it, and the file that lists them.
//
//   # NAME  ROLE   CREDENTIAL
//   ops     admin  token:k3Hh0...
//   web     infer  token:Zm9v...
//   web     infer  token:YmFy...           a second valid token, while clients change from one to the other
//   nightly batch  URI:spiffe://cluster.local/ns/prod/sa/nightly
//   nightly batch  DNS:nightly.example.com
//
// A name may have any number of credentials, but one role; a credential belongs to one name. The role batch is infer
// without the right to interactive requests.
#ifndef VICINAL_SERVER_PRINCIPALS_H_
#define VICINAL_SERVER_PRINCIPALS_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "server/methods.h"

namespace vicinal::server {

struct Principal {
  std::string name;  // kPrincipalGrammar
  Role role = Role::kInfer;
  std::vector<std::string> tokens;
  // Names in client certificates: "DNS:web.example.com", "URI:spiffe://...", "email:...", "IP:10.0.0.1". Compared as
  // they are, but DNS names without regard to case.
  std::vector<std::string> certificate_names;
  bool interactive = true;  // may send interactive requests

  friend bool operator==(const Principal&, const Principal&) = default;
};

inline constexpr char kPrincipalGrammar[] = "[a-z][a-z0-9._-]{0,62}";

// More than any server needs; the file is read completely every few seconds.
inline constexpr size_t kMaxPrincipalsFileBytes = size_t{1} << 20;

// INVALID_ARGUMENT (BAD_FLAG, field "principals_file"), naming the line, but no token.
StatusOr<std::vector<Principal>> ParsePrincipals(std::string_view text);

// ParsePrincipals of a regular file; the message names the path, too.
StatusOr<std::vector<Principal>> ReadPrincipals(const std::string& path);

// INVALID_ARGUMENT if a token or a certificate name belongs to two principals, or two have one name.
Status CheckPrincipals(const std::vector<Principal>& principals);

// A DNS name in lower case; others unchanged. What is looked up is brought to this form, too.
std::string FoldCertificateName(std::string_view name);

// "admin", "infer"
std::string_view NameOf(Role role);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_PRINCIPALS_H_
