// SPDX-License-Identifier: Apache-2.0
// TLS of the client: from the options to gRPC's credentials. Internal to the client library.
#ifndef VICINAL_CLIENT_CPP_CREDENTIALS_H_
#define VICINAL_CLIENT_CPP_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>

#include <memory>

#include "absl/status/status.h"
#include "client/cpp/client.h"

namespace vicinal::client::internal {

// INVALID_ARGUMENT: authorities or certificate do not parse, the key is not the certificate's, or the certificate is
// not valid now.
absl::Status CheckTls(const TlsOptions& options);

// Plaintext unless TLS is enabled.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(const TlsOptions& options);

}  // namespace vicinal::client::internal

#endif  // VICINAL_CLIENT_CPP_CREDENTIALS_H_
