// SPDX-License-Identifier: Apache-2.0
// Errors of calls as absl::Status: the server's code (the numbers are the same) and message, with the google.rpc
// details of the trailer as payload. All text is printable (printable.h), whatever the server sent.
#ifndef VICINAL_CLIENT_CPP_ERRORS_H_
#define VICINAL_CLIENT_CPP_ERRORS_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace vicinal::client {

struct ErrorDetails {
  std::string reason;                                           // ErrorInfo: UPPER_SNAKE_CASE, stable
  std::map<std::string, std::string> metadata;                  // ErrorInfo
  std::vector<std::pair<std::string, std::string>> violations;  // BadRequest: field, description
  std::string resource_type;                                    // ResourceInfo
  std::string resource_name;
  std::optional<double> retry_after_seconds;  // RetryInfo
};

// The call's status with code, message and details; OK for OK. If gRPC itself ended the call (server unreachable, no
// answer in time, unknown method), the message names `target`.
absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& target);

// An error that the server reported inside a message (a FAILED graph), in the form of a call's error. A code that is no
// error's becomes UNKNOWN.
absl::Status CallError(absl::StatusCode code, const std::string& message);

// A local error with a reason and metadata, as DetailsOf tells them. `status` is not OK.
absl::Status LocalError(const absl::Status& status, const std::string& reason,
                        const std::map<std::string, std::string>& metadata);

// The same status, with `addition` appended to its message.
absl::Status AddToMessage(const absl::Status& status, const std::string& addition);

// True if the status came from a call, false for local errors (a file, an invalid argument).
bool IsCallError(const absl::Status& status);

// True if the call was interrupted rather than answered: the server is unreachable, busy or draining (UNAVAILABLE), or
// gRPC aborted the call there to limit its memory (RESOURCE_EXHAUSTED without a reason; not a reply that is too large
// for this end).
bool IsBrokenOff(const absl::Status& status);

// Attaches the id of an upload that can be resumed: the server keeps the received bytes for --upload_ttl.
absl::Status WithUploadId(const absl::Status& status, const std::string& upload_id);
// The attached id; empty: none.
std::string UploadIdOf(const absl::Status& status);

// The details of a status; empty if there are none or they do not parse.
ErrorDetails DetailsOf(const absl::Status& status);

// Text for users: "NOT_FOUND: graph 'g' does not exist", and an indented line for each detail that the message does not
// contain.
std::string Describe(const absl::Status& status);

// "NOT_FOUND" and the like.
std::string CodeName(absl::StatusCode code);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_ERRORS_H_
