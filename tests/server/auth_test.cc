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
  EXPECT_FALSE(ReadTokenFile(path + ".none", "admin_token_file").ok());
}

}  // namespace
}  // namespace vicinal::server
