// SPDX-License-Identifier: Apache-2.0
#include "server/principals.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/base/error.h"

namespace vicinal::server {
namespace {

TEST(PrincipalsTest, ReadsNamesRolesAndCredentials) {
  const auto principals = ParsePrincipals(
      "# who may call\n"
      "\n"
      "  ops\tadmin  token:abc==\r\n"
      "web infer DNS:Web.Example.COM\n"
      "ops admin token:def\n"
      "web infer URI:spiffe://Trust/Ns\n"
      "web infer email:a@b\n"
      "web infer IP:10.0.0.1\n"
      "night batch token:ghi");
  ASSERT_TRUE(principals.ok()) << principals.status();
  const std::vector<Principal> expected = {
      {"ops", Role::kAdmin, {"abc==", "def"}, {}, true},
      {"web", Role::kInfer, {}, {"DNS:web.example.com", "URI:spiffe://Trust/Ns", "email:a@b", "IP:10.0.0.1"}, true},
      {"night", Role::kInfer, {"ghi"}, {}, false}};
  EXPECT_EQ(*principals, expected);
}

TEST(PrincipalsTest, NamesTheLineButNoSecret) {
  const std::string longest(4096, 't');
  EXPECT_TRUE(ParsePrincipals("ops admin token:" + longest).ok());
  const std::pair<std::string, std::string> cases[] = {
      {"", "lists no principal"},
      {"# ops admin token:5ecret", "lists no principal"},
      {"ops admin", "line 1: expected NAME ROLE CREDENTIAL"},
      {"ops admin token:5ecret extra", "line 1: expected NAME ROLE CREDENTIAL"},
      {"a admin token:x\n5ecret", "line 2: expected"},
      {"Ops admin token:5ecret", "line 1: the name must match"},
      {"10.0.0.1 admin token:5ecret", "line 1: the name must match"},
      {"ops root token:5ecret", "line 1: the role must be admin, infer or batch"},
      {"ops admin 5ecret", "line 1: the credential must begin with"},
      {"ops admin token:", "line 1: the token is empty"},
      {"ops admin token:5ecret\x01", "line 1: the token is empty, or has a character that cannot be sent"},
      {"ops admin token:" + longest + "t", "more than 4096"},
      {"ops admin DNS:", "line 1: the certificate's name is empty"},
      {"ops admin token:a\n\nops infer token:b", "line 3: 'ops' has another role"},
      {"web infer token:a\nweb batch token:b", "line 2: 'web' has another role"},
      {"ops admin token:5ecret\nweb infer token:5ecret", "a token of 'web' is also listed for 'ops'"},
      {"ops admin token:5ecret\nops admin token:5ecret", "a token of 'ops' is also listed for 'ops'"},
      {"ops admin DNS:a\nweb infer DNS:A", "a certificate name of 'web' is also listed for 'ops'"},
  };
  for (const auto& [text, piece] : cases) {
    const Status status = ParsePrincipals(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(std::string(status.message()).find(piece), std::string::npos) << status;
    EXPECT_EQ(std::string(status.message()).find("5ecret"), std::string::npos) << status;
    EXPECT_EQ(DetailOf(status)->field, "principals_file");
  }
}

TEST(PrincipalsTest, AFileThatIsNoneIsRefused) {
  EXPECT_EQ(ReadPrincipals("/does/not/exist").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadPrincipals("/dev/zero").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadPrincipals("/").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace vicinal::server
