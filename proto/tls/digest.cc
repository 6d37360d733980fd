// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <cstdlib>
#include <memory>
#include <new>

namespace vicinal::tls {
namespace {

struct Setup {
  // Fetching costs more than the digest of a token. Never freed: calls may end after main does.
  EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  Digest key = {};
  Setup() {
    // Without randomness nothing here is safe.
    if (algorithm == nullptr || RAND_bytes(key.data(), static_cast<int>(key.size())) != 1) std::abort();
  }
};

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

const Setup& TheSetup() {
  static const Setup& setup = *new Setup;
  return setup;
}

// Of `first` and then `second`.
Digest Sha256(std::string_view first, std::string_view second) {
  Digest digest;
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  if (context == nullptr || EVP_DigestInit_ex(context.get(), TheSetup().algorithm, nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), first.data(), first.size()) != 1 ||
      EVP_DigestUpdate(context.get(), second.data(), second.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) != 1) {
    throw std::bad_alloc();
  }
  return digest;
}

}  // namespace

Digest DigestOf(std::string_view secret) {
  const Digest& key = TheSetup().key;
  return Sha256({reinterpret_cast<const char*>(key.data()), key.size()}, secret);
}

std::string Sha256Hex(std::string_view content) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : Sha256(content, {})) text.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return text;
}

bool Equal(const Digest& a, const Digest& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace vicinal::tls
