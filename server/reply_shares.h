// SPDX-License-Identifier: Apache-2.0
// How many bytes each principal has under way: large replies that wait to be computed, encoded and read; and, counted
// apart, the requests and answers of its streams. Without a bound one client that asks for much and does not read would
// hold the memory budget of all.
#ifndef VICINAL_SERVER_REPLY_SHARES_H_
#define VICINAL_SERVER_REPLY_SHARES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace vicinal::server {

// Thread-safe.
class ReplyShares {
 public:
  // What is counted, and how a refusal is worded.
  enum class Of {
    kLargeReplies,  // CLIENT_REPLIES_FULL; replies of at most 1 MiB are not counted
    kStreams,       // CLIENT_STREAMS_FULL
  };
  // `max_bytes` of a principal; 0: no bound, and nothing is counted.
  explicit ReplyShares(int64_t max_bytes, Of of = Of::kLargeReplies);

  // Counts `bytes` for the principal until the last copy of the result is destroyed, which may be after this object.
  // RESOURCE_EXHAUSTED with RetryInfo: with them it would exceed its share; a principal that has nothing else under way
  // may exceed it. Null: they are not counted.
  StatusOr<std::shared_ptr<const void>> Take(const std::string& principal, int64_t bytes);

  int64_t bytes_of(const std::string& principal) const;
  // More than half of the share is taken: whoever can wait should ask for nothing further.
  bool HalfFull(const std::string& principal) const;
  // Of all principals.
  int64_t bytes() const { return state_->total.load(std::memory_order_relaxed); }
  int64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

 private:
  struct State {
    std::atomic<int64_t> total{0};
    Mutex mutex;
    std::map<std::string, int64_t> bytes VICINAL_GUARDED_BY(mutex);
  };

  Status Full(const std::string& principal, int64_t held, int64_t bytes) const;

  const int64_t max_bytes_;
  const Of of_;
  const std::shared_ptr<State> state_;
  std::atomic<int64_t> refusals_{0};
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_REPLY_SHARES_H_
