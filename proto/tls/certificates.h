// SPDX-License-Identifier: Apache-2.0
// Checks certificates before gRPC gets them, with the library that gRPC itself uses (OpenSSL): gRPC accepts any text
// and fails in each later handshake, with a message about neither file. Errors say what is wrong with which file and
// are INVALID_ARGUMENT. No file is read here. Thread-safe: nothing is shared.
#ifndef VICINAL_PROTO_TLS_CERTIFICATES_H_
#define VICINAL_PROTO_TLS_CERTIFICATES_H_

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace vicinal::tls {

using Time = std::chrono::system_clock::time_point;

struct Certificate {
  std::string subject;  // "CN = gnn.example.com", escaped as RFC 2253 asks
  Time not_before, not_after;
  // Subject alternative names as "DNS:web.example.com", "URI:spiffe://...", "email:...", "IP:10.0.0.1". Names with
  // unprintable characters are left out: they would read like others.
  std::vector<std::string> names;
};

// The first certificate of `chain` (PEM, the leaf first), if `key` (PEM, not encrypted) is its private key, all
// certificates parse, and keys and signatures are strong enough for OpenSSL's security level. `chain_file` and
// `key_file` are for the message. Does not look at the time.
absl::StatusOr<Certificate> CheckIdentity(const std::string& chain, const std::string& chain_file,
                                          const std::string& key, const std::string& key_file);

// Whether `now` is within the certificate's validity; the message names `file` and the date.
absl::Status CheckValidity(const Certificate& certificate, const std::string& file, Time now);

// At least one certificate, and nothing that does not parse. Returns how many.
absl::StatusOr<int> CheckAuthorities(const std::string& pem, const std::string& file);

// A single certificate in DER.
absl::StatusOr<Certificate> ParseDer(std::string_view der);

// "2026-11-25T04:40:20Z"
std::string FormatTime(Time time);

}  // namespace vicinal::tls

#endif  // VICINAL_PROTO_TLS_CERTIFICATES_H_
