// SPDX-License-Identifier: Apache-2.0
#include "server/auth.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace vicinal::server {
namespace {

// Who a call is, and what it may do.
struct Outcome {
  Status status;
  Identity identity;
};
Outcome Ask(const Auth& auth, const std::string& authorization, Role needed, std::vector<std::string> names = {}) {
  Outcome outcome;
  Caller caller;
  caller.authorization = authorization;
  caller.certificate = !names.empty();
  caller.certificate_names = std::move(names);
  outcome.status = auth.Check(caller, needed, &outcome.identity);
  return outcome;
}
StatusCode CodeOf(const Auth& auth, const std::string& authorization, Role needed) {
  return Ask(auth, authorization, needed).status.code();
}
std::string ReasonOf(const Outcome& outcome) {
  const auto detail = DetailOf(outcome.status);
  return detail ? detail->reason : "";
}

TEST(AuthTest, WithoutTokensAllIsOpen) {
  const Auth auth("", "");
  EXPECT_EQ(CodeOf(auth, "", Role::kAdmin), StatusCode::kOk);
  EXPECT_EQ(CodeOf(auth, "Bearer whatever", Role::kInfer), StatusCode::kOk);
}

TEST(AuthTest, AnAdminTokenClosesAdminMethodsOnly) {
  const Auth auth("adm", "");
  EXPECT_EQ(CodeOf(auth, "", Role::kInfer), StatusCode::kOk);
  EXPECT_EQ(CodeOf(auth, "", Role::kAdmin), StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(auth, "Bearer adm", Role::kAdmin), StatusCode::kOk);
  EXPECT_EQ(CodeOf(auth, "bearer adm", Role::kAdmin), StatusCode::kOk);  // RFC 9110: a scheme's case does not matter
}

TEST(AuthTest, RolesAreHeld) {
  const Auth auth("adm", "inf");
  EXPECT_EQ(CodeOf(auth, "Bearer inf", Role::kInfer), StatusCode::kOk);
  EXPECT_EQ(CodeOf(auth, "Bearer adm", Role::kInfer), StatusCode::kOk);
  EXPECT_EQ(CodeOf(auth, "Bearer inf", Role::kAdmin), StatusCode::kPermissionDenied);
  for (const char* wrong :
       {"", "Bearer", "Bearer ", "Bearer ad", "Bearer admm", "Bearer ADM", "Basic adm", "adm", "Bearer  adm"}) {
    EXPECT_EQ(CodeOf(auth, wrong, Role::kAdmin), StatusCode::kUnauthenticated) << wrong;
  }
}

TEST(AuthTest, SaysWhoItWas) {
  EXPECT_EQ(Ask(Auth("", ""), "Bearer x", Role::kAdmin).identity.role, "none needed");
  EXPECT_EQ(Ask(Auth("", ""), "Bearer x", Role::kAdmin).identity.principal, "");
  const Auth auth("adm", "inf");
  const auto who = [&](const char* authorization) {
    const Identity identity = Ask(auth, authorization, Role::kAdmin).identity;
    return identity.principal + "/" + std::string(identity.role);
  };
  EXPECT_EQ(who("Bearer adm"), "admin/admin");
  EXPECT_EQ(who("Bearer inf"), "infer/infer");
  EXPECT_EQ(who("Bearer guess"), "/unknown");
  EXPECT_EQ(who(""), "/no token");
  // The name counts where the method is open, too.
  EXPECT_EQ(Ask(Auth("adm", ""), "Bearer adm", Role::kInfer).identity.principal, "admin");
}

TEST(AuthTest, PrincipalsHaveSeveralCredentials) {
  const Auth auth(Credentials{"",
                              "",
                              {{"ops", Role::kAdmin, {"one", "two"}, {"URI:spiffe://x/ops"}},
                               {"web", Role::kInfer, {"three"}, {"DNS:web.example.com", "IP:10.0.0.1"}}}});
  for (const char* token : {"Bearer one", "Bearer two"}) {
    const Outcome outcome = Ask(auth, token, Role::kAdmin);
    EXPECT_TRUE(outcome.status.ok());
    EXPECT_EQ(outcome.identity.principal, "ops");
  }
  EXPECT_EQ(CodeOf(auth, "Bearer three", Role::kInfer), StatusCode::kOk);
  EXPECT_EQ(CodeOf(auth, "", Role::kInfer), StatusCode::kUnauthenticated);  // with principals nothing is open
  EXPECT_EQ(Ask(auth, "", Role::kInfer, {"DNS:WEB.example.com"}).identity.principal, "web");
  EXPECT_EQ(Ask(auth, "", Role::kInfer, {"IP:10.0.0.1"}).identity.principal, "web");
  // Of several names the one with more rights counts.
  EXPECT_EQ(Ask(auth, "", Role::kAdmin, {"IP:10.0.0.1", "URI:spiffe://x/ops"}).identity.principal, "ops");
  const Outcome low = Ask(auth, "", Role::kAdmin, {"DNS:web.example.com"});
  EXPECT_EQ(low.status.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(low.identity.role, "infer");
  // A token that is sent decides.
  EXPECT_EQ(Ask(auth, "Bearer three", Role::kAdmin, {"URI:spiffe://x/ops"}).status.code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(ReasonOf(Ask(auth, "Bearer guess", Role::kInfer, {"URI:spiffe://x/ops"})), "TOKEN_UNKNOWN");
  const Outcome unknown = Ask(auth, "", Role::kInfer, {"URI:spiffe://X/ops", "DNS:x"});
  EXPECT_EQ(ReasonOf(unknown), "CERTIFICATE_UNKNOWN");
  EXPECT_EQ(unknown.identity.principal, "URI:spiffe://X/ops");
  EXPECT_EQ(unknown.identity.role, "unknown");
}

// A mesh may send tokens of its own.
TEST(AuthTest, WhereNoTokenIsKnownTheCertificateDecides) {
  const Auth auth(Credentials{"", "", {{"ops", Role::kAdmin, {}, {"DNS:ops"}}}});
  EXPECT_TRUE(Ask(auth, "Bearer of-the-mesh", Role::kAdmin, {"DNS:ops"}).status.ok());
  EXPECT_EQ(ReasonOf(Ask(auth, "Bearer of-the-mesh", Role::kAdmin)), "CERTIFICATE_MISSING");
}

TEST(AuthTest, AReplacedTokenIsNotKnownAnyMore) {
  Auth auth("adm", "inf");
  auth.Replace({"next", "inf", {}});
  EXPECT_EQ(CodeOf(auth, "Bearer next", Role::kAdmin), StatusCode::kOk);
  EXPECT_EQ(CodeOf(auth, "Bearer adm", Role::kAdmin), StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(auth, "Bearer inf", Role::kInfer), StatusCode::kOk);
}

TEST(AuthTest, CredentialsThatContradictEachOtherAreRefused) {
  const Principal ops{"ops", Role::kAdmin, {"one"}, {}}, web{"web", Role::kInfer, {"two"}, {"DNS:a"}};
  EXPECT_TRUE(CheckCredentials({}).ok());
  EXPECT_TRUE(CheckCredentials({"adm", "inf", {ops, web}}).ok());
  EXPECT_TRUE(CheckCredentials({"adm", "", {web}}).ok());
  const std::pair<Credentials, std::string> cases[] = {
      {{"", "inf", {}}, "no one has the admin role"},
      {{"", "", {web}}, "no one has the admin role"},
      {{"same", "same", {}}, "the same token"},
      {{"two", "", {web}}, "also listed for 'web'"},
      {{"", "", {ops, {"other", Role::kInfer, {"one"}, {}}}}, "also listed for 'ops'"},
      {{"", "", {ops, web, {"other", Role::kInfer, {}, {"DNS:a"}}}}, "a certificate name of 'other'"},
      {{"adm", "", {{"admin", Role::kInfer, {"x"}, {}}}}, "the name 'admin' is taken twice"},
  };
  for (const auto& [credentials, piece] : cases) {
    const Status status = CheckCredentials(credentials);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << piece;
    EXPECT_NE(std::string(status.message()).find(piece), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace vicinal::server
