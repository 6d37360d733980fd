// SPDX-License-Identifier: Apache-2.0
// The log line of a call. Calls that change state are the audit trail: one line each, also if the caller was rejected
// or the call failed. Other calls are logged at debug level, or at error level if the server is at fault.
#ifndef VICINAL_SERVER_CALL_LOG_H_
#define VICINAL_SERVER_CALL_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "server/call.h"
#include "server/json_log.h"
#include "server/subject.h"

namespace vicinal::server {

// False if LogCall would write no line for any status but INTERNAL, so that its content need not be computed.
bool IsLogged(Method method, const JsonLog& log);

// At the call's end, with its status and duration. `left_out`: lines before this one that were not written.
void LogCall(const Call& call, const Subject& subject, const Status& status, double seconds, int64_t left_out,
             JsonLog* log);

// Converts gRPC's "ipv4:127.0.0.1:5000" and "ipv6:%5B::1%5D:5000" to "127.0.0.1:5000", "[::1]:5000". Others are
// unchanged.
std::string PeerName(std::string_view peer);

// The caller of a PeerName is at a unix socket.
bool IsUnix(std::string_view peer_name);

// The address in a PeerName: "127.0.0.1", "[::1]", "unix:" without the path.
std::string_view AddressIn(std::string_view peer_name);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CALL_LOG_H_
