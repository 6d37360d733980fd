// SPDX-License-Identifier: Apache-2.0
#include "server/principals.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/error.h"
#include "proto/wire/names.h"
#include "server/small_file.h"

namespace vicinal::server {
namespace {

constexpr absl::string_view kTokenKind = "token:";
constexpr absl::string_view kBatchRole = "batch";
constexpr absl::string_view kNameKinds[] = {"DNS:", "URI:", "email:", "IP:"};

Status Bad(const std::string& what) {
  return InvalidArgument("BAD_FLAG", "principals_file", absl::StrCat("--principals_file: ", what));
}

bool IsPrincipalName(std::string_view name) {
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' && wire::IsValidName(name);
}

bool CanBeSent(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

// Adds the credential to `principal`. Returns what is wrong with it, or nothing. Never quotes it: it may be a secret.
std::optional<std::string> Add(absl::string_view credential, Principal* principal) {
  if (absl::ConsumePrefix(&credential, kTokenKind)) {
    if (!CanBeSent(credential)) return "the token is empty, or has a character that cannot be sent";
    if (credential.size() > wire::kMaxTokenBytes) {
      return absl::StrCat("the token has more than ", wire::kMaxTokenBytes, " characters");
    }
    principal->tokens.emplace_back(credential);
    return std::nullopt;
  }
  for (const absl::string_view kind : kNameKinds) {
    if (!absl::StartsWith(credential, kind)) continue;
    if (!CanBeSent(credential.substr(kind.size())))
      return "the certificate's name is empty, or has unprintable characters";
    principal->certificate_names.push_back(FoldCertificateName({credential.data(), credential.size()}));
    return std::nullopt;
  }
  return "the credential must begin with token:, DNS:, URI:, email: or IP:";
}

// Gives `principal` the role of that name. False: there is none.
bool SetRole(absl::string_view name, Principal* principal) {
  principal->interactive = name != kBatchRole;
  if (name == kBatchRole) {
    principal->role = Role::kInfer;
    return true;
  }
  for (const Role role : {Role::kInfer, Role::kAdmin}) {
    if (name != absl::string_view(NameOf(role).data(), NameOf(role).size())) continue;
    principal->role = role;
    return true;
  }
  return false;
}

// Takes one line that is neither empty nor a comment. Returns what is wrong with it, or nothing.
std::optional<std::string> TakeLine(absl::string_view line, std::vector<Principal>* principals) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() != 3) return "expected NAME ROLE CREDENTIAL, separated by blanks";
  const std::string name(words[0]);
  if (!IsPrincipalName(name)) return absl::StrCat("the name must match ", kPrincipalGrammar);
  Principal given;
  if (!SetRole(words[1], &given)) return "the role must be admin, infer or batch";
  auto found = std::find_if(principals->begin(), principals->end(), [&](const Principal& p) { return p.name == name; });
  if (found == principals->end()) found = principals->insert(found, {name, given.role, {}, {}, given.interactive});
  if (found->role != given.role || found->interactive != given.interactive)
    return absl::StrCat("'", name, "' has another role on an earlier line");
  return Add(words[2], &*found);
}

}  // namespace

StatusOr<std::vector<Principal>> ParsePrincipals(std::string_view text) {
  std::vector<Principal> principals;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (const auto wrong = TakeLine(line, &principals)) return Bad(absl::StrCat("line ", number, ": ", *wrong));
  }
  if (principals.empty()) return Bad("lists no principal; a line is NAME ROLE CREDENTIAL");
  VICINAL_RETURN_IF_ERROR(CheckPrincipals(principals));
  return principals;
}

StatusOr<std::vector<Principal>> ReadPrincipals(const std::string& path) {
  const StatusOr<std::string> text = ReadSmallFile(path, kMaxPrincipalsFileBytes);
  if (!text.ok()) return Bad(std::string(text.status().message()));
  StatusOr<std::vector<Principal>> principals = ParsePrincipals(*text);
  if (principals.ok()) return principals;
  return Annotate(principals.status(), path);
}

Status CheckPrincipals(const std::vector<Principal>& principals) {
  std::map<std::string_view, std::string_view> owners;  // by credential
  std::set<std::string_view> names;
  for (const Principal& principal : principals) {
    if (!names.insert(principal.name).second)
      return Bad(absl::StrCat("the name '", principal.name, "' is taken twice"));
    for (const auto* credentials : {&principal.tokens, &principal.certificate_names}) {
      for (const std::string& credential : *credentials) {
        const auto [owner, first] = owners.emplace(credential, principal.name);
        if (first) continue;
        return Bad(absl::StrCat("a ", credentials == &principal.tokens ? "token" : "certificate name", " of '",
                                principal.name, "' is also listed for '", std::string(owner->second), "'"));
      }
    }
  }
  return OkStatus();
}

std::string FoldCertificateName(std::string_view name) {
  constexpr std::string_view kDns = "DNS:";
  if (name.substr(0, kDns.size()) != kDns) return std::string(name);
  return absl::StrCat("DNS:", absl::AsciiStrToLower(std::string(name.substr(kDns.size()))));
}

std::string_view NameOf(Role role) { return role == Role::kAdmin ? "admin" : "infer"; }

}  // namespace vicinal::server
