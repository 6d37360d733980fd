// SPDX-License-Identifier: Apache-2.0
// Small documents of the state directory: a JSON object in one line whose first member is the CRC-32C of all that
// follows it, {"crc32c":"89abcdef",...}. Valid JSON for every other program; a flipped bit anywhere is found.
#ifndef VICINAL_ENGINE_STATE_SEALED_JSON_H_
#define VICINAL_ENGINE_STATE_SEALED_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal::state::internal {

inline constexpr int64_t kMaxDocumentBytes = int64_t{16} << 20;

// REQUIRES: `object` is an object with at least one member, none of them "crc32c", all its text UTF-8.
std::string SealJson(const nlohmann::json& object);
// The object, "crc32c" included. DATA_LOSS naming `path`.
StatusOr<nlohmann::json> UnsealJson(const std::string& path, std::string_view text);

// The member, if it is there and of that type; DATA_LOSS otherwise.
StatusOr<std::string> StringMember(const std::string& path, const nlohmann::json& object, const char* key);
// An integer in [least, most].
StatusOr<int64_t> IntegerMember(const std::string& path, const nlohmann::json& object, const char* key, int64_t least,
                                int64_t most);
// FAILED_PRECONDITION (STATE_FORMAT_TOO_NEW) unless the member "major" is `major`.
Status CheckMajor(const std::string& path, const nlohmann::json& object, int64_t major);

}  // namespace vicinal::state::internal

#endif  // VICINAL_ENGINE_STATE_SEALED_JSON_H_
