// SPDX-License-Identifier: Apache-2.0
// What a refused call says: the server's code and message as an absl::Status (the numbers of the codes are the same),
// with the google.rpc details of its trailer kept inside.
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

// The call's status with code, message and details; OK for OK. `target` names the server where gRPC itself
// ended the call: not reached, no answer in time, a method that is not known there.
absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& target);

// A refusal that the server reported in a message (a graph that FAILED), as if the call had been refused.
absl::Status CallError(absl::StatusCode code, const std::string& message);

// The same status with something added to its message.
absl::Status AddToMessage(const absl::Status& status, const std::string& addition);

// True when the status came from a call, false when it arose on this side (a file, a wrong argument).
bool IsCallError(const absl::Status& status);

// True when the call ended on its way and not by the server's word: the server cannot be reached, is busy or draining
// (UNAVAILABLE), or gRPC broke the call off there to keep its memory (RESOURCE_EXHAUSTED without any reason).
bool IsBrokenOff(const absl::Status& status);

// The same status, of an upload that may be gone on with under `upload_id`: the server keeps what has arrived for a
// while. And that id; empty for any other status.
absl::Status WithUploadId(const absl::Status& status, const std::string& upload_id);
std::string UploadIdOf(const absl::Status& status);

// The details a status carries; empty ones when there are none or they do not parse.
ErrorDetails DetailsOf(const absl::Status& status);

// For people: "NOT_FOUND: graph 'g' does not exist" and one indented line for each detail that the message does not
// hold.
std::string Describe(const absl::Status& status);

// "NOT_FOUND" and the like.
std::string CodeName(absl::StatusCode code);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_ERRORS_H_
