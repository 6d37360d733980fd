// SPDX-License-Identifier: Apache-2.0
// How many bytes of large replies each principal has under way: waiting to be computed, encoded and read. Without a
// bound one client that asks for much and does not read would hold the memory budget of all.
#ifndef VICINAL_SERVER_REPLY_SHARES_H_
#define VICINAL_SERVER_REPLY_SHARES_H_

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
  // `max_bytes` of a principal; 0: no bound.
  explicit ReplyShares(int64_t max_bytes);

  // Counts `bytes` for the principal until the last copy of the result is destroyed, which may be after this object.
  // RESOURCE_EXHAUSTED (CLIENT_REPLIES_FULL): with them it would exceed its share; a principal that has nothing else
  // under way may exceed it. Replies of at most 1 MiB are not counted: then the result is null.
  StatusOr<std::shared_ptr<const void>> Take(const std::string& principal, int64_t bytes);

  int64_t bytes_of(const std::string& principal) const;

 private:
  struct State {
    Mutex mutex;
    std::map<std::string, int64_t> bytes VICINAL_GUARDED_BY(mutex);
  };

  const int64_t max_bytes_;
  const std::shared_ptr<State> state_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_REPLY_SHARES_H_
