// SPDX-License-Identifier: Apache-2.0
#include "server/status/sessions.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

namespace vicinal::server {
namespace {

std::string RandomId() {
  std::array<uint8_t, 32> bytes;
  // Of up to 256 bytes it gives all, once the machine has started.
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (const uint8_t byte : bytes) id.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return id;
}

}  // namespace

std::string Sessions::Begin(const std::string& authorization) {
  const MonotonicTime now = clock_.Now();
  std::string id = RandomId();
  MutexLock lock(&mutex_);
  std::erase_if(sessions_, [&](const auto& session) { return session.second.end <= now; });
  if (sessions_.size() >= kMost) {
    sessions_.erase(std::min_element(sessions_.begin(), sessions_.end(),
                                     [](const auto& a, const auto& b) { return a.second.end < b.second.end; }));
  }
  sessions_[tls::DigestOf(id)] = {authorization, now + kLife};
  return id;
}

std::optional<std::string> Sessions::Find(std::string_view id) {
  const tls::Digest digest = tls::DigestOf(id);
  MutexLock lock(&mutex_);
  const auto found = sessions_.find(digest);
  if (found == sessions_.end() || found->second.end <= clock_.Now()) return std::nullopt;
  return found->second.authorization;
}

void Sessions::End(std::string_view id) {
  const tls::Digest digest = tls::DigestOf(id);
  MutexLock lock(&mutex_);
  sessions_.erase(digest);
}

bool Sessions::MayTry() {
  MutexLock lock(&mutex_);
  const MonotonicTime now = clock_.Now();
  if (wrong_ == 0 || now - minute_ >= std::chrono::minutes(1)) {
    wrong_ = 0;
    minute_ = now;
  }
  if (wrong_ >= kWrongPerMinute) return false;
  ++wrong_;
  return true;
}

void Sessions::Forgive() {
  MutexLock lock(&mutex_);
  wrong_ = std::max(0, wrong_ - 1);
}

}  // namespace vicinal::server
