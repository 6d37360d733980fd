// SPDX-License-Identifier: Apache-2.0
// Certificates as gRPC takes them: the credentials of a listener, and what a client's certificate says about a call.
#ifndef VICINAL_SERVER_RPC_CREDENTIALS_H_
#define VICINAL_SERVER_RPC_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/auth.h"
#include "server/certificate_files.h"

namespace grpc {
class ServerContextBase;
}

namespace vicinal::server {

// TLS 1.2 or 1.3 with the published certificates, which gRPC reads again every second. Where client certificates are
// wanted, nobody gets past the handshake without one of those authorities.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const CertificateFiles& files);

// Fills in what the client's certificate says, if the call came over TLS with one.
void ReadCertificate(const grpc::ServerContextBase& context, Caller* caller);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_RPC_CREDENTIALS_H_
