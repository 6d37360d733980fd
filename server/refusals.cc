// SPDX-License-Identifier: Apache-2.0
#include "server/refusals.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/call_log.h"

namespace vicinal::server {

void Refusals::Ends(HangUp hang_up) {
  MutexLock lock(&mutex_);
  hang_up_ = std::move(hang_up);
}

void Refusals::Count(const std::string& peer) {
  const std::string from(AddressIn(peer));
  if (IsUnix(peer) || from == "127.0.0.1" || from == "[::1]") return;
  {
    const MonotonicTime now = clock_.Now();
    MutexLock lock(&mutex_);
    if (now - begin_ >= kPeriod) {
      begin_ = now;
      addresses_.clear();
    }
    Address& address = addresses_[from];
    address.peers.insert(peer);
    if (++address.refused <= kMost) return;
    if (hang_up_) hang_up_({address.peers.begin(), address.peers.end()});
    address.peers.clear();
  }
  if (const std::optional<int64_t> left_out = lines_.Admit()) {
    log_.Log(LogLevel::kWarning, "connections ended: too many refused calls",
             {{"address", from},
              {"refused", absl::StrCat("more than ", kMost, " in ", kPeriod.count(), " s")},
              {"left_out", absl::StrCat(*left_out)},
              {"hint", "a client with a wrong token, or an attack; connections with none of these calls go on"}});
  }
}

}  // namespace vicinal::server
