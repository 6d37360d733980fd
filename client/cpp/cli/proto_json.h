// SPDX-License-Identifier: Apache-2.0
// Messages as JSON for scripts: field names as in the .proto, 64-bit integers as numbers (protobuf's own mapping uses
// strings, which are awkward in jq), enums without their prefix, timestamps in RFC 3339, tensors as type and shape.
#ifndef VICINAL_CLIENT_CPP_CLI_PROTO_JSON_H_
#define VICINAL_CLIENT_CPP_CLI_PROTO_JSON_H_

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

namespace vicinal::client::cli {

using Json = nlohmann::ordered_json;

// Includes unset fields, except unset messages.
Json ToJson(const google::protobuf::Message& message);

// Serializes a JSON value; invalid UTF-8 is replaced.
std::string Dump(const Json& json);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_PROTO_JSON_H_
