// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli; RFC 3720, appendix B.4), the checksum of everything in the state directory.
#ifndef VICINAL_ENGINE_STATE_CRC32C_H_
#define VICINAL_ENGINE_STATE_CRC32C_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace vicinal::state {

// Checksum of `bytes`, going on from `crc` (0 at the start): Crc32c(b, Crc32c(a)) is that of a followed by b.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);

// Eight hexadecimal digits, lower case.
std::string CrcText(uint32_t crc);

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_CRC32C_H_
