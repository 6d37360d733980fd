// SPDX-License-Identifier: Apache-2.0
#include "server/edge_certificates.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "engine/base/error.h"
#include "proto/tls/certificates.h"

namespace vicinal::server {

StatusOr<EdgeCertificates::Names> EdgeCertificates::NamesIn(std::string_view base64_der) {
  std::string key(base64_der);
  {
    MutexLock lock(&mutex_);
    const auto found = kept_.find(key);
    if (found != kept_.end()) return found->second;
  }
  std::string der;
  StatusOr<tls::Certificate> certificate = absl::InvalidArgumentError("not base64");
  if (absl::Base64Unescape(key, &der)) certificate = tls::ParseDer(der);
  if (!certificate.ok()) {
    return InvalidArgument("BAD_EDGE_CERTIFICATE", kEdgeCertificateMetadata,
                           "the proxy's metadata vicinal-edge-client-der is not a certificate (DER in base64)");
  }
  auto names = std::make_shared<const std::vector<std::string>>(std::move(certificate->names));
  MutexLock lock(&mutex_);
  if (kept_.size() >= kMostKept) kept_.clear();
  kept_.emplace(std::move(key), names);
  return names;
}

}  // namespace vicinal::server
