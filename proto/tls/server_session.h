// SPDX-License-Identifier: Apache-2.0
// TLS of a server, for listeners that are not gRPC's: TLS 1.2 or 1.3, without tickets, resumption and renegotiation. It
// knows no sockets: bytes go in and come out.
#ifndef VICINAL_PROTO_TLS_SERVER_SESSION_H_
#define VICINAL_PROTO_TLS_SERVER_SESSION_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace vicinal::tls {

// A certificate with its key, and who may connect. Thread-safe.
class ServerContext {
 public:
  // PEM, as CheckIdentity and CheckAuthorities take them; `authorities`: clients need a certificate of one of them;
  // empty: they need none.
  static absl::StatusOr<std::shared_ptr<const ServerContext>> Make(const std::string& chain, const std::string& key,
                                                                   const std::string& authorities);
  ~ServerContext();
  ServerContext(const ServerContext&) = delete;
  ServerContext& operator=(const ServerContext&) = delete;

 private:
  friend class ServerSession;
  struct Parts;
  explicit ServerContext(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

// One connection. Not thread-safe.
class ServerSession {
 public:
  explicit ServerSession(std::shared_ptr<const ServerContext> context);
  ~ServerSession();
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  // Takes bytes of the client, and appends what it has said to `text`. False: the connection is over, by its fault (no
  // certificate that counts, no TLS) or its will; send TakeOutput() and end it.
  bool Decrypt(std::string_view bytes, std::string* text);
  // Says `text`, after which nothing more will be said. Only once Decrypt has yielded something.
  void EncryptLast(std::string_view text);
  // Bytes for the client since the last call.
  std::string TakeOutput();

 private:
  struct Parts;
  const std::shared_ptr<const ServerContext> context_;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace vicinal::tls

#endif  // VICINAL_PROTO_TLS_SERVER_SESSION_H_
