// SPDX-License-Identifier: Apache-2.0
// Against files of the openssl command; the refusals of bad files at a start are in tests/integration/tls_test.cc.
#include "proto/tls/certificates.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/integration/certificates.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::tls {
namespace {

std::string ReadFileAt(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class CertificatesTest : public ::testing::Test {
 protected:
  const TemporaryDirectory folder_;
};

TEST_F(CertificatesTest, ReadsWhatTheCommandWrote) {
  const testing::TestAuthority authority(folder_.path());
  const auto files =
      authority.Sign("web", "DNS:web.example.com,URI:spiffe://x/web,email:a@b.example,IP:10.0.0.1,IP:::1,RID:1.2.3");
  const std::string chain = ReadFileAt(files.certificate), key = ReadFileAt(files.key);
  const std::vector<std::string> names = {"DNS:web.example.com", "URI:spiffe://x/web", "email:a@b.example",
                                          "IP:10.0.0.1", "IP:::1"};
  const auto leaf = CheckIdentity(chain, "cert", key, "key");
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  EXPECT_EQ(leaf->subject, "CN = web");
  EXPECT_EQ(leaf->names, names);
  const std::string end = testing::OutputOf("date -u -d \"$(openssl x509 -noout -enddate -in " + files.certificate +
                                            " | cut -d= -f2)\" +%Y-%m-%dT%H:%M:%SZ");
  EXPECT_EQ(FormatTime(leaf->not_after) + "\n", end);

  testing::OutputOf("openssl x509 -in " + files.certificate + " -outform DER -out " + folder_ / "web.der");
  const std::string der = ReadFileAt(folder_ / "web.der");
  const auto parsed = ParseDer(der);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->names, names);
  for (const std::string& bad : {std::string(), der.substr(0, der.size() - 1), der + "x", chain}) {
    EXPECT_FALSE(ParseDer(bad).ok());
  }

  const auto both = CheckAuthorities(ReadFileAt(authority.certificate()) + chain, "ca");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(*both, 2);
  EXPECT_FALSE(CheckAuthorities(chain + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "ca").ok());
  EXPECT_FALSE(CheckAuthorities(key, "ca").ok());
}

TEST_F(CertificatesTest, ACertificateIsValidBetweenItsTimes) {
  Certificate certificate;
  certificate.subject = "CN = x";
  certificate.not_before = Time(std::chrono::seconds(1'000'000));
  certificate.not_after = Time(std::chrono::seconds(2'000'000));
  EXPECT_TRUE(CheckValidity(certificate, "f", certificate.not_before).ok());
  EXPECT_TRUE(CheckValidity(certificate, "f", certificate.not_after).ok());
  EXPECT_EQ(CheckValidity(certificate, "f", certificate.not_after + std::chrono::seconds(1)).message(),
            "f: the certificate of CN = x expired on 1970-01-24T03:33:20Z");
  EXPECT_EQ(CheckValidity(certificate, "f", certificate.not_before - std::chrono::seconds(1)).message(),
            "f: the certificate of CN = x is not valid before 1970-01-12T13:46:40Z; is this machine's clock right?");
}

// A key of 512 bits is no key: gRPC would refuse it in each handshake.
TEST_F(CertificatesTest, WeakKeysAreRefused) {
  testing::OutputOf("cd " + folder_.path() +
                    " && openssl req -x509 -newkey rsa:512 -nodes -keyout weak.key -out weak.pem "
                    "-days 2 -subj /CN=weak");
  const auto weak = CheckIdentity(ReadFileAt(folder_ / "weak.pem"), "cert", ReadFileAt(folder_ / "weak.key"), "key");
  EXPECT_EQ(weak.status().message(), "cert: cannot be used: ee key too small");
}

}  // namespace
}  // namespace vicinal::tls
