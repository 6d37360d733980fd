// SPDX-License-Identifier: Apache-2.0
// OpenSSL's objects with an owner each. Internal to proto/tls: whoever else includes it sees OpenSSL.
#ifndef VICINAL_PROTO_TLS_OPENSSL_H_
#define VICINAL_PROTO_TLS_OPENSSL_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <memory>
#include <string>

namespace vicinal::tls {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using X509Ptr = std::unique_ptr<X509, Free<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;

// OpenSSL counts bytes in int.
inline int IntOf(size_t size) { return static_cast<int>(std::min<size_t>(size, INT_MAX)); }

// Reads `text`, which must outlive it.
inline Bio BioOf(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), IntOf(text.size()))); }

// For keys: no passphrase is ever asked for on the terminal.
inline int NoPassphrase(char*, int, int, void*) { return -1; }

}  // namespace vicinal::tls

#endif  // VICINAL_PROTO_TLS_OPENSSL_H_
