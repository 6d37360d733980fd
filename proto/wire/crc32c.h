// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected; RFC 3720 appendix B.4), the checksum of every upload chunk.
#ifndef VICINAL_PROTO_WIRE_CRC32C_H_
#define VICINAL_PROTO_WIRE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace vicinal::wire {

// Checksum of `size` bytes at `data`, going on from `crc` (0 at the start): Crc32c(b, n, Crc32c(a, m)) is that of a
// then b. Uses the processor's instruction where there is one, tables otherwise; the results are equal.
uint32_t Crc32c(const void* data, size_t size, uint32_t crc = 0);

namespace internal {
// The table-driven way, exposed so that a test can hold the two against each other.
uint32_t Crc32cPortable(const void* data, size_t size, uint32_t crc);
}  // namespace internal

}  // namespace vicinal::wire

#endif  // VICINAL_PROTO_WIRE_CRC32C_H_
