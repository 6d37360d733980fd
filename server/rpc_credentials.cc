// SPDX-License-Identifier: Apache-2.0
#include "server/rpc_credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_context.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace vicinal::server {
namespace {

constexpr unsigned kSecondsBetweenLooks = 1;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const CertificateFiles& files) {
  using grpc::experimental::FileWatcherCertificateProvider;
  const bool mutual = files.wants_client_certificates();
  grpc::experimental::TlsServerCredentialsOptions options(std::make_shared<FileWatcherCertificateProvider>(
      files.published_key(), files.published_chain(), mutual ? files.published_authorities() : std::string(),
      kSecondsBetweenLooks));
  options.watch_identity_key_cert_pairs();
  if (mutual) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

void ReadCertificate(const grpc::ServerContextBase& context, Caller* caller) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr || peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME).empty()) return;
  caller->certificate = true;
  constexpr std::pair<const char*, const char*> kKinds[] = {{GRPC_PEER_URI_PROPERTY_NAME, "URI:"},
                                                            {GRPC_PEER_DNS_PROPERTY_NAME, "DNS:"},
                                                            {GRPC_PEER_EMAIL_PROPERTY_NAME, "email:"},
                                                            {GRPC_PEER_IP_PROPERTY_NAME, "IP:"}};
  for (const auto& [property, kind] : kKinds) {
    for (const grpc::string_ref& name : peer->FindPropertyValues(property)) {
      caller->certificate_names.push_back(absl::StrCat(kind, absl::string_view(name.data(), name.size())));
    }
  }
}

}  // namespace vicinal::server
