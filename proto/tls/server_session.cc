// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/server_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "proto/tls/openssl.h"

namespace vicinal::tls {
namespace {

std::vector<X509Ptr> CertificatesIn(const std::string& pem) {
  std::vector<X509Ptr> certificates;
  const Bio bio = BioOf(pem);
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) certificates.emplace_back(next);
  ERR_clear_error();
  return certificates;
}

bool UseIdentity(SSL_CTX* context, const std::string& chain, const std::string& key) {
  const std::vector<X509Ptr> certificates = CertificatesIn(chain);
  const Bio bio = BioOf(key);
  const KeyPtr private_key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (certificates.empty() || private_key == nullptr) return false;
  for (size_t i = 1; i < certificates.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, certificates[i].get()) != 1) return false;
  }
  return SSL_CTX_use_certificate(context, certificates.front().get()) == 1 &&
         SSL_CTX_use_PrivateKey(context, private_key.get()) == 1;
}

bool WantCertificatesOf(SSL_CTX* context, const std::string& authorities) {
  const std::vector<X509Ptr> certificates = CertificatesIn(authorities);
  for (const X509Ptr& one : certificates) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one.get()) != 1) return false;
    if (SSL_CTX_add_client_CA(context, one.get()) != 1) return false;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return !certificates.empty();
}

}  // namespace

struct ServerContext::Parts {
  ContextPtr context{SSL_CTX_new(TLS_server_method())};
};

ServerContext::ServerContext(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ServerContext::~ServerContext() = default;

absl::StatusOr<std::shared_ptr<const ServerContext>> ServerContext::Make(const std::string& chain,
                                                                         const std::string& key,
                                                                         const std::string& authorities) {
  auto parts = std::make_unique<Parts>();
  SSL_CTX* const context = parts->context.get();
  if (context == nullptr) throw std::bad_alloc();
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  const bool usable = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 && UseIdentity(context, chain, key) &&
                      (authorities.empty() || WantCertificatesOf(context, authorities));
  ERR_clear_error();
  if (!usable) return absl::InvalidArgumentError("certificate, key and authorities make no TLS server");
  return std::shared_ptr<const ServerContext>(new ServerContext(std::move(parts)));
}

struct ServerSession::Parts {
  std::unique_ptr<SSL, Free<SSL_free>> ssl;
  BIO* from_client = nullptr;  // `ssl` owns both
  BIO* to_client = nullptr;
};

ServerSession::ServerSession(std::shared_ptr<const ServerContext> context)
    : context_(std::move(context)), parts_(std::make_unique<Parts>()) {
  parts_->ssl.reset(SSL_new(context_->parts_->context.get()));
  Bio from_client(BIO_new(BIO_s_mem())), to_client(BIO_new(BIO_s_mem()));
  if (parts_->ssl == nullptr || from_client == nullptr || to_client == nullptr) throw std::bad_alloc();
  parts_->from_client = from_client.release();
  parts_->to_client = to_client.release();
  SSL_set_bio(parts_->ssl.get(), parts_->from_client, parts_->to_client);
  SSL_set_accept_state(parts_->ssl.get());
}

ServerSession::~ServerSession() = default;

bool ServerSession::Decrypt(std::string_view bytes, std::string* text) {
  ERR_clear_error();
  if (BIO_write(parts_->from_client, bytes.data(), IntOf(bytes.size())) != IntOf(bytes.size())) throw std::bad_alloc();
  char buffer[4096];
  int result = 0;
  while ((result = SSL_read(parts_->ssl.get(), buffer, sizeof(buffer))) > 0)
    text->append(buffer, static_cast<size_t>(result));
  const bool goes_on = SSL_get_error(parts_->ssl.get(), result) == SSL_ERROR_WANT_READ;
  // They stay with the thread otherwise, and gRPC's handshakes would meet them.
  ERR_clear_error();
  return goes_on;
}

void ServerSession::EncryptLast(std::string_view text) {
  while (!text.empty()) {
    const int written = SSL_write(parts_->ssl.get(), text.data(), IntOf(text.size()));
    if (written <= 0) break;  // what it writes to takes everything: the session is broken
    text.remove_prefix(static_cast<size_t>(written));
  }
  SSL_shutdown(parts_->ssl.get());
  ERR_clear_error();
}

std::string ServerSession::TakeOutput() {
  std::string output(BIO_ctrl_pending(parts_->to_client), '\0');
  const int size = output.empty() ? 0 : BIO_read(parts_->to_client, output.data(), IntOf(output.size()));
  output.resize(static_cast<size_t>(std::max(size, 0)));
  return output;
}

}  // namespace vicinal::tls
