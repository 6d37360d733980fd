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

}  // namespace
}  // namespace vicinal::tls
