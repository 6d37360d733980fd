// SPDX-License-Identifier: Apache-2.0
// Converts a Status to gRPC's: code, message, and the details as google.rpc messages in grpc-status-details-bin.
#ifndef VICINAL_SERVER_ERRORS_H_
#define VICINAL_SERVER_ERRORS_H_

#include <grpcpp/support/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/status.h"
#include "vicinal/v1/error_details.pb.h"

namespace vicinal::server {

grpc::Status ToGrpc(const Status& status);
// The same as a message, as it is in grpc-status-details-bin. REQUIRES: not OK.
v1::details::Status ToDetails(const Status& status);

// A call of a method that needs a message ended without one. `method`: "package.Service/Method".
// INVALID_ARGUMENT (BAD_MESSAGE).
Status NoMessage(std::string_view method);
// The same for a message that does not parse: the `number`th of its call, counted from 1, with so many bytes.
Status BadMessage(std::string_view method, int64_t number, size_t bytes);

// When the caller should retry, for `grpc-retry-pushback-ms`: set for UNAVAILABLE only, the code that standard retry
// policies retry.
std::optional<std::chrono::milliseconds> PushbackOf(const Status& status);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_ERRORS_H_
