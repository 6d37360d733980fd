// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/certificates.h"

#include <arpa/inet.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/tls/openssl.h"

namespace vicinal::tls {
namespace {

void FreeNames(GENERAL_NAMES* names) { GENERAL_NAMES_free(names); }

using NamesPtr = std::unique_ptr<GENERAL_NAMES, Free<FreeNames>>;

// OpenSSL's errors stay with the thread until they are taken: none may be left for gRPC's handshakes.
std::string TakeErrors() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    const char* const reason = ERR_reason_error_string(code);
    if (text.empty() && reason != nullptr) text = reason;
  }
  return text.empty() ? "unknown error" : text;
}

bool LastErrorIsEnd() { return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE; }

absl::Status Wrong(const std::string& file, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", what));
}

absl::StatusOr<std::vector<X509Ptr>> ReadCertificates(const std::string& pem, const std::string& file) {
  std::vector<X509Ptr> certificates;
  const Bio bio = BioOf(pem);
  ERR_clear_error();
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) certificates.emplace_back(next);
  const bool end = LastErrorIsEnd();
  const std::string error = TakeErrors();
  if (!end) {
    return Wrong(file, absl::StrCat("certificate ", certificates.size() + 1, " of the file does not parse: ", error));
  }
  if (certificates.empty()) {
    return Wrong(file, "contains no certificate in PEM format ('-----BEGIN CERTIFICATE-----')");
  }
  return certificates;
}

absl::StatusOr<KeyPtr> ReadKey(const std::string& pem, const std::string& file) {
  const Bio bio = BioOf(pem);
  ERR_clear_error();
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key != nullptr) return key;
  const std::string error = TakeErrors();
  if (pem.find("ENCRYPTED") != std::string::npos) {
    return Wrong(file, "the private key is encrypted; decrypt it (openssl pkey -in FILE -out FILE)");
  }
  if (pem.find("PRIVATE KEY-----") == std::string::npos)
    return Wrong(file, "contains no private key in PEM format ('-----BEGIN PRIVATE KEY-----')");
  return Wrong(file, absl::StrCat("the private key does not parse: ", error));
}

Time TimeOf(const ASN1_TIME* time) {
  std::tm fields = {};
  if (time == nullptr || ASN1_TIME_to_tm(time, &fields) != 1) return Time();
  // Beyond year 2262 a time does not fit in nanoseconds.
  constexpr std::time_t kLatest = 9'000'000'000;
  return std::chrono::system_clock::from_time_t(std::clamp<std::time_t>(timegm(&fields), 0, kLatest));
}

std::string SubjectOf(const X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_UTF8_CONVERT);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
}

bool IsPrintable(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

void AddText(const char* kind, const ASN1_IA5STRING* text, std::vector<std::string>* names) {
  const std::string_view value(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                               static_cast<size_t>(ASN1_STRING_length(text)));
  if (IsPrintable(value)) names->push_back(absl::StrCat(kind, ":", absl::string_view(value.data(), value.size())));
}

void AddAddress(const ASN1_OCTET_STRING* bytes, std::vector<std::string>* names) {
  char text[INET6_ADDRSTRLEN];
  const int length = ASN1_STRING_length(bytes);
  if (length != 4 && length != 16) return;
  if (inet_ntop(length == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(bytes), text, sizeof(text)) == nullptr) return;
  names->push_back(absl::StrCat("IP:", text));
}

std::vector<std::string> NamesOf(const X509* certificate) {
  std::vector<std::string> names;
  const NamesPtr all(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  const int count = all == nullptr ? 0 : sk_GENERAL_NAME_num(all.get());
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) AddText("DNS", name->d.dNSName, &names);
    if (name->type == GEN_URI) AddText("URI", name->d.uniformResourceIdentifier, &names);
    if (name->type == GEN_EMAIL) AddText("email", name->d.rfc822Name, &names);
    if (name->type == GEN_IPADD) AddAddress(name->d.iPAddress, &names);
  }
  ERR_clear_error();
  return names;
}

Certificate Describe(const X509* certificate) {
  return {SubjectOf(certificate), TimeOf(X509_get0_notBefore(certificate)), TimeOf(X509_get0_notAfter(certificate)),
          NamesOf(certificate)};
}

}  // namespace

absl::StatusOr<Certificate> CheckIdentity(const std::string& chain, const std::string& chain_file,
                                          const std::string& key, const std::string& key_file) {
  absl::StatusOr<std::vector<X509Ptr>> certificates = ReadCertificates(chain, chain_file);
  if (!certificates.ok()) return certificates.status();
  const absl::StatusOr<KeyPtr> private_key = ReadKey(key, key_file);
  if (!private_key.ok()) return private_key.status();
  X509* const leaf = certificates->front().get();
  if (X509_check_private_key(leaf, private_key->get()) != 1) {
    ERR_clear_error();
    return Wrong(key_file, absl::StrCat("is not the private key of the first certificate in ", chain_file, " (",
                                        SubjectOf(leaf), "); the server's own certificate must come first"));
  }
  // The checks of a handshake: strength of keys and signatures.
  const ContextPtr context(SSL_CTX_new(TLS_method()));
  bool taken = context != nullptr && SSL_CTX_use_certificate(context.get(), leaf) == 1 &&
               SSL_CTX_use_PrivateKey(context.get(), private_key->get()) == 1;
  for (size_t i = 1; taken && i < certificates->size(); ++i) {
    taken = SSL_CTX_add1_chain_cert(context.get(), (*certificates)[i].get()) == 1;
  }
  const std::string error = TakeErrors();
  if (!taken) return Wrong(chain_file, absl::StrCat("cannot be used: ", error));
  return Describe(leaf);
}

absl::Status CheckValidity(const Certificate& certificate, const std::string& file, Time now) {
  if (now > certificate.not_after) {
    return Wrong(file, absl::StrCat("the certificate of ", certificate.subject, " expired on ",
                                    FormatTime(certificate.not_after)));
  }
  if (now >= certificate.not_before) return absl::OkStatus();
  return Wrong(file, absl::StrCat("the certificate of ", certificate.subject, " is not valid before ",
                                  FormatTime(certificate.not_before), "; is this machine's clock right?"));
}

absl::StatusOr<int> CheckAuthorities(const std::string& pem, const std::string& file) {
  const absl::StatusOr<std::vector<X509Ptr>> certificates = ReadCertificates(pem, file);
  if (!certificates.ok()) return certificates.status();
  return static_cast<int>(certificates->size());
}

absl::StatusOr<Certificate> ParseDer(std::string_view der) {
  const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
  const auto* const end = begin + der.size();
  const X509Ptr certificate(d2i_X509(nullptr, &begin, static_cast<long>(der.size())));
  ERR_clear_error();
  if (certificate == nullptr || begin != end) return absl::InvalidArgumentError("not a certificate in DER format");
  return Describe(certificate.get());
}

std::string FormatTime(Time time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm fields = {};
  gmtime_r(&seconds, &fields);
  char text[32];
  return std::string(text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &fields));
}

}  // namespace vicinal::tls
