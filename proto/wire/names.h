// SPDX-License-Identifier: Apache-2.0
// The grammar of names, shared by client and server, and the metadata keys of a call.
#ifndef VICINAL_PROTO_WIRE_NAMES_H_
#define VICINAL_PROTO_WIRE_NAMES_H_

#include <cstddef>
#include <string_view>

namespace vicinal::wire {

// Graphs, feature sets, models: [a-z0-9][a-z0-9._-]{0,62}
inline constexpr char kNameGrammar[] = "[a-z0-9][a-z0-9._-]{0,62}";
bool IsValidName(std::string_view name);

// Upload ids: [a-z0-9-]{8,64}
inline constexpr char kUploadIdGrammar[] = "[a-z0-9-]{8,64}";
bool IsValidUploadId(std::string_view id);

// Metadata of a call: the graph it is about (a proxy may hash on it), the caller's request id, the bearer token.
inline constexpr char kGraphMetadata[] = "vicinal-graph";
inline constexpr char kRequestIdMetadata[] = "vicinal-request-id";
inline constexpr char kAuthorizationMetadata[] = "authorization";

// Half of the 8 KiB of metadata that gRPC accepts with a call by default; the rest is for other headers.
inline constexpr size_t kMaxTokenBytes = 4096;

// Name of the feature set that an upload's own features become.
inline constexpr char kDefaultFeatureSet[] = "default";

}  // namespace vicinal::wire

#endif  // VICINAL_PROTO_WIRE_NAMES_H_
