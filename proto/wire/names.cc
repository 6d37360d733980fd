// SPDX-License-Identifier: Apache-2.0
// The grammars by hand: names come with every call, and a regular expression would cost more than the call's parsing.
#include "proto/wire/names.h"

#include <algorithm>

namespace vicinal::wire {
namespace {

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

}  // namespace

bool IsValidName(std::string_view name) {
  if (name.empty() || name.size() > 63 || !IsLowerOrDigit(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLowerOrDigit(c) || c == '.' || c == '_' || c == '-'; });
}

bool IsValidUploadId(std::string_view id) {
  if (id.size() < 8 || id.size() > 64) return false;
  return std::all_of(id.begin(), id.end(), [](char c) { return IsLowerOrDigit(c) || c == '-'; });
}

}  // namespace vicinal::wire
