// SPDX-License-Identifier: Apache-2.0
#include "engine/base/uuid.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>

namespace vicinal {

std::string MakeUuid() {
  std::random_device device;
  uint32_t words[4];
  for (uint32_t& word : words) word = device();
  words[1] = (words[1] & 0xffff0fff) | 0x4000;      // version 4: random
  words[2] = (words[2] & 0x3fffffff) | 0x80000000;  // RFC 4122's variant
  char text[37];
  std::snprintf(text, sizeof(text), "%08x-%04x-%04x-%04x-%04x%08x", words[0], words[1] >> 16, words[1] & 0xffff,
                words[2] >> 16, words[2] & 0xffff, words[3]);
  return text;
}

bool IsUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
    const bool digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (hyphen ? text[i] != '-' : !digit) return false;
  }
  return true;
}

}  // namespace vicinal
