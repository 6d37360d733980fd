// SPDX-License-Identifier: Apache-2.0
// CRC-32C in two ways. Where the processor has the SSE 4.2 instruction (checked once, at run time) eight bytes take one
// instruction; elsewhere eight table look-ups advance eight bytes at a time. Both read memory unaligned through memcpy.
#include "proto/wire/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace vicinal::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the word-wise steps assume a little-endian processor");

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 with its bits reversed
constexpr int kSlices = 8;
using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// tables[k][b]: what byte b contributes after k further zero bytes.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (int slice = 1; slice < kSlices; ++slice) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cSse42(const void* data, size_t size, uint32_t crc) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t state = static_cast<uint32_t>(~crc);
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    state = _mm_crc32_u64(state, word);
  }
  auto narrow = static_cast<uint32_t>(state);
  for (; size > 0; --size, ++bytes) narrow = _mm_crc32_u8(narrow, *bytes);
  return ~narrow;
}
#endif

using Function = uint32_t (*)(const void*, size_t, uint32_t);

Function Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return Crc32cSse42;
#endif
  return internal::Crc32cPortable;
}

}  // namespace

namespace internal {

uint32_t Crc32cPortable(const void* data, size_t size, uint32_t crc) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint32_t state = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    word ^= state;
    state = 0;
    for (int i = 0; i < kSlices; ++i) state ^= kTables[kSlices - 1 - i][(word >> (8 * i)) & 0xFF];
  }
  for (; size > 0; --size, ++bytes) state = (state >> 8) ^ kTables[0][(state ^ *bytes) & 0xFF];
  return ~state;
}

}  // namespace internal

uint32_t Crc32c(const void* data, size_t size, uint32_t crc) {
  static const Function function = Choose();
  return function(data, size, crc);
}

}  // namespace vicinal::wire
