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

}  // namespace

Digest DigestOf(std::string_view secret) {
  static const Setup& setup = *new Setup;
  Digest digest;
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  if (context == nullptr || EVP_DigestInit_ex(context.get(), setup.algorithm, nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), setup.key.data(), setup.key.size()) != 1 ||
      EVP_DigestUpdate(context.get(), secret.data(), secret.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) != 1) {
    throw std::bad_alloc();
  }
  return digest;
}

bool Equal(const Digest& a, const Digest& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace vicinal::tls
