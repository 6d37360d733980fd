// SPDX-License-Identifier: Apache-2.0
// Random UUIDs (RFC 4122, version 4).
#ifndef VICINAL_ENGINE_BASE_UUID_H_
#define VICINAL_ENGINE_BASE_UUID_H_

#include <string>
#include <string_view>

namespace vicinal {

// "f81d4fae-7dec-41d0-a765-00a0c91e6bf6", from the system's source of randomness.
std::string MakeUuid();
// Whether `text` has the form of a UUID in lower case.
bool IsUuid(std::string_view text);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_UUID_H_
