// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/credentials.h"

#include <chrono>

#include "client/cpp/formats/status_macros.h"
#include "proto/tls/certificates.h"

namespace vicinal::client::internal {

absl::Status CheckTls(const TlsOptions& options) {
  const bool identity = !options.certificate.empty() || !options.key.empty();
  if (!options.enabled) {
    if (!identity && options.authorities.empty() && options.server_name.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("certificates are given, but TLS is not enabled");
  }
  if (!options.authorities.empty()) {
    CLIENT_RETURN_IF_ERROR(tls::CheckAuthorities(options.authorities, "the server's authorities").status());
  }
  if (!identity) return absl::OkStatus();
  constexpr char kCertificate[] = "the client's certificate";
  CLIENT_ASSIGN_OR_RETURN(const tls::Certificate leaf,
                          tls::CheckIdentity(options.certificate, kCertificate, options.key, "the client's key"));
  return tls::CheckValidity(leaf, kCertificate, std::chrono::system_clock::now());
}

std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(const TlsOptions& options) {
  if (!options.enabled) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({options.authorities, options.key, options.certificate});
}

}  // namespace vicinal::client::internal
