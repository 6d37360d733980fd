// SPDX-License-Identifier: Apache-2.0
#include "engine/state/crc32c.h"

#include <isa-l/crc.h>

#include <cstddef>
#include <cstdio>

namespace vicinal::state {

uint32_t Crc32c(std::string_view bytes, uint32_t crc) {
  constexpr size_t kMost = size_t{1} << 30;  // ISA-L counts in int
  uint32_t inverted = ~crc;                  // and works on the register, before the final inversion
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kMost);
    // Not const in its declaration; it only reads.
    auto* const data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    inverted = crc32_iscsi(data, static_cast<int>(part.size()), inverted);
    bytes.remove_prefix(part.size());
  }
  return ~inverted;
}

std::string CrcText(uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", static_cast<unsigned>(crc));
  return text;
}

}  // namespace vicinal::state
