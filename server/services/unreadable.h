// SPDX-License-Identifier: Apache-2.0
// Calls whose message is not valid Protobuf of the method's type. gRPC answers them before any of our code runs, with
// UNIMPLEMENTED and no text, as if the method did not exist. This interceptor changes that to INVALID_ARGUMENT with a
// message, and counts the call. It does the same for gRPC's health service, without counting. (Upload streams are
// handled by their reactor: an unreadable message ends the stream.)
#ifndef VICINAL_SERVER_SERVICES_UNREADABLE_H_
#define VICINAL_SERVER_SERVICES_UNREADABLE_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "server/core.h"

namespace vicinal::server {

// `core` must outlive the server builder's server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> AnswerUnreadable(Core& core);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_UNREADABLE_H_
