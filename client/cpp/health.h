// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health/Check without generated code: Debian packages none for C++, and the two messages have one field
// each. Internal to the client library.
#ifndef VICINAL_CLIENT_CPP_HEALTH_H_
#define VICINAL_CLIENT_CPP_HEALTH_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/channel.h"

namespace vicinal::client::internal {

// "SERVING" and so on. NOT_FOUND: the server knows no such service.
absl::StatusOr<std::string> CheckHealth(const Channel& channel, const std::string& service);

}  // namespace vicinal::client::internal

#endif  // VICINAL_CLIENT_CPP_HEALTH_H_
