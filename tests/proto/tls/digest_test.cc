// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/digest.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <algorithm>
#include <string>

namespace vicinal::tls {
namespace {

TEST(DigestTest, EqualSecretsHaveEqualDigests) {
  const Digest one = DigestOf("one");
  EXPECT_TRUE(Equal(one, DigestOf("one")));
  for (const std::string& other : {std::string(), std::string("onE"), std::string("one "), std::string("one\0", 4)}) {
    EXPECT_FALSE(Equal(one, DigestOf(other))) << other;
  }
}

// Who knows the secret alone cannot compute it.
TEST(DigestTest, IsKeyed) {
  Digest plain;
  SHA256(reinterpret_cast<const unsigned char*>("one"), 3, plain.data());
  EXPECT_FALSE(Equal(DigestOf("one"), plain));
}

// FIPS 180-2, appendix B.1, and the empty message.
TEST(DigestTest, Sha256OfContentIsThatOfTheStandard) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace vicinal::tls
