// SPDX-License-Identifier: Apache-2.0
// Strict reader of untrusted JSON: no duplicate keys, no deep nesting, valid UTF-8 only, nothing after the document.
// Errors give the position. One pass, no recursion over the input.
#ifndef VICINAL_ENGINE_BASE_STRICT_JSON_H_
#define VICINAL_ENGINE_BASE_STRICT_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal::internal {

inline constexpr int kMaxJsonDepth = 32;

// INVALID_ARGUMENT with `reason`; `what` names the document in the message ("the architecture").
StatusOr<nlohmann::json> ParseStrictJson(std::string_view text, std::string_view reason, std::string_view what);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_BASE_STRICT_JSON_H_
