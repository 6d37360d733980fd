// SPDX-License-Identifier: Apache-2.0
#include "server/reply_shares.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {
namespace {

constexpr int64_t kSmallBytes = int64_t{1} << 20;

}  // namespace

ReplyShares::ReplyShares(int64_t max_bytes) : max_bytes_(max_bytes), state_(std::make_shared<State>()) {}

StatusOr<std::shared_ptr<const void>> ReplyShares::Take(const std::string& principal, int64_t bytes) {
  if (max_bytes_ <= 0 || bytes <= kSmallBytes) return std::shared_ptr<const void>();
  {
    MutexLock lock(&state_->mutex);
    int64_t& held = state_->bytes[principal];
    if (held > 0 && held + bytes > max_bytes_) {
      return ResourceExhausted("CLIENT_REPLIES_FULL",
                               absl::StrCat("replies of ", held, " bytes are under way to '", principal,
                                            "', and this one has ", bytes, "; one client may have ", max_bytes_,
                                            " (--max_reply_bytes_per_client): read them first, or ask for less"),
                               std::chrono::seconds(1));
    }
    held += bytes;
  }
  return std::shared_ptr<const void>(this, [state = state_, principal, bytes](const void*) {
    MutexLock lock(&state->mutex);
    const auto found = state->bytes.find(principal);
    found->second -= bytes;
    if (found->second == 0) state->bytes.erase(found);
  });
}

int64_t ReplyShares::bytes_of(const std::string& principal) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->bytes.find(principal);
  return found == state_->bytes.end() ? 0 : found->second;
}

}  // namespace vicinal::server
