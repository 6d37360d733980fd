// SPDX-License-Identifier: Apache-2.0
#include "engine/base/printable.h"

namespace vicinal {

std::string Printable(std::string_view text, size_t most) {
  std::string out;
  for (char c : text.substr(0, most)) out += (c >= 0x20 && c < 0x7f) ? c : '?';
  if (text.size() > most) out += "...";
  return out;
}

std::string Quoted(std::string_view text) { return "'" + Printable(text) + "'"; }

}  // namespace vicinal
