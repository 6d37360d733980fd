// SPDX-License-Identifier: Apache-2.0
// The hash FNV-1a with 64 bits: the same in every process and build. Not for what an adversary chooses.
#ifndef VICINAL_ENGINE_BASE_FNV1A_H_
#define VICINAL_ENGINE_BASE_FNV1A_H_

#include <cstdint>
#include <string_view>

namespace vicinal {

constexpr uint64_t Fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_FNV1A_H_
