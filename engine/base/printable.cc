// SPDX-License-Identifier: Apache-2.0
#include "engine/base/printable.h"

#include <cstdint>

namespace vicinal {

std::string Printable(std::string_view text, size_t most) {
  std::string out;
  for (char c : text.substr(0, most)) out += (c >= 0x20 && c < 0x7f) ? c : '?';
  if (text.size() > most) out += "...";
  return out;
}

std::string Escaped(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  const auto append = [&](uint32_t value, int digits) {
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kDigits[(value >> shift) & 15];
  };
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t size = CharacterBytes(text.substr(at));
    if (size > 1) {
      uint32_t code = byte & (0x7fu >> size);
      for (size_t i = 1; i < size; ++i) code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3f);
      out += code > 0xffff ? "\\U" : "\\u";
      append(code, code > 0xffff ? 8 : 4);
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += text[at];
    } else {
      out += "\\x";
      append(byte, 2);
    }
    at += size;
  }
  return out;
}

size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty() || byte(0) < 0xc2 || byte(0) > 0xf4) return 1;
  const size_t size = byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  if (text.size() < size) return 1;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 1;
  }
  // Longer than it need be, a surrogate, or past the last code point.
  const bool strange = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f) ||
                       (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return strange ? 1 : size;
}

std::string Quoted(std::string_view text) { return "'" + Printable(text) + "'"; }

}  // namespace vicinal
