// SPDX-License-Identifier: Apache-2.0
// Errors that a client can act on: a canonical code, a sentence that says what is wrong, where, and how to fix it, and
// a detail that the server converts to google.rpc messages (BadRequest, ErrorInfo, RetryInfo, ResourceInfo). The table
// of codes is in docs/errors.md. The detail is a payload of the Status, so every interface keeps it.
#ifndef VICINAL_ENGINE_BASE_ERROR_H_
#define VICINAL_ENGINE_BASE_ERROR_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal {

struct ErrorDetail {
  std::string reason;         // UPPER_SNAKE_CASE, stable; clients may switch on it
  std::string field;          // the request's field at fault, dotted ("nodes.ids[3]"); may be empty
  std::string resource_type;  // "graph", "model", "feature set", "upload"; empty: none
  std::string resource_name;  // its name
  std::optional<std::chrono::milliseconds> retry_after;  // after which the same call may succeed
  std::map<std::string, std::string> metadata;           // lowerCamelCase keys: {"offset", "4096"}, {"limit", "100"}

  friend bool operator==(const ErrorDetail&, const ErrorDetail&) = default;
};

// A status with `code` and `detail`.
Status MakeError(StatusCode code, std::string_view message, const ErrorDetail& detail);

// The detail of a status, if any.
std::optional<ErrorDetail> DetailOf(const Status& status);

// Prefixes the message, keeping code and detail: Annotate(s, "layer 'conv1'") -> "layer 'conv1': ...".
Status Annotate(const Status& status, std::string_view prefix);

// Adds to the metadata of the detail, which is created if absent. `node`: the client's row at fault, for clients with
// ids of their own.
Status WithMetadata(const Status& status, const std::string& key, const std::string& value);

// Common errors. `field` is the request's field at fault, dotted.
Status InvalidArgument(std::string_view reason, std::string_view field, std::string_view message);
// A request over a configured limit: INVALID_ARGUMENT, reason LIMIT_EXCEEDED, metadata {limit: flag, value, maximum}.
// `message` replaces the default message.
Status OverLimit(std::string_view limit_flag, std::string_view field, int64_t value, int64_t maximum,
                 std::string_view message = {});
// "graph 'g' does not exist" and how to fix it.
Status NotFound(std::string_view resource_type, std::string_view resource_name, std::string_view hint = {});
Status AlreadyExists(std::string_view resource_type, std::string_view resource_name, std::string_view hint);
Status FailedPrecondition(std::string_view reason, std::string_view message);
Status Internal(std::string_view message);
// Queue full or draining: UNAVAILABLE; the server adds grpc-retry-pushback-ms.
Status Unavailable(std::string_view reason, std::string_view message, std::chrono::milliseconds retry_after);
// The work, or what a client had to do, took too long.
Status DeadlineExceeded(std::string_view reason, std::string_view message);
// Does not fit now: RESOURCE_EXHAUSTED with RetryInfo.
Status ResourceExhausted(std::string_view reason, std::string_view message, std::chrono::milliseconds retry_after);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_ERROR_H_
