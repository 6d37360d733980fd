// SPDX-License-Identifier: Apache-2.0
#include "server/certificate_files.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/small_file.h"

namespace vicinal::server {
namespace {

// A bundle of all public authorities has 250 KB.
constexpr size_t kMaxBytes = size_t{4} << 20;

Status Bad(const char* flag, const Status& why) {
  return InvalidArgument("BAD_FLAG", flag, absl::StrCat("--", flag, ": ", std::string(why.message())));
}

StatusOr<std::string> ReadFor(const char* flag, const std::string& path) {
  StatusOr<std::string> text = ReadSmallFile(path, kMaxBytes);
  if (text.ok()) return text;
  return Bad(flag, text.status());
}

}  // namespace

CertificateFiles::CertificateFiles(const Config& config, JsonLog* log, const Clock* clock)
    : chain_path_(config.tls_cert_file),
      key_path_(config.tls_key_file),
      authorities_path_(config.tls_client_ca_file),
      log_(*log),
      clock_(*clock) {}

StatusOr<CertificateFiles::Set> CertificateFiles::Read() const {
  Set set;
  VICINAL_ASSIGN_OR_RETURN(set.chain, ReadFor("tls_cert_file", chain_path_));
  VICINAL_ASSIGN_OR_RETURN(set.key, ReadFor("tls_key_file", key_path_));
  if (wants_client_certificates()) {
    VICINAL_ASSIGN_OR_RETURN(set.authorities, ReadFor("tls_client_ca_file", authorities_path_));
  }
  return set;
}

Status CertificateFiles::Check(Set* set) const {
  StatusOr<tls::Certificate> leaf = tls::CheckIdentity(set->chain, chain_path_, set->key, key_path_);
  if (!leaf.ok()) return Bad("tls_cert_file", leaf.status());
  set->leaf = *std::move(leaf);
  const Status valid = tls::CheckValidity(set->leaf, chain_path_, clock_.WallNow());
  if (!valid.ok()) return Bad("tls_cert_file", valid);
  if (!wants_client_certificates()) return OkStatus();
  const StatusOr<int> authorities = tls::CheckAuthorities(set->authorities, authorities_path_);
  return authorities.ok() ? OkStatus() : Bad("tls_client_ca_file", authorities.status());
}

Status CertificateFiles::Publish(Set set) {
  auto context = tls::ServerContext::Make(set.chain, set.key, set.authorities);
  if (!context.ok()) return Bad("tls_cert_file", context.status());
  // A reader that meets only some of the new files finds changed times, and reads again.
  ++generation_;
  if (wants_client_certificates()) VICINAL_RETURN_IF_ERROR(authorities_.Replace(set.authorities, generation_));
  VICINAL_RETURN_IF_ERROR(key_.Replace(set.key, generation_));
  VICINAL_RETURN_IF_ERROR(chain_.Replace(set.chain, generation_));
  expiry_seconds_.store(std::chrono::duration<double>(set.leaf.not_after.time_since_epoch()).count());
  said_expired_ = false;
  current_ = std::move(set);
  MutexLock lock(&mutex_);
  context_ = *std::move(context);
  return OkStatus();
}

std::shared_ptr<const tls::ServerContext> CertificateFiles::context() const {
  MutexLock lock(&mutex_);
  return context_;
}

Status CertificateFiles::Load() {
  VICINAL_ASSIGN_OR_RETURN(Set set, Read());
  VICINAL_RETURN_IF_ERROR(Check(&set));
  return Publish(std::move(set));
}

void CertificateFiles::Reread() {
  StatusOr<Set> next = Read();
  if (!next.ok()) return Note(next.status());
  if (!Same(*next, current_)) {
    Status status = Check(&*next);
    if (status.ok()) status = Publish(*std::move(next));
    if (!status.ok()) return Note(status);
    log_.Log(LogLevel::kInfo, "certificates replaced",
             {{"file", chain_path_},
              {"subject", current_.leaf.subject},
              {"valid_until", tls::FormatTime(current_.leaf.not_after)}});
  }
  Note(OkStatus());
  const Status valid = tls::CheckValidity(current_.leaf, chain_path_, clock_.WallNow());
  if (!valid.ok() && !std::exchange(said_expired_, true)) {
    log_.Log(LogLevel::kError, "certificate expired", {{"error", std::string(valid.message())}});
  }
}

void CertificateFiles::Note(const Status& error) {
  std::string text(error.message());
  if (text == error_) return;
  if (!error.ok()) {
    log_.Log(LogLevel::kError, "certificates not read again; the old ones stay valid", {{"error", text}});
  }
  error_ = std::move(text);
}

}  // namespace vicinal::server
