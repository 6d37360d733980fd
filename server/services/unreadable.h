// SPDX-License-Identifier: Apache-2.0
// Calls whose message is no Protobuf of the method's type. gRPC answers them before any of our code runs, with
// UNIMPLEMENTED and no text, as if the method were not there; here they are answered with INVALID_ARGUMENT, in words,
// and counted. So are those of gRPC's health service, which are not counted. (What comes in an upload's stream is the
// reactor's: a message that cannot be read ends the stream.)
#ifndef VICINAL_SERVER_SERVICES_UNREADABLE_H_
#define VICINAL_SERVER_SERVICES_UNREADABLE_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "server/core.h"

namespace vicinal::server {

// `core` must outlive what it is registered with.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> AnswerUnreadable(Core& core);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_UNREADABLE_H_
