// SPDX-License-Identifier: Apache-2.0
#include "server/auth.h"

#include <gtest/gtest.h>

#include <fstream>

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

TEST(AuthTest, TokenFiles) {
  const std::string path = ::testing::TempDir() + "token_file_test";
  std::ofstream(path) << "  s3cret \nsecond line\n";
  EXPECT_EQ(*ReadTokenFile(path, "admin_token_file"), "s3cret");
  std::ofstream(path) << "\n";
  EXPECT_FALSE(ReadTokenFile(path, "admin_token_file").ok());
  std::ofstream(path) << "two words\n";
  EXPECT_FALSE(ReadTokenFile(path, "admin_token_file").ok());
  const auto missing = ReadTokenFile(path + ".none", "admin_token_file");
  EXPECT_NE(missing.status().message().find("No such file"), absl::string_view::npos) << missing.status();
  const auto folder = ReadTokenFile(::testing::TempDir(), "admin_token_file");
  EXPECT_NE(folder.status().message().find("Is a directory"), absl::string_view::npos) << folder.status();
  std::ofstream(path) << "";
  const auto empty = ReadTokenFile(path, "admin_token_file");
  EXPECT_NE(empty.status().message().find("first line is empty"), absl::string_view::npos) << empty.status();
}

}  // namespace
}  // namespace vicinal::server
