// SPDX-License-Identifier: Apache-2.0
#include "server/reply_shares.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {
namespace {

constexpr int64_t kSmallBytes = int64_t{1} << 20;

}  // namespace

ReplyShares::ReplyShares(int64_t max_bytes, Of of)
    : max_bytes_(max_bytes), of_(of), state_(std::make_shared<State>()) {}

Status ReplyShares::Full(const std::string& principal, int64_t held, int64_t bytes) const {
  constexpr std::chrono::seconds kRetry(1);
  if (of_ == Of::kStreams) {
    return ResourceExhausted(
        "CLIENT_STREAMS_FULL",
        absl::StrCat("requests and answers of ", held, " bytes are under way on streams of '", principal,
                     "', and this request with its answer has ", bytes, "; one client may have ", max_bytes_,
                     " (--max_stream_bytes_per_client): read answers first, or ask for less"),
        kRetry);
  }
  return ResourceExhausted("CLIENT_REPLIES_FULL",
                           absl::StrCat("replies of ", held, " bytes are under way to '", principal,
                                        "', and this one has ", bytes, "; one client may have ", max_bytes_,
                                        " (--max_reply_bytes_per_client): read them first, or ask for less"),
                           kRetry);
}

StatusOr<std::shared_ptr<const void>> ReplyShares::Take(const std::string& principal, int64_t bytes) {
  if (max_bytes_ <= 0 || (of_ == Of::kLargeReplies && bytes <= kSmallBytes)) return std::shared_ptr<const void>();
  {
    MutexLock lock(&state_->mutex);
    int64_t& held = state_->bytes[principal];
    if (held > 0 && held + bytes > max_bytes_) {
      refusals_.fetch_add(1, std::memory_order_relaxed);
      return Full(principal, held, bytes);
    }
    held += bytes;
  }
  state_->total.fetch_add(bytes, std::memory_order_relaxed);
  return std::shared_ptr<const void>(this, [state = state_, principal, bytes](const void*) {
    state->total.fetch_sub(bytes, std::memory_order_relaxed);
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

bool ReplyShares::HalfFull(const std::string& principal) const {
  const int64_t half = max_bytes_ / 2;
  if (max_bytes_ <= 0 || bytes() <= half) return false;  // no principal has more than all
  return bytes_of(principal) > half;
}

}  // namespace vicinal::server
