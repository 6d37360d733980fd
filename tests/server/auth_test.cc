// SPDX-License-Identifier: Apache-2.0
#include "server/auth.h"

#include <gtest/gtest.h>

namespace vicinal::server {
namespace {

TEST(AuthTest, WithoutTokensAllIsOpen) {
  const Auth auth("", "");
  EXPECT_TRUE(auth.Check("", Role::kAdmin).ok());
  EXPECT_TRUE(auth.Check("Bearer whatever", Role::kInfer).ok());
}

TEST(AuthTest, AnAdminTokenClosesAdminMethodsOnly) {
  const Auth auth("adm", "");
  EXPECT_TRUE(auth.Check("", Role::kInfer).ok());
  EXPECT_EQ(auth.Check("", Role::kAdmin).code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(auth.Check("Bearer adm", Role::kAdmin).ok());
  EXPECT_TRUE(auth.Check("bearer adm", Role::kAdmin).ok());  // the scheme's case does not matter (RFC 9110)
}

TEST(AuthTest, RolesAreHeld) {
  const Auth auth("adm", "inf");
  EXPECT_TRUE(auth.Check("Bearer inf", Role::kInfer).ok());
  EXPECT_TRUE(auth.Check("Bearer adm", Role::kInfer).ok());
  EXPECT_EQ(auth.Check("Bearer inf", Role::kAdmin).code(), StatusCode::kPermissionDenied);
  for (const char* wrong :
       {"", "Bearer", "Bearer ", "Bearer ad", "Bearer admm", "Bearer ADM", "Basic adm", "adm", "Bearer  adm"}) {
    EXPECT_EQ(auth.Check(wrong, Role::kAdmin).code(), StatusCode::kUnauthenticated) << wrong;
  }
}

TEST(AuthTest, SaysWhoItWas) {
  std::string_view role;
  EXPECT_TRUE(Auth("", "").Check("Bearer x", Role::kAdmin, &role).ok());
  EXPECT_EQ(role, "none needed");
  const Auth auth("adm", "inf");
  const auto who = [&](const char* authorization) {
    auth.Check(authorization, Role::kAdmin, &role).IgnoreError();
    return role;
  };
  EXPECT_EQ(who("Bearer adm"), "admin");
  EXPECT_EQ(who("Bearer inf"), "infer");
  EXPECT_EQ(who("Bearer guess"), "unknown");
  EXPECT_EQ(who(""), "no token");
}

TEST(AuthTest, AReplacedTokenIsNotKnownAnyMore) {
  Auth auth("adm", "inf");
  EXPECT_FALSE(auth.Replace(Role::kAdmin, "adm"));
  EXPECT_TRUE(auth.Replace(Role::kAdmin, "next"));
  EXPECT_TRUE(auth.Check("Bearer next", Role::kAdmin).ok());
  EXPECT_EQ(auth.Check("Bearer adm", Role::kAdmin).code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(auth.Check("Bearer inf", Role::kInfer).ok());
  EXPECT_TRUE(auth.Replace(Role::kInfer, "fni"));
  EXPECT_EQ(auth.Check("Bearer inf", Role::kInfer).code(), StatusCode::kUnauthenticated);
}

TEST(AuthTest, ConstantTimeEqualsIsEquality) {
  EXPECT_TRUE(ConstantTimeEquals("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcabc", "abca", "Abc"})
    EXPECT_FALSE(ConstantTimeEquals(other, "abc")) << other;
  EXPECT_TRUE(ConstantTimeEquals("", ""));
  EXPECT_FALSE(ConstantTimeEquals("a", ""));
}

}  // namespace
}  // namespace vicinal::server
