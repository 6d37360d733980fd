// SPDX-License-Identifier: Apache-2.0
// JSON from outside, read strictly: no key twice, no deep nesting, no bytes that are not UTF-8, nothing after the
// document. Says where it went wrong. One pass, no recursion over the input.
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

// `text` fit for a message: at most `most` bytes, others than printable ASCII replaced by '?'.
std::string Printable(std::string_view text, size_t most = 80);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_BASE_STRICT_JSON_H_
