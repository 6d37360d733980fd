// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, made by the openssl command: an implementation of its own way to what the server reads.
#ifndef VICINAL_TESTS_INTEGRATION_CERTIFICATES_H_
#define VICINAL_TESTS_INTEGRATION_CERTIFICATES_H_

#include <string>

namespace vicinal::testing {

// A certificate and its key, as paths of PEM files.
struct CertificateFilesOf {
  std::string certificate, key;
};

// An authority in a folder of its own.
class TestAuthority {
 public:
  // Makes `folder`, and the authority's own certificate in it. Failures of openssl are failures of the test.
  explicit TestAuthority(const std::string& folder);

  // The authority's certificate.
  std::string certificate() const { return folder_ + "/ca.pem"; }

  // Signs a certificate with these subject alternative names ("DNS:localhost,IP:127.0.0.1"); `days` below 0: it
  // expired.
  CertificateFilesOf Sign(const std::string& name, const std::string& alternative_names, int days = 2) const;

 private:
  const std::string folder_;
};

// Runs a command of the shell and returns its output, standard error included.
std::string OutputOf(const std::string& command);

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_INTEGRATION_CERTIFICATES_H_
