// SPDX-License-Identifier: Apache-2.0
// SHA-256: of content, as a name for it; and with a key, as a digest under which a secret can be looked up: how long
// the look-up takes then tells nothing about the secret.
#ifndef VICINAL_PROTO_TLS_DIGEST_H_
#define VICINAL_PROTO_TLS_DIGEST_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace vicinal::tls {

using Digest = std::array<uint8_t, 32>;

// SHA-256 of a random key of this process and `secret`: nobody outside can predict any bit of it. Throws
// std::bad_alloc.
Digest DigestOf(std::string_view secret);

// SHA-256 of `content`, 64 hexadecimal digits. Throws std::bad_alloc.
std::string Sha256Hex(std::string_view content);

// Takes the same time wherever they differ.
bool Equal(const Digest& a, const Digest& b);

}  // namespace vicinal::tls

#endif  // VICINAL_PROTO_TLS_DIGEST_H_
